"""The origin of results: versions, machine, time, commit. No result depends on it."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.store.checkout import own_commit
from fedwave.experiments.store.own_files import CONFIG, PROVENANCE
from fedwave.experiments.store.own_parts import own_packages
from fedwave.experiments.store.sealed import Damaged, read_sealed, write_sealed
from fedwave.experiments.store.sums import SUMS, sum_of
from fedwave.files.reading import is_there
from fedwave.version import __version__

if TYPE_CHECKING:
    from fedwave.experiments.store.plan import Plan

PACKAGES = ("numpy", "scipy", "torch", "pandas", "pyarrow", "xarray", "pydantic")
_VERSION = re.compile(r"[A-Za-z0-9.+!_-]{1,40}")
Run = Mapping[str, Any]  # the record of one run in the folder
UNKNOWN: Run = {"begun": "unknown", "packages": {}}  # of runs whose record was damaged


def write_provenance(folder: Path, experiment: Experiment, config: str) -> None:
    """Record which machine and versions made these results; a run that is resumed adds a record.

    ``config`` is the text of config.yaml.
    """
    try:
        before, merged = runs_of(folder), merged_of(folder)
    except Damaged:
        before, merged = [UNKNOWN], None  # it is written anew
    now = {"begun": datetime.now(UTC).isoformat(timespec="seconds"), **_machine(experiment)}
    _write(folder, experiment, config, [*before, now], merged)


def forget_provenance(folder: Path, experiment: Experiment, config: str) -> None:
    """Write it anew for a finished run: what made the results is no longer known, and it was not this machine."""
    _write(folder, experiment, config, [UNKNOWN], None)


def write_merged_provenance(
    folder: Path, experiment: Experiment, config: str, lots: Sequence[Path], records: Sequence[Run]
) -> None:
    """Record the runs of all lots, and under ``merged`` which lots these are (``lot_records``)."""
    runs = [{**run, "lot": run.get("lot", _sum_of(lot))} for lot in lots for run in runs_of(lot)]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    merged = {"at": now, "fedwave": __version__, "lots": list(records)}
    _write(folder, experiment, config, runs, merged)


def lot_records(folder: Path, plan: Plan, numbers: range) -> list[Run]:
    """What a merged folder says of one of its lots; of a lot that was merged itself, of each of its own."""
    before = merged_of(folder)
    if before is not None and isinstance(before.get("lots"), list):
        return list(before["lots"])
    return [
        {
            "lot": _sum_of(folder),  # the SHA-256 sum of its SHA256SUMS
            "folder": os.path.basename(os.path.realpath(folder)),
            "instances": [numbers[0], numbers[-1]],
            "fingerprint": plan.fingerprint,
            "numerics": plan.numerics,
            "fedwave": sorted({versions_of(run).get("fedwave", "?") for run in runs_of(folder)}),
        }
    ]


def merged_of(folder: Path) -> dict[str, Any] | None:
    """What provenance.json says of the lots that the folder was merged from; None if it was not. Raises Damaged."""
    if not is_there(folder / PROVENANCE):
        return None
    merged = read_sealed(folder / PROVENANCE).get("merged")
    return merged if isinstance(merged, dict) else None


def _sum_of(folder: Path) -> str:
    return sum_of(folder / SUMS)


def _write(folder: Path, experiment: Experiment, config: str, runs: Sequence[Run], merged: Run | None) -> None:
    sum_ = hashlib.sha256(config.encode()).hexdigest()
    content = {"fedwave": __version__, "seed": experiment.seed, "config_sha256": sum_}
    more = {} if merged is None else {"merged": merged}
    write_sealed(folder / PROVENANCE, {**content, **more, "runs": list(runs)})


def config_sum(folder: Path) -> str | None:
    """The sum that config.yaml had when the folder was last worked on; None if it is not known."""
    try:
        return str(read_sealed(folder / PROVENANCE)["config_sha256"])
    except (Damaged, KeyError):
        return None


def runs_of(folder: Path) -> list[Run]:
    """The records of the runs in a folder, oldest first; none without the file. Raises Damaged."""
    path = folder / PROVENANCE
    if not is_there(path):
        return []
    try:
        runs = read_sealed(path)["runs"]
        if not all(isinstance(run["packages"], dict) for run in runs):
            raise TypeError("no packages")
        return list(runs)
    except (KeyError, TypeError) as error:
        raise Damaged(f"{path} is damaged ({error}).") from None


def own_runs(folder: Path) -> list[Run]:
    """The same, but the record of another run counts as damaged."""
    runs, path = runs_of(folder), folder / PROVENANCE
    if is_there(path) and not belongs_to_config(folder):
        raise Damaged(f"{path} is of another run: it does not have the sum of {CONFIG} beside it.")
    return runs


def belongs_to_config(folder: Path) -> bool:
    """Does provenance.json have the sum of config.yaml beside it?"""
    return config_sum(folder) == sum_of(folder / CONFIG)


def lost_origin(folder: Path) -> str | None:
    """A sentence if a run does not say what made it: its provenance.json is missing, damaged or of another run."""
    try:
        return None if own_runs(folder) else f"{folder / PROVENANCE} is missing."
    except Damaged as damage:
        return str(damage)


def last_versions(folder: Path) -> dict[str, str]:
    """The versions of the last run in a folder; none if they are not known. Raises Damaged."""
    runs = runs_of(folder)
    return versions_of(runs[-1]) if runs else {}


def other_versions(folder: Path, now: str) -> str | None:
    """A sentence if the run was begun, or gone on with, in other versions than are here; ``now`` as "goes on with"."""
    for number, run in enumerate(runs_of(folder)):
        there = versions_of(run)
        here = installed_versions(there)
        if not there:
            continue  # its record was damaged
        names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
        if names:
            then = "was resumed with" if number else "was begun with"
            if "lot" in run:
                then = "was merged from lots, one of them made with"
            return f"{folder} {then} {_shown(there, names)}; it {now} {_shown(here, names)}."
    return None


def versions_of(run: Run) -> dict[str, str]:
    """The versions that one run was made with."""
    said = {**run["packages"], "fedwave": run.get("fedwave"), "python": run.get("python")}
    names = dict.fromkeys(["fedwave", "python", *PACKAGES, *said])
    found = {name: said.get(name) for name in names if _VERSION.fullmatch(name)}
    # They are printed: whoever wrote the file must not choose anything but a version.
    return {
        name: version if _VERSION.fullmatch(version) else "?"
        for name, version in found.items()
        if isinstance(version, str)
    }


def installed_versions(names: Iterable[str] = ()) -> dict[str, str]:
    """The versions that are installed here of fedwave, Python, PACKAGES, and the packages in ``names``."""
    found = {"fedwave": __version__, "python": sys.version.split()[0]}
    packages = dict.fromkeys([*PACKAGES, *names])
    return found | {name: version for name in packages if name not in found and (version := _version(name))}


def _shown(versions: Mapping[str, str], names: list[str]) -> str:
    return ", ".join(f"{name} {versions[name]}" if name in versions else f"no {name}" for name in names)


def _machine(experiment: Experiment) -> dict[str, Any]:
    return {
        "fedwave": __version__,
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in PACKAGES} | own_packages(experiment),
        "system": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "gpu": _gpu(experiment),
        "commit": own_commit(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _gpu(experiment: Experiment) -> str | None:
    if experiment.task is None or experiment.training.device == "cpu":
        return None
    from fedwave.learning.settings import gpu_count, gpu_name

    return gpu_name() if gpu_count() else None
