"""Writes the commit into a package that is built from a checkout: results record it after `pip install .` too."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Adds fedwave/commit.txt; a build outside a checkout has none, or that of the source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        try:
            found = subprocess.run(
                ["git", "rev-parse", "HEAD"], cwd=self.root, capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):  # no git here, or no commit yet
            return
        file = Path(self.directory) / "commit.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(found.stdout)
        inside = "src/fedwave/commit.txt" if self.target_name == "sdist" else "fedwave/commit.txt"
        build_data["force_include"][str(file)] = inside

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        (Path(self.directory) / "commit.txt").unlink(missing_ok=True)
