"""Warns about numbers of a network that are allowed, but look as if they had another unit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedwave.errors import plural
from fedwave.types import FloatArray

if TYPE_CHECKING:
    from fedwave.network.network import Network


_NEVER = 1e-28  # mean SNR of a device without a channel
_LEAST_SERVED = 0.02  # share of the arrivals that a scheduler should be able to serve


class ImplausibleWarning(UserWarning):
    """The numbers of a network look wrong: as if one of them had another unit."""


def warn_if_implausible(network: Network) -> None:
    """One warning with all that looks wrong; Python shows the same text once."""
    found = list(_oddities(network))
    if found:
        warnings.warn(f"this network looks wrong: {'; '.join(found)}.", ImplausibleWarning, stacklevel=1)


def _oddities(network: Network) -> Iterator[str]:
    table, who = network.table, network.table.name
    yield from _outside("distance_m", table.column("distance_m"), 1, 50_000, "kilometres?", "more than 50 km", who)
    yield from _outside("snr_db", table.column("snr_db"), -30, 70, "RSRP in dBm?", "a linear ratio?", who)
    yield from _outside("tx_power_dbm", table.column("tx_power_dbm"), -40, 40, "dBW?", "milliwatts?", who)
    yield from _outside("interference_dbm", table.column("interference_dbm"), -np.inf, -30, "", "milliwatts?", who)
    per_hertz = "per hertz? Then add 10 log10 of the bandwidth in Hz"
    yield from _outside("noise_dbm", np.array([network.noise_dbm]), -140, -50, per_hertz, "milliwatts?")
    by_distance = not np.isnan(table.column("distance_m")).all()
    if by_distance:
        slope, intercept = np.array([network.pathloss_slope_db]), np.array([network.pathloss_intercept_db])
        yield from _outside("pathloss_slope_db", slope, 10, 100, "the exponent? Then ten times as much", "")
        yield from _outside("pathloss_intercept_db", intercept, 60, 250, "the loss at 1 m, not at 1 km?", "")
    yield from _outside("rate", table.column("rate"), 0, 10_000, "", "samples, not shards?", who)
    record = getattr(network.fading, "record", None)
    if network.fading.absolute:
        decibels = 10 * np.log10(network.mean_snr)
        decibels[network.mean_snr <= _NEVER] = np.nan  # a device without a channel
        causes = "RSRP in dBm?", "a linear ratio, or SNR read as RSRP?"
        yield from _outside("measured mean SNR in dB", decibels, -30, 70, *causes, who)
    elif record is not None:
        cause = "dB given as linear, or SNR given as gain?"
        mean = np.array([record.mean()])
        yield from _outside("mean of the recorded gains", mean, 1 / 3, 3, "dB?", f"it should be about 1: {cause}")
    yield from _lost(network)


def _outside(
    name: str, values: FloatArray, least: float, most: float, low: str, high: str, who: Sequence[str] = ()
) -> Iterator[str]:
    """A phrase for the values below ``least``, and one for those above ``most``, with the first device."""
    for odd, limit, cause in ((values < least, f"below {least:g}", low), (values > most, f"above {most:g}", high)):
        if odd.any():
            first, others = int(np.argmax(odd)), int(np.count_nonzero(odd)) - 1
            device = f" of device {who[first] if who else first + 1}" if values.size > 1 or who else ""
            more = f", and {plural(others, 'other')}" if others else ""
            yield f"{name}{device} is {values[first]:g}{more}, {limit}{f' ({cause})' if cause else ''}"


def _lost(network: Network) -> Iterator[str]:
    """With finite buffers, an upload brings no more than a buffer holds."""
    limits, slots = network.table.column("buffer_limit"), float(np.mean(network.slots))
    if np.isinf(limits).any():
        return
    most = slots * limits.max()
    if most < network.rates.sum() * _LEAST_SERVED:
        yield (
            f"{network.rates.sum():g} shards arrive in a round, but {slots:g} uploads bring at most {most:g} "
            "(buffer_limit), whatever the scheduler"
        )
