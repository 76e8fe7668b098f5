"""What a planning scheduler makes of the chances it is told, known by content and not by object.

A network is built anew when a trace is continued. What was solved for it before is found again, because two
outlooks with the same chances are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.planning.arrival_steps import ArrivalChances
from fedwave.planning.channel_levels import Levels, spread
from fedwave.planning.price import Kinds
from fedwave.types import FloatArray, IntArray, Planning

_LEVELS, _CELLS = 512, 128
_PROBES = np.array([0.1, 1.0, 10.0, 100.0])  # rates that tell two families of arrivals apart
# A device that hardly ever gets through would be worth any price. Planned as if this share of rounds were
# certain to succeed, it ranks by its small p like the others.
_LEAST = 1e-3


@dataclass(frozen=True, eq=False)
class Outlook:
    """Channels and arrivals of the coming rounds; which device has which channel is not compared."""

    mean_snr: FloatArray  # [S] different ones, rising
    levels: Levels  # of the different channels
    chances: ArrivalChances
    digest: bytes
    channel: IntArray  # [U] each device's

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outlook) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def devices(self, rates: FloatArray) -> bytes:
        """Mean SNR and rate of every device, as something that can be compared."""
        return np.stack([self.mean_snr[self.channel], rates]).tobytes()

    def channel_of(self, devices: bytes) -> IntArray:
        """Each device's channel, ``[U]``."""
        mean_snr = np.frombuffer(devices).reshape(2, -1)[0]
        out: IntArray = np.searchsorted(self.mean_snr, mean_snr)
        return out

    def kinds(self, devices: bytes) -> tuple[Kinds, Levels]:
        """The different devices and the levels of their channels."""
        kinds = Kinds.among(*np.frombuffer(devices).reshape(2, -1))
        return kinds, self.levels.select(np.searchsorted(self.mean_snr, kinds.mean_snr))


@lru_cache(maxsize=32)
def outlook(planning: Planning) -> Outlook:
    """The chances behind a Planning; kept by object, since asking for them takes a while."""
    mean_snr, channel = np.unique(planning.mean_snr, return_inverse=True)
    channel = channel.reshape(-1)
    chances = channel_chances(planning, mean_snr)
    digest = blake2b(digest_size=16)
    for part in (mean_snr, chances, planning.arrival_chances(_PROBES, 256)):
        digest.update(np.ascontiguousarray(part).tobytes())
    return Outlook(
        mean_snr, _never_hopeless(chances), planning.arrival_chances, digest.digest(), channel
    )


def channel_chances(planning: Planning, mean_snr: FloatArray) -> FloatArray:
    """p at equally likely gains, ``[S, K]``; as if rounds were independent, also where they are not.

    Recorded gains and obstacles that last have no chances to tell. Then it is planned as if every upload would
    arrive, and only this round's p tells channels apart.
    """
    try:
        chances = planning.success_levels(mean_snr, _LEVELS)
    except FedwaveError:
        return np.ones((mean_snr.size, 1))
    return np.sort(chances, axis=1)  # rising by contract, but a measured curve may not be


def _never_hopeless(chances: FloatArray) -> Levels:
    missing = np.clip(_LEAST - chances.mean(axis=1), 0.0, None)[:, None]
    certain = np.ones((chances.shape[0], 1))
    weights = np.repeat((1 - missing) / chances.shape[1], chances.shape[1], axis=1)
    return spread(
        np.concatenate([chances, certain], axis=1),
        _CELLS,
        np.concatenate([weights, missing], axis=1),
    )
