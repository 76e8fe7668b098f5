"""pfl-research: a worker process of one thread per core, as its guide for fast simulations says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import TextIO

import torch

from benchmarks.peers.players.protocol import Work, serve

_RANK, _ADDRESSES = "PFL_WORKER_RANK", "PFL_WORKER_ADDRESSES"


def main(answers: TextIO, path: str, threads: int, device: str) -> None:
    """Plays the rounds that it is asked for; the first worker starts the others and passes its questions on."""
    torch.set_num_threads(1)
    os.environ["PFL_PYTORCH_DEVICE"] = device
    others = [] if _RANK in os.environ else _start_others(threads)
    from benchmarks.peers.players.pfl_rounds import Rounds  # the library looks for the other workers when imported

    work = Work(path)
    rounds = Rounds(work, int(os.environ.get(_RANK, 0)), threads)

    def play(first: int, last: int) -> int:
        for other in others:
            assert other.stdin is not None
            other.stdin.write(json.dumps({"play": [first, last]}) + "\n")
            other.stdin.flush()
        trained = rounds.play(first, last)
        return trained if threads == 1 else int(work.counts[first:last].sum())

    serve(answers, play, rounds.weights, ("pfl",))
    for other in others:
        other.communicate()


def _start_others(workers: int) -> list[subprocess.Popen[str]]:
    """Starts workers 1, 2, ...; they and this one learn their ranks from the environment."""
    if workers == 1:
        return []
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    os.environ[_ADDRESSES] = ",".join(f"localhost:{port + k}" for k in range(workers))
    found = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.peers.players", *sys.argv[1:]],
            env={**os.environ, _RANK: str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(1, workers)
    ]
    os.environ[_RANK] = "0"
    return found
