"""Flower's simulation engine: a Ray actor of one thread per core, as its guide says. The aggregation is the paper's.

The server looks for replies every 2 ms instead of every 100 ms.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from functools import cache
from multiprocessing.connection import Connection

import torch
from torch import nn

from benchmarks.peers.players.protocol import Server, State, Work, new_model, serve, train_client

# Before the libraries are imported: nothing is reported to their makers.
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

_PAUSE = 0.002  # seconds between two looks for replies
client_app = ClientApp()


@cache
def _ready(path: str) -> tuple[Work, nn.Module]:
    """Data and model, made once in every actor."""
    torch.set_num_threads(1)
    work = Work(path)
    return work, new_model(work.weights)


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Local training from the central model of the message."""
    asked = message.content["asked"]
    work, model = _ready(str(asked["work"]))
    model.load_state_dict(message.content["model"].to_torch_state_dict())
    client = int(context.node_config["partition-id"])
    samples = train_client(model, work, int(asked["round"]), client)
    found = {"model": ArrayRecord(model.state_dict()), "found": MetricRecord({"client": client, "samples": samples})}
    return Message(content=RecordDict(found), reply_to=message)


def main(bench: Connection, path: str, threads: int, device: str) -> None:
    """Plays the rounds that it is asked for, from within the server of a simulation."""
    torch.set_num_threads(1)
    work = Work(path)
    server_app = ServerApp()

    @server_app.main()
    def rounds(grid: Grid, context: Context) -> None:
        server = Server(work, work.weights)
        node_of = _nodes(grid, path, work)

        def play(first: int, last: int) -> int:
            samples = 0
            for t in range(first, last):
                nodes = [node_of[client] for client in work.clients(t) if work.counts[t, client]]
                trained = {}
                for reply in _replies(grid, path, t, server.central, nodes):
                    found = reply.content["found"]
                    trained[int(found["client"])] = reply.content["model"].to_torch_state_dict()
                    samples += int(found["samples"])
                server.finish(t, trained)
            return samples

        serve(bench, play, lambda: server.central, ("flwr", "ray"))

    run_simulation(
        server_app,
        client_app,
        num_supernodes=work.counts.shape[1],
        backend_config={
            "init_args": {"num_cpus": threads, "num_gpus": 0, "log_to_driver": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


def _nodes(grid: Grid, path: str, work: Work) -> dict[int, int]:
    """The node of every client. Only the clients know it: each trains once, which does not count."""
    wanted = work.counts.shape[1]
    while len(nodes := list(grid.get_node_ids())) < wanted:
        time.sleep(0.1)
    replies = _replies(grid, path, 0, work.weights, nodes)
    return {int(reply.content["found"]["client"]): reply.metadata.src_node_id for reply in replies}


def _replies(grid: Grid, path: str, t: int, central: State, nodes: list[int]) -> list[Message]:
    """Sends the central model to some nodes and waits for their replies."""
    content = RecordDict(
        {"model": ArrayRecord(OrderedDict(central)), "asked": ConfigRecord({"round": t, "work": path})}
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
