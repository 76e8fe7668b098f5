"""A Flower ServerApp in which a fedwave scheduler decides who trains and uploads.

    pip install . "flwr[simulation]==1.41.0"      # in an environment of its own
    python examples/flower/strategy.py [SCHEDULER] 2> flower.log

Shards of data arrive at all nodes in all rounds. A node that is chosen trains on the shards that wait. If the radio
loses its upload, they go on waiting. The radio and the arrivals are drawn here; a deployment measures them.
"""

import os
import sys
import time

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # before Flower is imported

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import fedwave as fw

RATES, SNR_DB = [1, 1, 2, 2, 6, 6], [12, 4, 12, 4, 6, 2]  # of the nodes: shards a round, mean SNR
NETWORK = fw.Network(fw.DeviceTable(RATES, snr_db=SNR_DB, name=tuple("012345")), slots=2)
ROUNDS, SEED, LOST = 20, 1, 1001
TRUTH = np.linspace(-1, 1, 10)  # a linear model, which is learned from noisy samples
client_app, server_app = ClientApp(), ServerApp()


def draw(node, t):
    """Round t at a node: the SNR in dB, whether an upload arrives, the new shards, and a generator for their data."""
    rng = np.random.default_rng([SEED, node, t])
    snr = NETWORK.mean_snr[node] * rng.exponential()
    return 10 * np.log10(snr), rng.random() < NETWORK.success.probability(snr), int(rng.poisson(RATES[node])), rng


def situation(message, context):
    """The node, the round, and what the node remembers: the round of its last delivery, and how often it trained."""
    memory = context.state.setdefault("memory", MetricRecord({"delivered": 0, "trained": 0}))
    return context.node_config["partition-id"], message.content["config"]["round"], memory


@client_app.query()
def measure(message, context):
    """Reports the SNR and the backlog at the beginning of a round."""
    node, t, memory = situation(message, context)
    waiting = sum(draw(node, s)[2] for s in range(memory["delivered"] + 1, t))
    found = {"node": node, "snr_db": float(draw(node, t)[0]), "waiting": waiting, "trained": memory["trained"]}
    return Message(RecordDict({"found": MetricRecord(found)}), reply_to=message)


@client_app.train()
def train(message, context):
    """Trains on all shards since the last delivery, 8 samples each, also on those that arrive in this round."""
    node, t, memory = situation(message, context)
    (weights,), shards = message.content["arrays"].to_numpy_ndarrays(), 0
    for s in range(memory["delivered"] + 1, t + 1):
        _, arrives, new, rng = draw(node, s)
        samples = rng.normal(size=(8 * new, TRUTH.size))
        labels = samples @ TRUTH + rng.normal(size=8 * new)
        weights, shards = weights + 0.01 * (labels - samples @ weights) @ samples, shards + new
    memory["trained"] += 1
    if not arrives:  # in this round, the last one of the loop
        return Message(Error(LOST, "the radio lost the upload"), reply_to=message)
    memory["delivered"] = t
    content = {"arrays": ArrayRecord([weights]), "metrics": MetricRecord({"num-examples": shards})}
    return Message(RecordDict(content), reply_to=message)


class Wireless(FedAvg):
    """Averages the uploads that arrive from the nodes that fedwave chooses."""

    def __init__(self, live):
        super().__init__(fraction_evaluate=0)
        self.live, self.names, self.backlogs = live, {}, []

    def configure_train(self, server_round, arrays, config, grid):
        """Asks all nodes for their measurements, and sends the model to those that are chosen."""
        ask = RecordDict({"config": ConfigRecord({"round": server_round})})
        queries = [Message(ask, node, MessageType.QUERY) for node in grid.get_node_ids()]
        replies = [one for one in grid.send_and_receive(queries, timeout=30) if one.has_content()]
        self.names = {one.metadata.src_node_id: str(one.content["found"]["node"]) for one in replies}
        found = {self.names[one.metadata.src_node_id]: one.content["found"] for one in replies}
        snr_db, waiting = ({name: one[key] for name, one in found.items()} for key in ("snr_db", "waiting"))
        chosen = self.live.choose(snr_db=snr_db, waiting=waiting)  # never a node that did not reply
        self.backlogs.append(sum(waiting.values()))
        print(f"round {server_round:2}: {self.backlogs[-1]:3} shards wait, chosen {chosen}", end="", flush=True)
        content = RecordDict({"arrays": arrays, **ask})
        return [Message(content, node, MessageType.TRAIN) for node, name in self.names.items() if name in chosen]

    def aggregate_train(self, server_round, replies):
        """Tells fedwave what arrived, and averages it by the number of shards."""
        shards = {one: one.content["metrics"]["num-examples"] for one in replies if one.has_content()}
        brought = {self.names[one.metadata.src_node_id]: count for one, count in shards.items()}
        self.live.delivered(brought)
        print(f", arrived {brought}")
        return super().aggregate_train(server_round, [one for one in shards if shards[one]])  # 0 is no weight


@server_app.main()
def main(grid, context):
    """Plays all rounds, and says how it went."""
    while len(list(grid.get_node_ids())) < len(RATES):
        time.sleep(0.1)
    strategy = Wireless(fw.Live(NETWORK, sys.argv[1] if len(sys.argv) > 1 else "balsa"))
    result = strategy.start(grid, ArrayRecord([np.zeros(TRUTH.size)]), num_rounds=ROUNDS, timeout=30)
    error = np.linalg.norm(result.arrays.to_numpy_ndarrays()[0] - TRUTH)
    print(f"{strategy.live}: mean backlog {np.mean(strategy.backlogs):.1f}, error of the model {error:.2f}")


if __name__ == "__main__":
    run_simulation(server_app, client_app, num_supernodes=len(RATES))
