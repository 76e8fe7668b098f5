"""`mass-labels`: the weight of devices by the labels that the model lacks."""

import numpy as np
import pytest
from handmade import observation
from refusals import refused
from scipy.stats import entropy

import fedwave as fw
from fedwave.aggregation import Constant, Lee
from fedwave.rng import Draws
from fedwave.schedulers.mass_labels import label_shares, label_weight

P = np.array([0.9, 0.25, 1.0, 0.0])
D = np.array([1, 4, 2, 90])
THETA = np.array([1.0, 3.5, 0.25, 10.0])
COUNTS = np.array([[[30, 0], [5, 5], [0, 0], [0, 12]]])
BOTH = ("mass-labels", "mass-labels-po")


def priority(scheduler, **state):
    seen = observation(success=P, delay=D, rates=THETA)
    seen.label_counts = COUNTS
    state = dict(scheduler.start(seen.problem)) | state
    return scheduler.priority(state, seen, Draws(0, [0]).at(seen.round))[0]


def test_the_weight_by_hand():
    shares = np.array([[[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]]])
    taught, one_round = np.array([[4.0, 2.0, 0.0]]), np.array([[2.0]])
    learnt = np.array([4 + 1 + 1, 1 + 1])  # of each class, with half of a round to begin with
    for fairness in (0, 0.5, 1, 2):
        lacks = (learnt.mean() / learnt) ** fairness
        got = label_weight(shares, taught, one_round, fairness=fairness)[0]
        np.testing.assert_allclose(got, shares[0] @ lacks, rtol=1e-12)
    assert (np.diff(got) > 0).all()  # the second class is the one that is lacking


def test_the_priority_is_that_of_mass_times_the_weight():
    rule, taught = Lee(0.5), np.array([[3.0, 0.0, 0.0, 1.0]])
    mass = priority(fw.scheduler("mass", aggregation=rule))
    one_round = (THETA**2).sum() / THETA.sum()
    weight = label_weight(label_shares(COUNTS), taught, np.array([[one_round]]), fairness=2)[0]
    made = fw.scheduler("mass-labels", aggregation=rule, fairness=2)
    np.testing.assert_allclose(priority(made, taught=taught), mass * weight, rtol=1e-12)
    plain = fw.scheduler("mass-labels", aggregation=rule, fairness=0)
    np.testing.assert_allclose(priority(plain, taught=taught), mass, rtol=1e-12)


@pytest.mark.parametrize("memory", [1, 4.0])
def test_what_was_taught_is_the_mass_of_deliveries_and_is_forgotten(memory):
    made = fw.scheduler("mass-labels", aggregation=Constant(0.5), memory=memory)
    net, labels = fw.paper_network(), fw.partition.Labels("by-class:held=1")
    trace = fw.simulate(net, made, 30, 3, labels=labels)
    theta, taught = net.rates, 0.0
    for t in range(29):  # the last round is seen only in the next
        mass = theta**2 / theta.sum() * (1 - 0.5 ** trace.delay[t]) / 0.5
        taught = (1 - 1 / memory) * taught + mass * trace.delivered[t]
    np.testing.assert_allclose(trace.state["taught"], taught, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", BOTH)
def test_without_fairness_they_schedule_as_without_labels(name):
    net, labels = fw.paper_network(), fw.partition.Labels("dirichlet:alpha=0.2")
    plain = fw.simulate(net, name.replace("-labels", ""), 40, 3)
    got = fw.simulate(net, f"{name}:fairness=0", 40, 3, labels=labels)
    np.testing.assert_array_equal(got.scheduled, plain.scheduled)
    weighed = fw.simulate(net, name, 40, 3, labels=labels)
    assert (weighed.scheduled != plain.scheduled).any()


@pytest.mark.parametrize("name", BOTH)
def test_what_is_delivered_holds_the_classes_more_equally(name):
    """One class at each device: the entropy of the classes in all samples delivered."""
    net, labels = fw.paper_network(), fw.partition.Labels("by-class:held=1")

    def balance(chosen):
        counts = fw.simulate(net, chosen, 60, 20, seed=1, labels=labels).labels.learned
        return entropy(counts.sum(axis=1), axis=1)

    gain = balance(name) - balance(f"{name}:fairness=0")
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(gain.size)


@pytest.mark.parametrize("name", BOTH)
def test_parameters_out_of_range(name):
    for field, value in (("fairness", -1), ("fairness", 11), ("fairness", "nan"), ("memory", 0.5), ("memory", "x")):
        with refused(field, value):
            fw.scheduler(f"{name}:{field}={value}")
