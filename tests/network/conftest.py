"""What the network's tests share: playing a world, and judging means by their own standard error."""

from types import SimpleNamespace

import numpy as np
import pytest

import fedwave as fw
from fedwave.network.dynamics import arriving
from fedwave.network.world import World
from fedwave.types import Decision


@pytest.fixture
def play():
    """Play some rounds of a world; every field comes back as one array [round, instance, device]."""

    def play(network, rounds, instances=1, *, seed=0, first=1):
        ids = np.arange(instances) if isinstance(instances, int) else np.array(instances)
        weather = list(World(network, seed, ids).rounds(first, rounds))
        names = ("gain", "snr", "success", "luck", "arrivals", "heard")
        everybody = Decision(np.ones((ids.size, network.size), dtype=bool))
        return SimpleNamespace(
            round=[w.round for w in weather],
            goes_through=np.array([arriving(network, w, everybody) for w in weather]),
            **{name: np.array([getattr(w, name) for w in weather]) for name in names},
        )

    return play


@pytest.fixture
def crowd():
    """A network of many devices alike: each is one more independent sample."""

    def crowd(size, *, rate=1.0, distance_m=400.0, **fields):
        table = fw.DeviceTable(rate=np.full(size, rate), distance_m=distance_m)
        return fw.Network(devices=table, slots=1).replace(**fields)

    return crowd


@pytest.fixture
def agree():
    """Is the mean of independent samples within 4 standard errors of what it should be?"""

    def agree(samples, expected):
        samples = np.asarray(samples, dtype=np.float64).ravel()
        error = samples.std(ddof=1) / np.sqrt(samples.size)
        z = (samples.mean() - expected) / error
        assert abs(z) < 4, f"mean {samples.mean():.6g}, expected {expected:.6g}: {z:.2f} s.e. off"

    return agree
