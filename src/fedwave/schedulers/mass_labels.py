"""`mass` for label skew: devices weigh more if their labels are those that the model still lacks.

Devices report with every upload that arrives how many samples of each class it holds. Of device u the access point
knows q_uc, the share of class c in all its reports (of a device that was never heard: the same for all classes), and
A_u, the mass that it has delivered, decayed by 1 - 1 / memory per round. So the model has learnt

    T_c = sum over u of A_u q_uc

of class c. The priority is that of `mass` times

    w_u = sum over c of q_uc (T / T_c)^fairness,   T the mean of T_c,

which is the gain of an alpha-fair utility of the T_c: for fairness = 1 of the sum of their logarithms. With the same
labels at all devices, or fairness = 0, it is `mass`. Every T_c begins with the mass that one round brings if
all devices deliver, divided by the number of classes: a class that nobody has reported yet has a finite weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.aggregation import Aggregation
from fedwave.errors import check_number
from fedwave.planning.mass_objective import shared_mass
from fedwave.schedulers.mass import ExpectedMass
from fedwave.schedulers.rates import KnownRates, RatesFromDeliveries
from fedwave.types import FloatArray, IntArray, Observation, Problem, State

_PRIOR = 1.0  # samples, spread evenly over the classes, that every report is mixed with


@dataclass(frozen=True)
class LabelledMass(ExpectedMass):
    """p R(d) w: the expected mass, weighted by the labels that the model still lacks."""

    fairness: float = 2.0  # 0: only the mass counts
    memory: float = 30.0  # rounds after which what was delivered is forgotten

    needs = frozenset({"labels"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("fairness", self.fairness, ">= 0", "<= 10")
        check_number("memory", self.memory, ">= 1")

    def start(self, problem: Problem) -> State:
        zero = np.zeros((problem.instances, problem.devices))
        return {"taught": zero, "sent": zero}

    def learn(self, state: State, seen: Observation) -> State:
        taught = (1 - 1 / self.memory) * state["taught"] + state["sent"] * seen.delivered
        return {**state, "taught": taught}

    def remember(self, rates: FloatArray, state: State, seen: Observation) -> State:
        return {**state, "sent": shared_mass(rates) * self.reward.at(seen.delay)}

    def priority(self, rates: FloatArray, state: State, seen: Observation) -> FloatArray:
        one_round = shared_mass(rates).sum(axis=-1, keepdims=True)
        weight = label_weight(label_shares(seen.label_counts), state["taught"], one_round, fairness=self.fairness)
        return super().priority(rates, state, seen) * weight


@dataclass(frozen=True)
class MassLabels(KnownRates):
    """`mass`, weighted by the labels that the model still lacks, as devices report them."""

    aggregation: Aggregation | None = None
    fairness: float = LabelledMass.fairness
    memory: float = LabelledMass.memory

    name = "mass-labels"
    formula = "p R(d) w"
    index = LabelledMass


@dataclass(frozen=True)
class MassLabelsPo(RatesFromDeliveries):
    """`mass-labels` on rates drawn from the posterior of what was delivered; it observes no backlog."""

    aggregation: Aggregation | None = None
    fairness: float = LabelledMass.fairness
    memory: float = LabelledMass.memory

    name = "mass-labels-po"
    formula = "p R_k(d) w"
    index = LabelledMass


def label_shares(counts: IntArray) -> FloatArray:
    """q: the share of each class in the reports of each device, ``[I, U, C]``."""
    classes = counts.shape[-1]
    out: FloatArray = (counts + _PRIOR / classes) / (counts.sum(axis=-1, keepdims=True) + _PRIOR)
    return out


def label_weight(shares: FloatArray, taught: FloatArray, one_round: FloatArray, *, fairness: float) -> FloatArray:
    """w: how much the labels of each device are those that the model lacks, ``[I, U]``.

    ``taught`` is the mass that each device has delivered, ``[I, U]``, ``one_round`` the mass that all classes begin
    with, ``[I, 1]``.
    """
    classes = shares.shape[-1]
    learnt = np.einsum("iu,iuc->ic", taught, shares) + one_round / classes
    learnt = learnt + (learnt.sum(axis=-1, keepdims=True) <= 0)  # no device gets data
    more = (learnt.mean(axis=-1, keepdims=True) / learnt) ** fairness - 1
    # The shares sum to 1 but for rounding: so w is exactly 1 where no class is lacking, and ties stay ties.
    out: FloatArray = 1 + np.einsum("iuc,ic->iu", shares, more)
    return out
