"""Results as one labelled xarray Dataset, and as a netCDF file that opens without fedwave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.config.read import to_yaml
from fedwave.experiments.results.outcome import Outcome
from fedwave.experiments.run.runner import Results, stored_results
from fedwave.experiments.run.units import axis_values
from fedwave.types import Array
from fedwave.version import __version__

if TYPE_CHECKING:
    import xarray as xr


def load(folder: str | Path) -> xr.Dataset:
    """The results in a run folder: axes of the sweep, scheduler, instance, round, device, class as labelled axes.

    Files that were damaged since they were written are refused by name.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FedwaveError(f"there is no run folder at {folder}.")
    return to_dataset(stored_results(folder))


def to_dataset(results: Results) -> xr.Dataset:
    """All outcomes of an experiment in one Dataset."""
    import xarray as xr

    axes = results.experiment.sweep
    sizes = {len(o.uploads[0]) for p in results.points for o in p.outcomes.values()}
    lengths = {o.rounds for p in results.points for o in p.outcomes.values()}
    coordinates: dict[str, Any] = {axis: axis_values(values) for axis, values in axes.items()}
    first = next(iter(results.points[0].outcomes.values()))
    rounds, devices = max(lengths), max(sizes)
    coordinates |= {
        "scheduler": _common([list(p.outcomes) for p in results.points], "schedulers"),
        "instance": list(range(max(p.experiment.instances for p in results.points))),
        "round": np.arange(1, rounds + 1),
        "device": np.arange(1, devices + 1),
    }
    shape = tuple(len(values) for values in axes.values())
    schedulers, instances = coordinates["scheduler"], coordinates["instance"]

    def gather(
        dims: tuple[str, ...], sizes: tuple[int, ...], get: Callable[[Outcome], Array]
    ) -> Any:
        """Points that are shorter or smaller than others are filled up with NaN."""
        values = np.full((len(results.points), len(schedulers), len(instances), *sizes), np.nan)
        for n, point in enumerate(results.points):
            for s, label in enumerate(schedulers):
                value = get(point.outcomes[label])
                place: Any = (n, s, *(slice(0, k) for k in value.shape))
                values[place] = value
        whole = values.reshape(*shape, *values.shape[1:])
        if get(first).dtype.kind in "iu" and not np.isnan(whole).any():
            whole = whole.astype(np.int64)  # counts stay counts where nothing is missing
        return ((*axes, "scheduler", "instance", *dims), whole)

    data = {
        name: gather(("round",), (rounds,), lambda o, n=name: o.series[n].T)  # type: ignore[misc]
        for name in first.series
    }
    data["device_uploads"] = gather(("device",), (devices,), lambda o: o.uploads)
    data["device_shards"] = gather(("device",), (devices,), lambda o: o.learned)
    if first.curves is not None:
        for name in ("loss", "accuracy", "accuracy_on_all"):
            data[name] = gather(("round",), (rounds,), lambda o, n=name: getattr(o.curves, n).T)  # type: ignore[misc]
        classes = first.curves.class_accuracy.shape[2]
        coordinates["class"] = np.arange(classes)
        data["class_accuracy"] = gather(
            ("round", "class"), (rounds, classes), lambda o: o.curves.class_accuracy.swapaxes(0, 1)  # type: ignore[union-attr]
        )  # fmt: skip
    config = to_yaml(results.experiment)
    about = {"title": results.experiment.name, "fedwave": __version__, "config": config}
    return xr.Dataset(data, coords=coordinates, attrs=about)


def netcdf_bytes(dataset: xr.Dataset) -> bytes:
    """The Dataset as a netCDF file (the classic format, which needs no further library)."""
    # It knows no 64-bit integers: those that do not fit into 32 bits are kept as floating-point numbers.
    small = dataset.map(_for_netcdf, keep_attrs=True)
    for name in small.coords:
        small = small.assign_coords({name: _for_netcdf(small[name])})
    # A slash or a dot is not allowed in names there.
    small = small.rename({name: str(name).replace(".", "_") for name in small.dims})
    return bytes(small.to_netcdf(engine="scipy", format="NETCDF3_64BIT"))


def _for_netcdf(array: Any) -> Any:
    if array.dtype.kind in "iu" and array.size:
        fits = np.abs(array.values).max() < 2**31
        return array.astype(np.int32 if fits else np.float64)
    return array.astype(np.int32) if array.dtype.kind == "b" else array


def _common(lists: list[list[str]], what: str) -> list[str]:
    if any(labels != lists[0] for labels in lists):
        raise FedwaveError(
            f"points of this sweep have different {what}, so no common axis: read them one by one."
        )
    return lists[0]
