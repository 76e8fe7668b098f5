"""Whole steps of SGD in one compiled function, so that Python runs once per lane and not once per layer.

Only the functions here are cached on disk: the others are compiled into them. numba notices changes of this file alone,
so a digest of all their sources is part of them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from fedwave.learning.backends.cpu import kernels as k
from fedwave.learning.backends.cpu import plan as plan
from fedwave.learning.backends.cpu.products import kernel

_FILES = ("steps.py", "kernels.py", "products.py", "plan.py", "vectors.py")
_SOURCES = hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in _FILES)).hexdigest()


_EVALUATES, _TRAINS, _BACK = range(3)


@kernel
def _pass(m, t, ops, numbers, i, n, g, way, key, call):
    """One layer, forward or backward; the number of dropout layers before the next one."""
    op = ops[i]
    kind = op[plan.KIND]
    back = way == _BACK
    if kind == plan.CONV:
        if back:
            k.conv_backward(m, t, op, n, g)
        else:
            k.conv_forward(m, t, op, n)
    elif kind == plan.LINEAR:
        if back:
            k.linear_backward(m, t, op, n, g)
        else:
            k.linear_forward(m, t, op, n)
    elif kind == plan.POOL:
        if back:
            k.pool_backward(m, op, n)
        else:
            k.pool_forward(m, op, n)
    elif kind == plan.NORM:
        if back:
            k.norm_backward(m, op, n, g)
        else:
            k.norm_forward(m, op, n, numbers[i, 0], numbers[i, 1], way == _TRAINS)
    elif kind == plan.DROPOUT:
        if back:
            call -= 1
            k.dropout(m, op[plan.GY], op[plan.GX], n, op[plan.C], numbers[i, 0], key, call)
        else:
            p = numbers[i, 0] if way == _TRAINS else 0.0
            k.dropout(m, op[plan.X], op[plan.Y], n, op[plan.C], p, key, call)
            call += 1
    elif back:
        k.pointwise_backward(m, op, op[plan.C] * n)
    else:
        k.pointwise_forward(m, op, op[plan.C] * n)
    return call


@kernel
def _gather(m, x, n, images, samples):
    for f in range(images.shape[1]):
        for i in range(n):
            m[x + f * n + i] = images[samples[i], f]


def cached(function: Any) -> Any:
    """Compile at the first call, and cache the code: beside this file, else in the user's cache folder."""
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written: compiled in every process
        return njit(**options)(function)


def _compiled(sources: str) -> Any:
    @cached
    def run_steps(m, t, ops, numbers, sizes, images, labels, steps, first_step, key, eta, prox, l2):
        """Steps of SGD. ``sizes``: ``ChainPlan.step_positions``."""
        _ = sources
        trained, start, g, first, classes, y, gy = sizes
        n = steps.shape[1]
        for s in range(steps.shape[0]):
            samples = steps[s]
            step_key = k.mixed(key + np.uint64(first_step + s))
            _gather(m, ops[0, plan.X], n, images, samples)
            call = np.int64(0)
            for i in range(len(ops)):
                call = _pass(m, t, ops, numbers, i, n, g, np.int64(_TRAINS), step_key, call)
            k.loss_gradient(m, y, gy, n, classes, labels, samples)
            for i in range(len(ops) - 1, first - 1, -1):
                call = _pass(m, t, ops, numbers, i, n, g, np.int64(_BACK), step_key, call)
            k.sgd_update(m, trained, 0, start, g, eta, prox, l2)

    @cached
    def run_forward(m, t, ops, numbers, images, samples):
        """The logits of some images in eval mode; they stay in the memory."""
        _ = sources
        _gather(m, ops[0, plan.X], len(samples), images, samples)
        nothing = np.int64(0)
        for i in range(len(ops)):
            way = np.int64(_EVALUATES)
            _pass(m, t, ops, numbers, i, len(samples), nothing, way, np.uint64(0), nothing)

    return run_steps, run_forward


run_steps, run_forward = _compiled(_SOURCES)
