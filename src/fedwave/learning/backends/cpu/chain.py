"""Local training on a CPU of a chain of known layers, by compiled code: one lane per thread.

On one core it is several times as fast as torch for small models: no patches are copied, sums stay in registers, and a
whole lane is one call (kernels.py, steps.py). Without numba, or for a model with other layers, ``NumbaBackend.of``
gives None and torch trains the model. No product is left to a BLAS library, so no threads are started but those of
``train``, and results do not depend on their number.
"""

from __future__ import annotations

import queue
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedwave.learning.backends.base import Backend, Precision
from fedwave.learning.backends.cpu.plan import ChainPlan, plan_chain, supports
from fedwave.learning.chain_spec import ChainSpec
from fedwave.learning.dropout import key_dropout
from fedwave.learning.model_rows import Layout, ModelRows, carried_state
from fedwave.learning.sampling import Batches
from fedwave.learning.settings import one_thread
from fedwave.learning.task import Task
from fedwave.types import Array, IntArray

_IMAGES_AT_ONCE = 50  # in evaluation; more of them no longer fit in the second cache

_LINE = 64  # bytes
_TRIED = 8  # images on which compiled code is compared with the model itself
_SIZES_KEPT = 4  # batch sizes whose memory a thread keeps
_NO_NUMBA = (
    "numba cannot be imported, so PyTorch trains this model, several times as slowly: "
    'pip install "fedwave[learn]", or pip install numba.'
)


_Workspaces = dict[int, tuple[ChainPlan, Array]]  # a plan and its memory, by batch size


class NumbaBackend(Backend):
    """Trains models of one kind; made by ``of``."""

    @classmethod
    def of(cls, task: Task, precision: Precision) -> NumbaBackend | None:
        """None if compiled code cannot train this model in this precision, and without numba."""
        if precision.half is not None:
            return None
        model = task.new_model(0, 0).to(precision.dtype)
        key_dropout(model)
        with one_thread():
            spec = ChainSpec.of(model, task.dataset.train_inputs.shape[1:])
            if spec is None or not supports(spec) or (steps := _compiled_steps()) is None:
                return None
            made = cls(task, model, spec, steps)
            return made if made._matches_torch(model, task.dataset.train_inputs[:_TRIED]) else None

    def __init__(self, task: Task, model: nn.Module, spec: ChainSpec, steps: Any) -> None:
        self._spec, self._steps, self.needs_keys = spec, steps, spec.draws
        self._rates = (task.eta, task.prox, task.l2)
        self._dtype = np.dtype(np.float64 if next(model.parameters()).dtype == torch.float64 else np.float32)
        images, labels = task.dataset.train_inputs, task.dataset.train_targets
        self._images = np.ascontiguousarray(images, dtype=self._dtype).reshape(len(images), -1)
        self._labels = np.ascontiguousarray(labels, dtype=np.int64)
        layout = Layout(model)
        self._names = set(layout.shapes)
        self._positions = {name: layout.first(name) for name in layout.shapes}
        self._trained = self._size = layout.size
        # After the trained parameters: frozen parameters and running statistics.
        self._rest: dict[str, slice] = {}
        self._counts: list[str] = []
        for name, tensor in carried_state(model).items():
            if tensor.is_floating_point():
                self._positions[name] = self._size
                self._rest[name] = slice(self._size, self._size + tensor.numel())
                self._size += tensor.numel()
            elif name.endswith("num_batches_tracked"):
                self._counts.append(name)
        # The least that a batch norm sees of a sample.
        norms = [place.before for place in spec.layers if isinstance(place.layer, nn.BatchNorm2d)]
        self._pixels = min((shape[1] * shape[2] for shape in norms), default=0)
        self._free: queue.SimpleQueue[_Workspaces] = queue.SimpleQueue()

    def train(self, rows: ModelRows, batches: Batches, keys: IntArray) -> ModelRows:
        models = rows.padded(len(rows))  # a copy
        w, start, rest = models.w.numpy(), rows.w.numpy(), {k: p.numpy() for k, p in models.rest.items()}

        def one(lane: int) -> None:
            mine = {name: array[lane, ...] for name, array in rest.items()}
            sizes = batches.sizes[lane]
            steps = batches.samples[lane, : np.count_nonzero(sizes)]
            self._train_lane(w[lane], start[lane], mine, steps, sizes, int(keys[lane]))

        threads = torch.get_num_threads()
        if threads == 1:
            for lane in range(len(rows)):
                one(lane)
            return models
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(one, range(len(rows))))
        return models

    def _train_lane(
        self, w: Array, start: Array, rest: dict[str, Array], steps: IntArray, sizes: IntArray, key: int
    ) -> None:
        """Train one model ``w [P]`` and its running statistics in place; ``steps [S, batch]``, ``sizes`` of each."""
        workspaces = self._free_workspaces()
        state = np.empty(self._size, self._dtype)
        state[: self._trained] = w
        for name, where in self._rest.items():
            state[where] = rest[name].reshape(-1)
        done = 0
        for size, group in groupby(sizes[: len(steps)].tolist()):
            if size * self._pixels == 1:
                raise ValueError("batch norm needs more than one value per channel in training.")
            samples = np.ascontiguousarray(steps[done : done + len(list(group)), :size], dtype=np.int64)
            plan, memory = self._workspace(workspaces, size)
            memory[: self._size] = state
            memory[plan.start : plan.start + self._trained] = start
            tables, positions = (plan.table, plan.ops, plan.numbers), plan.step_positions(self._trained)
            data = self._images, self._labels, samples
            self._steps.run_steps(memory, *tables, positions, *data, done, np.uint64(key), *self._rates)
            state[:] = memory[: self._size]
            done += len(samples)
        self._free.put(workspaces)
        w[...] = state[: self._trained]
        for name, where in self._rest.items():
            rest[name][...] = state[where].reshape(rest[name].shape)
        for name in self._counts:
            rest[name][...] += done

    def logits(self, rows: ModelRows, images: Tensor) -> Tensor:
        flat = np.ascontiguousarray(images.numpy(), dtype=self._dtype).reshape(len(images), -1)
        found = []
        for row in range(len(rows)):
            rest = {name: rows.rest[name][row].numpy() for name in self._rest}
            found.append(self._logits(rows.w[row].numpy(), rest, flat))
        return torch.as_tensor(np.stack(found))

    def _logits(self, w: Array, rest: dict[str, Array], images: Array) -> Array:
        """The outputs of one model in eval mode, ``[image, class]``."""
        workspaces = self._free_workspaces()
        found = []
        for first in range(0, len(images), _IMAGES_AT_ONCE):
            samples = np.arange(first, min(first + _IMAGES_AT_ONCE, len(images)))
            plan, memory = self._workspace(workspaces, len(samples))
            memory[: self._trained] = w
            for name, where in self._rest.items():
                memory[where] = rest[name].reshape(-1)
            self._steps.run_forward(memory, plan.table, plan.ops, plan.numbers, images, samples)
            size = plan.classes * plan.batch
            out = memory[plan.output : plan.output + size].reshape(plan.classes, plan.batch)
            found.append(out.T.copy())
        self._free.put(workspaces)
        return np.concatenate(found)

    def _matches_torch(self, model: nn.Module, images: Array) -> bool:
        """Does the compiled model compute what the given one does? A layer can be changed in many ways."""
        given = torch.as_tensor(images).to(next(model.parameters()).dtype, copy=True)
        with torch.no_grad():
            wanted = model.eval()(given.clone()).numpy()
        found = self.logits(ModelRows.of([model], Layout(model)), given)[0].numpy()
        exact = 1e-3 if self._dtype == np.float32 else 1e-9
        return found.shape == wanted.shape and bool(
            np.allclose(found, wanted, rtol=exact, atol=exact * (1 + np.abs(wanted).max()))
        )

    def _free_workspaces(self) -> _Workspaces:
        """Memory that no other thread uses now, by batch size."""
        try:
            return self._free.get_nowait()
        except queue.Empty:
            return {}

    def _workspace(self, workspaces: _Workspaces, size: int) -> tuple[ChainPlan, Array]:
        workspace = workspaces.pop(size, None)
        if workspace is None:
            while len(workspaces) >= _SIZES_KEPT:
                del workspaces[next(iter(workspaces))]  # the one not used for longest
            plan = plan_chain(self._spec, self._positions, self._names, self._size, size)
            workspace = plan, _zeros(plan.size, self._dtype)
        workspaces[size] = workspace
        return workspace


def _zeros(size: int, dtype: np.dtype[Any]) -> Array:
    """Zeros that begin where a line of the cache begins: a vector in two lines takes twice as long to read."""
    more = _LINE // dtype.itemsize
    array = np.zeros(size + more, dtype)
    return array[(-array.ctypes.data % _LINE) // dtype.itemsize :][:size]


def _compiled_steps() -> Any:
    """The compiled steps; None if numba is switched off or, with a warning, missing."""
    try:
        import numba
    except ImportError:
        warnings.warn(_NO_NUMBA, stacklevel=2)
        return None
    if numba.config.DISABLE_JIT:
        return None
    from fedwave.learning.backends.cpu import steps

    return steps
