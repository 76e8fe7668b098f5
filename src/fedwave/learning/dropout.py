"""Keys the random layers of a model: their draws depend only on (seed, instance, round, device) and the step.

So a device draws the same numbers under every scheduler, whichever models are trained beside it, and after a run was
resumed. nn.Dropout draws by a counter: the mask is a hash of the step's key and the position, which can be computed for
many models at once, on any device. Any other random layer is run model by model, with torch's generator seeded by the
key.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np
import torch
from torch import Tensor, nn

from fedwave.counter_rng import TrainingKeys
from fedwave.types import IntArray

_GENERATORS = threading.RLock()  # torch's generators are shared by all threads
_LARGEST = 2**63 - 1
_CALL = 2**40  # positions between two calls of a dropout layer in one step


def device_keys(keys: TrainingKeys) -> IntArray:
    """The keys of devices' local training in a round, ``[N]``."""
    return (keys.keys("noise") >> np.uint64(1)).astype(np.int64)  # torch has no unsigned ones


def device_key(seed: int, instance: int, round_: int, device: int) -> int:
    """The key of one device."""
    return int(device_keys(TrainingKeys.of(seed, instance, round_, device))[0])


def step_keys(keys: Tensor, step: int) -> Tensor:
    """The keys of one step of local training, each from its device's key."""
    return _splitmix64(keys + step) & _LARGEST


class StepMasks:
    """The dropout masks of one step, shared by the layers of a model: the step's key, and the number of calls."""

    def __init__(self) -> None:
        self._key: Tensor | None = None
        self._calls = 0

    @contextmanager
    def keyed_by(self, key: Tensor) -> Iterator[None]:
        """Draw by this key within the block; each call of a dropout layer draws other numbers."""
        self._key, self._calls = key, 0
        try:
            yield
        finally:
            self._key = None

    @property
    def is_keyed(self) -> bool:
        return self._key is not None

    def mask(self, shape: Sequence[int], p: float) -> Tensor:
        """The factors of a dropout layer, 0 or 1 / (1 - p); ``shape`` is without the dimensions of the key."""
        assert self._key is not None
        key = self._key
        positions = torch.arange(prod(shape), device=key.device) + self._calls * _CALL
        self._calls += 1
        numbers = _splitmix64(key[..., None] + positions).bitwise_and(_LARGEST)
        mask = (numbers >= int(p * 2**63)).to(torch.float64) / (1 - p) if p < 1 else numbers * 0.0
        return mask.reshape(*key.shape, *shape)


class KeyedDropout(nn.Dropout):
    """nn.Dropout that draws by the key of the step."""

    masks: StepMasks

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.p > 0 and self.masks.is_keyed):
            return super().forward(x)
        mask = self.masks.mask(x.shape, self.p).to(x.dtype)
        return x.mul_(mask) if self.inplace else x * mask


def key_dropout(model: nn.Module) -> StepMasks:
    """Make every nn.Dropout of a model draw by key; returns the masks, whose key is to be set for every step."""
    masks = StepMasks()
    for module in model.modules():
        if type(module) in (nn.Dropout, KeyedDropout) and "forward" not in vars(module):
            # Only the class changes: hooks and shared uses of the layer stay.
            module.__class__ = KeyedDropout
            module.masks = masks  # type: ignore[assignment]
    return masks


@contextmanager
def seeded(key: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's generators within the block, and restore them afterwards; other threads wait for their turn.

    ``device`` is a GPU whose generator is used in the block.
    """
    with _GENERATORS, torch.random.fork_rng(devices=[device] if device and device.type == "cuda" else []):
        torch.manual_seed(key)
        yield


def _splitmix64(x: Tensor) -> Tensor:
    """Well mixed bits of int64 numbers: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    x = x * -7046029254386353131
    x = (x ^ _shifted(x, 30)) * -4658895280553007687
    x = (x ^ _shifted(x, 27)) * -7723592293110705685
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Shifted to the right, zeros moved in: ``>>`` alone moves in the sign."""
    zeros_in_front: Tensor = (x >> bits) & (2 ** (64 - bits) - 1)
    return zeros_in_front
