"""An index of a user's own gets its three schedulers from the three sources of rates, by public names alone."""

import numpy as np
import pytest

import fedwave as fw


class Urgency(fw.rates.Index):
    def priority(self, rates, state, seen):
        return seen.success * rates * seen.delay**2


class UrgencyKnown(fw.rates.KnownRates):
    name, index = "urgency", Urgency


class UrgencyBayes(fw.rates.RatesFromBacklogs):
    name, index = "urgency-bayes", Urgency


class UrgencyPo(fw.rates.RatesFromDeliveries):
    name, index = "urgency-po", Urgency


@pytest.mark.parametrize(
    "kind, needs, covered",
    [
        (UrgencyKnown, {"channel", "rates"}, None),
        (UrgencyBayes, {"channel", "backlog"}, "every round"),
        (UrgencyPo, {"channel"}, "until the last delivery"),
    ],
)
def test_an_index_works_with_every_source(kind, needs, covered):
    assert kind.needs == needs
    assert "instances" in fw.check_scheduler(kind)
    trace = fw.simulate(fw.paper_network(), kind(), 40, 3, seed=1, beliefs=True)
    if covered == "every round":
        assert (trace.beliefs["covered"][-1] == 39).all()
    elif covered:
        heard = np.where(trace.delivered, trace.delay, 0)[:-1].sum(axis=0)
        assert np.array_equal(trace.beliefs["covered"][-1], heard)


def test_needs_can_be_declared_and_are_inherited():
    class Declared(fw.rates.KnownRates):
        name, index, needs = "declared", Urgency, frozenset({"channel", "rates", "labels"})

    class Derived(UrgencyPo):
        name = "derived"

    assert Declared.needs == {"channel", "rates", "labels"}
    assert Derived.needs == UrgencyPo.needs


def test_a_source_without_an_index_is_refused():
    class Bare(fw.rates.RatesFromBacklogs):
        name = "bare"

    with pytest.raises(fw.FedwaveError, match="'bare' has no index"):
        fw.scheduler(Bare)
