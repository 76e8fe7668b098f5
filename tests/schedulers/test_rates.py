"""An index of a user's own gets its three schedulers from the three sources of rates, by public names alone."""

from dataclasses import dataclass

import numpy as np
import pytest
from refusals import refused

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
    "kind, needs",
    [(UrgencyKnown, {"channel", "rates"}), (UrgencyBayes, {"channel", "backlog"}), (UrgencyPo, {"channel"})],
)
def test_an_index_works_with_every_source(kind, needs):
    assert kind.needs == needs
    assert "instances" in fw.check(kind).passed


def test_a_source_without_an_index_is_refused():
    class Bare(fw.rates.RatesFromBacklogs):
        name = "bare"

    with refused("'bare'", "index"):
        fw.scheduler(Bare)


def test_an_index_that_reads_backlogs_says_what_to_do_without_them():
    class Loaded(fw.rates.Index):
        needs = frozenset({"backlog"})

        def priority(self, rates, state, seen):
            return seen.success * seen.waiting

    class LoadedPo(fw.rates.RatesFromDeliveries):
        name, index = "loaded-po", Loaded

    with refused("'loaded-po'", "priority_hidden"):
        fw.scheduler(LoadedPo)


def test_a_parameter_of_an_index_is_a_field():
    class Steep(fw.rates.Index):
        power: float = 2.0

        def priority(self, rates, state, seen):
            return seen.success * seen.delay**self.power

    class SteepKnown(fw.rates.KnownRates):
        name, index = "steep", Steep

    with refused("'power'"):
        fw.scheduler(SteepKnown)


def test_an_index_takes_a_constant_of_its_scheduler():
    @dataclass(frozen=True)
    class Steep(fw.rates.Index):
        power: float = 2.0

        def priority(self, rates, state, seen):
            return seen.success * seen.delay**self.power

    class SteepKnown(fw.rates.KnownRates):
        name, index = "steeper", Steep
        power = 3.0

    assert SteepKnown().own_index.power == 3


def test_a_posterior_may_return_its_own_statistics_alone():
    class Plain(fw.posterior.ConjugatePosterior):
        def update(self, state, total, rounds, known):
            new = super().update(state, total, rounds, known)
            return {name: new[name] for name in ("counted", "covered")}

    def scheduled(posterior):
        return fw.simulate(fw.paper_network(), UrgencyBayes(posterior=posterior), 30, 2).scheduled

    assert np.array_equal(scheduled(Plain()), scheduled(fw.posterior.ConjugatePosterior()))
