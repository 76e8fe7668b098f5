"""Training in lock step: what the scheduler is shown, and that the trace it leaves replays to the same model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import log
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refused
from rules import RULES
from states import states
from tiny import blobs, linear, with_batch_norm
from torch import Tensor, nn

import fedwave as fw
from fedwave.aggregation import Aggregation, Constant, FedAsync, FedBuff, Lee, Sync
from fedwave.errors import HiddenInformation
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.lockstep import LockStep
from fedwave.learning.replay import Replay
from fedwave.learning.sampling import device_batches
from fedwave.learning.schedule import TrainingRun, training_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task
from fedwave.rng import Draws
from fedwave.schedulers.greedy import UpdateAware
from fedwave.types import FloatArray, Observation, State

ROUNDS, SEED = 10, 5
SIZES = EvaluationSizes(60, 60)
EXACT = {"precision": "float64", "tolerance": 0.0}
NUMBERS = {"shard_size": 4, "batch": 4, "epochs": 2, "eta": 0.05, "aggregation": Lee(0.5), "prox": 0.1}


def network(**changes: Any) -> fw.Network:
    return fw.random_network(6, 2, seed=3, rate=[0.3, 0.6, 1, 1, 2, 3], **changes)


def task(model: Callable[[], nn.Module] = linear, **numbers: Any) -> Task:
    return Task(blobs(), model, **(NUMBERS | numbers))


class Watched(UpdateAware):
    """Keeps what it was shown."""

    def priority(self, state: State, seen: Observation, draws: Draws) -> FloatArray:
        shown.append(seen)
        return super().priority(state, seen, draws)


shown: list[Observation] = []


def norms_by_hand(run: TrainingRun, task: Task) -> FloatArray:
    """eta max(1, ln d) |psi| of a linear model with cross-entropy, in numpy, ``[T, U]``."""
    first = task.new_model(run.seed, run.instance).double().state_dict()
    w = np.hstack([first["1.weight"].numpy(), first["1.bias"].numpy()[:, None]])
    data, sampler = task.dataset, task.sampler(run.shards.shape[1])
    x = np.hstack(
        [data.train_inputs.reshape(len(data.train_inputs), -1).astype(float), np.ones((len(data.train_inputs), 1))]
    )
    one_hot = np.eye(data.classes)[data.train_targets]
    psi = np.zeros((run.shards.shape[1], *w.shape))
    norms = np.zeros(run.shards.shape)
    for t in range(run.rounds):
        for u, m in enumerate(run.shards[t]):
            samples = sampler.shards(run.seed, run.instance, t + 1, u, int(m))
            local = w.copy()
            for some in device_batches(samples, task.batch, task.epochs, run.seed, run.instance, t + 1, u):
                odds = np.exp(x[some] @ local.T)
                error = odds / odds.sum(axis=1, keepdims=True) - one_hot[some]
                local -= task.eta * (error.T @ x[some] / len(some) + task.prox * (local - w))
            psi[u] = (w - local) / task.eta + task.aggregation.beta * psi[u]
            norms[t, u] = rate(task, run, t, u) * np.sqrt((psi[u] ** 2).sum())
        came = np.flatnonzero(run.delivered[t])
        share = run.learned[t] / max(1, run.learned[t].sum())
        w = w - sum(share[u] * rate(task, run, t, u) * psi[u] for u in came)
        psi[came] = 0
    return norms


def rate(task: Task, run: TrainingRun, t: int, u: int) -> float:
    return task.eta * max(1.0, log(run.delay[t, u]))


def test_update_aware_takes_the_largest_updates_of_the_best_channels() -> None:
    shown.clear()
    trace, _ = fw.train_in_lock_step(network(), Watched(), task(), ROUNDS, 2, SEED, sizes=SIZES, **EXACT)
    assert (trace.delay >= 4).any(), "ln d is never more than 1, so the rate is not tested"
    passed_over = 0
    for i, run in enumerate(training_runs(trace)):
        norms = norms_by_hand(run, task())
        np.testing.assert_allclose([seen.update_norm[i] for seen in shown], norms, rtol=1e-9)
        for t, seen in enumerate(shown):
            assert (run.delay[t] == seen.delay[i]).all()
            best = set(np.argsort(-seen.snr[i])[:4].tolist())  # 2 W of 6
            taken = set(np.flatnonzero(run.scheduled[t]).tolist())
            assert len(taken) == 2
            assert taken <= best
            left = best - taken
            assert norms[t, list(taken)].min() >= norms[t, list(left)].max()
            others = list(set(range(6)) - best)
            passed_over += norms[t, others].max() > norms[t, list(taken)].min()
    assert passed_over > 0, "the channel never mattered"


def test_breadth_says_how_many_channels_are_considered() -> None:
    assert type(UpdateAware(breadth=2.0).breadth) is int  # type: ignore[arg-type]
    narrow, widest = (
        fw.train_in_lock_step(network(), UpdateAware(breadth=breadth), task(), 4, 1, sizes=SIZES, **EXACT)[0]
        for breadth in (1, 100)
    )
    assert (narrow.scheduled == fw.simulate(network(), "w-max", 4, 1).scheduled).all()
    norms = norms_by_hand(training_runs(widest)[0], task())
    for row, taken in zip(norms, widest.scheduled[:, 0], strict=True):
        assert row[taken].min() >= row[~taken].max()


@dataclass(frozen=True)
class Path:
    """One way through training in lock step."""

    model: Callable[[], nn.Module] = linear
    numbers: dict[str, Any] = field(default_factory=dict)  # of the task
    network: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    limit: float = 1e-12  # relative distance


MISSED = {"miss_probability": 0.4}
PATHS = {
    "plain": Path(),
    "missed broadcasts": Path(network=MISSED),
    "batch norm": Path(with_batch_norm),
    "batch norm, missed broadcasts": Path(with_batch_norm, network=MISSED),
    "buffer limit": Path(network={"buffer_limit": 2}),
    "label skew, short batches": Path(numbers={"partition": fw.partition.Dirichlet(0.3), "shard_size": 5}),
    "lanes in small blocks": Path(with_batch_norm, settings={"lanes": 2}),
    "no decayed gradients": Path(numbers={"aggregation": Lee(0.0)}),
    "sync": Path(numbers={"aggregation": Sync()}),
    "sync, batch norm, missed broadcasts": Path(with_batch_norm, network=MISSED, numbers={"aggregation": Sync()}),
    "float32": Path(with_batch_norm, settings={"precision": "float32"}, limit=1e-5),
}

for _name, _rule in RULES.items():
    PATHS[f"rule: {_name}"] = Path(with_batch_norm, {"aggregation": _rule}, MISSED)


@cache
def played(name: str) -> tuple[fw.Trace, Replay]:
    path = PATHS[name]
    net, made = network(**path.network), task(path.model, **path.numbers)
    learner = LockStep(net, made, ROUNDS, range(2), SEED, "update-aware", settings(path), SIZES)
    trace = fw.simulate(net, "update-aware", ROUNDS, 2, SEED, learner=learner)
    return trace, learner.replay


def settings(path: Path) -> Settings:
    return Settings(**(EXACT | path.settings))


def assert_near(found: dict[str, Tensor], wanted: dict[str, Tensor], first: dict[str, Tensor], limit: float) -> None:
    off = sum(float(((found[k] - wanted[k]) ** 2).sum()) for k in wanted) ** 0.5
    come = sum(float(((wanted[k] - first[k]) ** 2).sum()) for k in wanted) ** 0.5
    assert come > 0.01, "nothing was learnt, so nothing is compared"
    assert off / come < limit


@pytest.mark.parametrize("name", PATHS)
def test_the_trace_replays_to_the_same_models(name: str) -> None:
    path = PATHS[name]
    trace, lock_step = played(name)
    replay = Replay(training_runs(trace), task(path.model, **path.numbers), settings(path), SIZES)
    first = [state.w for state in states(replay)]
    for _ in range(ROUNDS):
        replay.advance()
    for mine, again, w in zip(states(lock_step), states(replay), first, strict=True):
        assert_near(mine.w, again.w, w, path.limit)
        for k, p in again.buffers.items():
            torch.testing.assert_close(mine.buffers[k], p, rtol=10 * path.limit, atol=path.limit)
        for u, (own, _) in again.own.items():
            for k, p in own.items():
                torch.testing.assert_close(mine.own[u][0][k], p, rtol=10 * path.limit, atol=path.limit)
    found, wanted = lock_step.curves()[0], replay.curves()[0]
    np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-6)  # losses are kept in float32
    np.testing.assert_array_equal(found.accuracy, wanted.accuracy)


def test_a_scheduler_sees_the_norm_of_what_the_rule_makes_of_an_update() -> None:
    def norms(rule: Aggregation) -> FloatArray:
        learner = LockStep(network(), task(aggregation=rule), 1, range(1), SEED, "any", Settings(**EXACT), SIZES)
        ones = np.ones((1, 6), dtype=np.int64)
        return learner.train(1, ones, None, 4 * ones)["update_norm"]

    plain = norms(Constant())
    assert (plain > 0).all()
    np.testing.assert_allclose(norms(Lee()), log(4) * plain)
    np.testing.assert_allclose(norms(FedBuff(3)), plain / 2)  # 1 / sqrt(d); the buffer comes later
    np.testing.assert_allclose(norms(FedAsync(0.6, "polynomial", a=1)), 0.6 * plain / 4)
    np.testing.assert_allclose(norms(Sync(cap=1e-6)), plain)  # the cap depends on who is heard


def test_one_call_gives_the_trace_and_its_curve() -> None:
    ticks: list[int] = []
    trace, curves = fw.train_in_lock_step(
        network(**MISSED),
        "update-aware",
        task(with_batch_norm),
        ROUNDS,
        2,
        SEED,
        sizes=SIZES,
        meter=ticks.append,
        precision="float64",
    )
    assert ticks == [1] * ROUNDS
    assert curves.label == trace.scheduler.name == "update-aware"
    assert curves.settings["tolerance"] == 0  # nothing can be left out beforehand
    again = fw.train(trace, task(with_batch_norm), sizes=SIZES, **EXACT)
    np.testing.assert_array_equal(curves.loss, again.loss)
    np.testing.assert_array_equal(curves.class_accuracy, again.class_accuracy)
    assert curves.loss[-1].mean() < curves.loss[0].mean()


def test_an_instance_does_not_depend_on_how_many_there_are() -> None:
    many, few = (
        fw.train_in_lock_step(network(**MISSED), "update-aware", task(), ROUNDS, n, SEED, sizes=SIZES, **EXACT)
        for n in (3, 1)
    )
    last = fw.train_in_lock_step(network(**MISSED), "update-aware", task(), ROUNDS, [2], SEED, sizes=SIZES, **EXACT)
    np.testing.assert_array_equal(many[0].scheduled[:, 2:], last[0].scheduled)
    np.testing.assert_allclose(many[1].loss[:, 2:], last[1].loss, rtol=1e-6)
    np.testing.assert_array_equal(many[0].scheduled[:, :1], few[0].scheduled)
    np.testing.assert_allclose(many[1].loss[:, :1], few[1].loss, rtol=1e-6)  # kept in float32
    assert not np.array_equal(many[1].loss[:, 0], many[1].loss[:, 1])


def test_without_training_it_cannot_run() -> None:
    trace, _ = fw.train_in_lock_step(network(), "update-aware", "synthetic", 3, 1, sizes=SIZES)
    for attempt in (
        lambda: fw.simulate(network(), "update-aware", 3, 1),
        lambda: fw.extend(trace, 4),
        lambda: fw.remake(trace),
    ):
        with refused("'update-aware'", "fw.train_in_lock_step"):
            attempt()


def test_who_does_not_declare_it_cannot_see_it() -> None:
    class Peeping(UpdateAware):
        needs = frozenset({"channel"})

    with pytest.raises(HiddenInformation, match="add 'learner' to its `needs`"):
        fw.train_in_lock_step(network(), Peeping(), task(), 3, 1, sizes=SIZES)


@pytest.mark.parametrize(
    "changes",
    [{"sizes": 5}, {"rounds": -1}, {"instances": 0}, {"instances": [3, -4]}, {"seed": -1}, {"lane": 3}, {"lanes": 0}],
)
def test_bad_input_is_told_in_one_sentence(changes: dict[str, Any]) -> None:
    ((name, value),) = changes.items()
    with refused(name, *([] if name == "lane" else [value])):
        fw.train_in_lock_step(network(), "update-aware", task(), **({"rounds": 3, "instances": 1} | changes))
