"""Seconds of a round against instances, devices and W: `python -m benchmarks.growth measure | draw`.

Three schedulers are simulated on one core and trained side by side (the MNIST CNN on synthetic images, evaluation on
1,000 of them included). Each number is the median round of a short run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import fedwave as fw
from fedwave.errors import plural
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings, available_device

SCHEDULERS = ("alsa-pi", "balsa", "round-robin")
ROUNDS = 6
SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "instances": {"cpu": (1, 2, 4, 8), "cuda": (1, 2, 5, 10, 20, 50, 100)},
    "devices": {"cpu": (10, 25, 50, 100), "cuda": (10, 25, 50, 100, 200, 400, 1000)},
    "slots": {"cpu": (1, 2, 5, 10, 25), "cuda": (1, 2, 5, 10, 25)},
}
LABELS = {"instances": "instances", "devices": "devices (W a fifth of them)", "slots": "W"}
PLACES = {"cpu": "trained on a CPU core", "cuda": "trained on an H200"}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("verb", choices=("measure", "draw"))
    asked.add_argument("--json", type=Path, default=Path("docs/results/growth.json"))
    asked.add_argument("--figure", type=Path, default=Path("docs/results/growth.png"))
    how = asked.parse_args()
    if how.verb == "measure":
        kept = json.loads(how.json.read_text()) if how.json.exists() else {}
        device = available_device("auto")
        how.json.write_text(json.dumps(kept | {device: _measured(device)}, indent=1) + "\n")
    else:
        _draw(json.loads(how.json.read_text()), how.figure)


def _measured(device: str) -> list[dict[str, Any]]:
    task = fw.task("synthetic")
    _seconds(fw.paper_network(), 1, task, device)  # compiles
    rows = []
    for axis, sizes in SIZES.items():
        for size in sizes[device]:
            network = fw.random_network(size, max(1, size // 5)) if axis == "devices" else fw.paper_network()
            if axis == "slots":
                network = fw.paper_network(slots=size)
            instances = size if axis == "instances" else 10 if device == "cuda" else 1
            simulated, trained, samples = _seconds(network, instances, task, device)
            about = {"axis": axis, "size": size, "instances": instances}
            rows.append({**about, "simulated": simulated, "trained": trained, "samples": samples})
            print(rows[-1], flush=True)
    return rows


def _seconds(network: fw.Network, instances: int, task: Any, device: str) -> tuple[float, float, int]:
    began = time.perf_counter()
    traces = {name: fw.simulate(network, name, ROUNDS, instances, 0) for name in SCHEDULERS}
    simulated = (time.perf_counter() - began) / ROUNDS
    replay = Replay(labelled_runs(traces), task, Settings(device=device), EvaluationSizes(1000, 1000))
    times, samples = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        lanes = replay.lanes_of_round()
        samples.append(int(lanes.batches.sizes.sum()))
        replay._ahead = replay.round, lanes
        replay.advance()  # waits for the GPU when it reads the loss
        times.append(time.perf_counter() - began)
    return simulated, statistics.median(times[1:]), int(statistics.median(samples[1:]))


def _draw(data: dict[str, list[dict[str, Any]]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(10, 3.9), sharey=True, layout="constrained")
    for panel, axis in zip(panels, SIZES, strict=True):
        for device, rows in data.items():
            mine = [row for row in rows if row["axis"] == axis]
            sizes = [row["size"] for row in mine]
            each = f", {plural(mine[0]['instances'], 'instance')}" if axis != "instances" else ""
            panel.plot(sizes, [row["trained"] for row in mine], "o-", ms=4, label=PLACES[device] + each)
            if device == "cpu":
                continue
            simulated = [row["simulated"] for row in mine]
            panel.plot(sizes, simulated, "s--", ms=4, color="gray", label=f"simulated on a CPU core{each}")
        panel.set(xscale="log", yscale="log", xlabel=LABELS[axis])
        # The sizes of the device with the most of them: those of all would stand too close to be read.
        ticks = max(([r["size"] for r in rows if r["axis"] == axis] for rows in data.values()), key=len)
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize=8)
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        # Above the panel, where it hides no point.
        panel.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    panels[0].set_ylabel("seconds a round, three schedulers")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
