"""The contract of a success model: a probability that never falls with the SNR, and follows from it alone."""

from __future__ import annotations

import numpy as np

from fedwave.checks import statistics
from fedwave.checks.common import Check, equality, network_with, saving, unaltered, unchanged
from fedwave.errors import FedwaveError
from fedwave.network.fading import Fading, Rayleigh, Rician
from fedwave.network.success import SuccessModel
from fedwave.types import FloatArray

_MEAN_SNR = np.array([0.2, 1.0, 30.0])  # of three devices
_FADINGS: tuple[Fading, ...] = (Rayleigh(), Rician(4.0))
_QUADRATURE = 0.01  # how far `expected` may be from the mean


def _grid() -> FloatArray:
    """SNR of 4 rounds, 5 instances and 3 devices: 0, then -60 to 60 dB, rising."""
    return np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 59)]).reshape(4, 5, 3)


def _probabilities(model: SuccessModel) -> None:
    extremes = np.array([0.0, 1e-300, 1e-30, 1.0, 1e30, 1e300])
    cases: tuple[FloatArray, ...] = (extremes, _grid(), _grid()[0], np.array(2.0))
    for snr in cases:
        p = model.probability(snr)
        kind = getattr(p, "dtype", type(p).__name__)
        if kind != np.float64 or np.shape(p) != snr.shape:
            raise FedwaveError(
                f"probability returns type {kind} and shape {np.shape(p)} for SNRs of shape {snr.shape}, must return "
                "float64 of the same shape."
            )
        wrong = ~((p >= 0) & (p <= 1))
        if np.any(wrong):
            raise FedwaveError(
                f"probability is {np.atleast_1d(p)[np.atleast_1d(wrong)][0]} at SNR "
                f"{np.atleast_1d(snr)[np.atleast_1d(wrong)][0]:.3g}, must lie between 0 and 1, at SNR 0 too."
            )


def _monotony(model: SuccessModel) -> None:
    snr = _grid().ravel()
    falls = np.diff(model.probability(snr)) < -1e-12
    if falls.any():
        at = snr[int(np.argmax(falls))]
        raise FedwaveError(
            f"probability falls as the SNR rises beyond {at:.3g}: it must never fall, since HARQ and `luck < p` rely "
            "on that."
        )


def _elements(model: SuccessModel) -> None:
    snr = _grid()
    one_by_one = [model.probability(np.array([x]))[0] for x in snr.ravel()]
    if not np.allclose(model.probability(snr).ravel(), one_by_one, rtol=1e-12, atol=1e-15):
        raise FedwaveError(
            "the probability at an SNR depends on the other SNRs of the array: compute it element by element."
        )


def _inputs(model: SuccessModel) -> None:
    snr = _grid()
    with unaltered(snr=snr, mean_snr=_MEAN_SNR):
        model.probability(snr)
        model.expected(snr, _MEAN_SNR, Rayleigh())


def _expected(model: SuccessModel) -> None:
    tries = model.later_tries
    if not isinstance(tries, (int, np.integer)) or tries < 0:
        raise FedwaveError(f"later_tries is {tries!r}, must be a whole number >= 0.")
    size = 20_000
    snr = np.geomspace(0.01, 100, 21).reshape(7, 1, 3)
    for fading in _FADINGS:
        known = model.expected(snr, _MEAN_SNR, fading)
        if np.shape(known) != snr.shape:
            raise FedwaveError(f"expected returns shape {np.shape(known)} for SNRs of shape {snr.shape}, must keep it.")
        mean, allowed = model.probability(snr), 1e-9
        if tries:
            later = fading.fresh(np.random.default_rng(0), (size, tries, *snr.shape)).sum(axis=1)
            mean = model.probability(snr + _MEAN_SNR * later).mean(axis=0)
            # Hoeffding's inequality, and the error of a quadrature.
            allowed = statistics.error_limit(size) + _QUADRATURE
        off = np.abs(known - mean)
        if off.max() > allowed:
            at = np.unravel_index(int(np.argmax(off)), off.shape)
            raise FedwaveError(
                f"expected is {known[at]:.4f} at SNR {snr[at]:.3g}, but the mean over {tries} later tries is "
                f"{mean[at]:.4f}: it must be the mean of `probability` over what is not known yet."
            )


def _repetition(model: SuccessModel) -> None:
    one, other = (model.expected(_grid(), _MEAN_SNR, Rayleigh()) for _ in range(2))
    if not np.array_equal(one, other):
        raise FedwaveError("two calls with the same SNRs differ: p must not be random, the World draws the luck.")


def _parameters(model: SuccessModel) -> None:
    with unchanged(model, "p may depend on the SNR and the parameters only"):
        model.expected(_grid(), _MEAN_SNR, Rayleigh())
        model.probability(_grid())


def _saving(model: SuccessModel) -> None:
    saving(model, network_with(success=model), "age", 70, 5)


CHECKS: dict[str, Check] = {
    "equality": equality,
    "probabilities": _probabilities,
    "monotony": _monotony,
    "elements": _elements,
    "inputs": _inputs,
    "repetition": _repetition,
    "expected": _expected,
    "parameters": _parameters,
    "saving": _saving,
}
