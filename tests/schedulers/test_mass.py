"""The schedulers of the delivered mass: formulas by hand, what they learn, which rule they follow."""

import numpy as np
import pytest
from handmade import observation
from refusals import refused
from weighted_mass import constant, logarithmic, weighted_mass

import fedwave as fw
from fedwave.aggregation import Constant, FedBuff, Lee, Sync
from fedwave.experiments.config.build import schedulers_of
from fedwave.experiments.config.read import experiment_from
from fedwave.rng import Draws

P = np.array([0.9, 0.25, 1.0, 0.0])
D = np.array([1, 4, 2, 90])
THETA = np.array([1.0, 3.5, 0.25, 10.0])
V = THETA / THETA.sum()
ALL = ("mass", "mass-bayes", "mass-po", "mass-index", "mass-index-bayes", "mass-index-po")
LABELS = ("mass-labels", "mass-labels-po")


def priority(scheduler, state=None, **fields):
    seen = observation(success=P, delay=D, rates=THETA, waiting=[0, 7, 2, 30], **fields)
    state = dict(scheduler.start(seen.problem)) | (state or {})
    return scheduler.priority(state, seen, Draws(0, [0]).at(seen.round))[0]


@pytest.mark.parametrize("beta", [0, 0.001, 0.5, 1])
def test_mass_is_the_chance_times_share_times_rate_times_expected_mass(beta):
    expected = np.array([theta * sum(beta**j for j in range(d)) for theta, d in zip(THETA, D, strict=True)])
    got = priority(fw.scheduler("mass", aggregation=Constant(beta)))
    np.testing.assert_allclose(got, P * V * expected, rtol=1e-12)
    got = priority(fw.scheduler("mass", aggregation=Lee(beta)))
    np.testing.assert_allclose(got, P * V * np.maximum(1, np.log(D)) * expected, rtol=1e-12)


def test_learning_forms_rank_by_the_sampled_rates():
    theta = np.array([[2.0, 0.5, 8.0, 1.5]])
    share, state = theta[0] / theta.sum(), {"theta": theta, "covered": np.ones((1, 4))}
    rule = Lee(0.5)
    got = priority(fw.scheduler("mass-po", aggregation=rule), state)
    expected = P * share * np.maximum(1, np.log(D)) * theta[0] * (1 - 0.5**D) / 0.5
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    x = np.array([[0.0, 3.0, 1.0, 20.0]])
    got = priority(fw.scheduler("mass-bayes", aggregation=rule), state | {"mass": x})
    expected = P * share * np.maximum(1, np.log(D)) * (theta[0] + 0.5 * x[0])
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("rule, decay", [(Lee(0.6), 0.6), (Constant(0.001), 0.001), (Sync(), 1.0)], ids=str)
def test_mass_bayes_knows_the_mass_of_every_device(rule, decay):
    """From the backlogs that it observes; the trace says what arrived."""
    net = fw.paper_network(buffer_limit=6.0)
    trace = fw.simulate(net, fw.scheduler("mass-bayes", aggregation=rule), 60, 3)
    x = np.zeros((3, 25))
    for t in range(59):  # the last round is seen only in the next
        x = np.where(trace.delivered[t], 0.0, trace.accepted[t] + decay * x)
    np.testing.assert_allclose(trace.state["mass"], x, rtol=1e-12)


def test_a_device_that_was_never_heard_counts_as_the_fastest():
    theta = np.array([[2.0, 0.5, 8.0, 1.5]])
    state = {"theta": theta, "covered": np.array([[3, 0, 5, 2]])}
    got = priority(fw.scheduler("mass-po", aggregation=Constant(0.0)), state)
    rates = np.array([2.0, 8.0, 8.0, 1.5])
    np.testing.assert_allclose(got, P * rates**2 / rates.sum(), rtol=1e-12)


@pytest.mark.parametrize("name", ["mass-po", "mass-index-po"])
def test_every_device_is_heard_where_delays_bring_nothing(name):
    """With a constant rate and a small beta, a device taken for a slow one would never be heard."""
    net = fw.paper_network()
    trace = fw.simulate(net, fw.scheduler(name, aggregation=Constant(0.001)), 80, 12, seed=5)
    assert (trace.state["covered"] > 0).all()
    fast = trace.delivered[40:, :, 23:].mean()
    assert fast > 0.7


@pytest.mark.parametrize("name", [*ALL, *LABELS])
def test_a_rule_that_was_not_given_follows_the_task(name):
    open_, given = fw.scheduler(name), fw.scheduler(name, aggregation=Lee(0.1))
    assert open_.with_aggregation(Constant(0.5)).own_index.reward.rule == Constant(0.5)
    assert given.with_aggregation(Constant(0.5)) is given
    assert fw.scheduler("age").with_aggregation(Constant(0.5)) == fw.scheduler("age")


def test_in_an_experiment_they_follow_the_task():
    asked = {"schedulers": [*ALL, "mass:aggregation=lee:beta=0.1", "alsa-pi"]}
    for task, rule in ((None, Lee()), ({"aggregation": "constant:beta=0.7"}, Constant(0.7))):
        made = schedulers_of(experiment_from(asked | {"task": task}))
        assert {made[name].own_index.reward.rule for name in ALL} == {rule}
        assert made["mass:aggregation=lee:beta=0.1"].own_index.reward.rule == Lee(0.1)
    for rule, tokens in (
        ("fedbuff", ("schedulers[0]", "'mass'", "'fedbuff'")),
        ("sync", ("schedulers[3]", "'mass-index'", "beta", "lagrangian")),
        ("lee:beta=2", ("task.aggregation", "beta", 2)),
    ):
        with refused(*tokens):
            schedulers_of(experiment_from(asked | {"task": {"aggregation": rule}}))


@pytest.mark.parametrize("name", ALL)
def test_what_cannot_be_planned_for_is_refused(name):
    rules = [FedBuff(), 0.5, *((Constant(1), Lee(1)) if "index" in name else ())]
    for rule in rules:
        with refused(repr(name), "beta" if rule in (Constant(1), Lee(1)) else "aggregation"):
            type(fw.scheduler(name))(aggregation=rule)


# Share of the bound, from the specification: mass, mass-index, fresh, alsa-pi, lagrangian, age.
PUBLISHED = {
    "lee:beta=0.001": (0.985, 0.992, 0.986, 0.705, 0.570, 0.452),
    "constant:beta=0.5": (0.990, 0.998, 0.986, 0.855, 0.757, 0.490),
    "constant:beta=0.9": (0.988, 1.000, 0.949, 0.985, 0.966, 0.879),
    "constant:beta=0.99": (0.998, 1.000, 0.952, 0.999, 0.998, 0.988),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", PUBLISHED)
def test_shares_of_the_bound_are_those_of_the_specification(rule):
    """Paper network, 8 instances, rounds 201 to 1000; the mean mass of a delivery at its delay."""
    net, beta = fw.paper_network(), float(rule.split("=")[1])
    rate, bound = logarithmic if rule.startswith("lee") else constant, fw.mass_bound(net, rule)
    names = ("mass", "mass-index", "fresh", "alsa-pi", "lagrangian", "age")
    for name, share in zip(names, PUBLISHED[rule], strict=True):
        text = f"{name}:aggregation={rule}" if "mass" in name else name
        trace = fw.simulate(net, text, 1000, 8, seed=0)
        mass = weighted_mass(trace, net.rates, beta, rate, expected=True)[200:]
        assert mass.mean() / bound.value == pytest.approx(share, abs=0.004), name
