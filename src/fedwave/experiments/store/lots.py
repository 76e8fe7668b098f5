"""Lots: finished run folders of one experiment that differ in their instances. Read, checked, and found to fit.

Nothing is imported or run for that, and every folder is first checked as `fedwave verify` checks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError, plural
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.config.units import Unit
from fedwave.experiments.store.fingerprint import NOT_NUMBERS
from fedwave.experiments.store.folder import RunFolder, check_is_folder, first_difference, refuse_published, short_json
from fedwave.experiments.store.plan import Plan
from fedwave.experiments.store.provenance import last_versions
from fedwave.experiments.store.verify import verify, versions_apart

_COUNTS = ("first_instance", "instances")
# How the work was cut: it changes the last digits of training, and nothing else.
_CUT = ("block", "group")
_LANES = "training.lanes"


@dataclass(frozen=True)
class Lot:
    """A finished and sound run folder."""

    folder: Path
    plan: Plan
    experiment: Experiment
    units: list[Unit]

    @property
    def store(self) -> RunFolder:
        """What reads its results."""
        return RunFolder(self.folder)

    @property
    def numbers(self) -> range:
        """Of its instances."""
        return self.experiment.instance_numbers


def read_lots(folders: Sequence[Path]) -> list[Lot]:
    """The lots in the order of their instances, which follow each other without a gap; all else is refused."""
    if len(folders) < 2:
        raise FedwaveError(f"{plural(len(folders), 'folder')} cannot be merged: name two or more finished run folders.")
    lots = sorted((_read(folder) for folder in folders), key=lambda lot: lot.numbers.start)
    for other in lots[1:]:
        _check_same_experiment(lots[0], other)
    for before, after in pairwise(lots):
        _check_adjacent(before, after)
    return lots


def differences_that_do_not_matter(lots: Sequence[Lot]) -> Iterator[str]:
    """A sentence for each: fields that only say how results are shown, and versions."""
    first, *others = lots
    for other in others:
        there, here = (to_mapping(lot.experiment) for lot in (other, first))
        for field in (name for name in NOT_NUMBERS if there.get(name) != here.get(name)):
            is_, used = short_json(there.get(field)), short_json(here.get(field))
            yield f"{field} is {is_} in {other.folder}, but {used} in {first.folder}, which is used."
        made = [last_versions(lot.folder) for lot in (first, other)]
        if all(made) and made[0] != made[1]:
            words = (f"{first.folder} was made with", f"{other.folder} with")
            yield f"{versions_apart(made[0], made[1], *words)}."


def _read(folder: Path) -> Lot:
    check_is_folder(folder)
    refuse_published(folder)
    found = verify(folder)
    wrong = [one for one in found if one.state == "wrong"]
    if wrong:
        more = f" `fedwave verify {folder}` lists {len(wrong)} findings." if len(wrong) > 1 else ""
        raise FedwaveError(f"{folder} is not sound: {wrong[0].text.rstrip('.')}.{more}")
    unfinished = [one for one in found if one.state == "open"]
    if unfinished:
        raise FedwaveError(f"{folder} is not finished ({unfinished[-1].text}): only finished runs can be merged.")
    plan, store = Plan.read(folder), RunFolder(folder)
    return Lot(folder, plan, store.stored(), plan.units(folder))


def _check_same_experiment(first: Lot, other: Lot) -> None:
    if first.plan.numerics != other.plan.numerics:
        raise FedwaveError(
            f"{first.folder} was run with version {first.plan.numerics} of the numerics, {other.folder} with version "
            f"{other.plan.numerics}: their numbers cannot be put together; run one of them again."
        )
    here, there = (_compared(lot) for lot in (first, other))
    if here != there or list(here["sweep"]) != list(there["sweep"]):
        field, is_, wanted = first_difference(there, here)
        raise FedwaveError(
            f"{other.folder} holds another experiment than {first.folder}: its {field} is {short_json(is_)}, not "
            f"{short_json(wanted)}; only runs that differ in their instances can be merged."
        )
    if "instances" in here["sweep"]:
        raise FedwaveError(
            f"{first.folder} varies instances in its sweep, so that its points have different ones: it cannot be "
            "merged."
        )
    if _without_lanes(first.plan.points) != _without_lanes(other.plan.points):
        raise FedwaveError(
            f"{other.folder} and {first.folder} have different numbers at a point of their sweep (`points` in their "
            "plan.json): they cannot be merged."
        )
    sums, own = first.plan.inputs, other.plan.inputs
    for name in {**sums, **own}:
        if sums.get(name) != own.get(name):
            raise FedwaveError(
                f"{other.folder} and {first.folder} were not run with the same {name}: they cannot be merged."
            )


def _compared(lot: Lot) -> dict[str, Any]:
    """The fields that all lots must have in common."""
    fields = to_mapping(lot.experiment)
    fields["training"].pop("lanes", None)
    return {k: v for k, v in fields.items() if k not in (*_COUNTS, *_CUT, *NOT_NUMBERS)}


def _without_lanes(points: Sequence[Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in dict(values).items() if k != _LANES} for values in points]


def _check_adjacent(before: Lot, after: Lot) -> None:
    start, end = after.numbers.start, before.numbers.stop
    if start < end:
        last = min(end, after.numbers.stop) - 1
        raise FedwaveError(
            f"{_numbered(start, last)} in {before.folder} and in {after.folder}: every instance must be in one of "
            "the folders only."
        )
    if start > end:
        raise FedwaveError(
            f"{_numbered(end, start - 1)} missing between {before.folder} and {after.folder}: run the same experiment "
            f"with first_instance={end} instances={start - end}, and merge that too."
        )


def _numbered(first: int, last: int) -> str:
    return f"instance {first} is" if first == last else f"instances {first} to {last} are"
