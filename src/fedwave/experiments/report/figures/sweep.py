"""The figure of a sweep: one metric of every scheduler against the thing that was varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, is_number
from fedwave.experiments.analysis import randomness
from fedwave.experiments.analysis.labels import axis_label, burn_in_note, sentences, title_at, where_text
from fedwave.experiments.analysis.statistics import Band, per_instance
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import Point, metric_title, scheduler_labels
from fedwave.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = 20  # values that span more than this factor are drawn on a logarithmic axis
_FAR = 3  # quartile distances from the middle half of the means to the end of the frame
_LETTERS = 70  # that fit under the figure side by side
_DODGE = 0.7  # how much of a category's width its points take


def sweep_figure(points: Sequence[Point], axis: str, metric: str) -> Figure:
    """A metric of every scheduler against an axis of the sweep; the points differ in that axis alone."""
    bands: dict[str, Band] = {}
    values = [per_instance(point.data, metric, point.experiment.burn_in) for point in points]
    for number, label in enumerate(scheduler_labels(points[0].data)):
        found = [
            # An instance that diverged is left out.
            randomness.Randomness.of(point.data).estimate(own[number][np.isfinite(own[number])], metric, label)
            for point, own in zip(points, values, strict=True)
        ]
        bands[label] = np.array([e.mean for e in found]), np.array([e.half_width for e in found])
    rest = {name: value for name, value in points[0].where.items() if name != axis}
    heads = title_at(rest, *(point.data for point in points))
    places = [point.where[axis] for point in points]
    at = [where_text({axis: value}) for value in places]
    text = sentences(
        randomness.caption("Bands", *(point.data for point in points)),
        "Instances without a finite number are left out." if _some_missing(values) else "",
        randomness.notes([burn_in_note(point.experiment.burn_in) for point in points], at),
        randomness.notes([randomness.Randomness.of(point.data).note for point in points], at),
    )
    return bands_figure(
        axis_label(axis),
        places,
        bands,
        metric_title(points[0].data, metric),
        text,
        heads,
        common.floor_of(np.concatenate([v.ravel() for v in values])),
    )


def _some_missing(values: Sequence[FloatArray]) -> bool:
    return any(not np.isfinite(own).all() for own in values)


def bands_figure(
    axis_name: str,
    axis_values: Sequence[Any],
    series: Mapping[str, Band],
    metric_label: str,
    caption: str,
    title: str = "",
    floor: float | None = None,
) -> Figure:
    """Mean and 95 % band of every scheduler, each ``[len(axis_values)]``, against the values of the axis.

    Values that are not all numbers are drawn as categories, side by side. A mean that is not finite leaves
    a gap, such a half-width a line without a band. No band goes below ``floor``.
    """
    bands = _checked(axis_values, series)
    # One value makes no line: then points with error bars, as for categories.
    numeric = len(axis_values) > 1 and all(_is_plain_number(value) for value in axis_values)
    figure, (axes,) = common.figure_with(1, 1, (9, 5.2))
    looks = common.styles(list(series))
    for number, (label, band) in enumerate(bands.items()):
        look = {**looks[label], "ms": 4.5, "label": common.name_of(label)}
        if numeric:
            numbers = np.asarray(axis_values, dtype=np.float64)
            _draw_line(axes, numbers, band, look, floor, common.haze(len(bands)))
        else:
            shift = _DODGE * ((number + 0.5) / len(bands) - 0.5)
            _draw_points(axes, np.arange(float(len(axis_values))) + shift, band, look, floor)
    if numeric:
        _scale_numbers(axes, np.asarray(axis_values, dtype=np.float64))
    else:
        _name_categories(axes, axis_values)
    note = _frame(axes, bands, floor)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xlabel(axis_name)
    axes.set_ylabel(metric_label)
    axes.grid(axis="both" if numeric else "y", alpha=0.3, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False, fontsize=9, handlelength=3.4)
    lines = "\n".join(filter(None, (caption, note)))
    figure.supxlabel(common.wrapped(lines, figure.get_figwidth()), fontsize=8, color="0.35")
    return figure


def _checked(axis_values: Sequence[Any], series: Mapping[str, Band]) -> dict[str, Band]:
    """The bands as arrays, from the largest mean to the smallest: the legend reads like the figure."""
    if not series or not len(axis_values):
        raise FedwaveError("a sweep without schedulers or without values cannot be drawn.")
    bands = {}
    for label, (mean, half) in series.items():
        parts = [np.asarray(part, dtype=np.float64) for part in (mean, half)]
        for part in parts:
            if part.shape != (len(axis_values),):
                raise FedwaveError(
                    f"{label!r} has an array of the shape {part.shape}, must have one number for each "
                    f"of the {len(axis_values)} values of the axis."
                )
        mean, half = (np.where(np.isfinite(part), part, np.nan) for part in parts)
        bands[label] = mean, half
    return dict(sorted(bands.items(), key=lambda item: -_height(item[1][0])))


def _height(mean: FloatArray) -> float:
    there = mean[~np.isnan(mean)]
    return float(there.mean()) if there.size else -np.inf


def _is_plain_number(value: Any) -> bool:
    return is_number(value) and not isinstance(value, (bool, np.bool_))


def _draw_line(
    axes: Axes, places: FloatArray, band: Band, look: Mapping[str, Any], floor: float | None, alpha: float
) -> None:
    order = np.argsort(places, kind="stable")
    places, mean, half = places[order], band[0][order], band[1][order]
    low = mean - half if floor is None else np.maximum(mean - half, floor)
    axes.fill_between(places, low, mean + half, color=look["color"], alpha=alpha, lw=0)
    axes.plot(places, mean, lw=1.3, **look)


def _draw_points(axes: Axes, places: FloatArray, band: Band, look: Mapping[str, Any], floor: float | None) -> None:
    plain = {**look, "linestyle": "none"}
    ends = common.errors(*band, floor)
    axes.errorbar(places, band[0], ends, elinewidth=1, capsize=2, **plain)


def _scale_numbers(axes: Axes, values: FloatArray) -> None:
    low, high = values.min(), values.max()
    if low > 0 and high > _WIDE * low:
        axes.set_xscale("log")
        common.plain_numbers(axes.xaxis)
        distinct = np.unique(values)
        if (distinct[1:] / distinct[:-1]).min() > (high / low) ** (1 / 16):
            axes.set_xticks(distinct)  # there is room to name every value that was tried
            axes.set_xticks([], minor=True)
    elif (values == np.round(values)).all():
        common.whole_numbers(axes.xaxis)


def _name_categories(axes: Axes, values: Sequence[Any]) -> None:
    texts = [str(value) for value in values]
    common.name_ticks(axes.xaxis, texts)
    if max(map(len, texts)) * len(texts) > _LETTERS:
        axes.tick_params(axis="x", labelrotation=20)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(values) - 0.5)
    for between in range(len(values) - 1):
        axes.axvline(between + 0.5, color="0.85", lw=0.6, zorder=0)


def _frame(axes: Axes, bands: Mapping[str, Band], floor: float | None) -> str:
    """Scales the metric so that a collapsing scheduler does not flatten the others; returns a sentence on it."""
    means = {label: mean[~np.isnan(mean)] for label, (mean, _) in bands.items()}
    means = {label: mean for label, mean in means.items() if mean.size}
    if not means:
        return ""
    every = np.concatenate(list(means.values()))
    positive = every[every > 0]
    if positive.size and (every >= 0).all() and positive.max() > _WIDE * positive.min():
        axes.set_yscale("log")
        axes.set_ylim(positive.min() / 1.5, positive.max() * 1.5)
        common.plain_numbers(axes.yaxis)
        zero = [label for label, mean in means.items() if (mean == 0).any()]
        return common.listed("Zero, which a logarithmic scale cannot show", zero)
    quarter, most = np.quantile(every, [0.25, 0.75])
    low, high = quarter - _FAR * (most - quarter), most + _FAR * (most - quarter)
    near = [label for label, mean in means.items() if ((mean >= low) & (mean <= high)).all()]
    if 2 * len(near) <= len(means) or len(near) == len(means):
        return ""  # where half of them go far, that is what the figure is about
    ends = [mean + side * np.nan_to_num(half) for mean, half in (bands[k] for k in near) for side in (-1, 1)]
    kept = np.clip(np.concatenate(ends), low, high)
    margin = 0.05 * (np.nanmax(kept) - np.nanmin(kept)) or 1.0
    bottom = np.nanmin(kept) if floor is None else max(np.nanmin(kept), floor)
    axes.set_ylim(bottom - margin, np.nanmax(kept) + margin)
    return common.listed("Partly or wholly beyond the frame", [k for k in means if k not in near])
