"""The figure of a sweep: one metric of every scheduler against the thing that was varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import is_number
from fedwave.experiments.analysis import randomness
from fedwave.experiments.analysis.captions import burn_in_note, field_name, point_name, sentences, title_at
from fedwave.experiments.analysis.statistics import Band, per_instance
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import Point, long_name, scheduler_labels
from fedwave.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = 20  # values that span more than this factor are drawn on a logarithmic axis
_FAR = 3  # quartile distances from the middle half of the means to the end of the frame
_LETTERS = 70  # that fit under the figure side by side


def sweep_figure(points: Sequence[Point], axis: str, metric: str) -> Figure:
    """A metric of every scheduler against an axis of the sweep; the points differ in that axis alone."""
    data = [point.data for point in points]
    values = [per_instance(point.data, metric, point.experiment.burn_in) for point in points]
    covered = [randomness.Randomness.of(one) for one in data]
    bands: dict[str, Band] = {}
    for number, label in enumerate(scheduler_labels(data[0])):
        found = [
            # An instance that diverged is left out.
            one.estimate(own[number][np.isfinite(own[number])], metric, label)
            for one, own in zip(covered, values, strict=True)
        ]
        bands[label] = np.array([e.mean for e in found]), np.array([e.half_width for e in found])
    every = np.concatenate([own.ravel() for own in values])
    places = [point.where[axis] for point in points]
    at = [point_name({axis: value}) for value in places]
    text = sentences(
        randomness.intervals_are("Bands", *data),
        "" if np.isfinite(every).all() else "Instances without a finite number are left out.",
        randomness.notes([burn_in_note(point.experiment.burn_in) for point in points], at),
        randomness.notes([one.note for one in covered], at),
    )
    rest = {name: value for name, value in points[0].where.items() if name != axis}
    names = title_at(rest, *data), field_name(axis), long_name(data[0], metric)
    return bands_figure(places, bands, names, text, common.floor_of(every))


def bands_figure(
    values: Sequence[Any],
    bands: Mapping[str, Band],
    names: tuple[str, str, str],
    caption: str,
    floor: float | None = None,
) -> Figure:
    """Mean and 95 % band of every scheduler, each ``[len(values)]``, against the values of the axis.

    ``names`` are the title and the names of the two axes. Values that are not all numbers are drawn as categories,
    side by side. A mean that is not finite leaves a gap, such a half-width a line without a band. No band goes below
    ``floor``.
    """
    finite = {k: (_or_nan(mean), _or_nan(half)) for k, (mean, half) in bands.items()}
    # From the largest mean to the smallest: the legend reads like the figure.
    bands = dict(sorted(finite.items(), key=lambda item: -_height(item[1][0])))
    # One value makes no line: then points with error bars, as for categories.
    numeric = len(values) > 1 and all(is_number(value) and not isinstance(value, (bool, np.bool_)) for value in values)
    x = np.array(values, dtype=np.float64) if numeric else np.arange(float(len(values)))
    order = np.argsort(x, kind="stable")
    figure, (axes,) = common.figure_with(1, 1, (9, 5.2))
    looks = common.styles(list(finite))
    for number, (label, (mean, half)) in enumerate(bands.items()):
        if numeric:
            band = mean[order], half[order]
            common.draw_band(axes, band, label, looks[label], len(bands), x[order], floor)
        else:
            places = common.dodged(x, number, len(bands))
            common.draw_bars(axes, places, (mean, half), looks[label], floor, label=common.name_of(label))
    common.label_panel(axes, "", *names[1:])
    axes.set_title(names[0], loc="left", fontsize=10, fontweight="bold")
    if numeric:
        _scale_numbers(axes, x)
    else:
        _name_categories(axes, [str(value) for value in values])
    note = _frame(axes, bands, floor)
    figure.legend(loc="outside right center", frameon=False, fontsize=9, handlelength=3.4)
    text = common.wrapped("\n".join(filter(None, (caption, note))), figure.get_figwidth())
    figure.supxlabel(text, fontsize=8, color="0.35")
    return figure


def _or_nan(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, np.nan)


def _height(mean: FloatArray) -> float:
    there = mean[~np.isnan(mean)]
    return float(there.mean()) if there.size else -np.inf


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


def _name_categories(axes: Axes, names: Sequence[str]) -> None:
    common.name_ticks(axes.xaxis, names, turned=20 if max(map(len, names)) * len(names) > _LETTERS else 0)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.5, len(names) - 0.5)
    for between in range(len(names) - 1):
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
        return common.naming("Zero, which a logarithmic scale cannot show", zero)
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
    return common.naming("Partly or wholly beyond the frame", [k for k in means if k not in near])
