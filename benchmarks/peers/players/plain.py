"""Plain PyTorch, one client after another.

In one thread, however many cores it has: two that share every small step were several times slower on a busy machine.
"""

from __future__ import annotations

from multiprocessing.connection import Connection

import torch

from benchmarks.peers.players.protocol import Server, Work, new_model, serve, train_client


def main(bench: Connection, path: str, threads: int, device: str) -> None:
    """Plays the rounds that it is asked for."""
    torch.set_num_threads(1)
    work = Work(path).to(device)
    model = new_model(work.weights).to(device)
    server = Server(work, {name: p.to(device) for name, p in work.weights.items()})

    def play(first: int, last: int) -> int:
        samples = 0
        for t in range(first, last):
            trained = {}
            for client in work.clients(t):
                if work.counts[t, client]:
                    model.load_state_dict(server.central)
                    samples += train_client(model, work, t, client)
                    trained[client] = {k: p.detach().clone() for k, p in model.named_parameters()}
            server.finish(t, trained)
        if device == "cuda":
            torch.cuda.synchronize()
        return samples

    serve(bench, play, lambda: server.central)
