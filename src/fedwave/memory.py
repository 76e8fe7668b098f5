"""Available memory, and the refusal of work that needs more.

The estimates stand beside the code that takes the memory. They err on the small side, so that
work that fits is never refused.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

from fedwave.errors import FedwaveError

_SMALL = 1 << 26  # bytes that are not worth a look
_UNITS = ("MiB", "GiB", "TiB", "PiB")
_GROUPS = Path("/sys/fs/cgroup")
# Files of a control group: limit, usage, and the reclaimable line of memory.stat. First row cgroup v2, second v1.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def check_memory(what: str, need: float, lower: str) -> None:
    """Raises FedwaveError if ``what`` needs more bytes than there are; ``lower`` tells the user what to lower."""
    if need < _SMALL:
        return
    there = available()
    if need > there:
        raise not_enough_memory(what, need, there, lower)


def not_enough_memory(what: str, need: float, there: float, lower: str) -> FedwaveError:
    """The error for ``what``, which needs more bytes than there are; ``lower`` tells the user what to lower."""
    return FedwaveError(
        f"{what} needs about {size_text(need)} of memory, but only {size_text(there)} is available: {lower}."
    )


def memory_error(error: MemoryError) -> str:
    """The text of a MemoryError in one line."""
    return " ".join(str(error).split()) or "an allocation failed"


def available() -> float:
    """Bytes that this process can still use: the least that the machine, its control groups and its own limit leave."""
    return max(0.0, min(_machine_bytes("MemAvailable"), _group_bytes(), _process_bytes()))


def limit() -> float:
    """The most bytes that this process may use. Does not depend on what is free now."""
    return min(_machine_bytes("MemTotal"), _group_bytes(free=False), _process_bytes(free=False))


def size_text(size: float) -> str:
    """A number of bytes with its unit.

    >>> size_text(3 * 2**20), size_text(1.264 * 2**40), size_text(1e30)
    ('3 MiB', '1.26 TiB', 'more than 1,000 PiB')
    """
    size /= 1 << 20
    for unit in _UNITS:
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"more than 1,000 {_UNITS[-1]}"


def _machine_bytes(which: str) -> float:
    with suppress(OSError, ValueError, IndexError):  # Linux; what is swapped out is slow, but works
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if "kB" in line}
        if which in fields:
            return fields[which] + (fields.get("SwapFree", 0) if which == "MemAvailable" else 0)
    with suppress(AttributeError, OSError, ValueError):  # total only; free memory is unknown on this system
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return math.inf


def _group_bytes(*, free: bool = True) -> float:
    """The least that is left, or allowed, in any control group of this process: a container, a job of a cluster."""
    left = math.inf
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names not in ("", "memory"):
                continue
            root = _GROUPS / names
            here = root / path.strip("/")
            # Inside a container the path may be the host's; then the root is the container's own.
            for folder in (here, *here.parents):
                left = min(left, _left_in(folder, free))
                if folder == root:
                    break
    return left


def _left_in(folder: Path, free: bool) -> float:
    for most_file, used, reclaimable in _FILES:
        with suppress(OSError, ValueError, IndexError):
            most = int((folder / most_file).read_text())  # "max": a ValueError
            if not free:
                return most
            stat = (folder / "memory.stat").read_text().splitlines()
            back = sum(int(line.split()[1]) for line in stat if line.split()[0] == reclaimable)
            return most - int((folder / used).read_text()) + back
    return math.inf


def _process_bytes(*, free: bool = True) -> float:
    with suppress(ImportError, OSError, ValueError, IndexError):  # no such limits on Windows
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            return most - pages * resource.getpagesize() if free else most
    return math.inf
