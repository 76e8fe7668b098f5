"""Starts a player: `python -m benchmarks.peers.players CONNECTION NAME WORK THREADS DEVICE [OPTION ...]`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from multiprocessing.connection import Connection

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def main(connection: str, name: str, work: str, threads: str, device: str, *options: str) -> None:
    """Gives the player its cores and threads, which its own processes inherit, and runs it."""
    if device == "cpu" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-int(threads) :])
    os.environ |= dict.fromkeys(_THREADS, threads)  # read by libraries when they are imported
    player = import_module(f"benchmarks.peers.players.{name}")
    player.main(Connection(int(connection)), work, int(threads), device, *options)


if __name__ == "__main__":
    main(*sys.argv[1:])
