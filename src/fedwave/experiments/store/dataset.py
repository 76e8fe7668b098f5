"""The one container of results, from the worker to the figure: an xarray Dataset.

    score, backlog, ...       [scheduler, instance, round]         every series of the traces
    loss, accuracy, ...       [scheduler, instance, round]         if a task was trained; or the task's own metric
    class_accuracy            [scheduler, instance, round, class]
    device_uploads, ...       [scheduler, instance, device]        totals over the rounds
    device_share              [scheduler, instance, device]        of its own shards, how many it delivered

A unit of work, a point of a sweep and a whole sweep have the same form; the axes of a sweep stand in front. The
attributes of a variable describe its metric, so that results can be read without the code that declared it:
``long_name`` (for people), ``over_rounds`` (how the rounds of an instance become one number) and ``better``. The
attributes of the Dataset record its origin: ``slots``, ``gamma``, ``seed``; ``chance`` and ``own_draws``
(analysis/randomness.py); ``test_images`` and ``loss_images`` that were used. Devices are labelled by their names, or by
numbers; in a sweep over tables with devices of different names, by numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.metrics import describe, training_metrics
from fedwave.trace import Trace
from fedwave.types import Array

if TYPE_CHECKING:
    import xarray as xr

    from fedwave.learning.curves import Curves

_Variables = dict[str, tuple[tuple[str, ...], Array, Mapping[str, str]]]
_RUN = ("scheduler", "instance")
_BY_DEVICE = {"long_name": "Share of its shards delivered", "over_rounds": "last", "better": "higher"}
_BY_CLASS = {"long_name": "Accuracy on test images of the class", "over_rounds": "last", "better": "higher"}


@dataclass(frozen=True)
class Point:
    """One point of a sweep (the only one where nothing is swept) and its results."""

    where: dict[str, Any]
    experiment: Experiment
    data: xr.Dataset


@dataclass(frozen=True)
class Results:
    """A finished experiment."""

    experiment: Experiment  # resolved
    points: list[Point]

    @property
    def only(self) -> Point:
        """The single point of an experiment that sweeps nothing."""
        if len(self.points) != 1:
            raise FedwaveError(f"this experiment has {len(self.points)} points, not one: look at each of `points`.")
        return self.points[0]


def unit_dataset(traces: Mapping[str, Trace], curves: Mapping[str, Curves] | None = None) -> xr.Dataset:
    """The Dataset of one unit: traces by scheduler, with curves if it was trained."""
    import xarray as xr

    parts = [_variables(traces[label], curves[label] if curves else None) for label in traces]
    first = next(iter(traces.values()))
    data = {
        name: ((*_RUN, *dims), np.stack([part[name][1] for part in parts]), about)
        for name, (dims, _, about) in parts[0].items()
    }
    coordinates: dict[str, Any] = {"scheduler": list(traces), "instance": list(first.instance_numbers)}
    if first.device_names:
        coordinates["device"] = list(first.device_names)
    return with_counts(xr.Dataset(data, coords=coordinates, attrs=_made_with(traces, curves)))


def _made_with(traces: Mapping[str, Trace], curves: Mapping[str, Curves] | None) -> dict[str, Any]:
    """The attributes that tables and figures state about a run: texts and numbers, which every file format holds."""
    first = next(iter(traces.values()))
    slots: Any = first.network.slots
    if not isinstance(slots, int):
        slots = min(slots) if min(slots) == max(slots) else f"{min(slots)} to {max(slots)}"
    # Training and labels are random too.
    random = {
        label: one.scheduler.random or {"learner", "labels"} & {*one.scheduler.needs} for label, one in traces.items()
    }
    drawing = [label for label in random if random[label]]
    about: dict[str, Any] = {"slots": str(slots), "gamma": float(first.network.gamma)}
    about |= {"seed": str(first.seed), "own_draws": json.dumps(drawing), "chance": ",".join(first.network.random_parts)}
    learnt = next(iter(curves.values())) if curves else None
    used = learnt.settings if learnt else {}
    if learnt and learnt.metric_name != "accuracy":
        about["task_metric"] = learnt.metric_name
    return about | {k: int(used[k]) for k in ("test_images", "loss_images") if k in used}


def with_counts(data: xr.Dataset) -> xr.Dataset:
    """The Dataset with numbers for rounds and unnamed devices (from 1) and classes (from 0)."""
    starts = {"round": 1, "device": 1, "class": 0}
    there = {k: n for k, n in starts.items() if k in data.sizes and k not in data.coords}
    return data.assign_coords({k: np.arange(n, n + data.sizes[k]) for k, n in there.items()})


def _variables(trace: Trace, curves: Curves | None) -> _Variables:
    """The dimensions after scheduler and instance, the values and the attributes of every variable."""
    found: _Variables = {name: (("round",), rows.T, _about(name, trace.metrics)) for name, rows in trace.series.items()}
    found |= {name: (("device",), values, _about(name, trace.metrics)) for name, values in trace.totals.items()}
    end = trace.final
    arrived = end.learned + end.waiting + end.lost
    # A device without any shard has nothing to deliver.
    share = np.divide(end.learned, arrived, out=np.ones(arrived.shape), where=arrived > 0)
    found["device_share"] = (("device",), share, _BY_DEVICE)
    if curves is not None:
        learnt = training_metrics(curves.metric_name, curves.better)
        found |= {name: (("round",), values.T, _about(name, learnt)) for name, values in curves.series.items()}
        if curves.metric_name == "accuracy":
            found["class_accuracy"] = (("round", "class"), curves.class_accuracy.swapaxes(0, 1), _BY_CLASS)
    return found


def _about(name: str, known: Mapping[str, Any]) -> dict[str, str]:
    one = known.get(name) or describe(name)
    about = {"long_name": one.label, "over_rounds": one.over_rounds, "better": one.better}
    return {key: value for key, value in about.items() if value}


def join_units(parts: Iterable[xr.Dataset], schedulers: Sequence[str], instances: Iterable[int]) -> xr.Dataset:
    """Joins blocks of schedulers and instances, given in any order. The result has the schedulers in the given order.

    Consumes the parts one at a time; a generator never holds two in memory.
    """
    import xarray as xr

    numbers, whole, drawing = sorted(set(instances)), None, set()
    for part in parts:
        form = {str(name): (v.dims, v.shape[2:]) for name, v in part.data_vars.items()}
        if whole is None:
            arrays = {
                name: np.zeros((len(schedulers), len(numbers), *form[name][1]), part[name].dtype) for name in form
            }
            data = {name: (form[name][0], array, part[name].attrs) for name, array in arrays.items()}
            coordinates = {**part.coords, "scheduler": list(schedulers), "instance": numbers}
            whole, first_form = xr.Dataset(data, coords=coordinates, attrs=part.attrs), form
        elif form != first_form:
            raise FedwaveError(
                "the units of a run have different metrics or numbers of devices: a table is from another run; "
                "`fedwave verify` names it."
            )
        rows = np.array([schedulers.index(label) for label in scheduler_labels(part)])
        place = np.ix_(rows, np.searchsorted(numbers, part["instance"].values))
        for name, array in arrays.items():
            array[place] = part[name].values
        drawing.update(json.loads(part.attrs.get("own_draws", "[]")))
    assert whole is not None
    if "own_draws" in whole.attrs:
        whole.attrs["own_draws"] = json.dumps([label for label in schedulers if label in drawing])
    return whole


def join_points(axes: Mapping[str, Sequence[Any]], points: Sequence[xr.Dataset]) -> xr.Dataset:
    """Joins the points of a sweep; the last axis runs fastest. Shorter or smaller points are filled up with NaN.

    Devices are aligned by name. Where the points have devices of different names, they are numbered in the order of
    each point's own table; `point.data` of Results keeps the names.
    """
    import xarray as xr

    points = _with_devices_alike(points)
    first = points[0]
    places = {dim: max((p.variables[dim].values for p in points), key=len) for dim in first.dims}
    data = {}
    for name, variable in first.data_vars.items():
        shape = tuple(len(places[dim]) for dim in variable.dims)
        alike = all(point.variables[name].shape == shape for point in points)
        if len(points) == 1:  # no copy of what may be gigabytes
            whole = variable.values[None]
        else:
            fill: Any = variable.dtype.type(0) if alike else np.nan
            whole = np.full((len(points), *shape), fill)
            for place, point in zip(whole, points, strict=True):
                values = point.variables[name].values
                place[tuple(map(slice, values.shape))] = values
        whole = whole.reshape(*(len(values) for values in axes.values()), *shape)
        data[name] = ((*axes, *variable.dims), whole, variable.attrs)
    same = {key: value for key, value in first.attrs.items() if all(point.attrs.get(key) == value for point in points)}
    return xr.Dataset(data, coords={**axes, **places}, attrs=same)


def _with_devices_alike(points: Sequence[xr.Dataset]) -> list[xr.Dataset]:
    names = [list(point["device"].values) if "device" in point.dims else [] for point in points]
    if all(one == names[0] for one in names):
        return list(points)
    if all(set(one) == set(names[0]) and len(one) == len(names[0]) for one in names):
        return [point.sel(device=names[0]) for point in points]
    return [with_counts(point.drop_vars("device", errors="ignore")) for point in points]


def scheduler_labels(data: xr.Dataset) -> list[str]:
    """The schedulers."""
    return [str(label) for label in data["scheduler"].values]


def metrics_of(data: xr.Dataset) -> list[str]:
    """The metrics with one number per round."""
    return [str(name) for name, variable in data.data_vars.items() if variable.dims[-1] == "round"]


def task_metric(data: xr.Dataset) -> str:
    """The name of what trained models were tested by."""
    return str(data.attrs.get("task_metric", "accuracy"))


def long_name(data: xr.Dataset, metric: str) -> str:
    """The name of a metric for people."""
    return str(data[metric].attrs.get("long_name", metric))


def series(data: xr.Dataset, scheduler: str, metric: str) -> Array:
    """A metric of one scheduler ``[T, I]``, laid out like its trace: sums are the same to the last digit."""
    values = data[metric].sel(scheduler=scheduler).transpose("round", "instance", ...).values
    return np.ascontiguousarray(values)


def curves_of(data: xr.Dataset, scheduler: str) -> Curves:
    """The training of one scheduler as Curves."""
    from fedwave.learning.curves import Curves

    metric = task_metric(data)
    loss, found, on_all = (series(data, scheduler, name) for name in ("loss", metric, f"{metric}_on_all"))
    by_class = series(data, scheduler, "class_accuracy") if metric == "accuracy" else np.empty((*loss.shape, 0))
    better = str(data[metric].attrs.get("better", ""))
    return Curves(scheduler, loss, found, by_class, {}, on_all, metric_name=metric, better=better)
