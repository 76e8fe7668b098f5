"""One benchmark: every section, and the machine that it ran on, as plain values."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedwave.bench.measure import Plan, measure
from fedwave.bench.player import PlayerFailed
from fedwave.bench.work import Setting, Work
from fedwave.errors import FedwaveError
from fedwave.experiments.results.checkout import own_commit
from fedwave.experiments.results.provenance import installed_versions, processor
from fedwave.learning.settings import available_device, gpu_name


def benchmark(
    setting: Setting, plan: Plan, threads: Sequence[int], device: str, message: Callable[[str], None]
) -> dict[str, Any]:
    """Measure all ways, once for each number of threads, and on the GPU if there is one, or only on the one or other.

    ``device`` is auto, cpu or cuda.
    """
    gpu = available_device(device) == "cuda"
    message("preparing the rounds")
    work = Work(replace(setting, rounds=plan.in_all))
    sections = [] if device == "cuda" else [("cpu", count) for count in threads]
    sections += [("cuda", max(threads))] if gpu else []
    found = []
    with TemporaryDirectory(prefix="fedwave-bench-") as folder:
        work.write(Path(folder))
        for device, count in sections:
            where = "GPU" if device == "cuda" else f"{count} of {os.cpu_count()} cores"
            try:
                found.append(
                    measure(
                        work,
                        Path(folder),
                        plan,
                        count,
                        device,
                        lambda text, where=where: message(f"{where}, {text}"),  # type: ignore[misc]
                    )
                )
            except PlayerFailed as error:
                raise FedwaveError(f"plain PyTorch, which the others are compared with, failed: {error}.") from None
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory_bytes": _memory(),
            "system": platform.platform(),
            "gpu": gpu_name() if gpu else None,
        },
        "versions": installed_versions(),
        "commit": own_commit(),
        "work": work.about(plan.rounds),
        "measurement": {
            "rounds_a_repeat": plan.rounds,
            "repeats": plan.repeats,
            "warm_up_rounds": plan.rounds,
            "evaluation": "none",
            "order": "interleaved, every second repeat backwards",
        },
        "sections": found,
    }


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
