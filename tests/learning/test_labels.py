"""Label counts: drawn with the world, followed by the samples, reported with uploads, kept in traces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import blobs, linear

import fedwave as fw
from fedwave.aggregation import Constant
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task
from fedwave.network.partition import Dirichlet, Iid, Labels, Partition
from fedwave.network.world import World

NET = fw.random_network(6, 2, seed=1, rate=1.5)
LABELS = Labels("dirichlet:alpha=0.3", classes=4, shard_size=3)


@dataclass(frozen=True)
class Half(Partition):
    """Even devices hold one class, the others draw from the whole training set."""

    name = "half"

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> Any:
        return None if device % 2 else np.eye(classes)[(device // 2) % classes]


class HalfDirichlet(Dirichlet):
    """Skewed as its base class at even devices only."""

    def class_shares(self, seed: int, instance: int, device: int, classes: int) -> Any:
        return None if device % 2 else super().class_shares(seed, instance, device, classes)


PARTITIONS = {
    "iid": Iid(),
    "dirichlet": "dirichlet:alpha=0.3",
    "by class": "by-class:held=1",
    "half": Half(),
    "half dirichlet": HalfDirichlet(),
}


def task_with(partition: Any, **numbers: Any) -> Task:
    return Task(blobs(), linear, shard_size=3, batch=3, epochs=1, partition=partition, **numbers)


class Watcher(fw.Scheduler):
    """Decides at random and keeps what it sees."""

    name, needs = "watcher", frozenset({"labels"})

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def priority(self, state: Any, seen: Any, draws: Any) -> Any:
        self.seen.append(seen)
        return draws.uniform(seen.problem.devices)


# --- the world, and the samples that follow it ----------------------------------------------------


@pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS)
@pytest.mark.parametrize("limit", [np.inf, 4.0], ids=["", "full buffers"])
@pytest.mark.parametrize("rule", ["lee", "sync"])
def test_devices_train_on_the_labels_of_the_world(partition: Any, limit: float, rule: str) -> None:
    """The classes of all samples of all devices, as the trainer takes them, against the world's counts."""
    task, rounds = task_with(partition, aggregation=rule), 8
    net = NET.replace(buffer_limit=limit)
    trace = fw.simulate(net, "age", rounds, [3, 5], seed=2)
    assert (trace.lost.sum() > 0) == np.isfinite(limit)
    world = World(net, 2, np.array([3, 5]), task.labels())
    replay = Replay(labelled_runs({"age": trace}), task, Settings(tolerance=0), EvaluationSizes(9, 9))
    everybody = np.repeat([0, 1], 6), np.tile(np.arange(6), 2)
    waiting = np.zeros((2, 6, 3), dtype=np.int64)
    for t in range(rounds):
        now = world.label_counts(t + 1, trace.accepted[t].astype(np.int64))
        waiting = now + (waiting if rule == "sync" else 0)
        samples, sizes = replay._samples(t, *everybody)
        owner = np.repeat(np.arange(12), sizes)
        found = np.zeros((12, 3), dtype=np.int64)
        np.add.at(found, (owner, task.dataset.train_targets[samples]), 1)
        np.testing.assert_array_equal(found.reshape(2, 6, 3), waiting)
        waiting = waiting * ~trace.delivered[t][:, :, None]


def test_counts_depend_on_seed_instance_round_and_device_alone() -> None:
    shards = np.array([[2, 0, 5], [1, 3, 4]])
    both = LABELS.counts(7, [4, 9], 3, shards)
    assert (both.sum(axis=2) == 3 * shards).all()
    np.testing.assert_array_equal(LABELS.counts(7, [9], 3, shards[1:])[0], both[1])
    np.testing.assert_array_equal(LABELS.counts(7, [4, 9], 3, shards * [1, 0, 1])[:, 2], both[:, 2])
    fewer = LABELS.counts(7, [4, 9], 3, shards - (shards > 0))  # what arrives first stays the same
    assert (fewer <= both).all()
    for seed, instance, round_ in ((8, 9, 3), (7, 8, 3), (7, 9, 4)):
        assert (LABELS.counts(seed, [instance], round_, shards[1:])[0] != both[1]).any()


def test_classes_are_equally_frequent_without_a_training_set() -> None:
    shards = np.full((1, 2), 40_000)
    counts = Labels("iid", classes=4, shard_size=1).counts(0, [0], 1, shards)
    assert abs(counts / 40_000 - 0.25).max() < 0.01
    own = Labels("iid", classes=4, shard_size=1, training=np.array([0, 0, 3, 0]))
    counts = own.counts(0, [0], 1, shards)
    np.testing.assert_allclose(counts[0, 0] / 40_000, [0.75, 0, 0, 0.25], atol=0.01)


# --- what a scheduler sees ------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [np.inf, 3.0])
def test_a_scheduler_sees_what_was_reported_and_nothing_else(limit: float) -> None:
    watcher, net = Watcher(), NET.replace(buffer_limit=limit)
    trace = fw.simulate(net, watcher, 30, 3, seed=4, labels=LABELS)
    world = World(net, 4, np.arange(3), LABELS)
    waiting = np.zeros((3, 6, 4), dtype=np.int64)
    reported = waiting.copy()
    unheard = 0
    for t, seen in enumerate(watcher.seen):
        np.testing.assert_array_equal(seen.label_counts, reported)
        assert not seen.label_counts.flags.writeable
        never = ~trace.delivered[:t].any(axis=0)
        assert (seen.label_counts[never] == 0).all()
        unheard += never.sum()
        waiting += world.label_counts(t + 1, trace.accepted[t].astype(np.int64))
        got = trace.delivered[t][:, :, None]
        reported, waiting = reported + waiting * got, waiting * ~got
    assert unheard > 10
    np.testing.assert_array_equal(trace.labels.waiting, waiting)
    np.testing.assert_array_equal(trace.labels.learned, reported)
    with pytest.raises(AttributeError):
        watcher.seen[-1].waiting  # noqa: B018
    held = set(vars(watcher.seen[-1]))
    assert held == {"problem", "round", "slots", "delay", "delivered", "reported", "label_counts"}


def test_others_run_as_without_labels() -> None:
    class Never(Labels):
        def counts(self, *arguments: Any) -> Any:
            raise AssertionError("labels were drawn for nobody")

    with_, without = (fw.simulate(NET, "mass", 10, 2, labels=labels) for labels in (Never("iid", 4, 3), None))
    assert with_.same_as(without)
    assert with_.setup.packed()[0] == without.setup.packed()[0]
    assert not with_.labels
    assert fw.extend(without, 12, labels=LABELS).same_as(fw.extend(without, 12))


# --- traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", ["full", "summary"])
@pytest.mark.parametrize("labels", [LABELS, Labels(Half(), 3, 2)], ids=["skewed", "a partition of one's own"])
def test_traces_are_saved_extended_and_remade(labels: Labels, record: str, tmp_path: Path) -> None:
    whole = fw.simulate(NET, "mass-labels", 20, 2, seed=3, labels=labels, record=record)
    begun = fw.simulate(NET, "mass-labels", 9, 2, seed=3, labels=labels, record=record)
    loaded = fw.Trace.load(begun.save(tmp_path / "begun.npz"))
    assert loaded.same_as(begun)
    assert fw.extend(loaded, 20, labels=labels).same_as(whole)
    again = fw.Trace.load(whole.save(tmp_path / "whole.npz"))
    if labels is LABELS:
        assert fw.extend(loaded, 20).same_as(whole)
        assert fw.remake(again).same_as(whole)
    else:
        with pytest.raises(fw.FedwaveError, match="pass the object yourself"):
            fw.extend(loaded, 20)
    other = Labels("dirichlet:alpha=0.4", classes=labels.classes, shard_size=3)
    with pytest.raises(fw.FedwaveError, match="made with other labels"):
        fw.extend(loaded, 20, labels=other)


# --- experiments ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Both(fw.Scheduler):
    """Sees the models and the labels, so it runs in lock step."""

    name, needs = "both", frozenset({"learner", "labels"})

    def priority(self, state: Any, seen: Any, draws: Any) -> Any:
        return seen.update_norm / (1 + seen.label_counts.max(axis=2))


@pytest.mark.slow
def test_in_an_experiment_the_labels_are_those_of_the_task(tmp_path: Path) -> None:
    task = {"dataset": "synthetic", "model": "logistic", "partition": "by-class:held=1", "shard_size": 4, "batch": 4}
    given = {
        "network": {"kind": "random", "devices": 5, "slots": 2, "rate": 1.0},
        "schedulers": ["mass-labels", "both"],
        "rounds": 6,
        "instances": 2,
        "task": {**task, "epochs": 1, "aggregation": "constant:beta=0.5"},
        "training": {"loss_images": 20, "test_images": 20, "device": "cpu"},
    }
    fw.register(Both)
    data = fw.run(given, tmp_path / "run", workers=1)
    net, task = fw.random_network(devices=5, slots=2, rate=1.0), fw.task(**task, epochs=1)
    alone = fw.simulate(net, fw.scheduler("mass-labels", aggregation=Constant(0.5)), 6, 2, labels=task.labels())
    there = data["backlog"].sel(scheduler="mass-labels").transpose("round", "instance")
    np.testing.assert_array_equal(there.values, alone.backlog)
    trace, _ = fw.train_in_lock_step(net, Both(), task, 6, 2)
    assert trace.labels.learned.sum() == 4 * trace.learned[-1].sum()


# --- one sentence ---------------------------------------------------------------------------------


def test_labels_that_are_missing_or_none() -> None:
    with pytest.raises(fw.FedwaveError, match=r"'mass-labels' sees the labels .* labels=task\.labels"):
        fw.simulate(NET, "mass-labels", 3, 1)
    with pytest.raises(fw.FedwaveError, match=r"labels is 'iid', must be fw.partition.Labels"):
        fw.simulate(NET, "mass-labels", 3, 1, labels="iid")
    with pytest.raises(fw.FedwaveError, match="Labels classes is 0, must be"):
        Labels("iid", classes=0)
    with pytest.raises(fw.FedwaveError, match="whole numbers from 0 to 1"):
        Labels("iid", classes=2, training=np.array([0, 2]))
    with pytest.raises(fw.FedwaveError, match="held is 5, but there are only 4 classes"):
        fw.simulate(NET, "mass-labels", 3, 1, labels=Labels("by-class:held=5", classes=4))
