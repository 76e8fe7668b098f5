"""The bound on the delivered mass: its published value, closed forms, its error, and that no scheduler beats it."""

import numpy as np
import pytest
from refusals import refused
from scipy import stats
from weighted_mass import constant, logarithmic, weighted_mass

import fedwave as fw
from fedwave.parts import registry
from fedwave.theory import bound as bounds

CERTAIN = fw.success.Table((0.0, 1.0), (0.0, 0.0))  # every upload arrives
RATES = {"lee": logarithmic, "constant": constant}


def alike(count, slots=1, success=CERTAIN, **changes):
    devices = [fw.Device(rate=1, distance_m=200)] * count
    return fw.Network(devices=devices, slots=slots, success=success).replace(**changes)


@pytest.fixture(scope="module")
def paper():
    return fw.mass_bound(fw.paper_network())


def test_the_papers_network(paper):
    assert float(paper) == paper.value
    assert len(repr(paper)) < 80
    assert paper.value == pytest.approx(3.69, abs=0.005)  # of the specification
    assert paper.error < 1e-4
    assert paper.mass.sum() + 5 * paper.price == pytest.approx(paper.value, rel=1e-9)
    assert paper.service.shape == paper.mass.shape == (25,)
    assert not paper.service[:15].any()  # slow devices are not worth a slot
    assert (paper.service[15:] > 0).all()


def test_the_rule_is_a_name_or_an_object_and_lee_without_one(paper):
    net = fw.paper_network()
    assert fw.mass_bound(net, "lee").value == paper.value
    assert fw.mass_bound(net, fw.aggregation.Lee(cap=2.0)).value == paper.value  # a cap is ignored
    other = fw.mass_bound(net, {"name": "constant", "beta": 0.5})
    assert other.value == fw.mass_bound(net, fw.aggregation.Constant(0.5)).value > paper.value


@pytest.mark.parametrize("count, slots, beta", [(4, 1, 0.5), (6, 2, 0.9), (5, 5, 0.9), (12, 3, 0)])
def test_it_is_exact_where_devices_take_turns(count, slots, beta):
    """Certain uploads, a concave mass: turns of U / W rounds are best, and each brings 1 + beta + ... shards."""
    found = fw.mass_bound(alike(count, slots), f"constant:beta={beta}")
    turns = count // slots
    exact = slots / count * sum(beta**j for j in range(turns))
    assert found.value == pytest.approx(exact, rel=1e-5)
    assert found.value >= exact * (1 - 1e-12)


@pytest.mark.parametrize(
    "rule, rounds, instances",
    [
        ("lee:beta=0.001", 200, 12),
        ("constant:beta=0.9", 200, 12),
        pytest.param("lee:beta=0.001", 800, 60, marks=pytest.mark.slow),
        pytest.param("constant:beta=0.5", 800, 60, marks=pytest.mark.slow),
        pytest.param("constant:beta=0.9", 800, 60, marks=pytest.mark.slow),
        pytest.param("lee:beta=0.8", 800, 60, marks=pytest.mark.slow),
    ],
)
def test_no_scheduler_that_does_not_see_the_arrivals_beats_it(rule, rounds, instances):
    devices = [
        fw.Device(rate=r, distance_m=d)
        for r, d in ((1, 100), (1, 450), (4, 300), (9, 420), (2, 500), (5, 350), (3, 200))
    ]
    net = fw.Network(devices=devices, slots=2, success=fw.success.Soft())
    made = registry.build("aggregation", rule)
    value, means = fw.mass_bound(net, made).value, {}
    for kind in fw.scheduler_names(learner=False):
        scheduler = fw.scheduler(kind)
        if "backlog" in scheduler.needs or scheduler.ideal:
            continue
        trace = fw.simulate(net, scheduler.with_aggregation(made), rounds, instances, seed=1)
        mass = weighted_mass(trace, net.rates, made.beta, RATES[made.name])[50:].mean(axis=0)
        means[kind] = mass.mean()
        reach = stats.t.ppf(0.999, instances - 1) * stats.sem(mass)
        assert mass.mean() - reach < value, kind
        assert reach < 0.1 * value
    assert len(means) > 10
    assert means["mass-index"] > 0.95 * value
    assert means["w-max"] < 0.9 * value


@pytest.mark.parametrize(
    "success", [fw.success.Turbo(), fw.success.Soft(), fw.success.Uncoded(bits=8)], ids=["turbo", "soft", "uncoded"]
)
def test_finer_steps_stay_within_the_error(success, monkeypatch):
    net = fw.random_network(12, 3, seed=4, success=success)
    for rule in ("lee", "constant:beta=0.9"):
        monkeypatch.setattr(bounds, "_EVALUATIONS", 12 * 4096)
        rough = fw.mass_bound(net, rule)
        monkeypatch.setattr(bounds, "_EVALUATIONS", 12 << 16)
        fine = fw.mass_bound(net, rule)
        assert fine.value <= rough.value * (1 + 1e-6)
        assert fine.value - fine.error >= (rough.value - rough.error) * (1 - 1e-5)
        assert fine.error < rough.error / 2


def test_arrivals_of_any_distribution_have_one_bound(paper):
    """Somebody who cannot see them can only expect their mean."""
    for changes in ({"arrivals": fw.arrivals.NegativeBinomial()}, {"buffer_limit": 5.0}):
        assert fw.mass_bound(fw.paper_network(**changes)).value == paper.value


def test_slots_that_change_count_by_their_mean(paper):
    assert fw.mass_bound(fw.paper_network(slots=[4, 6, 5])).value == pytest.approx(paper.value)
    never = fw.mass_bound(fw.paper_network(slots=[0, 0]))
    assert (never.value, never.price) == (0, np.inf)


def test_edges():
    nothing = fw.mass_bound(alike(3, rate=0.0))
    assert (nothing.value, nothing.error, nothing.price) == (0, 0, 0)
    some = fw.mass_bound(alike(3, rate=[0.0, 2.0, 1e-300]), "constant:beta=0.5")
    assert some.value == pytest.approx(2.0)
    assert some.mass[0] == 0
    never = fw.mass_bound(alike(2, success=fw.success.Threshold(), distance_m=9000.0))
    assert 0 <= never.value < 1e-3
    assert never.value - never.error <= 1e-12


def test_with_beta_one_and_a_constant_rate_every_shard_counts_once():
    net = fw.paper_network()
    for rule in ("constant:beta=1", "sync"):
        found = fw.mass_bound(net, rule)
        assert found.value == pytest.approx((net.rates**2).sum() / net.rates.sum())
        assert (found.error, found.price) == (0, 0)
    near = fw.mass_bound(net, "constant:beta=0.99999")
    assert near.value == pytest.approx(found.value, rel=1e-3)
    assert near.value < found.value


@pytest.mark.parametrize(
    "changes, rule, text",
    [
        ({}, "lee:beta=1", ("beta", 1, "'lee'")),
        ({}, "fedasync", ("'fedasync'",)),
        ({"fading": fw.fading.GaussMarkov()}, "lee", ("GaussMarkov",)),
        ({"arrivals": fw.arrivals.RecordedArrivals(np.ones((3, 25)))}, "lee", ("RecordedArrivals",)),
    ],
)
def test_what_it_cannot_bound_is_refused_in_one_sentence(changes, rule, text):
    with refused(*text) as error:
        fw.mass_bound(fw.paper_network(**changes), rule)
    assert "\n" not in str(error.value)
