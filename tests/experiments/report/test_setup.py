"""The simulation setup in words has every number, in prose and in LaTeX."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import mentions

import fedwave as fw
from fedwave.experiments.config.read import load_experiment


def test_every_number_is_there() -> None:
    how = load_experiment(
        "random",
        [
            "network.devices=1200",
            "network.slots=300",
            "network.gamma=0.25",
            "network.fading=rician:k_factor=6.5",
            "network.success=harq:tries=3",
            "network.arrivals=negative-binomial:dispersion=2.5",
            "network.set.buffer_limit=44",
            "network.set.interference_dbm=-101.5",
            "network.set.miss_probability=0.125",
            "network.set.noise_dbm=-97.5",
            "schedulers=[age, {name: balsa, stage_rule: max1, as: mine}]",
            "rounds=321",
            "instances=17",
            "first_instance=30",
            "seed=99",
            "burn_in=12",
            "sweep.rounds=[321, 400]",
        ],
    )
    found = fw.describe(how)
    for text in (found.prose, found.latex.replace("{,}", ",").replace("$", "").replace(r"\_", "_")):
        assert mentions(text, "1,200", "W = 300", "0.25", "rician", "6.5", "harq", "tries = 3", "dispersion = 2.5")
        assert mentions(text, "44 shards", "-101.5", "0.125", "-97.5", "128.1", "37.6", "mine", "max1", "321 rounds")
        assert mentions(text, "17 instances", "30 to 46", "seed 99", "12 rounds", "321 and 400", fw.__version__)
    assert r"$\gamma = 0.25$" in found.latex
    assert "\0" not in found.prose + found.latex
    assert str(found) == found.prose


def test_a_task_has_its_settings() -> None:
    pytest.importorskip("torch")
    changes = ["task.eta=0.03", "task.batch=32", "task.aggregation=lee:beta=0.5", "task.partition=dirichlet:alpha=0.7"]
    changes.append("task.optimizer=adam")
    text = fw.describe(load_experiment("quick", changes)).prose
    assert mentions(
        text, "mnist", "cnn", "0.03", "batch 32", "beta = 0.5", "alpha = 0.7", "2,000 test images", "optimizer", "adam"
    )


def test_a_run_names_what_made_it(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = json.loads((small_run / "done.jsonl").read_text().splitlines()[-1])
    text = fw.describe(small_run).prose
    assert mentions(text, *(f"{name} {one}" for name, one in last["versions"].items()))
    assert (last["commit"] or "commit") in (text if last["commit"] else "commit")
    assert fw.describe(small_run).prose == text
