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
from fedwave.experiments.store.inputs import package_versions
from fedwave.version import __version__

PACKAGES = ("numpy", "scipy", "torch", "pandas", "pyarrow", "xarray", "pydantic")
_VERSION = re.compile(r"[A-Za-z0-9.+!_-]{1,40}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def machine(experiment: Experiment) -> dict[str, Any]:
    """This machine and the versions on it, for the line of a unit in done.jsonl."""
    gpu = None
    if experiment.task is not None and experiment.training.device != "cpu":
        from fedwave.learning.settings import gpu_count, gpu_name

        gpu = gpu_name() if gpu_count() else None
    versions = installed_versions() | package_versions(experiment)
    return {"host": platform.node(), "processor": processor(), "gpu": gpu, "commit": own_commit(), "versions": versions}


def installed_versions(names: Iterable[str] = ()) -> dict[str, str]:
    """The installed versions of fedwave, Python, PACKAGES, and the packages in ``names``."""
    found = {"fedwave": __version__, "python": sys.version.split()[0]}
    for name in dict.fromkeys([*PACKAGES, *names]):
        try:
            found.setdefault(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
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


def all_commits(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """The different commits that units were made with, in the order of their lines."""
    given = (line.get("commit") for line in lines)
    return list(dict.fromkeys(one for one in given if isinstance(one, str) and _COMMIT.fullmatch(one)))


def other_versions(folder: Path, lines: Iterable[Mapping[str, Any]]) -> str | None:
    """A sentence if units were made with other versions than are installed."""
    apart = (versions_apart(made, installed_versions(made)) for made in all_versions(lines))
    text = next(filter(None, apart), None)
    return text and f"{folder} was made with other versions than are installed here: {text}."


def versions_apart(a: Mapping[str, str], b: Mapping[str, str]) -> str:
    """The versions that differ, such as "numpy 2.0 and 2.1"; empty if none does."""
    names = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    return ", ".join(f"{name} {a.get(name, 'missing')} and {b.get(name, 'missing')}" for name in names)


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def own_commit() -> str | None:
    """The commit of this fedwave; None if it is unknown.

    The build of an installed package has written it down (hatch_build.py). In a checkout it is read from git's own
    plain files; git is not started: it does what the configuration of a folder says.
    """
    package = Path(fedwave.__file__).resolve().parent
    git = package.parents[1] / ".git"
    try:
        if (package / "commit.txt").is_file():
            head = (package / "commit.txt").read_text().strip()
            return head if _COMMIT.fullmatch(head) else None
        head = (git / "HEAD").read_text().removeprefix("ref: ").strip()
        if head.startswith("refs/"):  # a branch, in a file of its own or among the packed ones
            path = git / head
            text = path.read_text() if path.is_file() else (git / "packed-refs").read_text().partition(f" {head}\n")[0]
            head = text.split()[-1]
    except (OSError, ValueError, IndexError):
        return None
    return head if package.parent.name == "src" and _COMMIT.fullmatch(head) else None
