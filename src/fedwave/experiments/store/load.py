"""The results in a run folder, as one Dataset, and as a netCDF file that opens without fedwave."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import to_yaml
from fedwave.experiments.config.sweep import points
from fedwave.experiments.config.units import Unit, axis_values
from fedwave.experiments.store.dataset import Point, Results, join_points, join_units
from fedwave.experiments.store.folder import RunFolder, check_is_folder
from fedwave.files.reading import as_path
from fedwave.version import __version__

if TYPE_CHECKING:
    import xarray as xr


def load(folder: str | Path) -> xr.Dataset:
    """Read the results in a run folder as an xarray Dataset.

    Its axes are those of the sweep, then scheduler, instance, round, device and class. Raises FedwaveError with the
    name of a file that is corrupt.

    >>> import fedwave as fw
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = fw.run({"schedulers": ["age", "fresh"], "rounds": 10, "instances": 2}, folder, workers=1)
    ...     data = fw.load(folder)
    >>> data.score.sel(scheduler="fresh").mean("round").shape
    (2,)
    """
    folder = as_path("a run folder", folder)
    check_is_folder(folder)
    return to_dataset(results_of(RunFolder(folder)))


def results_of(store: RunFolder) -> Results:
    """Read the results in a finished run folder. Imports nothing: the user's own parts are not needed."""
    experiment, units = store.experiment_as_run, store.units()
    missing = [unit for unit in units if unit.name not in store.done.units]
    if missing:
        raise FedwaveError(
            f"{store.path} is not finished ({len(missing)} of {len(units)} units are missing): "
            f"run `{store.resume_command()}`."
        )
    return collect_results(experiment, units, store.data)


def collect_results(experiment: Experiment, units: Sequence[Unit], data_of: Callable[[Unit], xr.Dataset]) -> Results:
    """Joins the units of each point: every scheduler, in the order of the experiment, with all instances."""
    by_point: dict[int, list[Unit]] = {}
    for unit in units:
        by_point.setdefault(unit.point, []).append(unit)
    found = []
    for number, (where, _) in enumerate(points(experiment)):
        here = by_point[number]
        at, instances = here[0].experiment, (i for unit in here for i in unit.instances)
        found.append(Point(where, at, join_units(map(data_of, here), at.labels, instances)))
    return Results(experiment, found)


def to_dataset(results: Results) -> xr.Dataset:
    """All points of an experiment in one Dataset."""
    how = results.experiment
    axes = {axis: axis_values(values) for axis, values in how.sweep.items()}
    whole = join_points(axes, [point.data for point in results.points])
    return whole.assign_attrs(title=how.name, fedwave=__version__, config=to_yaml(how))


def write_netcdf(dataset: xr.Dataset, file: BinaryIO) -> None:
    """Write the Dataset into an open netCDF file (the classic format, which needs no further library)."""
    # It knows no 64-bit integers: those that do not fit into 32 bits are kept as floating-point numbers.
    small = dataset.map(_for_netcdf, keep_attrs=True)
    for name in small.coords:
        small = small.assign_coords({name: _exact(_for_netcdf(small[name]), small[name])})
    # Axes are called as everywhere else (network.slots); only a slash is not allowed in a name there.
    small = small.rename({name: str(name).replace("/", "_") for name in small.dims})
    # Straight into the file: its bytes in memory would double the results. xarray closes the file that it gets.
    with os.fdopen(os.dup(file.fileno()), "wb") as same:
        small.to_netcdf(same, engine="scipy", format="NETCDF3_64BIT")


def _exact(stored: Any, given: Any) -> Any:
    """A label of an axis, such as a seed, must not become another: large whole numbers are kept as text."""
    if given.dtype.kind in "iu" and (stored.values.astype(object) != given.values.astype(object)).any():
        return given.astype(str)
    return stored


def _for_netcdf(array: Any) -> Any:
    if array.dtype.kind in "iu" and array.size:
        fits = int(array.values.min()) >= -(2**31) and int(array.values.max()) < 2**31
        return array.astype(np.int32 if fits else np.float64)
    return array.astype(np.int32) if array.dtype.kind == "b" else array
