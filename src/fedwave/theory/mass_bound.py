"""An upper bound on the delivered mass of every scheduler that does not see the arrivals.

The mass of a round is sum over delivered u of v_u r(d_u) x_u: the mass of section "metrics" of the docs, with the
long-run share v_u = theta_u / sum of theta in place of c_u and without a cap. Put a price on each transmission and let
every device maximise its own mass less what it pays (planning/mass_objective.py). The sum of these, plus price * slots,
is at least the long-run mean mass of any scheduler that uses no more slots on average and does not see backlogs or
arrivals before they are delivered.

Every approximation makes the bound higher, so it remains a bound:

* p is replaced by levels above it, or spread around its value (planning/channel_levels.py);
* beyond the last delay that is looked at, the mass of a delivery rises in a straight line;
* every price gives a bound, so the best price need not be exact.

``error`` is the most that the first two cost. The exact value at this price lies between ``value - error`` and
``value``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.aggregation import Aggregation, Lee
from fedwave.errors import FedwaveError
from fedwave.network.network import Network, check_network
from fedwave.parts import registry
from fedwave.planning.mass_objective import Mass, mass_of_one
from fedwave.planning.mass_reward import Reward
from fedwave.planning.price_search import DeviceClasses, at_price, best_price
from fedwave.theory.bound import bracketing_levels, check_distributions
from fedwave.types import FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class MassBound:
    """No scheduler that does not see the arrivals delivers more v-weighted mass per round than ``value``."""

    value: float
    error: float  # the exact bound at the same price is smaller by at most this
    price: float  # of a transmission, in mass
    service: FloatArray  # [U] transmissions per round at that price
    mass: FloatArray  # [U] mass of each device less what it pays: g

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"MassBound(value={self.value:.6g}, error={self.error:.2g}, price={self.price:.4g})"


def mass_bound(network: Network, aggregation: registry.Spec | Aggregation | None = None) -> MassBound:
    """An upper bound on the long-run mean of the v-weighted delivered mass on this network.

    ``aggregation`` is the rule that weighs uploads, a name or an object; None is ``lee``. It must weigh an upload by
    c r(d). The bound holds for every scheduler that does not see backlogs; c, unlike v, can make the mass of a
    scheduler that starves devices larger. Slots that change from round to round count by their mean.

    >>> from fedwave import paper_network
    >>> bound = mass_bound(paper_network())
    >>> round(float(bound), 2), round(bound.price, 2), bound.error < 0.001
    (3.69, 0.28, True)
    """
    check_network(network)
    check_distributions(network)
    reward = Reward(Lee() if aggregation is None else registry.build("aggregation", aggregation))
    if reward.has_no_bound:
        raise FedwaveError(
            f"with beta = 1 and the growing rate of {reward.rule.name!r} waiting always brings more mass, so no finite "
            "bound exists: use beta < 1, or a rule with a constant rate."
        )
    slots = float(np.mean(network.slots))
    rates = np.where(network.rates > 0, network.rates, 0.0)
    classes = DeviceClasses.among(network.mean_snr, rates)
    nobody = np.zeros(network.size)
    if not classes.theta.size or slots == 0:
        return MassBound(0.0, 0.0, 0.0 if slots else np.inf, nobody, nobody)
    if reward.nothing_is_lost:  # every shard counts once, whenever it is delivered
        most = classes.per_device(mass_of_one(classes) * reward.rate(np.array([1])))
        return MassBound(float(most.sum()), 0.0, 0.0, nobody, most)
    above, below = bracketing_levels(network, classes)
    objective = Mass(reward)
    best = best_price(objective, classes, slots, above)
    low = at_price(objective, classes, slots, below, best.price)
    cut_off = float((classes.count * mass_of_one(classes)) @ low.solutions.error)
    error = max(low.value + cut_off - best.value, 0.0)
    service, mass = classes.per_device(best.solutions.service), classes.per_device(-best.cost)
    return MassBound(-best.value, error, best.price, service, mass)
