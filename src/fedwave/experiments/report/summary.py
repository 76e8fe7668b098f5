"""Summarises results: comparisons, tables and numbers, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fedwave.experiments.analysis.captions import burn_in_note, field_name, is_synthetic, point_name, sentences, title
from fedwave.experiments.analysis.randomness import Randomness, notes
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.report.comparison import Comparison, Table
from fedwave.experiments.store.dataset import Point, Results, scheduler_labels
from fedwave.network.network import Network
from fedwave.version import __version__

if TYPE_CHECKING:
    import xarray as xr

_HALF_WIDTH = "±: half-width of the 95 % interval over instances."


def comparison_of(point: Point, network: Network | None = None, remark: str = "") -> Comparison:
    """Compares the schedulers of a point as its experiment says, with the bound of the network if it is given."""
    how = point.experiment
    base, rival = how.base, how.against
    return Comparison.of(point.data, base, how.burn_in, how.metric, rival=rival, network=network, remark=remark)


def summary(results: Results, compared: Callable[[Point], Comparison] = comparison_of) -> dict[str, Any]:
    """The numbers of an experiment for machines; those of a sweep under ``points``, each with its place."""
    how = results.experiment
    about = {
        "fedwave": __version__,
        "name": how.name,
        "rounds": how.rounds,
        "instances": how.instances,
        "first_instance": how.first_instance,
        "seed": how.seed,
        "metric": how.metric,
        "experiment": to_mapping(how),
    }
    if not how.sweep:
        return about | _numbers(results.only, compared)
    points = [{"where": _plain(point.where), **_numbers(point, compared)} for point in results.points]
    return about | {"points": points}


def _numbers(point: Point, compared: Callable[[Point], Comparison]) -> dict[str, Any]:
    found = compared(point)
    learnt = {} if point.experiment.task is None else learnt_json(point)
    worst = {k: {"device": d, "share": s} for k, (d, s) in worst_devices(point.data).items()}
    # Titles and captions of figures state these (a compact export is drawn with them).
    made_with = {**point.data.attrs, "devices": int(point.data.sizes["device"])}
    about = {**found.about(), "made_with": made_with}
    return {**about, "schedulers": found.to_json(), "worst_devices": worst, **learnt}


def _plain(where: dict[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, (bool, int, float, str)) else str(v) for k, v in where.items()}


def learnt_json(point: Point) -> dict[str, Any]:
    """The additional numbers of a learning experiment."""
    data = point.data
    more: dict[str, Any] = {}
    if "class_accuracy" in data:
        by_class = data["class_accuracy"].isel(round=-1).mean("instance").round(6).values.tolist()
        more["class_accuracy"] = dict(zip(scheduler_labels(data), by_class, strict=True))
    uploads: list[Any] = data["device_uploads"].mean("instance").values.tolist()
    if data["device"].dtype.kind in "UO":  # the devices have names
        uploads = [dict(zip(data["device"].values.tolist(), means, strict=True)) for means in uploads]
    return {
        "synthetic": is_synthetic(point.experiment),
        **more,
        "uploads_per_device": dict(zip(scheduler_labels(data), uploads, strict=True)),
    }


def worst_devices(data: xr.Dataset) -> dict[str, tuple[str, float]]:
    """The device that delivers the least share of its shards over all instances, and that share, by scheduler."""
    if "device_share" not in data:
        return {}
    shares = data["device_share"].mean("instance")
    found = {}
    for label in scheduler_labels(data):
        own = shares.sel(scheduler=label)
        place = int(own.argmin("device"))
        found[label] = (str(own["device"].values[place]), float(own.values[place]))
    return found


def title_of(results: Results, name: str | None = None) -> str:
    """The title of a run: its name, and U, W, gamma, rounds, instances and seed where they do not vary."""
    return f"{name or results.experiment.name}: {title(*(p.data for p in results.points))}"


def full_table(results: Results, paired: bool = False) -> Table:
    """The scheduler, the point's place on every axis, and the mean of every metric that all points have.

    Or the paired differences from the base, without rows of the base.
    """
    compared = [(point, comparison_of(point)) for point in results.points]
    first = compared[0][1]
    axes = map(field_name, results.experiment.sweep)
    names = [name for name in first.metrics if all(name in found.values for _, found in compared)]
    heading = [f"vs {first.base}" if paired else "Scheduler", *axes, *(first.long_names[name] for name in names)]
    rows = [
        [found.name(label), *map(str, point.where.values()), *found.cells(label, names, paired)]
        for point, found in compared
        for label in found.ranking
        if not (paired and label == found.base)
    ]
    return heading, rows


def note_of(results: Results) -> str:
    """The note below a table: intervals and burn-in of all points."""
    points = results.points
    places = [point_name(point.where) for point in points]
    burn_in = notes([burn_in_note(point.experiment.burn_in) for point in points], places)
    randomness = notes([Randomness.of(point.data).note for point in points], places)
    return sentences(burn_in, randomness, worst_note(points[0].data) if len(points) == 1 else "")


def worst_note(data: xr.Dataset) -> str:
    """A sentence that names them, where devices have names."""
    if "device" not in data.coords or data["device"].dtype.kind not in "UO":
        return ""
    worst = (f"{k} {name} ({100 * share:.0f}%)" for k, (name, share) in worst_devices(data).items())
    return f"Device with the least share delivered, on average over instances: {', '.join(worst)}."


def interval_note(*found: Comparison, metrics: Sequence[str] = ()) -> str:
    """Explains ± and (n of N) where they occur in a table of these metrics, or of all."""
    left_out = next(filter(None, (one.left_out(*metrics) for one in found)), "")
    return sentences(_HALF_WIDTH if any(one.has_intervals for one in found) else "", left_out)
