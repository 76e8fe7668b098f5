"""The paper's greedy schedulers: ALSA-PI with known rates, BALSA and BALSA-PO on rates drawn from the posterior."""

from __future__ import annotations

from fedwave.schedulers.rates import Index, KnownRates, RatesFromBacklogs, RatesFromDeliveries
from fedwave.types import FloatArray, Observation, State


class ExpectedShards(Index):
    """The shards that are expected to be delivered now: p (n + theta), or p d theta if the backlog n is hidden."""

    needs = frozenset({"backlog"})

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        return seen.success * (seen.waiting + rates)

    def priority_hidden(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        # (d - 1) theta are expected to wait, and theta to arrive.
        return seen.success * seen.delay * rates


class AlsaPi(KnownRates):
    """The paper's greedy policy with known rates: ranks by the shards expected to be delivered now."""

    name = "alsa-pi"
    formula = "p (n + theta)"
    index = ExpectedShards


class Balsa(RatesFromBacklogs):
    """Greedy on sampled rates. It observes every backlog and learns every arrival by subtraction."""

    name = "balsa"
    formula = "p (n + theta_k)"
    index = ExpectedShards


class BalsaPo(RatesFromDeliveries):
    """Greedy on the backlog expected from sampled rates; it learns only from uploads that arrive."""

    name = "balsa-po"
    formula = "p d theta_k"
    index = ExpectedShards
