"""examples/flower/strategy.py in an environment of Flower's own: only chosen nodes train, and fedwave chooses them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fedwave as fw

ROOT = Path(__file__).parents[1]
MADE = ROOT / "out" / "peers" / "flower"  # by `make bench-peers`
PINS = ROOT / "benchmarks" / "peers" / "flower.txt"

# Runs the example, and writes what its server received and sent.
RECORDER = """
import json, sys
from pathlib import Path
import strategy

class Recorded(strategy.Wireless):
    def __init__(self, live):
        super().__init__(live)
        self.rounds = rounds
        live.save(folder / "live.npz")

    def configure_train(self, server_round, arrays, config, grid):
        self.grid = grid
        sent = super().configure_train(server_round, arrays, config, self)
        nodes = [self.names[message.metadata.dst_node_id] for message in sent]
        self.rounds.append({"found": self.found, "sent": nodes})
        return sent

    def get_node_ids(self):
        return self.grid.get_node_ids()

    def send_and_receive(self, messages, timeout):
        replies = list(self.grid.send_and_receive(messages, timeout=timeout))
        found = [dict(reply.content["found"]) for reply in replies]
        self.found = {str(one.pop("node")): one for one in found}
        return replies

    def aggregate_train(self, server_round, replies):
        self.rounds[-1]["replies"] = len(list(replies))
        metrics = {self.names[one.metadata.src_node_id]: one.content["metrics"] for one in replies if one.has_content()}
        self.rounds[-1]["arrived"] = {name: one["num-examples"] for name, one in metrics.items()}
        return super().aggregate_train(server_round, replies)

folder, rounds = Path(sys.argv.pop()), []
strategy.Wireless = Recorded
strategy.run_simulation(strategy.server_app, strategy.client_app, num_supernodes=len(strategy.RATES))
(folder / "rounds.json").write_text(json.dumps(rounds))
"""


@pytest.fixture(scope="module")
def flower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with Flower: that of `make bench-peers`, or one of a new environment, without torch."""
    if (MADE / "made").exists():
        return MADE / "bin" / "python"
    folder = tmp_path_factory.mktemp("flower")
    python = folder / "bin" / "python"
    pins = [line for line in PINS.read_text().splitlines() if not line.startswith(("#", "torch=="))]
    for command in (
        [sys.executable, "-m", "venv", folder],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *pins],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"Flower cannot be installed: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return python


@pytest.mark.slow
def test_fedwave_decides_who_trains(flower, tmp_path):
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'examples' / 'flower'}",
        "FLWR_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [flower, "-c", RECORDER, tmp_path], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "mean backlog" in done.stdout

    rounds = json.loads((tmp_path / "rounds.json").read_text())
    live = fw.Live.load(tmp_path / "live.npz")
    trained = dict.fromkeys(live.names, 0)
    before = dict.fromkeys(live.names, 0)
    for one in rounds:
        found, sent, arrived = one["found"], one["sent"], one["arrived"]
        waiting = {name: node["waiting"] for name, node in found.items()}
        assert sorted(waiting) == sorted(live.names)
        # The nodes count their trainings themselves.
        assert {name: node["trained"] for name, node in found.items()} == trained
        # Shards go on arriving everywhere; only a delivery empties a node.
        assert all(waiting[name] >= before[name] for name in live.names)
        chosen = live.choose(snr_db={name: node["snr_db"] for name, node in found.items()}, waiting=waiting)
        assert sorted(sent) == sorted(chosen)
        assert one["replies"] == len(chosen)
        live.delivered(arrived)
        assert all(arrived[name] >= waiting[name] for name in arrived)
        for name in sent:
            trained[name] += 1
        before = {name: 0 if name in arrived else waiting[name] for name in live.names}
    assert live.round == len(rounds) == 20
    assert sum(trained.values()) > sum(len(one["arrived"]) for one in rounds) > 20  # some were lost
    assert all(any(name in one["arrived"] for one in rounds) for name in live.names)
