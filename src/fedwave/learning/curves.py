"""Loss and metric of every round; arrays ``[T, I]``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedwave.errors import FedwaveError, as_int, extra_for, plural
from fedwave.files.archive import load_archive, refusing, save_archive, split
from fedwave.files.reading import as_path
from fedwave.files.writing import write_whole
from fedwave.types import Array, BoolArray, FloatArray, IntArray

_FORMAT = "file of curves 3"

# A spike: training loss above 1.2 times the median of the ten rounds before.
_SPIKE, _WINDOW = 1.2, 10


class Evaluation(NamedTuple):
    """Loss and metric of N central models after a round, ``[N, ...]``, or after every round, ``[T, N, ...]``."""

    loss: FloatArray  # on the training samples
    metric: FloatArray  # of the task, such as the accuracy, on the test samples of every round
    class_accuracy: FloatArray  # [..., C]; NaN for a class without test samples; C is 0 with another metric
    metric_on_all: FloatArray  # on all test samples; NaN where not measured


class _NotMeasured(FedwaveError, AttributeError):
    """A metric was read that the task does not have."""


@dataclass(frozen=True, eq=False, repr=False)
class Curves:
    """Loss and metric of one scheduler, after every round: what ``fw.train`` returns.

    The metric is also an attribute under its own name: ``curves.accuracy``, or ``curves.mae``. Row t - 1 of an array
    ``[T, I]`` is round t, and a column is an instance. An instance that diverged (its loss is not finite) is NaN from
    that round on.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> curves = fw.Curves("age", np.array([[2.0], [1.5]]), np.array([[0.4], [0.6]]), np.zeros((2, 1, 10)), {},
    ...                 np.full((2, 1), np.nan))
    >>> curves.rounds_to(0.5, in_a_row=1), curves.reaches(0.5)
    (array([2.]), array([ True]))
    """

    label: str  # the scheduler
    loss: FloatArray  # [T, I] training loss of the central model
    metric: FloatArray  # [T, I] on the test samples
    class_accuracy: FloatArray  # [T, I, C]; NaN for a class without test samples; C is 0 with another metric
    settings: Mapping[str, Any]  # how it was trained, for captions and reproduction
    metric_on_all: FloatArray  # [T, I] on all test samples; NaN in rounds where it was not measured
    weights: tuple[Mapping[str, Array], ...] = ()  # of the central model after the last round, by instance
    metric_name: str = "accuracy"
    better: str = "higher"  # which values of the metric are: "higher", "lower", or "" if it does not say

    def __getattr__(self, name: str) -> FloatArray:
        """The metric by its own name, such as ``accuracy``, and ``accuracy_on_all``."""
        own: str = self.__dict__.get("metric_name", "")
        if own and name in (own, f"{own}_on_all"):
            found: FloatArray = self.__dict__["metric" if name == own else "metric_on_all"]
            return found
        raise _NotMeasured(f"Curves have no attribute {name!r}; the metric of this task is {own!r}.")

    @property
    def worst_class(self) -> FloatArray:
        """The least accuracy of a class that has test images, ``[T, I]``; NaN once a run has diverged."""
        known = np.isfinite(self.class_accuracy)
        least: FloatArray = np.where(known, self.class_accuracy, np.inf).min(axis=2, initial=np.inf)
        return np.where(known.any(axis=2), least, np.nan)

    @property
    def series(self) -> dict[str, FloatArray]:
        """Every curve ``[T, I]`` by the name of its metric."""
        names = ["loss", self.metric_name, f"{self.metric_name}_on_all"]
        return {name: getattr(self, name) for name in [*names, *["worst_class"] * (self.metric_name == "accuracy")]}

    def __repr__(self) -> str:
        rounds, instances = self.loss.shape
        lost = np.count_nonzero(self.diverged)
        last = {name: values[-1][np.isfinite(values[-1])] for name, values in self.series.items() if rounds}
        means = ", ".join(f"{k} {v.mean():.4g}" for k, v in last.items() if v.size)
        return (
            f"Curves {self.label!r}: {plural(rounds, 'round')}, {plural(instances, 'instance')}, {lost} diverged\n"
            f"  mean after the last round: {means or 'none'}"
        )

    def plot(self) -> Any:
        """The training loss and the metric: a matplotlib Figure."""
        # By name: figures belong to the experiments, which are built on top of this.
        figures = import_module("fedwave.experiments.report.figures.learning")
        return figures.training_figure(self)

    def save(self, path: str | Path) -> Path:
        """Write the curves, and the weights if there are any, to ``path`` (.npz): plain arrays, no pickle."""
        arrays = {name: getattr(self, name) for name in Evaluation._fields}
        weights = {f"{i}/{name}": array for i, model in enumerate(self.weights) for name, array in model.items()}
        settings = json.loads(json.dumps(dict(self.settings), default=str))
        header = {"label": self.label, "settings": settings, "metric": self.metric_name, "better": self.better}
        return save_archive(path, "curves", _FORMAT, header, {"": arrays, "weights": weights})

    def save_weights(self, path: str | Path, instance: int = 0) -> Path:
        """Write the final weights of one instance, a column of the curves, to ``path`` (.safetensors).

        The names are those of the model's ``state_dict``. ``task.trained_model(safetensors.torch.load_file(path))``
        has them again.
        """
        path = as_path("the file for weights", path)
        if path.suffix != ".safetensors":
            raise FedwaveError(f"weights are saved as a .safetensors file, not {path.name!r}.")
        if not self.weights:
            raise FedwaveError("these curves hold no weights: save those that fw.train returned.")
        which = as_int("instance", instance, 0, len(self.weights) - 1)
        with extra_for("saving weights"):
            from safetensors.numpy import save
        arrays = {name: np.ascontiguousarray(values) for name, values in self.weights[which].items()}
        content = save(arrays, {"scheduler": self.label, "instance": str(which)})
        return write_whole(path, lambda file: file.write(content))

    @classmethod
    def load(cls, path: str | Path) -> Curves:
        """Read curves that ``save`` wrote."""
        header, groups = load_archive(path, "curves", _FORMAT)
        with refusing(str(path), _FORMAT):
            models = split(groups.pop("weights", {}))
            arrays = groups.pop("")
            if groups:
                raise ValueError(f"it has arrays of other groups: {', '.join(groups)}")
            weights = tuple(models[str(i)] for i in range(len(models)))
            named: Mapping[str, Any] = {"metric_name": header["metric"], "better": header["better"], **arrays}
            curves = cls(header["label"], settings=header["settings"], weights=weights, **named)
            curves._check()
            return curves

    def _check(self) -> None:
        """Raise ValueError unless the arrays fit each other."""
        shape = self.loss.shape
        if len(shape) != 2 or not self.loss.size:
            raise ValueError(f"its loss has shape {shape}, must be [round, instance]")
        for name in Evaluation._fields:
            array = getattr(self, name)
            axes = array.ndim == (3 if name == "class_accuracy" else 2) and array.shape[:2] == shape
            if not axes or array.dtype.kind != "f":
                raise ValueError(f"its {name} is {array.dtype} of shape {array.shape}")
        if len(self.weights) not in (0, shape[1]):
            raise ValueError(f"it has weights of {len(self.weights)} models for {shape[1]} instances")

    @property
    def diverged(self) -> IntArray:
        """The round in which each instance diverged, ``[I]``; 0 for an instance that did not."""
        bad = ~np.isfinite(self.loss)
        first: IntArray = np.where(bad.any(axis=0), bad.argmax(axis=0) + 1, 0)
        return first

    def spikes(self) -> FloatArray:
        """The number of rounds of each instance whose loss was a spike, ``[I]``.

        A spike is a loss above 1.2 times the median of the ten rounds before. NaN (not measured) for an instance that
        diverged, and with ten rounds or fewer.
        """
        if len(self.loss) <= _WINDOW:
            return np.full(self.loss.shape[1], np.nan)
        count = np.where(self.diverged > 0, np.nan, 0.0)
        for t in range(_WINDOW, self.loss.shape[0]):
            count += self.loss[t] > _SPIKE * np.median(self.loss[t - _WINDOW : t], axis=0)
        return count

    def reaches(self, target: float) -> BoolArray:
        """Whether the final metric is better than the target, ``[I]``; False for an instance that diverged."""
        final: BoolArray = self._beats(target)[-1]
        return final

    def rounds_to(self, target: float, in_a_row: int = 3) -> FloatArray:
        """The first of ``in_a_row`` rounds with a metric better than the target, ``[I]``; inf if there is none."""
        above = self._beats(target)
        out = np.full(above.shape[1], np.inf)
        for t in reversed(range(above.shape[0] - in_a_row + 1)):
            out[above[t : t + in_a_row].all(axis=0)] = t + 1
        return out

    def _beats(self, target: float) -> BoolArray:
        """Where the metric is better than the target, ``[T, I]``; higher is better unless it says otherwise."""
        lower = self.better == "lower"
        beats: BoolArray = np.less(self.metric, target) if lower else np.greater(self.metric, target)
        return beats  # False for NaN
