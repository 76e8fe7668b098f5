"""The probabilities of the coming rounds that a planning scheduler knows, compared by content and not by object.

A network is built again when a trace is extended. Two ChannelStatistics with the same probabilities are equal,
so the solutions for the first network are found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.channel_levels import Levels, spread_levels
from fedwave.planning.price_search import ArrivalChances, DeviceClasses
from fedwave.types import FloatArray, IntArray, Planning

_LEVELS, _CELLS = 512, 128
_COMPARED = 256  # channels whose p are compared; if there are more, this many of them, evenly spaced
_PROBES = np.geomspace(0.01, 1000, 101)  # rates at which arrival distributions are compared
# For a device that hardly ever succeeds, an upload would be worth any price. Its mean p is raised to this value
# for planning, so that it is ranked by the small p of the round.
_LEAST_SUCCESS = 1e-3


@dataclass(frozen=True, eq=False)
class ChannelStatistics:
    """Channels and arrivals of the coming rounds."""

    planning: Planning
    mean_snr: FloatArray  # [S] different ones, rising
    digest: bytes
    channel: IntArray  # [U] of each device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChannelStatistics) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def chances(self) -> ArrivalChances:
        """The distribution of the arrivals of a round."""
        return self.planning.arrival_chances

    @cached_property
    def levels(self) -> Levels:
        """The levels of all different channels."""
        return self.channel_levels(np.arange(self.mean_snr.size))

    def channel_levels(self, channels: IntArray) -> Levels:
        """The levels of some channels: tables solve for a few of many."""
        success = _success(self.planning, self.mean_snr[channels])
        missing = np.clip(_LEAST_SUCCESS - success.mean(axis=1), 0.0, None)[:, None]
        weights = np.repeat((1 - missing) / success.shape[1], success.shape[1], axis=1)
        raised = np.concatenate([success, np.ones(missing.shape)], axis=1)
        return spread_levels(raised, _CELLS, np.concatenate([weights, missing], axis=1))

    def classes(self, rates: FloatArray) -> DeviceClasses:
        """The different devices, at these rates ``[U]``."""
        return DeviceClasses.among(self.mean_snr[self.channel], rates, self.chances)

    def levels_of(self, classes: DeviceClasses) -> Levels:
        """The levels of the channels of these classes."""
        return self.levels.select(np.searchsorted(self.mean_snr, classes.mean_snr))


@lru_cache(maxsize=32)
def channel_statistics(planning: Planning) -> ChannelStatistics:
    """The ChannelStatistics of a Planning; cached by object, since p takes a while to compute."""
    mean_snr, channel = np.unique(planning.mean_snr, return_inverse=True)
    channel = channel.reshape(-1)
    some = np.linspace(0, mean_snr.size - 1, min(mean_snr.size, _COMPARED)).astype(np.int64)
    success = _success(planning, mean_snr[some])
    digest = blake2b(digest_size=16)
    for part in (planning.mean_snr, success, planning.arrival_chances(_PROBES, 256)):
        digest.update(np.ascontiguousarray(part).tobytes())
    return ChannelStatistics(planning, mean_snr, digest.digest(), channel)


def _success(planning: Planning, mean_snr: FloatArray) -> FloatArray:
    """p at equally likely gains, ``[S, K]``; rounds are treated as independent, also where they are not.

    Recorded gains and correlated shadowing have no such levels. Planning then assumes that every upload succeeds,
    and channels differ only by the p of the round.
    """
    try:
        success = planning.success_levels(mean_snr, _LEVELS)
    except FedwaveError:
        return np.ones((mean_snr.size, 1))
    return np.sort(success, axis=1)  # a measured curve may not rise everywhere
