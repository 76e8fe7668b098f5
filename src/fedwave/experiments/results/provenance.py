"""The origin of results: versions, machine, time, commit."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import to_yaml
from fedwave.files import write_json
from fedwave.version import __version__

PACKAGES = ("numpy", "scipy", "torch", "pandas", "pyarrow", "xarray", "pydantic")


def write_provenance(folder: Path, experiment: Experiment) -> None:
    """Record which machine and versions made these results; a run that is resumed adds a record."""
    path = folder / "provenance.json"
    before: list[Any] = []
    if path.exists():
        try:
            before = json.loads(path.read_bytes())["runs"]
        except (OSError, ValueError, KeyError, TypeError):
            before = []  # damaged; no result depends on it
    config = hashlib.sha256(to_yaml(experiment).encode()).hexdigest()
    now = {"begun": datetime.now(UTC).isoformat(timespec="seconds"), **_machine(experiment)}
    content = {"fedwave": __version__, "seed": experiment.seed, "config_sha256": config}
    write_json(path, {**content, "runs": [*before, now]})


def installed_versions() -> dict[str, str]:
    """What is installed here."""
    found = {"fedwave": __version__, "python": sys.version.split()[0]}
    return found | {name: version for name in PACKAGES if (version := _version(name))}


def _machine(experiment: Experiment) -> dict[str, Any]:
    return {
        "fedwave": __version__,
        "python": sys.version.split()[0],
        "packages": {name: _version(name) for name in PACKAGES},
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpu": _gpu(experiment),
        "commit": _commit(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        return platform.processor()


def _gpu(experiment: Experiment) -> str | None:
    if experiment.task is None or experiment.training.device == "cpu":
        return None
    from fedwave.learning.replay import gpu_name

    return gpu_name()


def _commit() -> dict[str, Any] | None:
    """The commit of the folder that the run was started in, if it is under git."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
