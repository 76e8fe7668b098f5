"""The client of Flower's simulation; a file of its own, so that the processes of Ray can import it."""

from __future__ import annotations

from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from rounds_protocol import Work, new_model, train_client
from torch import nn

app = ClientApp()


@cache
def ready(folder: str) -> tuple[Work, nn.Module]:
    """Data and model are made once in every process."""
    torch.set_num_threads(1)
    work = Work(folder)
    return work, new_model(work.weights)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Local training from the central model of the message."""
    asked = message.content["asked"]
    work, model = ready(str(asked["work"]))
    model.load_state_dict(message.content["model"].to_torch_state_dict())
    client = int(context.node_config["partition-id"])
    samples = train_client(model, work, int(asked["round"]), client)
    found = {"model": ArrayRecord(model.state_dict()), "found": MetricRecord({"client": client, "samples": samples})}
    return Message(content=RecordDict(found), reply_to=message)
