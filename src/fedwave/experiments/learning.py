"""`fedwave reproduce mnist|cifar10`: the paper's learning figures, on common worlds and common data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.experiments.comparison import Traces, compare, metrics
from fedwave.experiments.score import BASE
from fedwave.experiments.statistics import Estimate, estimate, paired_difference
from fedwave.experiments.training import Work, train_work
from fedwave.files import write_csv, write_json
from fedwave.network.network import Network
from fedwave.schedulers.base import Scheduler
from fedwave.types import FloatArray
from fedwave.version import __version__

if TYPE_CHECKING:
    from fedwave.learning.curves import Curves
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.replay import Settings
    from fedwave.learning.task import Task
    from fedwave.trace import Trace


@dataclass(frozen=True)
class Preset:
    """The size of a learning experiment."""

    dataset: str
    rounds: int
    instances: int
    test_images: int  # of every round
    full_every: int  # rounds between evaluations on all test images; 0: never
    tolerance: float  # leave out local training that weighs less at its delivery
    targets: tuple[float, ...]  # accuracies of figure 5


_MNIST = tuple(round(0.70 + 0.05 * k, 2) for k in range(6))
_CIFAR = tuple(round(0.48 + 0.04 * k, 2) for k in range(7))
PRESETS = {
    # beta = 0.001: a gradient one round late weighs 1e-3, two rounds late 1e-6.
    ("mnist", "quick"): Preset("mnist", 25, 2, 2000, 0, 1e-3, _MNIST),
    ("mnist", "full"): Preset("mnist", 150, 50, 10_000, 0, 1e-6, _MNIST),
    ("cifar10", "quick"): Preset("cifar10", 3, 1, 2000, 0, 1e-3, _CIFAR),
    ("cifar10", "full"): Preset("cifar10", 400, 20, 2000, 10, 1e-3, _CIFAR),
}


@dataclass(frozen=True)
class Learned:
    """A finished learning experiment."""

    preset: Preset
    seed: int
    traces: Traces
    curves: Mapping[str, Curves]
    synthetic: bool  # the real data could not be had

    @property
    def base(self) -> str:
        """The scheduler that differences are taken from: ALSA-PI, or the first where it was not run."""
        return BASE if BASE in self.curves else next(iter(self.curves))

    @property
    def caption(self) -> str:
        p = self.preset
        images = f"{p.test_images:,} test images"
        text = f"{p.dataset}: {p.instances} instances, seed {self.seed}; accuracy on {images}, "
        text += "loss on 2,000 training images."
        warning = f"SYNTHETIC DATA, not {p.dataset}: the real files could not be had.\n"
        return (warning if self.synthetic else "") + text


def run_learning(
    preset: Preset,
    network: Network,
    schedulers: Mapping[str, Scheduler],
    task: Task,
    seed: int,
    settings: Mapping[str, Any],
    folder: Path,
    meter: Callable[[int], None] | None = None,
    workers: int = 1,
) -> Learned:
    """Simulate, then train; goes on from the checkpoints in ``folder`` if there are any."""
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.replay import Settings

    sizes = EvaluationSizes(2000, preset.test_images, preset.full_every)
    how = Settings(tolerance=preset.tolerance, **settings)
    blind = {label: s for label, s in schedulers.items() if "learner" not in s.needs}
    seeing = {label: s for label, s in schedulers.items() if "learner" in s.needs}
    traces, curves = _train_in_lock_step(preset, network, seeing, task, seed, how, sizes)
    if blind:
        traces |= compare(network, blind, preset.rounds, preset.instances, seed, record="full")
        instances = tuple(range(preset.instances))
        work = Work(network, blind, task, preset.rounds, instances, seed, how, sizes, folder)
        curves |= train_work(work, workers, meter or (lambda played: None))
    in_order = {label: curves[label] for label in schedulers}
    return Learned(preset, seed, traces, in_order, _is_stand_in(task, preset))


def _train_in_lock_step(
    preset: Preset, network: Network, schedulers: Mapping[str, Scheduler], task: Task, seed: int,
    how: Settings, sizes: EvaluationSizes,
) -> tuple[dict[str, Trace], dict[str, Curves]]:  # fmt: skip
    """Those that look at the models: simulated and trained together, one after another."""
    from fedwave.learning.lockstep import train_in_lock_step

    traces, curves = {}, {}
    for label, chosen in schedulers.items():
        traces[label], made = train_in_lock_step(
            network, chosen, task, preset.rounds, preset.instances, seed, sizes=sizes, **vars(how)
        )
        curves[label] = replace(made, label=label)
    return traces, curves


def _is_stand_in(task: Task, preset: Preset) -> bool:
    return task.dataset.name == "synthetic" != preset.dataset


@dataclass(frozen=True)
class LearningRow:
    """One scheduler of a learning experiment."""

    label: str
    accuracy: Estimate  # after the last round, over the instances that did not diverge
    difference: Estimate  # paired, from the base
    loss: Estimate
    spikes: float  # per instance
    diverged: int
    backlog: float
    delivered: float
    jain: float


def learning_table(learned: Learned) -> list[LearningRow]:
    """Accuracy beside what the schedule cost."""
    rows = []
    reference = learned.curves[learned.base].accuracy[-1]
    for label, curves in learned.curves.items():
        values = metrics(learned.traces[label])
        final = curves.accuracy[-1]
        both = np.isfinite(final) & np.isfinite(reference)
        rows.append(
            LearningRow(
                label,
                _estimate(final),
                _paired(final[both], reference[both]),
                _estimate(curves.loss[-1]),
                float(curves.spikes().mean()),
                int(np.count_nonzero(curves.diverged)),
                float(values["backlog"].mean()),
                float(values["delivered"].mean()),
                float(values["jain"].mean()),
            )
        )
    return rows


def write_learning(learned: Learned, folder: Path) -> tuple[list[LearningRow], list[Path]]:
    """Figures 3, 4 and 5, the curves as CSV and a summary."""
    from fedwave.experiments.figures import save_figure
    from fedwave.experiments.learning_figures import curves_figure, single_figure, targets_figure

    rows = learning_table(learned)
    paths = save_figure(curves_figure(learned), folder / "figure3")
    paths += save_figure(single_figure(learned), folder / "figure4")
    paths += save_figure(targets_figure(learned), folder / "figure5")
    paths.append(
        write_csv(
            folder / "curves.csv",
            ["scheduler", "instance", "round", "loss", "accuracy", "accuracy_on_all"],
            _curve_rows(learned),
        )
    )
    paths.append(write_json(folder / "summary.json", learning_json(learned, rows)))
    return rows, paths


def learning_json(learned: Learned, rows: list[LearningRow]) -> dict[str, Any]:
    """The summary for machines."""
    return {
        "fedwave": __version__,
        "seed": learned.seed,
        "preset": vars(learned.preset),
        "synthetic": learned.synthetic,
        "training": dict(next(iter(learned.curves.values())).settings),
        "schedulers": {
            row.label: {
                k: v if not isinstance(v, Estimate) else vars(v) for k, v in vars(row).items()
            }
            for row in rows
        },
        "class_accuracy": {
            label: _mean_of_numbers(curves.class_accuracy[-1]).round(6).tolist()
            for label, curves in learned.curves.items()
        },
        "uploads_per_device": {
            label: trace.uploads.mean(axis=0).tolist() for label, trace in learned.traces.items()
        },
    }


def _curve_rows(learned: Learned) -> list[list[Any]]:
    rows = []
    for label, curves in learned.curves.items():
        full = curves.accuracy * np.nan if curves.full_accuracy is None else curves.full_accuracy
        for i, instance in enumerate(learned.traces[label].provenance["instances"]):
            for t in range(curves.loss.shape[0]):
                values = (curves.loss[t, i], curves.accuracy[t, i], full[t, i])
                rows.append(
                    [label, instance, t + 1, *("" if np.isnan(v) else f"{v:.6g}" for v in values)]
                )
    return rows


def _mean_of_numbers(values: FloatArray) -> FloatArray:
    """Over the instances that have not diverged; NaN where all have."""
    count = np.isfinite(values).sum(axis=0)
    mean: FloatArray = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)
    return mean


def _estimate(values: Any) -> Estimate:
    good = values[np.isfinite(values)]
    return estimate(good) if good.size else Estimate(np.nan, np.nan, np.nan)


def _paired(values: Any, base: Any) -> Estimate:
    return paired_difference(values, base) if values.size else Estimate(np.nan, np.nan, np.nan)
