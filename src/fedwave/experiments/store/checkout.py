"""The commit of fedwave's own code, if it runs from a checkout: read from plain files, without starting git.

git does what the configuration of a folder says (hooks, file monitors, filters), and the current folder may be
somebody else's. Whether the checkout has uncommitted changes cannot be known this way.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import fedwave

_MOST_BYTES = 5_000_000  # of packed-refs in a checkout with many branches
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def own_commit() -> str | None:
    """The commit that is checked out where fedwave itself lies; None if that is no checkout of fedwave."""
    package = Path(fedwave.__file__).resolve().parent
    return commit_of(package.parents[1]) if package.parent.name == "src" else None


def commit_of(checkout: Path) -> str | None:
    """The commit of a checkout of fedwave with a .git folder; None for anything else."""
    git = checkout / ".git"
    try:
        about = tomllib.loads(_text(checkout, "pyproject.toml"))
        if about["project"]["name"] != "fedwave" or git.is_symlink():
            return None
        head = _text(git, "HEAD").strip()
        if not head.startswith("ref: "):
            return _checked(head)
        ref = head.removeprefix("ref: ")
        if (git / ref).is_file():
            return _checked(_text(git, ref).strip())
        rows = (line.split(" ") for line in _text(git, "packed-refs").splitlines())
        return next((_checked(row[0]) for row in rows if row[1:] == [ref]), None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _text(folder: Path, name: str) -> str:
    path = folder / name
    # Against links and names with dots that lead out of the checkout.
    if not (path.is_file() and path.resolve().is_relative_to(folder.resolve())):
        raise ValueError(name)
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode()


def _checked(commit: str) -> str | None:
    return commit if _COMMIT.fullmatch(commit) else None
