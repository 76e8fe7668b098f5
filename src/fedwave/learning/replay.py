"""Training on traces: all runs of an experiment advance together, a round at a time.

A *lane* is the local training of one device of one run in one round. The lanes of a round are trained side by side by a
backend, some at a time, longest first. The schedule is known in advance, so local training without effect is left out
(schedule.py). All models are rows of tensors (model_rows.py), and there is no loop over runs, devices or parameters in
a round. reference.py computes the same and is written to be read.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedwave.aggregation import Uploads
from fedwave.counter_rng import TrainingKeys, count_within
from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.choose import choose
from fedwave.learning.curves import Curves, Evaluation
from fedwave.learning.dropout import device_keys
from fedwave.learning.evaluation import EvaluationSizes, Evaluator, PendingEvaluation
from fedwave.learning.footprint import check_training_memory
from fedwave.learning.model_rows import Layout, ModelRows, Tensors, one_per_run, to_device
from fedwave.learning.sampling import Batches, OwnerSampler, cut_into_batches
from fedwave.learning.schedule import TrainingRun, TrainingSchedule
from fedwave.learning.server_steps import initial_memory, server_step
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task
from fedwave.learning.undelivered import Undelivered
from fedwave.types import Array, BoolArray, FloatArray, IntArray

_NONE = -1  # in arrays of lanes and rows


@dataclass(frozen=True)
class Lanes:
    """The lanes of a round, longest first: which device of which run trains, and on what."""

    runs: IntArray  # [N]
    devices: IntArray  # [N]
    batches: Batches
    keys: IntArray  # [N]: of random layers

    def rows(self, which: Array | slice) -> Lanes:
        """Some of the lanes."""
        return Lanes(self.runs[which], self.devices[which], self.batches.rows(which), self.keys[which])


@dataclass(frozen=True)
class TrainedLanes:
    """The results of the lanes of a round."""

    lane: IntArray  # [R, U]: the lane of a device, or -1
    rest: Tensors  # [N, ...]: the carried state of every lane, such as running statistics
    kept: IntArray  # [M]: the lanes whose device may start from their parameters
    w: Tensor  # [M, P]: these parameters

    def without(self, who: BoolArray) -> TrainedLanes:
        """The results as if some devices, ``[R, U]``, had not trained."""
        return replace(self, lane=np.where(who, _NONE, self.lane))


class Replay:
    """Trains runs side by side; ``advance`` plays one round of all of them."""

    def __init__(self, runs: list[TrainingRun], task: Task, settings: Settings, sizes: EvaluationSizes) -> None:
        model = task.new_model(0, 0)
        settings = settings.for_model(model)
        self.runs, self.task, self.settings, self.sizes = runs, task, settings, sizes
        half = torch.bfloat16 if settings.precision == "bfloat16" else None
        precision = Precision(torch.device(settings.device), settings.dtype, half)
        self._model = model.to(precision.device, precision.dtype)
        self.layout = Layout(self._model)
        self.schedule = TrainingSchedule.of(runs, task.aggregation, settings.tolerance)
        undelivered = self.schedule.most_undelivered()
        # A device that misses a broadcast goes on from its own model, which is kept for it.
        keeps = ~self.schedule.heard.all(axis=0)
        check_training_memory(task, self.schedule, settings, self._model, undelivered + int(keeps.sum()))
        room = min(settings.lanes or 1, self.schedule.most_lanes())
        self._training_backend, self._evaluation_backend = choose(task, precision, room)
        self._evaluator = Evaluator(task, sizes, precision.device, precision.dtype)
        self._sampler = task.sampler(runs[0].shards.shape[1])
        self.central = self._first_models()  # a row for each run
        self.undelivered = Undelivered(len(runs), runs[0].shards.shape[1], self.central.w, undelivered)
        self.row_of_own = np.where(keeps, np.cumsum(keeps).reshape(keeps.shape) - 1, _NONE)  # [R, U]: a row in own
        self.own = self.central.rows(np.nonzero(keeps)[0])
        self.server = [initial_memory(task.aggregation, row) for row in self.central.w]  # of the server step, by run
        self.diverged: BoolArray = np.zeros(len(runs), np.bool_)
        self.round = 0
        self._overlaps = settings.device == "cuda"  # a GPU computes while the processor prepares
        self._ahead: tuple[int, Lanes] | None = None  # the lanes of a row of the schedule, drawn ahead
        shape, classes = (self.rounds, len(runs)), task.classes
        nothing = (np.full(more, np.nan) for more in (shape, shape, (*shape, classes), shape))
        self.results = Evaluation(*nothing)  # NaN in rounds to come, and of a run that diverged
        self._evaluation: tuple[IntArray, PendingEvaluation] | None = None  # under way: its runs, its result

    def _first_models(self) -> ModelRows:
        """The central models before round 1: the same for all schedulers of an instance."""
        whose = [(run.seed, run.instance) for run in self.runs]
        row = {start: k for k, start in enumerate(dict.fromkeys(whose))}
        device, dtype = self.settings.device, self.settings.dtype
        models = [self.task.new_model(*start).to(device, dtype) for start in row]
        different = ModelRows.of(models, self.layout)
        return different.rows(np.array([row[start] for start in whose]))

    @property
    def rounds(self) -> int:
        return self.runs[0].rounds

    def advance(self) -> None:
        """Play the next round of every run: train, deliver, evaluate.

        A GPU evaluates the round before while the training of this one is prepared. So a run that has just diverged
        trains once more; nothing of that is delivered.
        """
        trained = self.train_round()
        self.collect_evaluation()
        self.draw_ahead()
        self.deliver(trained)
        self._start_evaluation()
        if not self._overlaps or self.round == self.rounds:
            self.collect_evaluation()

    def draw_ahead(self) -> None:
        """Draw the samples of the next round, while a GPU still trains on those of this one."""
        coming = self.round + 1
        if self._overlaps and coming < self.rounds:
            self._ahead = coming, self._draw_lanes(coming)

    def train_round(self) -> TrainedLanes:
        """Train the lanes of the round, and add their gradients to those that wait for delivery (psi)."""
        lane = np.full(self.row_of_own.shape, _NONE)
        rests, kept, own = [], [lane[:0, 0]], [self.central.w[:0]]
        self.undelivered.decay(self.task.aggregation.beta)
        every, size = self.lanes_of_round(), self.settings.lanes or 1
        for first in range(0, len(every.runs), size):
            lanes = every.rows(slice(first, first + size))
            who = (lanes.runs, lanes.devices)
            start = self._start_models(lanes)
            trained = self._training_backend.train(start, lanes.batches, lanes.keys)
            # In place: lanes are many, and a copy of all of their parameters is large.
            self.undelivered.add(*who, start.w.sub_(trained.w).div_(self.task.eta))
            lane[who] = first + np.arange(len(lanes.runs))
            rests.append({k: p.clone() for k, p in trained.rest.items()})
            keeps = np.flatnonzero(self.row_of_own[who] != _NONE)
            if keeps.size:
                kept.append(first + keeps)
                own.append(trained.w[to_device(trained.w.device, keeps)])
        rest = {k: torch.cat([part[k] for part in rests]) for k in (rests[0] if rests else ())}
        return TrainedLanes(lane, rest, np.concatenate(kept), torch.cat(own))

    def deliver(self, trained: TrainedLanes) -> None:
        """Apply the uploads of the round in every run; nothing is evaluated."""
        uploads, live = self.schedule.uploads.at(self.round), ~self.diverged
        arrived = uploads.delivered & live[:, None]
        update = self._central_update(arrived, uploads)
        rest = self._mixed_rest(arrived, uploads.shares, trained)
        self._keep_own(trained)
        if live.all():
            self.central = ModelRows(self.central.w - update, rest)
        else:  # a run that diverged stays as it was
            going = np.flatnonzero(live)
            self.central.put(going, ModelRows(self.central.w - update, rest).rows(going))
        self.round += 1

    def lanes_of_round(self) -> Lanes:
        """The lanes of the round; runs that diverged have none."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == self.round:
            lanes = ahead[1]
            return lanes.rows(~self.diverged[lanes.runs]) if self.diverged.any() else lanes
        return self._draw_lanes(self.round)

    def _draw_lanes(self, t: int) -> Lanes:
        """The lanes of row t of the schedule."""
        runs, devices = np.nonzero(self.schedule.needed[t] & ~self.diverged[:, None])
        places = self._training_keys(runs, np.full(len(runs), t + 1), devices)
        samples, counts = self._samples(t, runs, devices)
        task = self.task
        batches = cut_into_batches(samples, counts, places, task.batch, task.epochs)
        # Only random layers need a key.
        keys = device_keys(places) if self._training_backend.needs_keys else np.zeros(len(runs), np.int64)
        longest_first = np.argsort(-batches.steps, kind="stable")
        return Lanes(runs, devices, batches, keys).rows(longest_first)

    def _samples(self, t: int, runs: IntArray, devices: IntArray) -> tuple[IntArray, IntArray]:
        """The samples that devices train on in row t, and their numbers: of this round, or all that waited."""
        shards = self.schedule.shards
        first = np.full(len(runs), t)
        if self.task.aggregation.waits:  # since the last delivery
            before = self.schedule.uploads.delivered[:t, runs, devices]
            last = t - 1 - np.argmax(before[::-1], axis=0) if t else first
            first = np.where(before.any(axis=0), last + 1, 0)
        pieces = t + 1 - first
        owner = np.repeat(np.arange(len(runs)), pieces)
        rows = np.repeat(first, pieces) + count_within(pieces)
        counts = shards[rows, runs[owner], devices[owner]]
        places = self._training_keys(runs[owner], rows + 1, devices[owner])
        samples = self._sampler.arriving(places, counts, self._shards_before(rows, runs[owner], devices[owner]))
        total = np.bincount(owner, weights=counts, minlength=len(runs)).astype(np.int64)
        return samples, total * self.task.shard_size

    def _shards_before(self, rows: IntArray, runs: IntArray, devices: IntArray) -> IntArray:
        """The shards that arrived before these rows of the schedule; only the samples of owners depend on them."""
        if not isinstance(self._sampler, OwnerSampler) or not len(rows):
            return np.zeros(len(rows), np.int64)
        last = int(rows.max())
        earlier = np.arange(last)[:, None] < rows
        found: IntArray = (self.schedule.shards[:last, runs, devices] * earlier).sum(axis=0)
        return found

    def _training_keys(self, runs: IntArray, rounds: IntArray, devices: IntArray) -> TrainingKeys:
        seeds = [self.runs[r].seed for r in runs.tolist()]
        return TrainingKeys(seeds, [self.runs[r].instance for r in runs.tolist()], rounds, devices)

    def _start_models(self, lanes: Lanes) -> ModelRows:
        """The models that lanes start from: the central one, or a device's own if it missed the broadcast."""
        start = self.central.rows(lanes.runs)
        missed = np.flatnonzero(~self.schedule.heard[self.round, lanes.runs, lanes.devices])
        own = self.row_of_own[lanes.runs[missed], lanes.devices[missed]]
        start.put(missed, self.own.rows(own))
        return start

    def _central_update(self, arrived: BoolArray, uploads: Uploads) -> Tensor:
        """The change of w, ``[R, P]``: eta times the step of the aggregation rule."""
        rule, eta = self.task.aggregation, self.task.eta
        weights = rule.coefficients(uploads)
        if not rule.has_server_step():
            return self.undelivered.delivered(arrived, eta * weights)
        update = self.undelivered.delivered(arrived, weights)
        for r in np.flatnonzero(~self.diverged).tolist():  # a rule sees one run at a time
            self.server[r], update[r] = server_step(rule, self.server[r], update[r].clone(), uploads.at(r))
        return eta * update

    def _mixed_rest(self, arrived: BoolArray, shares: FloatArray, trained: TrainedLanes) -> Tensors:
        """The central running statistics and counts after the uploads.

        Statistics are averages, not gradients: they bypass psi and the rule. A whole number counts something, such as
        batches: the largest delivered count is the central one.
        """
        old, device = self.central.rest, self.central.w.device
        runs, devices = np.nonzero(arrived & (trained.lane != _NONE))
        if not len(runs):
            return old
        uploads = [(runs[mine], devices[mine]) for mine in one_per_run(runs)]
        at = [tuple(to_device(device, x) for x in (r, trained.lane[r, u], shares[r, u])) for r, u in uploads]
        new = {}
        for name, before in old.items():
            after = before.clone()
            for r, lanes, share in at:
                theirs = trained.rest[name].index_select(0, lanes)
                if after.is_floating_point():
                    moved = theirs - before.index_select(0, r)
                    after.index_add_(0, r, share.to(moved.dtype).view(-1, *(1,) * (moved.ndim - 1)) * moved)
                else:
                    after.index_copy_(0, r, torch.maximum(theirs, after.index_select(0, r)))
            new[name] = after
        return new

    def _keep_own(self, trained: TrainedLanes) -> None:
        """Keep the models of devices that may miss the next broadcast: the trained one, or the broadcast heard."""
        mine = self.row_of_own != _NONE
        runs, devices = np.nonzero(mine & (trained.lane != _NONE))
        if len(runs):
            lanes = trained.lane[runs, devices]
            rest = {k: p[to_device(p.device, lanes)] for k, p in trained.rest.items()}
            w = trained.w[to_device(trained.w.device, np.searchsorted(trained.kept, lanes))]
            self.own.put(self.row_of_own[runs, devices], ModelRows(w, rest))
        # Also a device whose training was left out: nothing starts from what it would have trained (needed_training).
        idle = mine & (trained.lane == _NONE) & self.schedule.heard[self.round]
        runs, devices = np.nonzero(idle & ~self.diverged[:, None])
        self.own.put(self.row_of_own[runs, devices], self.central.rows(runs))

    def evaluate(self) -> None:
        """Evaluate the central models now."""
        self._start_evaluation()
        self.collect_evaluation()

    def _start_evaluation(self) -> None:
        """Begin to evaluate the central models of the runs that have not diverged; does not wait for a GPU."""
        live = np.flatnonzero(~self.diverged)
        if not len(live):
            return
        models = self.central if len(live) == len(self.runs) else self.central.rows(live)
        full = self._evaluator.full_in(self.round, self.rounds)
        self._evaluation = live, self._evaluator.evaluate_many(self._evaluation_backend, models, full=full)

    def collect_evaluation(self) -> None:
        """Store the results of the evaluation under way; a run without a finite loss has diverged."""
        if self._evaluation is None:
            return
        (live, found), self._evaluation = self._evaluation, None
        evaluation = found()
        fine = np.isfinite(evaluation.loss)
        for results, values in zip(self.results, evaluation, strict=True):
            results[self.round - 1, live[fine]] = values[fine]
        self.diverged[live] = ~fine
        self.undelivered.drop(np.broadcast_to(self.diverged[:, None], self.undelivered.slots.shape))

    def curves(self, *, weights: bool = False) -> list[Curves]:
        """One Curves per scheduler, instances in the order of the runs; with ``weights`` also the central models."""
        self.collect_evaluation()
        settings = {**asdict(self.settings), **self.task.numbers, **self._evaluator.images_used}
        state = {}
        if weights:
            state = {k: p.cpu().numpy() for k, p in (self.layout.views(self.central.w) | self.central.rest).items()}
        out = []
        for label in dict.fromkeys(run.label for run in self.runs):
            mine = [r for r, run in enumerate(self.runs) if run.label == label]
            results = {k: array[: self.round, mine] for k, array in self.results._asdict().items()}
            models = tuple({k: array[r].copy() for k, array in state.items()} for r in mine if weights)
            metric = {"metric_name": self.task.metric.name, "better": self.task.metric.better}
            out.append(Curves(label, settings=settings, weights=models, **results, **metric))
        return out
