"""`fw.merge`: finished lots of an experiment put together into the run folder of the whole experiment.

The units of the whole are cut as the lots were, and written by this fedwave: where it is the one that ran the lots, the
folder has the same bytes as if all instances had been run at once, but for times and machines.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError, is_list, is_number, short_repr
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import to_yaml
from fedwave.experiments.config.sweep import points
from fedwave.experiments.config.units import Unit, simulated_block, units_of_point
from fedwave.experiments.run.runner import stored_results
from fedwave.experiments.store import inputs
from fedwave.experiments.store.dataset import Results, joined
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.lock import locked, refuse_filled
from fedwave.experiments.store.lots import Lot, differences_that_do_not_matter, read_lots
from fedwave.experiments.store.own_files import CONFIG, RUN_FILES, files_of_run, output_files
from fedwave.experiments.store.plan import Plan
from fedwave.experiments.store.provenance import lot_records, write_merged_provenance
from fedwave.experiments.store.sealed import Damaged, plain_bytes, write_sealed
from fedwave.files.reading import as_path
from fedwave.files.writing import write_text, write_whole
from fedwave.memory import check_memory

if TYPE_CHECKING:
    import xarray as xr


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
    from fedwave.experiments.store.load import to_dataset

    if isinstance(folders, (str, Path)) or not is_list(folders):
        raise FedwaveError(f"folders is {short_repr(folders)}, must be a list of run folders.")
    places = [as_path("a run folder", one) for one in folders]
    place = as_path("out", out)
    if not str(out):
        raise FedwaveError("out is '', must name a new folder, such as 'out/all'.")
    with merging(places, place, warnings.warn) as results:
        write_results(results, place)
        return to_dataset(results)


@contextmanager
def merging(folders: Sequence[Path], out: Path, tell: Callable[[str], object]) -> Iterator[Results]:
    """The same for those who write figures and tables: the new folder stays locked until the end of the block.

    ``tell`` gets a sentence for each thing worth knowing. If the results cannot be written, the new folder is emptied
    again; if only the block fails, `fedwave report` writes its figures and tables.
    """
    refuse_filled(out)
    lots = read_lots(folders)
    whole = _whole(lots)
    plan = _plan(whole, lots)
    units = plan.units(out)
    _check_memory(lots, whole)
    for sentence in differences_that_do_not_matter(lots):
        tell(sentence)
    if whole.task is not None and not _cut_alike(units, lots):
        tell(
            "The lots were trained in units, or lanes, of different sizes: run at once, the last digits of losses and "
            "accuracies may be others."
        )
    with locked(out, RUN_FILES | output_files(whole)):
        refuse_filled(out)  # again: now nobody else writes there
        try:
            _write(out, lots, whole, plan, units)
        except BaseException:
            _empty(out, files_of_run(RunFolder(out), units))
            raise
        yield stored_results(out)


def _whole(lots: Sequence[Lot]) -> Experiment:
    """The experiment with the instances of all lots, and a block in which their units stay as they are."""
    at = [lot.experiment for lot in lots]
    count = sum(one.instances for one in at)
    block = max(min(one.block or one.instances, one.instances) for one in at)
    if at[0].task is None and all(one.block == simulated_block(one.instances) for one in at):
        block = simulated_block(count)  # as if nothing had been said: it changes no number
    return replace(at[0], instances=count, block=block)


def _plan(whole: Experiment, lots: Sequence[Lot]) -> Plan:
    """As the run of the whole experiment would have made it, from the plan of a lot: no part is built for that."""
    first, units = lots[0], []
    cut = _by_point(lots[:1])
    for number, (_, point) in enumerate(points(whole)):
        here = [unit for _, unit in cut[number]]
        groups = list(dict.fromkeys(unit.schedulers for unit in here))
        units += units_of_point(number, here[0].where, groups, point)
    return Plan.of(to_yaml(whole), first.plan.numerics, first.plan.inputs, first.plan.points, units)


def _by_point(lots: Sequence[Lot]) -> dict[int, list[tuple[Lot, Unit]]]:
    """The units of the lots at each point of the sweep."""
    found: dict[int, list[tuple[Lot, Unit]]] = {}
    for lot in lots:
        for unit in lot.units:
            found.setdefault(unit.point, []).append((lot, unit))
    return found


def _cut_alike(units: Sequence[Unit], lots: Sequence[Lot]) -> bool:
    """Are the units of the whole those of the lots, trained in as many lanes?"""
    cut = {(unit.point, unit.schedulers, unit.instances) for lot in lots for unit in lot.units}
    same = cut == {(unit.point, unit.schedulers, unit.instances) for unit in units}
    lanes = {(unit.point, unit.experiment.training.lanes) for lot in lots for unit in lot.units}
    return same and len(lanes) == len({point for point, _ in lanes})


def _check_memory(lots: Sequence[Lot], whole: Experiment) -> None:
    """Refuse results that do not fit into memory together, judged by one unit: no part is built for that."""
    unit = lots[0].units[0]
    of_run = lots[0].store.data(unit).nbytes / (len(unit.schedulers) * len(unit.instances))
    runs = len(whole.schedulers) * whole.instances * len(points(whole))
    copies = 3 if whole.sweep else 2  # as needs.py counts them
    check_memory(f"keeping the results of {runs:,} runs", copies * runs * of_run, "merge fewer lots")


def _write(out: Path, lots: Sequence[Lot], whole: Experiment, plan: Plan, units: Sequence[Unit]) -> None:
    store, cut = RunFolder(out), _by_point(lots)
    for unit in units:
        parts = _parts_of(unit, cut[unit.point])
        data = joined((_selected(lot.store.data(part), unit) for lot, part in parts), unit.schedulers, unit.instances)
        store.keep_merged(unit, data, _timing(unit, parts))
    _copy_inputs(lots[0].folder, out)
    records = [one for lot in lots for one in lot_records(lot.folder, lot.plan, lot.numbers)]
    write_merged_provenance(out, whole, plan.config, [lot.folder for lot in lots], records)
    plan.write(out)
    write_text(out / CONFIG, plan.config)  # last, since it makes this a run folder


def _parts_of(unit: Unit, at_point: Sequence[tuple[Lot, Unit]]) -> list[tuple[Lot, Unit]]:
    """The units of the lots that have any of its runs."""
    schedulers, instances = set(unit.schedulers), set(unit.instances)
    return [
        (lot, part)
        for lot, part in at_point
        if schedulers.intersection(part.schedulers) and instances.intersection(part.instances)
    ]


def _selected(data: xr.Dataset, unit: Unit) -> xr.Dataset:
    """What of it belongs to the unit."""
    schedulers = [label for label in data["scheduler"].values.tolist() if label in unit.schedulers]
    instances = [k for k in data["instance"].values.tolist() if k in unit.instances]
    return data.sel(scheduler=schedulers, instance=instances)


def _timing(unit: Unit, parts: Sequence[tuple[Lot, Unit]]) -> dict[str, Any] | None:
    """How long its runs took, by their share of the units of the lots; None if one does not say."""
    seconds, finished, machines = 0.0, [], []
    for lot, part in parts:
        try:
            took = lot.store.timing(part.name)
        except Damaged:  # no result needs it
            return None
        if not (is_number(took.get("seconds")) and math.isfinite(took["seconds"])):
            return None
        common = [
            len(set(mine) & set(theirs)) / len(theirs)
            for mine, theirs in ((unit.schedulers, part.schedulers), (unit.instances, part.instances))
        ]
        seconds += float(took["seconds"]) * math.prod(common)
        finished.append(str(took.get("finished")))
        machines.append(str(took.get("machine")))
    return {"seconds": round(seconds, 3), "finished": max(finished), "machine": ", ".join(dict.fromkeys(machines))}


def _copy_inputs(source: Path, out: Path) -> None:
    """The list of inputs, where they were, and their copies, each read once and compared with its sum."""
    known, places = inputs.known_inputs(source), inputs.known_places(source)
    for one in known.values():
        if one.copy is None:
            continue
        content = plain_bytes(source / one.copy, inputs.MOST_BYTES)
        if hashlib.sha256(content).hexdigest() != one.sha256:
            raise Damaged(f"{source / one.copy} has not the sum that the run was begun with.")
        write_whole(out / one.copy, lambda file, c=content: file.write(c))  # type: ignore[misc]
    if places:
        write_sealed(out / inputs.PLACES, places)
    if known:
        write_sealed(out / inputs.LIST, {name: asdict(one) for name, one in known.items()})


def _empty(out: Path, names: set[str]) -> None:
    """Remove what was written: the folder was empty, and half of a merged run is of no use."""
    for name in sorted(names, key=lambda name: name.endswith("/")):  # folders last
        with suppress(OSError):
            (out / name).rmdir() if name.endswith("/") else (out / name).unlink()
