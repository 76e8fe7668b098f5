"""The figure of a sweep: one metric of every scheduler against the thing that was varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError, is_number
from fedwave.experiments.report.figures.common import figure_with, listed, name_of, style_of
from fedwave.experiments.results.container import Point, label_of, labels
from fedwave.experiments.results.statistics import Band, estimate, per_instance
from fedwave.schedulers.base import scheduler_names as names
from fedwave.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_WIDE = 20  # values that span more than this factor are drawn on a logarithmic axis
_FAR = 3  # quartile distances from the middle half of the means to the end of the frame
_MARKERS = "os^DvPX<>*phd"
_LETTERS = 70  # that fit under the figure side by side
_DODGE = 0.7  # how much of a category's width its points take


def sweep_figure(points: Sequence[Point], axis: str, metric: str) -> Figure:
    """A metric of every scheduler against an axis of the sweep; the points differ in that axis alone."""
    bands: dict[str, Band] = {}
    values = [per_instance(point.data, metric, point.experiment.burn_in) for point in points]
    for place, label in enumerate(labels(points[0].data)):
        own = [value[place] for value in values]
        found = [
            estimate(value[np.isfinite(value)]) for value in own
        ]  # one that diverged is left out
        bands[label] = np.array([e.mean for e in found]), np.array([e.half_width for e in found])
    how, where = points[0].experiment, points[0].where
    rest = ", ".join(f"{k} = {v}" for k, v in where.items() if k != axis)
    caption = f"{rest + '; ' if rest else ''}{how.instances} instances, seed {how.seed}; bands: 95 % intervals."
    places = [point.where[axis] for point in points]
    return bands_figure(axis, places, bands, label_of(points[0].data, metric), caption)


def bands_figure(
    axis_name: str,
    axis_values: Sequence[Any],
    series: Mapping[str, Band],
    metric_label: str,
    caption: str,
) -> Figure:
    """Mean and 95 % band of every scheduler, each ``[len(axis_values)]``, against the values of the axis.

    Values that are not all numbers are drawn as categories, side by side. A mean that is not finite leaves
    a gap, such a half-width a line without a band.
    """
    bands = _checked(axis_values, series)
    # One value makes no line: then points with error bars, as for categories.
    numeric = len(axis_values) > 1 and all(_is_plain_number(value) for value in axis_values)
    figure, (axes,) = figure_with(1, 1, (9, 5.2))
    styles = _styles(list(bands))
    for place, (label, band) in enumerate(bands.items()):
        if numeric:
            _draw_line(axes, np.asarray(axis_values, dtype=np.float64), band, styles[label])
        else:
            shift = _DODGE * ((place + 0.5) / len(bands) - 0.5)
            _draw_points(axes, np.arange(float(len(axis_values))) + shift, band, styles[label])
    if numeric:
        _scale_numbers(axes, np.asarray(axis_values, dtype=np.float64))
    else:
        _name_categories(axes, axis_values)
    note = _frame(axes, bands)
    axes.set_xlabel(axis_name)
    axes.set_ylabel(metric_label)
    axes.grid(axis="both" if numeric else "y", alpha=0.3, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False, fontsize=9, handlelength=3.4)
    figure.supxlabel("\n".join(filter(None, (caption, note))), fontsize=8, color="0.35")
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


def _styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The usual style of every scheduler; one with parameters takes that of a scheduler that is not there."""
    spare = cycle([style_of(n) for n in reversed(names()) if n not in labels] or [style_of("")])
    chosen = {label: style_of(label) if label in names() else next(spare) for label in labels}
    marks = dict(zip(sorted(labels), cycle(_MARKERS), strict=False))
    return {
        label: {**style, "marker": marks[label], "ms": 4.5, "label": name_of(label)}
        for label, style in chosen.items()
    }


def _draw_line(axes: Axes, places: FloatArray, band: Band, style: Mapping[str, Any]) -> None:
    order = np.argsort(places, kind="stable")
    places, mean, half = places[order], band[0][order], band[1][order]
    axes.fill_between(places, mean - half, mean + half, color=style["color"], alpha=0.15, lw=0)
    axes.plot(places, mean, lw=1.3, **style)


def _draw_points(axes: Axes, places: FloatArray, band: Band, style: Mapping[str, Any]) -> None:
    plain = {**style, "linestyle": "none"}
    axes.errorbar(places, band[0], band[1], elinewidth=1, capsize=2, **plain)


def _scale_numbers(axes: Axes, values: FloatArray) -> None:
    from matplotlib.ticker import MaxNLocator

    low, high = values.min(), values.max()
    if low > 0 and high > _WIDE * low:
        axes.set_xscale("log")
        _plain_numbers(axes.xaxis, low, high)
        distinct = np.unique(values)
        if (distinct[1:] / distinct[:-1]).min() > (high / low) ** (1 / 16):
            axes.set_xticks(distinct)  # there is room to name every value that was tried
            axes.set_xticks([], minor=True)
    elif (values == np.round(values)).all():
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _name_categories(axes: Axes, values: Sequence[Any]) -> None:
    texts = [str(value) for value in values]
    axes.set_xticks(range(len(texts)), texts)
    if max(map(len, texts)) * len(texts) > _LETTERS:
        axes.tick_params(axis="x", labelrotation=20)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.5, len(values) - 0.5)
    for between in range(len(values) - 1):
        axes.axvline(between + 0.5, color="0.85", lw=0.6, zorder=0)


def _frame(axes: Axes, bands: Mapping[str, Band]) -> str:
    """Scale the metric so that a scheduler that collapses does not flatten the others; returns what to say."""
    means = {label: mean[~np.isnan(mean)] for label, (mean, _) in bands.items()}
    means = {label: mean for label, mean in means.items() if mean.size}
    if not means:
        return ""
    every = np.concatenate(list(means.values()))
    positive = every[every > 0]
    if positive.size and (every >= 0).all() and positive.max() > _WIDE * positive.min():
        axes.set_yscale("log")
        axes.set_ylim(positive.min() / 1.5, positive.max() * 1.5)
        _plain_numbers(axes.yaxis, positive.min(), positive.max())
        zero = [label for label, mean in means.items() if (mean == 0).any()]
        return listed("Zero, which a logarithmic scale cannot show", zero)
    quarter, most = np.quantile(every, [0.25, 0.75])
    low, high = quarter - _FAR * (most - quarter), most + _FAR * (most - quarter)
    near = [label for label, mean in means.items() if ((mean >= low) & (mean <= high)).all()]
    if 2 * len(near) <= len(means) or len(near) == len(means):
        return ""  # where half of them go far, that is what the figure is about
    ends = [
        mean + side * np.nan_to_num(half)
        for mean, half in (bands[k] for k in near)
        for side in (-1, 1)
    ]
    kept = np.clip(np.concatenate(ends), low, high)
    margin = 0.05 * (np.nanmax(kept) - np.nanmin(kept)) or 1.0
    axes.set_ylim(np.nanmin(kept) - margin, np.nanmax(kept) + margin)
    return listed("Partly or wholly beyond the frame", [k for k in means if k not in near])


def _plain_numbers(axis: Axis, low: float, high: float) -> None:
    """Label a logarithmic axis: 1, 2, 5, 10, ... where powers of ten alone would be too few."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axis.set_major_formatter(lambda value, _: f"{value:,g}")
