"""pfl-research: a worker process of one thread per core, as its guide for fast simulations says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import torch

from benchmarks.peers.players.protocol import Work, serve

_RANK, _ADDRESSES = "PFL_WORKER_RANK", "PFL_WORKER_ADDRESSES"


def main(bench: Connection, path: str, threads: int, device: str) -> None:
    """Plays the rounds that it is asked for; the first worker starts the others and asks them for the same."""
    torch.set_num_threads(1)
    os.environ["PFL_PYTORCH_DEVICE"] = device
    others = [] if _RANK in os.environ else _start_others(threads)
    from benchmarks.peers.players.pfl_rounds import Rounds  # the library looks for the other workers when imported

    rounds = Rounds(Work(path), int(os.environ.get(_RANK, 0)), threads)
    for other in others:
        other.recv()  # its versions

    def play(first: int, last: int) -> int:
        for other in others:
            other.send((first, last))
        samples = rounds.play(first, last)
        return samples + sum(int(other.recv()[1]) for other in others)

    serve(bench, play, rounds.weights, ("pfl",))
    for other in others:
        other.send(None)


def _start_others(workers: int) -> list[Connection]:
    """Starts workers 1, 2, ...; they and this one learn their ranks from the environment."""
    if workers == 1:
        return []
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    os.environ[_ADDRESSES] = ",".join(f"localhost:{port + k}" for k in range(workers))
    found = []
    for rank in range(1, workers):
        ours, theirs = Pipe()
        words = [sys.executable, "-m", "benchmarks.peers.players", str(theirs.fileno()), *sys.argv[2:]]
        subprocess.Popen(words, env={**os.environ, _RANK: str(rank)}, pass_fds=[theirs.fileno()])
        theirs.close()
        found.append(ours)
    os.environ[_RANK] = "0"
    return found
