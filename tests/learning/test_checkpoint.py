"""A replay that stops in the middle and goes on elsewhere ends exactly where it would have ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_files import load, save
from half_precision import needs_bfloat16
from refusals import refused
from rules import RULES
from states import states
from summed import archive
from tiny import blobs, with_batch_norm

import fedwave as fw
from fedwave.aggregation import Lee
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task

ROUNDS = 7
SIZES = EvaluationSizes(60, 20, full_every=3)
SCHEDULERS = ("age", "random")


def traces(seed: int = 5, rounds: int = ROUNDS, names: tuple[str, ...] = SCHEDULERS) -> Any:
    network = fw.random_network(4, 2, seed=3, rate=[0.4, 1.0, 1.5, 2.0], miss_probability=0.4)
    return {name: fw.simulate(network, name, rounds, instances=[3, 1], seed=seed) for name in names}


def task(**numbers: Any) -> Task:
    """Beta is large, so that what waits for delivery matters."""
    parts = {"dataset": blobs(), "model": with_batch_norm}
    usual = {"shard_size": 4, "batch": 4, "epochs": 2, "eta": 0.1, "aggregation": Lee(0.7), "prox": 0.1}
    return Task(**(parts | usual | numbers))


def fresh(sizes: EvaluationSizes = SIZES, made_from: Any = None, learn: Task | None = None, **settings: Any) -> Replay:
    return Replay(labelled_runs(made_from or traces()), learn or task(), Settings(**settings), sizes)


def play(replay: Replay, until: int = ROUNDS) -> Replay:
    while replay.round < until:
        replay.advance()
    return replay


def assert_same_states(one: Replay, other: Replay) -> None:
    """Bit for bit, in everything that goes on."""
    assert one.round == other.round
    for a, b in zip(states(one), states(other), strict=True):
        assert a.diverged == b.diverged
        assert a.psi.keys() == b.psi.keys()
        assert a.own.keys() == b.own.keys()
        pairs = [(a.w, b.w), (a.buffers, b.buffers), (a.server, b.server), *((a.psi[u], b.psi[u]) for u in a.psi)]
        pairs += [(a.own[u][k], b.own[u][k]) for u in a.own for k in (0, 1)]
        for left, right in pairs:
            assert left.keys() == right.keys()
            for name in left:
                assert left[name].dtype == right[name].dtype
                assert torch.equal(left[name].nan_to_num(), right[name].nan_to_num()), name


def assert_identical(one: Replay, other: Replay) -> None:
    """And in everything that was measured."""
    assert_same_states(one, other)
    for c, d in zip(one.curves(), other.curves(), strict=True):
        assert c.label == d.label
        np.testing.assert_array_equal(c.loss, d.loss)
        np.testing.assert_array_equal(c.accuracy, d.accuracy)
        np.testing.assert_array_equal(c.class_accuracy, d.class_accuracy)
        np.testing.assert_array_equal(c.accuracy_on_all, d.accuracy_on_all)


SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "float64, everything trained": {"precision": "float64", "tolerance": 0.0},
    "bfloat16": {"precision": "bfloat16"},
    "few lanes": {"lanes": 3},
}


HOW: dict[str, dict[str, Any]] = SETTINGS | {
    f"rule: {name}": {"learn": task(aggregation=rule)} for name, rule in RULES.items()
}


@pytest.mark.parametrize("settings", HOW.values(), ids=HOW)
def test_going_on_from_a_checkpoint_changes_nothing(settings: Any, tmp_path: Path) -> None:
    if settings.get("precision") == "bfloat16":
        needs_bfloat16()
    straight = fresh(**settings)
    for t in range(ROUNDS + 1):
        save(straight, tmp_path / f"{t}.npz")
        if t < ROUNDS:
            straight.advance()
    for t in (0, 1, 4, ROUNDS):
        resumed = fresh(**settings)
        load(resumed, tmp_path / f"{t}.npz")
        assert resumed.round == t
        assert_identical(play(resumed), straight)


# --- files that belong to something else, or are not whole ----------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(play(fresh(), 2), tmp_path / "checkpoint.npz")


def test_what_is_no_checkpoint_is_refused_and_leaves_the_replay_alone(saved: Path) -> None:
    whole, replay = saved.read_bytes(), fresh()
    with np.load(saved) as file:
        arrays = {name: file[name] for name in file.files if name != "central"}
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x10
    cut = [whole[: int(keep * len(whole))] for keep in (0.1, 0.5, 0.9, 0.999)]
    trace = traces()["age"].save(saved.with_name("trace.npz")).read_bytes()
    for content in (b"", b"round,loss\n1,2\n", b"\x80\x04\x95pickle", trace, bytes(flipped), archive(arrays), *cut):
        saved.write_bytes(content)
        with refused("checkpoint"):
            load(replay, saved)
    assert_identical(play(replay, 2), play(fresh(), 2))
