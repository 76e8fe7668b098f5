"""Local training on a CPU of a chain of known layers, by compiled code: one lane per core.

On one core it is several times as fast as torch for small models: no patches are copied, sums stay in registers, and a
whole lane is one call (kernels.py, steps.py). Without numba, or for a model with other layers, there is none
(``CpuChain.of`` gives None), and torch trains it. No product is left to a BLAS library, so no threads are started but
those of ``train_many``, and results do not depend on their number.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import nn

from fedwave.learning.backends.cpu.plan import Plan, plan_of
from fedwave.learning.backends.spec import ChainSpec, known_layers
from fedwave.learning.layout import Layout
from fedwave.learning.settings import Settings
from fedwave.learning.state import carried_of
from fedwave.types import Array, IntArray

_AT_ONCE = 50  # images of an evaluation; more of them no longer fit in the second cache

_LINE = 64  # bytes
_TRIED = 8  # images on which compiled code is compared with the model itself
_SIZES_KEPT = 4  # batch sizes whose memory a thread keeps
_NO_NUMBA = (
    "numba cannot be imported, so PyTorch trains this model, several times as slowly: "
    'pip install "fedwave[learn]", or pip install numba.'
)


def numba_advice(make: Callable[[], nn.Module], settings: Settings) -> str | None:
    """The advice to install numba; None if it is there or would not train this model."""
    if settings.device != "cpu" or settings.precision == "bfloat16":
        return None
    try:
        import numba  # noqa: F401
    except ImportError:
        return None if known_layers(make()) is None else _NO_NUMBA
    return None


@dataclass(frozen=True)
class _Bench:
    """The memory of one thread for one batch size."""

    plan: Plan
    memory: Array


class CpuChain:
    """Trains models of one kind; made by ``of``."""

    @staticmethod
    def of(
        model: nn.Module,
        layout: Layout,
        images: Array,
        labels: Array,
        *,
        eta: float,
        prox: float,
        l2: float,
        dtype: Any,
    ) -> CpuChain | None:
        """None if the model is no chain of known layers (dropout by key, see dropout.py), or if numba is missing."""
        if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
            return None
        spec = ChainSpec.of(model, images.shape[1:])
        if spec is None or not layout.shapes or _compiled_steps() is None:
            return None
        made = CpuChain(model, spec, layout, images, labels, (eta, prox, l2), np.dtype(dtype))
        return made if made._matches_torch(model, layout, images[:_TRIED]) else None

    def __init__(
        self,
        model: nn.Module,
        spec: ChainSpec,
        layout: Layout,
        images: Array,
        labels: Array,
        rates: tuple[float, float, float],
        dtype: np.dtype[Any],
    ) -> None:
        self.spec, self._rates, self._dtype = spec, rates, dtype
        self._steps = _compiled_steps()
        self._images = np.ascontiguousarray(images, dtype=dtype).reshape(len(images), -1)
        self._labels = np.ascontiguousarray(labels, dtype=np.int64)
        numbers = layout.views(torch.arange(layout.size))
        self._positions = {name: int(view.reshape(-1)[0]) for name, view in numbers.items()}
        self._trained = layout.size
        self._size = layout.size
        # Behind the trained parameters: running statistics, and parameters that are frozen.
        frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
        self._rest: dict[str, slice] = {}
        self._counts: list[str] = []
        for name, tensor in (frozen | dict(model.named_buffers())).items():
            if tensor.is_floating_point():
                self._positions[name] = self._size
                self._rest[name] = slice(self._size, self._size + tensor.numel())
                self._size += tensor.numel()
            elif name.endswith("num_batches_tracked"):
                self._counts.append(name)
        self._names = set(layout.shapes)
        # The least that a batch norm sees of a sample.
        norms = [place.before for place in spec.layers if isinstance(place.layer, nn.BatchNorm2d)]
        self._pixels = min((shape[1] * shape[2] for shape in norms), default=0)
        self._free: queue.SimpleQueue[dict[int, _Bench]] = queue.SimpleQueue()

    def train(self, w: Array, start: Array, rest: dict[str, Array], steps: Sequence[IntArray], key: int = 0) -> None:
        """Train one model ``w [P]`` in place: ``steps`` are the samples of each step, ``key`` is of its dropout masks.

        Running statistics in ``rest`` change in place. The loss is the mean cross-entropy, plus prox/2 |w - start|^2,
        plus l2/2 |w|^2.
        """
        benches = self._benches()
        state = np.empty(self._size, self._dtype)
        state[: self._trained] = w
        for name, where in self._rest.items():
            state[where] = rest[name].reshape(-1)
        done = 0
        for size, group in groupby(steps, len):
            samples = np.array(list(group), dtype=np.int64)
            if size * self._pixels == 1:
                raise ValueError("batch norm needs more than one value per channel in training.")
            if size:  # a step without samples would divide by zero
                self._run(self._bench(benches, size), state, start, samples, done, key)
            done += len(samples)
        self._free.put(benches)
        w[...] = state[: self._trained]
        for name, where in self._rest.items():
            rest[name][...] = state[where].reshape(rest[name].shape)
        for name in self._counts:
            rest[name][...] += done

    def train_many(
        self,
        w: Array,
        start: Array,
        rest: dict[str, Array],
        steps: Sequence[Sequence[IntArray]],
        keys: Sequence[int],
        threads: int,
    ) -> None:
        """Train many models ``w [lane, P]``, one lane per thread; the longest begin first."""

        def one(lane: int) -> None:
            mine = {name: array[lane, ...] for name, array in rest.items()}
            self.train(w[lane], start[lane], mine, steps[lane], int(keys[lane]))

        order = sorted(range(len(w)), key=lambda lane: -len(steps[lane]))
        if threads <= 1:
            for lane in order:
                one(lane)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(one, order))

    def _matches_torch(self, model: nn.Module, layout: Layout, images: Array) -> bool:
        """Is the compiled model the given one? There are many ways to change a layer after it was made."""
        modes = {module: module.training for module in model.modules()}
        with torch.no_grad():
            given = torch.as_tensor(images).to(next(model.parameters()).dtype, copy=True)
            wanted = model.eval()(given).numpy()
        for module, mode in modes.items():
            module.training = mode
        w = layout.flat({k: p.detach() for k, p in model.named_parameters() if k in layout.shapes})
        rest = {k: p.detach().numpy() for k, p in carried_of(model).items()}
        found = self.logits(w.numpy(), rest, images)
        exact = 1e-3 if self._dtype == np.float32 else 1e-9
        return found.shape == wanted.shape and bool(
            np.allclose(found, wanted, rtol=exact, atol=exact * (1 + np.abs(wanted).max()))
        )

    def logits(self, w: Array, rest: dict[str, Array], images: Array) -> Array:
        """The outputs of a model in eval mode, ``[image, class]``."""
        images = np.ascontiguousarray(images, dtype=self._dtype).reshape(len(images), -1)
        benches = self._benches()
        found = []
        for first in range(0, len(images), _AT_ONCE):
            samples = np.arange(first, min(first + _AT_ONCE, len(images)))
            bench = self._bench(benches, len(samples))
            plan, memory = bench.plan, bench.memory
            memory[: self._trained] = w
            for name, where in self._rest.items():
                memory[where] = rest[name].reshape(-1)
            self._steps.run_forward(memory, plan.table, plan.ops, plan.numbers, images, samples)
            size = plan.classes * plan.batch
            out = memory[plan.output : plan.output + size].reshape(plan.classes, plan.batch)
            found.append(out.T.copy())
        self._free.put(benches)
        return np.concatenate(found)

    def _run(self, bench: _Bench, state: Array, start: Array, samples: IntArray, done: int, key: int) -> None:
        plan, memory = bench.plan, bench.memory
        memory[: self._size] = state
        memory[plan.start : plan.start + self._trained] = start
        self._steps.run_steps(
            memory,
            plan.table,
            plan.ops,
            plan.numbers,
            self._steps.sizes_of(plan, self._trained),
            self._images,
            self._labels,
            samples,
            done,
            np.uint64(key),
            *self._rates,
        )
        state[:] = memory[: self._size]

    def _benches(self) -> dict[int, _Bench]:
        """Memory that no other thread uses now."""
        try:
            return self._free.get_nowait()
        except queue.Empty:
            return {}

    def _bench(self, benches: dict[int, _Bench], size: int) -> _Bench:
        bench = benches.pop(size, None)
        if bench is None:
            while len(benches) >= _SIZES_KEPT:
                del benches[next(iter(benches))]  # the one not used for longest
            plan = plan_of(self.spec, self._positions, self._names, self._size, size)
            bench = _Bench(plan, _zeros(plan.size, self._dtype))
        benches[size] = bench
        return bench


def _zeros(size: int, dtype: np.dtype[Any]) -> Array:
    """Zeros that begin where a line of the cache begins: a vector in two lines takes twice as long to read."""
    more = _LINE // dtype.itemsize
    array = np.zeros(size + more, dtype)
    return array[(-array.ctypes.data % _LINE) // dtype.itemsize :][:size]


def _compiled_steps() -> Any:
    """The compiled steps; None if numba is missing or switched off."""
    try:
        import numba

        if numba.config.DISABLE_JIT:
            return None
        from fedwave.learning.backends.cpu import steps
    except ImportError:
        return None
    return steps
