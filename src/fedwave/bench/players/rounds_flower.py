"""Plays the rounds in Flower's simulation engine: `rounds_flower.py WORK THREADS DEVICE`.

One Ray actor per core, each with one thread, as Flower's guide says. Replies are looked for every 2 ms instead of
every 100 ms. The server adds the paper's aggregation.
"""

from __future__ import annotations

import os
import sys
import time
from collections import OrderedDict

import torch
from rounds_protocol import Server, State, Talk, Work, serve

# Before the libraries are imported: nothing is reported to their makers.
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from rounds_flower_client import app as client_app

_PAUSE = 0.002  # seconds between two looks for replies


def main(folder: str, threads: str, device: str) -> None:
    """Answer the bench until it ends, from within the server of a simulation."""
    talk = Talk()
    torch.set_num_threads(1)
    work = Work(folder)
    server_app = ServerApp()

    @server_app.main()
    def rounds(grid: Grid, context: Context) -> None:
        server = Server(work, work.weights)
        node_of = _nodes(grid, folder, work)

        def play(first: int, last: int) -> int:
            samples = 0
            for t in range(first, last):
                trained, count = _trained(grid, folder, work, server.central, node_of, t)
                server.finish(t, trained)
                samples += count
            return samples

        serve(talk, play, lambda: server.central, ("flwr", "ray"))

    cores = int(threads)
    run_simulation(
        server_app,
        client_app,
        num_supernodes=work.counts.shape[1],
        backend_config={
            "init_args": {"num_cpus": cores, "num_gpus": 0, "log_to_driver": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


def _nodes(grid: Grid, folder: str, work: Work) -> dict[int, int]:
    """The node of every client, which the clients alone know: found by one training that does not count."""
    wanted = work.counts.shape[1]
    while len(nodes := list(grid.get_node_ids())) < wanted:
        time.sleep(0.1)
    found = {}
    for reply in _answers(grid, folder, 0, work.weights, nodes):
        found[int(reply.content["found"]["client"])] = reply.metadata.src_node_id
    return found


def _trained(
    grid: Grid, folder: str, work: Work, central: State, node_of: dict[int, int], t: int
) -> tuple[dict[int, State], int]:
    """The models of those who train in a round, and the number of samples."""
    nodes = [node_of[client] for client in work.clients(t) if work.counts[t, client]]
    trained, samples = {}, 0
    for reply in _answers(grid, folder, t, central, nodes):
        found = reply.content["found"]
        trained[int(found["client"])] = reply.content["model"].to_torch_state_dict()
        samples += int(found["samples"])
    return trained, samples


def _answers(grid: Grid, folder: str, t: int, central: State, nodes: list[int]) -> list[Message]:
    """Send the central model to some nodes, and wait for all that they answer."""
    content = RecordDict(
        {"model": ArrayRecord(OrderedDict(central)), "asked": ConfigRecord({"round": t, "work": folder})}
    )
    messages = [Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node) for node in nodes]
    waiting, replies = set(grid.push_messages(messages)), []
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            if reply.has_error():
                raise RuntimeError(f"a client failed: {reply.error.reason}")
            waiting.remove(reply.metadata.reply_to_message_id)
            replies.append(reply)
        if waiting:
            time.sleep(_PAUSE)
    return replies


if __name__ == "__main__":
    main(*sys.argv[1:])
