"""`fw.merge`: finished lots of an experiment put together into the run folder of the whole experiment.

A lot is a run folder with some of the instances. All lots have the same run id, so their units are copied as they are.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from fedwave.errors import FedwaveError, is_list, plural, short_repr
from fedwave.experiments.config.sweep import points
from fedwave.experiments.store.dataset import Results
from fedwave.experiments.store.diff import compare_experiments, compare_versions
from fedwave.experiments.store.folder import RunFolder, check_is_folder, table_names
from fedwave.experiments.store.load import results_of, to_dataset
from fedwave.experiments.store.lock import OWN_FILES, SUBFOLDERS, check_new
from fedwave.experiments.store.verify import verify
from fedwave.files.reading import as_path, read_bytes
from fedwave.files.writing import write_bytes
from fedwave.memory import check_memory

if TYPE_CHECKING:
    import xarray as xr

_MOST_BYTES = 2**35  # in a file of a lot


def merge(folders: Sequence[str | Path], out: str | Path) -> xr.Dataset:
    """Merge finished run folders of one experiment that differ in their instances, as ``fedwave merge`` does.

    Their instances must follow each other without a gap. ``out`` is a new run folder with results, figures and tables,
    as if all instances had been run at once. Nothing is imported from the folders, and nothing is run.

    >>> import fedwave as fw
    >>> from tempfile import TemporaryDirectory
    >>> lot = {"schedulers": ["age"], "rounds": 10, "instances": 2}
    >>> with TemporaryDirectory() as out:
    ...     for first in (0, 2):
    ...         _ = fw.run(lot | {"first_instance": first}, f"{out}/{first}", workers=1)
    ...     fw.merge([f"{out}/0", f"{out}/2"], f"{out}/all").instance.values
    array([0, 1, 2, 3])
    """
    from fedwave.experiments.report.outputs import write_results

    if isinstance(folders, (str, Path)) or not is_list(folders):
        raise FedwaveError(f"folders is {short_repr(folders)}, must be a list of run folders.")
    lots = [as_path("a run folder", one) for one in folders]
    path = as_path("out", out)
    if not str(out):
        raise FedwaveError("out is '', must name a new folder, such as 'out/all'.")
    with merging(lots, path, warnings.warn) as results:
        write_results(results, path)
        return to_dataset(results)


@contextmanager
def merging(folders: Sequence[Path], out: Path, tell: Callable[[str], object]) -> Iterator[Results]:
    """Merges into ``out`` and keeps it locked for the block, which writes figures and tables.

    ``tell`` gets a sentence for each thing worth knowing. If the merge fails, the new folder is emptied again; if only
    the block fails, `fedwave report` writes its figures and tables.
    """
    check_new(out)
    if len(folders) < 2:
        raise FedwaveError(f"{plural(len(folders), 'folder')} cannot be merged: name two or more finished run folders.")
    lots = sorted(map(_sound_lot, folders), key=lambda lot: lot.experiment_as_run.first_instance)
    for other in lots[1:]:
        _check_same_experiment(lots[0], other, tell)
    for before, after in pairwise(lots):
        _check_adjacent(before, after)
    _check_memory(lots)
    store = RunFolder(out)
    with store.locked():
        check_new(out)  # again: now no other process writes there
        _write(store, lots)
        yield results_of(RunFolder(out))


def _sound_lot(folder: Path) -> RunFolder:
    """Opens a lot; raises FedwaveError unless it is finished and sound."""
    check_is_folder(folder)
    found = verify(folder)
    for state, fault in (("wrong", "not sound"), ("open", "not finished")):
        if texts := [one.text for one in found if one.state == state]:
            raise FedwaveError(f"{folder} is {fault}, so it cannot be merged: {texts[-1].rstrip('.')}.")
    lot = RunFolder(folder)
    if "instances" in lot.experiment_as_run.sweep:
        raise FedwaveError(f"{folder} cannot be merged: its sweep varies instances.")
    return lot


def _check_same_experiment(first: RunFolder, other: RunFolder, tell: Callable[[str], object]) -> None:
    """Raises FedwaveError for lots of different experiments. Tells differences that change at most last digits."""
    names = (first.path, other.path)
    found = compare_experiments(first, other, names) + compare_versions(first, other, names)
    if first.manifest.run_id != other.manifest.run_id:
        apart = [one.text for one in found if one.state == "differs" and one.about != "instances"]
        numerics = f"version {other.manifest.numerics} of the numerics, not {first.manifest.numerics}"
        raise FedwaveError(
            f"{other.path} holds another experiment than {first.path}: {(apart or [numerics])[0]}; only runs that "
            "differ in their instances can be merged."
        )
    for one in found:
        if one.state == "note" and (one.about != "units" or first.experiment_as_run.task is not None):
            tell(f"{one.text}; the first is used." if one.about == "experiment" else f"{one.text}.")


def _check_adjacent(before: RunFolder, after: RunFolder) -> None:
    """Raises unless the instances of one lot follow those of the other."""
    earlier, later = before.experiment_as_run.instance_numbers, after.experiment_as_run.instance_numbers
    start, end = later.start, earlier.stop
    if start < end:
        both = f"instances {start} to {min(end, later.stop) - 1}"
        raise FedwaveError(f"{before.path} and {after.path} both hold {both}: leave one of them out.")
    if start > end:
        raise FedwaveError(
            f"instances are missing between {before.path} and {after.path}: run the same experiment with "
            f"first_instance={end} instances={start - end}, and merge that too."
        )


def _check_memory(lots: Sequence[RunFolder]) -> None:
    """Raises FedwaveError if the results do not fit into memory together, estimated from one unit."""
    unit, how = lots[0].units()[0], lots[0].experiment_as_run
    of_run = lots[0].data(unit).nbytes / (len(unit.schedulers) * len(unit.instances))
    runs = len(how.schedulers) * sum(lot.experiment_as_run.instances for lot in lots) * len(points(how))
    copies = 3 if how.sweep else 2  # as memory_needs.py counts them
    check_memory(f"keeping the results of {runs:,} runs", copies * runs * of_run, "merge fewer lots")


def _write(store: RunFolder, lots: Sequence[RunFolder]) -> None:
    """Copies tables and inputs; removes them again if that fails."""
    first, at = lots[0], [lot.experiment_as_run for lot in lots]
    block = max(one.block or one.instances for one in at)
    whole = replace(at[0], instances=sum(one.instances for one in at), block=block)
    units = [unit for lot in lots for unit in lot.manifest.units]
    order = list(dict.fromkeys((unit.point, unit.schedulers) for unit in units))
    units.sort(key=lambda unit: (unit.point, order.index((unit.point, unit.schedulers))))  # as if they were cut at once
    files = [(lot, name) for lot in lots for unit in lot.manifest.units for name in table_names(unit)]
    files += [(first, one.copy) for one in first.manifest.inputs.values() if one.copy is not None]
    try:
        for lot, name in files:
            write_bytes(store.path / name, read_bytes(lot.path / name, str(lot.path / name), _MOST_BYTES))
        lines = [lot.done.units[unit.name] for lot in lots for unit in lot.manifest.units]
        store.write_merged(replace(first.manifest, experiment=whole, units=units), first.input_paths, lines)
    except BaseException:
        for name in SUBFOLDERS:
            shutil.rmtree(store.path / name, ignore_errors=True)
        for name in OWN_FILES:
            (store.path / name).unlink(missing_ok=True)
        raise
