"""Plays the rounds in plain PyTorch, one client after another: `rounds_plain.py WORK THREADS DEVICE`.

In one thread, whatever it is given: two that share every small step were several times slower on a busy machine.
"""

from __future__ import annotations

import sys

import torch
from rounds_protocol import Server, Talk, Work, new_model, serve, train_client


def main(folder: str, threads: str, device: str) -> None:
    """Answer the bench until it ends."""
    talk = Talk()
    torch.set_num_threads(1)
    work = Work(folder).to(device)
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

    serve(talk, play, lambda: server.central)


if __name__ == "__main__":
    main(*sys.argv[1:])
