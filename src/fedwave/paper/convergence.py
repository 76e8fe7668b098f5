"""Theorem 1: a corrected form with its proof, and the printed one; both are tested on convergence_problem.py.

A round is w' = w - sum over u in D of q_u psi_u with q_u = eta_u c_u, D being the k devices whose upload arrived. Let
l be L-smooth and xi-strongly convex with its least value l*, g its gradient at w, and for every scheduled u

    <g, psi_u> >= eps |g|^2,    |psi_u| <= V |g|.                                                            (A)

Let q_low and q_high be the least and the largest q_u in D. By smoothness, and then by (A) where eps >= 0,

    l(w') - l(w) <= - sum q_u <g, psi_u> + (L/2) |sum q_u psi_u|^2 <= -b |g|^2,
    b = eps k q_low - (L/2) (k q_high V)^2.

(Where eps < 0, q_high replaces q_low.) Convexity and smoothness give 2 xi (l - l*) <= |g|^2 <= 2 L (l - l*), so

    l(w') - l* <= (1 - 2 xi b) (l(w) - l*)  if b >= 0,    (1 - 2 L b) (l(w) - l*)  if b < 0.

The product over rounds bounds every single path (``product_bound``). For the mean over paths let C_low and C_high be
the least and the largest c_u max(1, ln d_u) of a scheduled device, whatever uploads fail, and let every round have
sum a_u P[x_u = 1] = E k >= zeta. With k <= W and eps > 0, every round leaves

    E[l(w') - l*] <= (1 - 2 xi b) (l(w) - l*)  if b >= 0,   b = eps zeta eta C_low - (L/2) (W V eta C_high)^2,

whose powers are ``power_bound``. It falls while eta < 2 eps zeta C_low / (L W^2 V^2 C_high^2), and fastest at half of
that.

The paper puts q_high where descent needs q_low, and then eta for q, though c < 1 makes the descent smaller: its product
falls below the loss. It uses 2 xi also where b < 0. Its step limit is 2 eps zeta / (L W^2 V^2 max c), with 1 / max c
for C_low / C_high^2. With that limit its eps' = eps zeta - L eta W^2 V^2 / 2 is eps zeta (1 - 1 / max c), never
positive, so its second bound never falls.

eps and V are the extremes over the visited models, where the proof needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedwave.paper import Flags, Floats
from fedwave.paper.convergence_problem import ConvergenceSetting, LogisticLoss, SettledRounds, settled_rounds

_ROUNDING = 1e-9  # a gradient below this share of the first is rounding error


@dataclass(frozen=True)
class Constants:
    """The constants of the bounds, with their letters above."""

    smoothness: float  # L
    convexity: float  # xi
    alignment: float  # eps
    dissimilarity: float  # V
    uploads: float  # zeta
    slots: int  # W
    share_low: float  # C_low
    share_high: float  # C_high
    largest_share: float  # max c
    eta: float

    @property
    def printed_limit(self) -> float:
        """The paper's largest step."""
        force = self.smoothness * (self.slots * self.dissimilarity) ** 2
        return 2 * self.alignment * self.uploads / (force * self.largest_share)

    @property
    def limit(self) -> float:
        """The largest step with which the corrected power bound falls."""
        return self.printed_limit * self.largest_share * self.share_low / self.share_high**2

    @property
    def printed_rate(self) -> float:
        """The paper's eps', with its own step: eps zeta (1 - 1 / max c)."""
        force = self.smoothness * (self.slots * self.dissimilarity) ** 2
        return self.alignment * self.uploads - force * self.printed_limit / 2

    def factor(self, descent: Floats | float, curvature: Floats | float) -> Floats:
        """The factor of the gap in a round, for ``descent`` = k q_low and ``curvature`` = k q_high."""
        down = self.alignment * (descent if self.alignment >= 0 else curvature)
        gain = down - self.smoothness / 2 * (curvature * self.dissimilarity) ** 2
        return 1 - 2 * np.where(gain >= 0, self.convexity, self.smoothness) * gain


def theorem_constants(
    loss: LogisticLoss, settled: SettledRounds, slots: int, eps: float, v: float, eta: float
) -> Constants:
    """The constants of a loss and a schedule; ``eps`` and ``v`` are measured during training."""
    sent = settled.scheduled
    return Constants(
        smoothness=loss.smoothness,
        convexity=loss.convexity,
        alignment=eps,
        dissimilarity=v,
        uploads=float((sent * settled.chance).sum(axis=2).min()),
        slots=slots,
        share_low=float((settled.least * settled.rate)[sent].min()),
        share_high=float((settled.most * settled.rate)[sent].max()),
        largest_share=float(settled.share.max()),
        eta=eta,
    )


def product_bound(known: Constants, settled: SettledRounds) -> Floats:
    """The corrected bound on every path, ``[T + 1, I]``."""
    step = known.eta * settled.share * settled.rate
    k = np.count_nonzero(settled.delivered, axis=2)
    low = np.where(settled.delivered, step, np.inf).min(axis=2)
    return _from_one(known.factor(k * np.where(k > 0, low, 0.0), k * step.max(axis=2)))


def power_bound(known: Constants, settled: SettledRounds) -> Floats:
    """The corrected bound on the mean over paths, ``[T + 1]``."""
    descent = known.eta * known.uploads * known.share_low
    curvature = known.eta * known.slots * known.share_high
    return _from_one(np.full(len(settled.share), known.factor(descent, curvature)))


def printed_product_bound(known: Constants, settled: SettledRounds) -> Floats:
    """The paper's first bound, for the schedule of each path, ``[T + 1, I]``."""
    largest = known.eta * settled.rate.max(axis=2)
    force = known.smoothness * largest * (known.slots * known.dissimilarity) ** 2 / 2
    expected = (settled.scheduled * settled.chance).sum(axis=2)
    return _from_one(1 + 2 * known.convexity * largest * (force - known.alignment * expected))


def printed_power_bound(known: Constants, settled: SettledRounds) -> Floats:
    """The paper's second bound, ``[T + 1]``."""
    rate = 1 - 2 * known.convexity * known.eta * known.printed_rate
    return _from_one(np.full(len(settled.share), rate))


def _from_one(factors: Floats) -> Floats:
    """1, then the products of the factors; infinite where they overflow."""
    with np.errstate(over="ignore"):
        return np.concatenate([np.ones_like(factors[:1]), np.cumprod(factors, axis=0)])


@dataclass(frozen=True, eq=False)
class Convergence:
    """The loss above its minimum and its bounds; row t holds the values after t rounds."""

    setting: ConvergenceSetting
    constants: Constants
    gap: Floats  # [T + 1, I] l(w) - l*, measured
    product: Floats  # [T + 1, I] bounds every path
    power: Floats  # [T + 1] bounds the mean
    printed_product: Floats  # [T + 1, I] the paper's first bound
    printed_power: Floats  # [T + 1] its second
    alignment: Floats  # [T] the eps that each round would need
    dissimilarity: Floats  # [T] and the V

    def table(self) -> tuple[list[str], list[list[float]]]:
        """Heading and one line per round, over all instances."""
        columns = {
            "round": np.arange(self.setting.rounds + 1),
            "gap": self.gap.mean(axis=1),
            "gap_most": self.gap.max(axis=1),
            "product": self.product.mean(axis=1),
            "power": self.power,
            "printed_product": self.printed_product.mean(axis=1),
            "printed_power": self.printed_power,
            "eps": np.append(self.alignment, np.nan),
            "v": np.append(self.dissimilarity, np.nan),
        }
        return list(columns), np.stack(list(columns.values()), axis=1).tolist()


def convergence(setting: ConvergenceSetting | None = None) -> Convergence:
    """Trains in a setting, and computes the bounds beside the loss.

    >>> tried = convergence(ConvergenceSetting(rounds=50, instances=2))
    >>> bool((tried.gap <= tried.product).all()), tried.constants.printed_rate < 0
    (True, True)
    """
    setting = setting or ConvergenceSetting()
    loss, settled = setting.loss(), settled_rounds(setting)
    eta = setting.eta or _good_step(setting, loss, settled)
    path, eps, v = gradient_descent(loss, settled, eta, setting.aggregation.beta)
    known = theorem_constants(loss, settled, setting.slots, float(np.nanmin(eps)), float(np.nanmax(v)), eta)
    gap = np.maximum(loss.value(path) - loss.value(loss.minimiser), 0.0)
    return Convergence(
        setting,
        known,
        gap,
        gap[0, 0] * product_bound(known, settled),
        gap[0, 0] * power_bound(known, settled),
        gap[0, 0] * printed_product_bound(known, settled),
        gap[0, 0] * printed_power_bound(known, settled),
        eps,
        v,
    )


def with_different_data(tried: Convergence) -> Convergence:
    """The same with different data at each device: there is no common minimiser, and (A) fails."""
    return convergence(replace(tried.setting, common=False, eta=tried.constants.eta))


def _good_step(setting: ConvergenceSetting, loss: LogisticLoss, settled: SettledRounds) -> float:
    """Half of the largest step that is sure to descend, with the eps and V of the first model."""
    own = loss.gradients(np.zeros((1, setting.features)))
    eps, v = _sides(own, own, np.ones(own.shape[:2], np.bool_))
    assert eps > 0, "no step is sure to descend: give the setting an eta"
    delayed = v / (1 - setting.beta)  # the largest psi while gradients stay as they are
    return theorem_constants(loss, settled, setting.slots, eps, delayed, eta=1.0).limit / 2


def gradient_descent(
    loss: LogisticLoss, settled: SettledRounds, eta: float, beta: float
) -> tuple[Floats, Floats, Floats]:
    """Trains from w = 0: the models ``[T + 1, I, F]``, and the eps and V ``[T]`` that (A) needs in each round."""
    w = np.zeros((settled.share.shape[1], loss.features.shape[2]))
    psi, path, sides = np.zeros((*settled.share.shape[1:], w.shape[1])), [w], []
    least = _ROUNDING * np.linalg.norm(loss.gradients(w).mean(axis=1), axis=1)
    for t in range(settled.share.shape[0]):
        own = loss.gradients(w)
        psi = own + beta * psi
        tells = np.linalg.norm(own.mean(axis=1), axis=1) > least
        sides.append(_sides(own, psi, settled.scheduled[t] & tells[:, None]))
        step = eta * settled.share[t] * settled.rate[t]
        w = w - (step[:, :, None] * psi).sum(axis=1)
        psi = np.where(settled.delivered[t][:, :, None], 0.0, psi)
        path.append(w)
    eps, v = np.array(sides).T
    return np.array(path), eps, v


def _sides(own: Floats, psi: Floats, where: Flags) -> tuple[float, float]:
    """The largest eps and the least V with which (A) holds where ``where``; NaN if that is nowhere."""
    if not where.any():
        return np.nan, np.nan
    g = own.mean(axis=1, keepdims=True)
    square = np.broadcast_to((g**2).sum(axis=2), where.shape)[where]
    eps = (g * psi).sum(axis=2)[where] / square
    v = np.linalg.norm(psi, axis=2)[where] / np.sqrt(square)
    return float(eps.min()), float(v.max())
