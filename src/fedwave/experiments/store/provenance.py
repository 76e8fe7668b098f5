"""Where results come from: versions, machine, commit. No result depends on it."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import fedwave
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.store.own_parts import own_packages
from fedwave.version import __version__

PACKAGES = ("numpy", "scipy", "torch", "pandas", "pyarrow", "xarray", "pydantic")
_VERSION = re.compile(r"[A-Za-z0-9.+!_-]{1,40}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def machine(experiment: Experiment) -> dict[str, Any]:
    """This machine and the versions on it, for the line of a unit in done.jsonl."""
    return {
        "host": platform.node(),
        "processor": processor(),
        "gpu": _gpu(experiment),
        "commit": own_commit(),
        "versions": installed_versions() | own_packages(experiment),
    }


def installed_versions(names: Iterable[str] = ()) -> dict[str, str]:
    """The installed versions of fedwave, Python, PACKAGES, and the packages in ``names``."""
    found = {"fedwave": __version__, "python": sys.version.split()[0]}
    for name in dict.fromkeys([*PACKAGES, *names]):
        if name not in found and (version := _version(name)) is not None:
            found[name] = version
    return found


def versions_of(line: Mapping[str, Any]) -> dict[str, str]:
    """The versions that the line of a unit has. They are printed, so nothing but versions is taken from the file."""
    given = line.get("versions")
    pairs = given.items() if isinstance(given, dict) else ()
    return {n: v for n, v in pairs if isinstance(v, str) and _VERSION.fullmatch(n) and _VERSION.fullmatch(v)}


def all_versions(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The different versions that units were made with, in the order of their lines."""
    found: list[dict[str, str]] = []
    for line in lines:
        versions = versions_of(line)
        if versions and versions not in found:
            found.append(versions)
    return found


def provenance(run: str, config: str, lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a published result says of its origin: the run id, and every machine with its versions, units and seconds.

    ``config`` is the checksum of config.yaml.
    """
    runs: dict[str, dict[str, Any]] = {}
    for line in lines:
        about = {name: line.get(name) for name in ("host", "processor", "gpu", "commit")}
        about = {"fedwave": versions_of(line).get("fedwave"), "versions": versions_of(line), **about}
        one = runs.setdefault(str(about), {**about, "units": 0, "seconds": 0.0, "finished": ""})
        one["units"] += 1
        one["seconds"] = round(one["seconds"] + line["seconds"], 3)
        one["finished"] = max(one["finished"], line["finished"])
    return {"run": run, "config_sha256": config, "runs": list(runs.values())}


def other_versions(folder: Path, lines: Iterable[Mapping[str, Any]], now: str) -> str | None:
    """A sentence if units were made with other versions than are installed; ``now`` as "goes on with"."""
    for there in all_versions(lines):
        here = installed_versions(there)
        names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
        if names:
            return f"{folder} was made with {_shown(there, names)}; it {now} {_shown(here, names)}."
    return None


def versions_apart(a: Mapping[str, str], b: Mapping[str, str], made: str, here: str) -> str:
    """The versions that differ."""
    names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return "; ".join(f"{made} {name} {a.get(name, 'none')}, {here} {b.get(name, 'none')}" for name in names)


def versions_shown(versions: Mapping[str, str]) -> str:
    """Those of fedwave, Python and the most important packages."""
    return ", ".join(f"{k} {v}" for k, v in versions.items() if k in ("fedwave", "python", *PACKAGES[:3]))


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def own_commit() -> str | None:
    """The commit that is checked out where fedwave itself lies, read from plain files; None if it is no checkout.

    git is not started: it does what the configuration of a folder says.
    """
    package = Path(fedwave.__file__).resolve().parent
    git = package.parents[1] / ".git"
    try:
        head = (git / "HEAD").read_text().strip()
        if head.startswith("ref: "):
            name = head.removeprefix("ref: ")
            if (git / name).is_file():
                head = (git / name).read_text().strip()
            else:
                rows = (line.split(" ") for line in (git / "packed-refs").read_text().splitlines())
                head = next(row[0] for row in rows if row[1:] == [name])
    except (OSError, ValueError, StopIteration):
        return None
    return head if package.parent.name == "src" and _COMMIT.fullmatch(head) else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _shown(versions: Mapping[str, str], names: list[str]) -> str:
    return ", ".join(f"{name} {versions[name]}" if name in versions else f"no {name}" for name in names)


def _gpu(experiment: Experiment) -> str | None:
    if experiment.task is None or experiment.training.device == "cpu":
        return None
    from fedwave.learning.settings import gpu_count, gpu_name

    return gpu_name() if gpu_count() else None
