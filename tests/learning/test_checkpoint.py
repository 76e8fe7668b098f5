"""A replay that stops in the middle and goes on elsewhere ends exactly where it would have ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoint_files import load, save
from half_precision import needs_bfloat16
from rules import RULES
from states import states
from summed import archive
from tiny import blobs, linear, with_batch_norm
from torch import nn

import fedwave as fw
from fedwave.aggregation import FedBuff, Lee, Sync
from fedwave.learning.datasets.dataset import Dataset
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


def test_what_is_carried_matters_here(tmp_path: Path) -> None:
    """If it did not, losing it would go unnoticed above."""
    straight = play(fresh(), 3)
    assert all(state.psi for state in states(straight))
    assert all(state.own for state in states(straight))
    path = save(straight, tmp_path / "middle.npz")
    play(straight)

    def off(change: Any) -> float:
        resumed = fresh()
        load(resumed, path)
        change(resumed)
        play(resumed)
        both = zip(states(resumed), states(straight), strict=True)
        pairs = [(a.w | a.buffers, b.w | b.buffers) for a, b in both]
        return max(float((a[k] - b[k]).abs().max()) for a, b in pairs for k in a)

    def forget_own(replay: Replay) -> None:
        runs, devices = np.nonzero(replay.row_of_own >= 0)
        replay.own.put(replay.row_of_own[runs, devices], replay.central.rows(runs))

    first = fresh().central.rest
    assert off(lambda replay: None) == 0
    assert off(lambda replay: replay.undelivered.drop(replay.undelivered.held)) > 1e-4
    assert off(forget_own) > 1e-4
    assert off(lambda replay: replay.central.rest.update(first)) > 1e-4


def test_a_half_full_buffer_is_carried(tmp_path: Path) -> None:
    """FedBuff with room for 5, stopped in a round in which some uploads lie in the buffer."""
    learn = task(aggregation=FedBuff(5))
    straight = play(fresh(learn=learn), 5)
    held = [float(state.server["count"]) for state in states(straight)]
    assert all(0 < count < 5 for count in held)
    path = save(straight, tmp_path / "middle.npz")
    resumed, emptied = fresh(learn=learn), fresh(learn=learn)
    for replay in (resumed, emptied):
        load(replay, path)
    assert [float(state.server["count"]) for state in states(resumed)] == held
    emptied.server = [{k: 0 * p for k, p in one.items()} for one in emptied.server]
    assert_identical(play(resumed), play(straight))
    assert not np.array_equal(play(emptied).curves()[0].loss, straight.curves()[0].loss)


def test_what_the_evaluator_found_is_kept_by_name(tmp_path: Path) -> None:
    """All test images are looked at in rounds 3, 6 and the last only."""
    straight = play(fresh())
    resumed = fresh()
    load(resumed, save(straight, tmp_path / "end.npz"))
    for found, again in zip(straight.results, resumed.results, strict=True):
        full = [t + 1 for t, one in enumerate(again) if one.images_of_all is not None]
        assert full == [3, 6, 7]
        for one, other in zip(found, again, strict=True):
            for name, value in vars(one).items():
                np.testing.assert_array_equal(value, getattr(other, name))
                assert type(value) is type(getattr(other, name))


class Steep(nn.Module):
    """Explodes after some rounds where its first weights are large: in instance 3, not in instance 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6) * (10.0 if torch.rand(()) < 0.5 else 0.3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1) @ (self.weight**3).T


def test_a_run_that_diverged_stays_stopped(tmp_path: Path) -> None:
    learn = task(model=Steep, eta=0.1)
    straight = play(fresh(learn=learn), 5)
    both = zip(straight.runs, states(straight), strict=True)
    assert {run.instance for run, state in both if state.diverged} == {3}
    path = save(straight, tmp_path / "middle.npz")
    resumed = fresh(learn=learn)
    load(resumed, path)
    assert_identical(play(resumed), play(straight))


def assert_untouched(replay: Replay) -> None:
    assert replay.round == 0
    assert not any(replay.results)
    assert not any(state.psi or state.diverged for state in states(replay))
    for run, state in zip(replay.runs, states(replay), strict=True):
        first = dict(task().new_model(run.seed, run.instance).named_parameters())
        assert all(torch.equal(p, first[name]) for name, p in state.w.items())


# --- files that belong to something else, or are not whole ----------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(play(fresh(), 2), tmp_path / "checkpoint.npz")


def other_images() -> Dataset:
    data = blobs()
    return Dataset(data.name, data.train_images + 1, data.train_labels, data.test_images, data.test_labels)


def without_hearing() -> Any:
    made = traces()
    deaf = {name: np.zeros_like(a) if name == "heard" else a for name, a in made["age"].devices.items()}
    return made | {"age": replace(made["age"], devices=deaf)}


OTHERS: dict[str, Any] = {
    "aggregation": lambda: fresh(learn=task(aggregation=Sync())),
    "cap": lambda: fresh(learn=task(aggregation=Lee(0.7, cap=9))),
    "tolerance": lambda: fresh(tolerance=0.1),
    "precision": lambda: fresh(precision="float64"),
    "lanes": lambda: fresh(lanes=3),
    "images for the loss": lambda: fresh(sizes=EvaluationSizes(30, 20, 3)),
    "images for the accuracy": lambda: fresh(sizes=EvaluationSizes(60, 30, 3)),
    "rounds between full tests": lambda: fresh(sizes=EvaluationSizes(60, 20, 4)),
    "shard size": lambda: fresh(learn=task(shard_size=5)),
    "batch": lambda: fresh(learn=task(batch=2)),
    "epochs": lambda: fresh(learn=task(epochs=3)),
    "eta": lambda: fresh(learn=task(eta=0.2)),
    "beta": lambda: fresh(learn=task(aggregation=Lee(0.6))),
    "prox": lambda: fresh(learn=task(prox=0.2)),
    "l2": lambda: fresh(learn=task(l2=0.2)),
    "partition": lambda: fresh(learn=task(partition=fw.partition.Dirichlet(0.5))),
    "model": lambda: fresh(learn=task(model=linear)),
    "data": lambda: fresh(learn=task(dataset=other_images())),
    "seed": lambda: fresh(made_from=traces(seed=6)),
    "rounds": lambda: fresh(made_from=traces(rounds=8)),
    "schedulers": lambda: fresh(made_from=traces(names=("age",))),
    "order of the schedulers": lambda: fresh(made_from=traces(names=SCHEDULERS[::-1])),
    "broadcasts": lambda: fresh(made_from=without_hearing()),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_of_something_else_is_refused(other: str, saved: Path) -> None:
    replay = OTHERS[other]()
    sentence = r"checkpoint\.npz belongs to other runs, another task or other settings: remove it to start again\."
    with pytest.raises(fw.FedwaveError, match=sentence):
        load(replay, saved)
    assert replay.round == 0


DAMAGED = r"checkpoint\.npz is not a checkpoint or is damaged"


@pytest.mark.parametrize(
    "content",
    [b"", b"round,loss\n1,2\n", b"PK\x03\x04 and nothing more", b"\x80\x04\x95pickle"],
    ids=["empty", "text", "a torn archive", "a pickle"],
)
def test_a_file_of_another_kind(saved: Path, content: bytes) -> None:
    saved.write_bytes(content)
    with pytest.raises(fw.FedwaveError, match=DAMAGED):
        load(fresh(), saved)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short(saved: Path, keep: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(fw.FedwaveError, match=DAMAGED):
        load(fresh(), saved)


def test_an_array_file_and_a_trace_are_no_checkpoints(saved: Path) -> None:
    with open(saved, "wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(fw.FedwaveError, match=DAMAGED):
        load(fresh(), saved)
    traces()["age"].save(saved)
    with pytest.raises(fw.FedwaveError, match="must be a checkpoint"):
        load(fresh(), saved)


@pytest.mark.slow
def test_no_flipped_bit_goes_unnoticed(saved: Path) -> None:
    content, whole, replay = saved.read_bytes(), play(fresh(), 2), fresh()
    refused = 0
    for at in np.random.default_rng(0).integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        saved.write_bytes(damaged)
        try:
            load(replay, saved)
        except fw.FedwaveError:
            refused += 1
            assert_untouched(replay)
        else:  # a date, or padding: nothing that is needed
            assert_identical(replay, whole)
            replay = fresh()
    assert refused > 30


@pytest.mark.parametrize(
    "member", ["header", "w", "psi", "own", "found/1/loss", "found/1/images_of_all", "own-rest/2.running_var"]
)
def test_a_checkpoint_with_a_part_missing(saved: Path, member: str) -> None:
    with np.load(saved) as file:
        arrays = {name: file[name] for name in file.files}
    del arrays[member]
    saved.write_bytes(archive(arrays))
    replay = fresh()
    with pytest.raises(fw.FedwaveError, match=DAMAGED):
        load(replay, saved)
    assert_untouched(replay)
