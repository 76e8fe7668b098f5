"""The paper's rounds played by plain PyTorch, pfl-research, Flower and fedwave: speed and memory.

python -m benchmarks.peers --threads 1 2 --repeats 6
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.peers.contenders import ENVIRONMENTS, PEERS
from benchmarks.peers.measure import Measurement
from benchmarks.peers.player import PlayerFailed
from benchmarks.peers.report import write_report
from benchmarks.peers.work import Work
from fedwave.errors import FedwaveError
from fedwave.experiments.store.provenance import installed_versions, own_commit, processor
from fedwave.files.writing import write_json
from fedwave.learning.settings import available_device, gpu_name


def main() -> None:
    """Measures, writes the numbers, prints the table and draws the figure."""
    asked = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    asked.add_argument("--rounds", type=_count, default=5, help="rounds of a repeat, and of the warm-up (5)")
    asked.add_argument("--repeats", type=_count, default=5, help="repeats after the warm-up (5)")
    asked.add_argument(
        "--threads", type=_count, nargs="+", default=[1], help="cores of each contender (1); a section each"
    )
    asked.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: fedwave and plain PyTorch alone")
    asked.add_argument("--peers", choices=PEERS, nargs="*", default=list(PEERS), help="other simulators (all)")
    asked.add_argument("--dataset", choices=("mnist", "synthetic"), default="mnist", help="synthetic needs no download")
    asked.add_argument(
        "--out", type=Path, default=ENVIRONMENTS / "bench.json", help="the numbers; the figure beside it"
    )
    how = asked.parse_args()
    try:
        available_device(how.device)
        how.out.parent.mkdir(parents=True, exist_ok=True)
        content = _measured(how)
    except (FedwaveError, OSError) as error:
        asked.error(str(error))
    except PlayerFailed as error:
        sys.exit(f"plain PyTorch, which the others are compared with, failed: {error}")
    write_json(how.out, content)
    print(write_report(how.out))


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} must be at least 1")
    return count


def _measured(how: argparse.Namespace) -> dict[str, Any]:
    """The measurement, and the machine that it was made on, in plain values."""
    work = Work(how.dataset, how.rounds * (how.repeats + 1))
    gpu = how.device == "cuda"
    with TemporaryDirectory(prefix="fedwave-peers-") as folder:
        path = Path(folder) / "work.npz"
        work.write(path)
        measurement = Measurement(work, path, how.rounds, how.repeats)
        threads = [max(how.threads)] if gpu else how.threads
        sections = [measurement.section(how.device, count, how.peers) for count in threads]
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": platform.platform(),
            "gpu": gpu_name() if gpu else None,
        },
        "versions": installed_versions(),
        "commit": own_commit(),
        "work": work.about(how.rounds),
        "measurement": {
            "rounds_a_repeat": how.rounds,
            "repeats": how.repeats,
            "warm_up_rounds": how.rounds,
            "evaluation": "none",
            "order": "interleaved, every second repeat backwards",
        },
        "sections": sections,
    }


if __name__ == "__main__":
    main()
