"""An upper bound on the delivered mass of every scheduler that does not see the arrivals.

The mass of a round is the sum of v_u r(d_u) over the delivered devices: the round metric "mass", with the long-run
share v_u = theta_u / sum of theta in place of c_u and without a cap. Put a price on each transmission and let every
device maximise its own mass less its payments (planning/mass_objective.py); let g_u be that maximum per round. Then
sum of g_u + price * slots is at least the long-run mean mass of any scheduler that uses no more slots on average and
sees neither backlogs nor arrivals before they are delivered.

Every approximation makes the bound higher, so it remains a bound:

* p is replaced by levels above it, or spread around its value (planning/channel_levels.py);
* beyond the last delay of the tables, the mass of a delivery rises in a straight line;
* every price gives a bound, so the best price need not be exact.

``error`` limits what the first two cost. The exact value at this price lies between ``value - error`` and ``value``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwave.aggregation import Aggregation, Lee
from fedwave.errors import FedwaveError
from fedwave.network.network import Network, check_network
from fedwave.parts import registry
from fedwave.planning.mass_objective import MassObjective, unit_mass
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
    mass: FloatArray  # [U] g: the mass of each device less its payments

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"MassBound(value={self.value:.6g}, error={self.error:.2g}, price={self.price:.4g})"


def mass_bound(network: Network, aggregation: registry.Spec | Aggregation | None = None) -> MassBound:
    """An upper bound on the long-run mean mass that is delivered in a round, for schedulers that see no backlogs.

    An upload of device u with delay d counts v_u r(d), where v_u = theta_u / sum of theta. The metric "mass" has c_u,
    the share of u in the data delivered so far, in place of v_u; there a scheduler that starves devices can exceed this
    bound. ``aggregation`` is the rule that weighs an upload by c r(d), a name or an object; None is "lee". Slots that
    change from round to round count by their mean.

    >>> import fedwave as fw
    >>> bound = fw.mass_bound(fw.paper_network())
    >>> round(float(bound), 2), round(bound.price, 2), bound.error < 0.001
    (3.69, 0.28, True)
    """
    check_network(network)
    check_distributions(network)
    reward = Reward(Lee() if aggregation is None else registry.build("aggregation", aggregation))
    if reward.has_no_bound:
        raise FedwaveError(
            f"beta is 1 and the rate of {reward.rule.name!r} grows with the delay, so that no finite bound exists: use "
            "beta < 1, or a rule with a constant rate."
        )
    slots = float(np.mean(network.slots))
    rates = np.where(network.rates > 0, network.rates, 0.0)
    classes = DeviceClasses.among(network.mean_snr, rates, network.planning.arrival_chances)
    nobody = np.zeros(network.size)
    if not classes.theta.size or slots == 0:
        return MassBound(0.0, 0.0, 0.0 if slots else np.inf, nobody, nobody)
    if reward.nothing_is_lost:  # every shard counts once, whenever it is delivered
        most = classes.per_device(unit_mass(classes) * reward.rate(np.array([1])))
        return MassBound(float(most.sum()), 0.0, 0.0, nobody, most)
    above, below = bracketing_levels(network, classes)
    objective = MassObjective(reward)
    best = best_price(objective, classes, slots, above)
    low = at_price(objective, classes, slots, below, best.price)
    cut_off = float((classes.count * unit_mass(classes)) @ low.solutions.error)
    error = max(low.value + cut_off - best.value, 0.0)
    service, mass = classes.per_device(best.solutions.service), classes.per_device(-best.cost)
    return MassBound(-best.value, error, best.price, service, mass)
