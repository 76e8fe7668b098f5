"""Training on traces: all runs of an experiment advance together, a round at a time, in lanes.

The schedule is known in advance, so local training without effect is left out (schedule.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite

import numpy as np
import torch

from fedwave.aggregation import Uploads
from fedwave.errors import FedwaveError, is_number, whole
from fedwave.learning import server_steps
from fedwave.learning.curves import Curves, Evaluation
from fedwave.learning.evaluation import EvaluationSizes, Evaluator
from fedwave.learning.footprint import check_training
from fedwave.learning.lanes import Lane, LaneTrainer
from fedwave.learning.noise import device_key
from fedwave.learning.partition import batches
from fedwave.learning.schedule import Run, needed_training
from fedwave.learning.state import Tensors, carried_of, trained_of
from fedwave.learning.task import Task
from fedwave.types import Array, IntArray

Meter = Callable[[int], None]
# By device: the lane of its local training, and the resulting parameters and buffers.
Trained = dict[int, tuple[Lane, tuple[Tensors, Tensors]]]


@dataclass
class RunState:
    """The state of one run between rounds."""

    w: Tensors
    buffers: Tensors
    psi: dict[int, Tensors] = field(default_factory=dict)  # by device; absent means zero
    # By device: where it starts if it misses the broadcast.
    own: dict[int, tuple[Tensors, Tensors]] = field(default_factory=dict)
    server: Tensors = field(default_factory=dict)  # memory of the server step
    diverged: bool = False


@dataclass(frozen=True)
class Settings:
    """How to train. The settings belong to the results: lanes and precision change the last digits."""

    tolerance: float = 1e-6  # leave out local training that weighs less; 0 trains everything
    device: str = "cpu"  # or "cuda"; "auto" takes a GPU if there is one
    # "float64", or "bfloat16": float32 weights, bfloat16 layers; "auto": bfloat16 on a GPU, float32 on a CPU.
    precision: str = "float32"
    lanes: int | None = None  # models trained at once; None: 64 on a CPU, 1024 on a GPU

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "float64", "bfloat16", "auto"):
            raise FedwaveError(
                f"precision is {self.precision!r}, must be 'float32', 'float64', 'bfloat16' or 'auto'."
            )
        object.__setattr__(self, "device", available_device(self.device))
        on_gpu = self.device == "cuda"
        if self.precision == "auto":
            object.__setattr__(self, "precision", "bfloat16" if on_gpu else "float32")
        if self.lanes is None:
            object.__setattr__(self, "lanes", 1024 if on_gpu else 64)
        if not (is_number(self.tolerance) and 0 <= self.tolerance < 1):
            raise FedwaveError(
                f"tolerance is {self.tolerance}, must lie in [0, 1): 0 trains everything."
            )
        object.__setattr__(self, "lanes", whole("lanes", self.lanes, 1))

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.precision == "float64" else torch.float32


def use_threads(count: int) -> None:
    """Set the number of threads of a step."""
    torch.set_num_threads(count)


def available_device(wanted: str) -> str:
    """ "cpu" or "cuda"; "auto" takes a GPU if there is one."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted not in ("cpu", "cuda") or (wanted == "cuda" and not torch.cuda.is_available()):
        raise FedwaveError(
            f"device is {wanted!r}, must be auto, cpu, or cuda (if there is a CUDA GPU)."
        )
    return wanted


def gpu_count() -> int:
    """The number of GPUs."""
    return torch.cuda.device_count()


def gpu_name() -> str:
    """The name of the first GPU."""
    return torch.cuda.get_device_name(0)


class Replay:
    """Trains runs side by side; ``advance`` plays one round of all of them."""

    def __init__(
        self, runs: list[Run], task: Task, settings: Settings, sizes: EvaluationSizes
    ) -> None:
        self.runs, self.task, self.settings, self.sizes = runs, task, settings, sizes
        device = torch.device(settings.device)
        autocast = torch.bfloat16 if settings.precision == "bfloat16" else None
        assert settings.lanes is not None  # filled in
        self._lanes = LaneTrainer(task, device, settings.dtype, settings.lanes, autocast)
        self._keyed = self._lanes.needs_keys
        self._evaluator = Evaluator(task, sizes, device, settings.dtype, autocast)
        self._model = task.new_model(0, 0).to(device, settings.dtype)
        self._sampler = task.sampler()
        self.uploads = [run.uploads(task.aggregation) for run in runs]
        self.needed = [needed_training(run, task.aggregation, settings.tolerance) for run in runs]
        check_training(task, runs, self.needed, settings.lanes, self._model)
        self.states = [self._fresh(run, device) for run in runs]
        self.round = 0
        self.results: list[list[Evaluation]] = [[] for _ in runs]

    @property
    def rounds(self) -> int:
        return self.runs[0].rounds

    def fingerprint(self) -> str:
        """A hash of the runs, the task and the settings, to recognise their checkpoints."""
        task, data = self.task, self.task.dataset
        trained = {k for k, p in self._model.named_parameters() if p.requires_grad}
        state = self._model.state_dict()
        model = [(name, tuple(p.shape), name in trained) for name, p in state.items()]
        about = (self.settings, self.sizes, task.numbers, model, data.train_images.shape)
        digest = hashlib.sha256(repr(about).encode())
        some = data.train_images[
            :: len(data.train_images) // 500 + 1
        ]  # enough to distinguish datasets
        for part in (data.train_labels, data.test_labels, some):
            digest.update(np.ascontiguousarray(part).tobytes())
        for run in self.runs:
            digest.update(repr((run.label, run.seed, run.instance)).encode())
            for array in (run.scheduled, run.delivered, run.shards, run.heard):
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def advance(self) -> None:
        """Play the next round of every run."""
        self.finish_round(self.train_round())

    def finish_round(self, trained: list[Trained]) -> None:
        """Apply the uploads of the round in every run."""
        for r, state in enumerate(self.states):
            if not state.diverged:
                self._deliver(r, trained[r])
        self.round += 1

    def train_round(self) -> list[Trained]:
        """Local training of the round in all runs, and the gradients that now wait for delivery (psi)."""
        t = self.round
        jobs = [
            (r, int(u))
            for r, state in enumerate(self.states)
            if not state.diverged
            for u in np.flatnonzero(self.needed[r][t])
        ]
        lanes = [self._lane(r, u, t) for r, u in jobs]
        trained: list[Trained] = [{} for _ in self.runs]
        for (r, u), lane, result in zip(jobs, lanes, self._lanes(lanes), strict=True):
            trained[r][u] = (lane, result)
        beta = self.task.aggregation.beta
        for state, mine in zip(self.states, trained, strict=True):
            psi = {
                u: {k: beta * p for k, p in old.items()} for u, old in state.psi.items() if beta > 0
            }
            for u, (lane, (local, _)) in mine.items():
                gradient = {k: (lane.start[k] - local[k]) / self.task.eta for k in local}
                psi[u] = {k: gradient[k] + psi[u][k] for k in local} if u in psi else gradient
            state.psi = psi
        return trained

    def _fresh(self, run: Run, device: torch.device) -> RunState:
        model = self.task.new_model(run.seed, run.instance).to(device, self.settings.dtype)
        w, b = trained_of(model), carried_of(model)
        own = {u: (w, b) for u in np.flatnonzero(~run.heard.all(axis=0)).tolist()}
        return RunState(w, b, own=own, server=server_steps.start(self.task.aggregation, w))

    def _lane(self, r: int, u: int, t: int) -> Lane:
        run, state = self.runs[r], self.states[r]
        start, buffers = (state.w, state.buffers) if run.heard[t, u] else state.own[u]
        samples = self._samples(run, u, t)
        task = self.task
        steps = batches(samples, task.batch, task.epochs, run.seed, run.instance, t + 1, u)
        # Only random layers need a key, and a key takes time to make.
        key = device_key(run.seed, run.instance, t + 1, u) if self._keyed else 0
        return Lane(start, buffers, steps, key)

    def _samples(self, run: Run, u: int, t: int) -> IntArray:
        """The samples that device u trains on in row t: of this round, or all since its last delivery."""
        first = t
        if self.task.aggregation.waits:
            before = np.flatnonzero(run.delivered[:t, u])
            first = int(before[-1]) + 1 if before.size else 0
        pieces = [
            self._sampler.shards(run.seed, run.instance, row + 1, u, int(run.shards[row, u]))
            for row in range(first, t + 1)
        ]
        return np.concatenate(pieces)

    def _deliver(self, r: int, trained: Trained) -> None:
        """Aggregation and resets of one run, then evaluation of the central model."""
        run, state, t = self.runs[r], self.states[r], self.round
        uploads = self.uploads[r].at(t)
        update = self._central_update(state, uploads)
        b, shares = state.buffers, uploads.shares.tolist()
        shift = {k: torch.zeros_like(p) for k, p in b.items()}
        counts = {k: p for k, p in b.items() if not p.is_floating_point()}
        for u in np.flatnonzero(uploads.delivered).tolist():
            if u in trained:
                # Running statistics are averages, not gradients: they bypass psi and the rule.
                for k, p in trained[u][1][1].items():
                    if p.is_floating_point():
                        shift[k] += shares[u] * (p - b[k])
                    else:  # it counts something, such as batches: the largest delivered count is the central one
                        counts[k] = torch.maximum(counts[k], p)
        self._keep_own(state, run, t, trained)
        state.w = {k: p - update[k] for k, p in state.w.items()}
        state.buffers = {k: counts[k] if k in counts else b[k] + shift[k] for k in b}
        found = self._evaluator(
            self._model, state.w, state.buffers, full=self._evaluator.full_in(t + 1, run.rounds)
        )
        state.diverged = not isfinite(found.loss)
        self.results[r].append(found)

    def _central_update(self, state: RunState, uploads: Uploads) -> Tensors:
        """The change of w: eta times the step of the aggregation rule. Delivered gradients are removed from psi."""
        rule, eta = self.task.aggregation, self.task.eta
        weights = rule.coefficients(uploads).tolist()
        # Without a server step eta is part of the weight, which saves a pass over all parameters.
        scale = 1.0 if rule.has_server_step() else eta
        update = {k: torch.zeros_like(p) for k, p in state.w.items()}
        for u in np.flatnonzero(uploads.delivered).tolist():
            for k, p in state.psi.pop(u, {}).items():
                update[k] += scale * weights[u] * p
        if not rule.has_server_step():
            return update
        state.server, step = server_steps.step(rule, state.server, update, uploads)
        return {k: eta * p for k, p in step.items()}

    @staticmethod
    def _keep_own(state: RunState, run: Run, t: int, trained: Trained) -> None:
        for u in state.own:
            if u in trained:
                state.own[u] = trained[u][1]
            elif run.heard[t, u]:
                # Also if its training was left out: then no device starts from it (needed_training).
                state.own[u] = (state.w, state.buffers)

    def weights_of(self, label: str) -> tuple[dict[str, Array], ...]:
        """Parameters and buffers of the central models of one scheduler, by instance."""
        states = [s for s, run in zip(self.states, self.runs, strict=True) if run.label == label]
        return tuple(
            {k: p.detach().cpu().numpy().copy() for k, p in (state.w | state.buffers).items()}
            for state in states
        )

    def curves(self) -> list[Curves]:
        """One Curves per scheduler, instances in the order of the runs."""
        settings = {**vars(self.settings), **self.task.numbers, **self._evaluator.images_used}
        out = []
        for label in dict.fromkeys(run.label for run in self.runs):
            mine = [self.results[r] for r, run in enumerate(self.runs) if run.label == label]
            out.append(Curves.of(label, mine, self.round, settings))
        return out
