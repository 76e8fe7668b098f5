"""What every device got: uploads and shards by scheduler, under the names of the device table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.experiments.analysis.randomness import Randomness
from fedwave.experiments.store.dataset import Point, scheduler_labels
from fedwave.files.writing import write_csv

if TYPE_CHECKING:
    import xarray as xr

_MOST = 100_000  # rows of the table: results of larger networks are in devices/*.parquet
_MOST_DRAWN = 60  # devices that fit beside each other


def per_device(data: xr.Dataset) -> list[str]:
    """The metrics with one number per device."""
    return [str(name) for name, variable in data.data_vars.items() if variable.dims[-1] == "device"]


def worst_devices(data: xr.Dataset) -> dict[str, tuple[str, float]]:
    """By scheduler: the device that delivers the least share of its shards, and that share, over all instances."""
    if "device_share" not in data:
        return {}
    shares = data["device_share"].mean("instance")
    found = {}
    for label in scheduler_labels(data):
        own = shares.sel(scheduler=label)
        place = int(own.argmin("device"))
        found[label] = (str(own["device"].values[place]), float(own.values[place]))
    return found


def worst_note(data: xr.Dataset) -> str:
    """A sentence that names them, where devices have names."""
    if "device" not in data.coords or data["device"].dtype.kind not in "UO":
        return ""
    worst = (f"{k} {name} ({100 * share:.0f}%)" for k, (name, share) in worst_devices(data).items())
    return f"Device with the least share delivered, on average over instances: {', '.join(worst)}."


def write_devices(point: Point, folder: Path) -> list[Path]:
    """A table of every metric that has a number per device, and a figure of the uploads if they fit in one."""
    data = point.data
    devices = data.sizes.get("device", 0)
    if not per_device(data) or devices * data.sizes["scheduler"] > _MOST:
        return []
    paths = [_write_table(data, folder / "devices.csv")]
    if devices <= _MOST_DRAWN and "device_uploads" in data:
        from fedwave.experiments.report.figures.common import save_figure
        from fedwave.experiments.report.figures.devices import devices_figure

        paths += save_figure(devices_figure(data), folder / "devices")
    return paths


def _write_table(data: xr.Dataset, path: Path) -> Path:
    """A row per scheduler and device: the mean of every metric over instances, and its half-width."""
    randomness, names = Randomness.of(data), per_device(data)
    rows: list[list[Any]] = []
    for label in scheduler_labels(data):
        bands = [
            randomness.band(data[name].sel(scheduler=label).transpose("device", "instance").values, name, label)
            for name in names
        ]
        for place, device in enumerate(data["device"].values):
            numbers = (f"{part[place]:.6g}" for band in bands for part in band)
            rows.append([label, device, *numbers])
    heading = [f"{name}_{part}" for name in names for part in ("mean", "half_width")]
    return write_csv(path, ["scheduler", "device", *heading], rows)
