"""Draws a metric of every device, by scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.captions import sentences, title
from fedwave.experiments.analysis.randomness import Randomness, intervals_are
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import long_name, scheduler_labels

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def devices_figure(data: xr.Dataset, metric: str = "device_uploads") -> Figure:
    """A metric of every device: the mean over instances of every scheduler, with its interval."""
    names = [str(name) for name in data["device"].values]
    figure, (axis,) = common.figure_with(1, 1, (max(7.0, 3.5 + 0.28 * len(names)), 4.8))
    shown, randomness, looks = scheduler_labels(data), Randomness.of(data), common.styles(scheduler_labels(data))
    for number, label in enumerate(shown):
        values = data[metric].sel(scheduler=label).transpose("device", "instance").values
        places = common.dodged(np.arange(float(len(names))), number, len(shown))
        found = randomness.band(values, metric, label)
        common.draw_bars(axis, places, found, looks[label], floor=0.0, label=common.name_of(label), ms=3.5)
    numbered = data["device"].dtype.kind in "iu"
    common.label_panel(axis, "", "Device" if numbered else "", f"{long_name(data, metric)} per instance")
    common.name_ticks(axis.xaxis, names, turned=0 if numbered else 35)
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.set_ylim(bottom=0)
    return common.finish(figure, axis, title(data), sentences(intervals_are("Bars", data), randomness.note))
