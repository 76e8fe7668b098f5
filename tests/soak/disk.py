"""A small disk: a file system in memory of a few hundred kB, in a namespace that nobody else sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_INSIDE = "FEDWAVE_SOAK_NAMESPACE"
_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
_ROOM = "size=64m"


def enter_namespace() -> None:
    """Start this program again where it may mount file systems that nobody else sees, if the system allows that."""
    if _INSIDE in os.environ:
        return
    os.environ[_INSIDE] = "no"
    if shutil.which("unshare") is None:
        return
    tried = [*_NAMESPACE, "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
    if subprocess.run(tried, capture_output=True).returncode == 0:
        os.environ[_INSIDE] = "yes"
        sys.stdout.flush()
        os.execvp("unshare", [*_NAMESPACE, sys.executable, "-m", "tests.soak", *sys.argv[1:]])


def can_be_small() -> bool:
    """May this program mount file systems?"""
    return os.environ.get(_INSIDE) == "yes"


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[None]:
    """Within the block ``place`` has room for so many bytes."""
    place.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={max(size // 1024, 4)}k", "none", str(place))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def make_room(place: Path) -> None:
    """The disk becomes as large as anybody could want."""
    _mount("-o", f"remount,{_ROOM}", str(place))


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
