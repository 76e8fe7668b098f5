"""What every device got, by scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedwave.experiments.analysis.labels import sentences, title
from fedwave.experiments.analysis.randomness import Randomness, caption
from fedwave.experiments.report.figures import common
from fedwave.experiments.store.dataset import metric_title, scheduler_labels

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def devices_figure(data: xr.Dataset, metric: str = "device_uploads") -> Figure:
    """A metric of every device: the mean over instances of every scheduler, with its interval."""
    names = [str(name) for name in data["device"].values]
    figure, (axis,) = common.figure_with(1, 1, (max(7.0, 3.5 + 0.28 * len(names)), 4.8))
    shown, randomness, styles = scheduler_labels(data), Randomness.of(data), common.styles(scheduler_labels(data))
    places = np.arange(len(names))
    for number, label in enumerate(shown):
        values = data[metric].sel(scheduler=label).transpose("device", "instance").values
        mean, half = randomness.band(values, metric, label)
        shift = 0.7 * ((number + 0.5) / len(shown) - 0.5)
        look = {**styles[label], "linestyle": "none"}
        ends = common.errors(mean, half, floor=0.0)
        look |= {"ms": 3.5, "elinewidth": 0.8, "label": common.name_of(label)}
        axis.errorbar(places + shift, mean, ends, **look)
    numbered = data["device"].dtype.kind in "iu"
    common.label_panel(axis, "", "Device" if numbered else "", f"{metric_title(data, metric)} per instance")
    common.name_ticks(axis.xaxis, names)
    if not numbered:
        axis.tick_params(axis="x", labelrotation=35)
        for text in axis.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.set_ylim(bottom=0)
    return common.finish(figure, axis, title(data), sentences(caption("Bars", data), randomness.note))
