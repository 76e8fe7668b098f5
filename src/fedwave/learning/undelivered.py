"""Gradients that wait for delivery (psi), of all devices of all runs.

Few devices hold one at a time, so each lies in a slot that is in use only while it waits. The schedule decides which
slots are in use, so they are known without asking a GPU.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedwave.learning.model_rows import one_per_run, to_device
from fedwave.types import BoolArray, FloatArray, IntArray

_NONE = 0  # the slot of a device without a gradient: a row of zeros


class Undelivered:
    """psi of every run and device; absent means zero. ``room`` is the largest number at a time, if it is known."""

    def __init__(self, runs: int, devices: int, like: Tensor, room: int = 0) -> None:
        self.slots = np.full((runs, devices), _NONE)
        self._free = list(range(room, 0, -1))
        self._values = like.new_zeros(1 + room, like.shape[-1])

    @property
    def held(self) -> BoolArray:
        """Which devices hold a gradient, ``[R, U]``."""
        found: BoolArray = self.slots != _NONE
        return found

    def decay(self, beta: float) -> None:
        """Multiply all gradients by ``beta``, as a round passes."""
        if beta == 0:
            self.drop(self.held)
        elif beta != 1:
            self._values *= beta

    def add(self, runs: IntArray, devices: IntArray, gradients: Tensor) -> None:
        """Add the gradients of a round, one row for each (run, device)."""
        if not len(runs):  # CUDA refuses to add no rows
            return
        slots = self.slots[runs, devices]
        new = np.flatnonzero(slots == _NONE)
        if new.size:
            slots[new] = self._take(new.size)
            self.slots[runs, devices] = slots
            self._values.index_fill_(0, to_device(self._values.device, slots[new]), 0.0)
        self._values.index_add_(0, to_device(self._values.device, slots), gradients)

    def delivered(self, who: BoolArray, weights: FloatArray) -> Tensor:
        """The weighted sum of the delivered gradients of every run, ``[R, P]``; drops them. Arrays ``[R, U]``."""
        who = who & self.held
        total = self._values.new_zeros(len(who), self._values.shape[1])
        runs, devices = np.nonzero(who)
        # Values of one run never touch another run, which may have become infinite.
        for mine in one_per_run(runs):
            r, u = runs[mine], devices[mine]
            scale = to_device(total.device, weights[r, u]).to(total.dtype)
            total.index_add_(0, to_device(total.device, r), self.rows(r, u).mul_(scale[:, None]))
        self.drop(who)
        return total

    def drop(self, who: BoolArray) -> None:
        """Drop the gradients of some devices, ``[R, U]``."""
        self._free += self.slots[who & self.held].tolist()
        self.slots[who] = _NONE

    def rows(self, runs: IntArray, devices: IntArray) -> Tensor:
        """Copies of some gradients, ``[N, P]``; zeros where a device holds none."""
        return self._values[to_device(self._values.device, self.slots[runs, devices])]

    def norms(self) -> FloatArray:
        """The Euclidean norm of every gradient, ``[R, U]``."""
        runs, devices = np.nonzero(self.held)
        found = np.zeros(self.slots.shape)
        found[runs, devices] = torch.linalg.vector_norm(self.rows(runs, devices).double(), dim=1).cpu()
        return found

    def _take(self, count: int) -> IntArray:
        """Numbers of free slots."""
        missing = count - len(self._free)
        if missing > 0:
            first = len(self._values)
            grown = self._values.new_zeros(first + missing, self._values.shape[1])
            grown[:first] = self._values
            self._values = grown
            self._free += range(first, first + missing)
        taken = self._free[-count:]
        del self._free[-count:]
        return np.array(taken)
