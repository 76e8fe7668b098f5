"""The contract of a success model: a probability that never falls with the SNR, and follows from it alone."""

from __future__ import annotations

import numpy as np

from fedwave.checks import statistics
from fedwave.checks.shared import Family, Run, Trial
from fedwave.errors import FedwaveError
from fedwave.network.fading import Fading, Rayleigh, Rician
from fedwave.types import FloatArray

_FADINGS: tuple[Fading, ...] = (Rayleigh(), Rician(4.0))
_QUADRATURE = 0.01  # how far `expected` may be from the mean


def _mean_snr(trial: Trial) -> FloatArray:
    return np.resize([0.2, 1.0, 30.0], trial.devices)


def _grid(trial: Trial) -> FloatArray:
    """SNRs, ``[60, 1, device]``: 0, then -60 to 60 dB, rising."""
    levels = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 59)])
    return np.tile(levels[:, None, None], (1, 1, trial.devices))


def _try(trial: Trial) -> None:
    model, grid = trial.part, _grid(trial)
    extremes = np.array([0.0, 1e-300, 1e-30, 1.0, 1e30, 1e300])
    cases: list[FloatArray] = [np.tile(extremes[:, None], (1, trial.devices)), grid, grid[0]]
    if trial.network is None:
        cases += [extremes, grid[:, 0, 0], np.array(2.0)]
    for snr in cases:
        p = trial.call(model.probability, snr.copy())
        trial.keep("probabilities", p, snr.shape, high=1.0)
    for fading in _FADINGS:
        known = trial.call(model.expected, grid.copy(), _mean_snr(trial), fading)
        trial.keep("expected probabilities", known, grid.shape, high=1.0)


def _monotony(trial: Trial) -> None:
    snr = _grid(trial)
    falls = np.diff(trial.part.probability(snr), axis=0) < -1e-12
    if falls.any():
        raise FedwaveError(
            f"probability falls as the SNR rises beyond {snr[:-1][falls][0]:.3g}: it must never fall, since HARQ and "
            "`luck < p` rely on that."
        )


def _elements(trial: Trial) -> None:
    snr = _grid(trial)
    parts = snr if trial.network else snr.reshape(-1, 1)
    alone = np.concatenate([trial.part.probability(part).ravel() for part in parts])
    if not np.allclose(trial.part.probability(snr).ravel(), alone, rtol=1e-12, atol=1e-15):
        raise FedwaveError(
            "the probability at an SNR depends on the other SNRs of the array: compute it element by element."
        )


def _expected(trial: Trial) -> None:
    model, tries, mean_snr = trial.part, trial.part.later_tries, _mean_snr(trial)
    if not isinstance(tries, (int, np.integer)) or tries < 0:
        raise FedwaveError(f"later_tries is {tries!r}, must be a whole number >= 0.")
    size = max(500, 60_000 // trial.devices)
    snr = np.geomspace(0.01, 100, 7 * trial.devices).reshape(7, 1, -1)
    for fading in _FADINGS:
        known = model.expected(snr, mean_snr, fading)
        mean, allowed = model.probability(snr), 1e-9
        if tries:
            later = fading.fresh(np.random.default_rng(0), (size, int(tries), *snr.shape)).sum(axis=1)
            mean = model.probability(snr + mean_snr * later).mean(axis=0)
            # Hoeffding's inequality, and the error of a quadrature.
            allowed = statistics.error_limit(size) + _QUADRATURE
        off = np.abs(known - mean)
        if off.max() > allowed:
            at = np.unravel_index(int(np.argmax(off)), off.shape)
            raise FedwaveError(
                f"expected is {known[at]:.4f} at SNR {snr[at]:.3g}, but the mean over {tries} later tries is "
                f"{mean[at]:.4f}: it must be the mean of `probability` over what is not known yet."
            )


FAMILY = Family(
    try_part=_try,
    checks={"monotony": _monotony, "elements": _elements, "expected": _expected},
    random_numbers_rule="p must not be random, the World draws the luck",
    runs=lambda trial: [Run(trial.around(success=trial.part), rounds=70)],
)
