"""fw.environment plays the rounds of fw.simulate, with decisions from outside; fw.scheduler takes a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import mentions

import fedwave as fw
from fedwave.errors import HiddenInformation
from fedwave.metrics import describe, metric_names
from fedwave.parts import registry

PAPER = fw.paper_network()
NETWORKS = {
    "paper": PAPER,
    "away": fw.random_network(7, seed=2, slots=2, availability="on-off:mean_on=6,mean_off=3"),
    "harq": fw.random_network(6, seed=3, slots=[k % 4 for k in range(30)], success="harq:tries=3,model=soft"),
    "buffers": fw.Network([fw.Device(r, 200, buffer_limit=4, miss_probability=0.2) for r in (0.2, 1, 9)], slots=1),
}


def played(env: fw.Environment, scheduler: fw.Scheduler, seed: int | None = None) -> tuple[fw.Trace, np.ndarray]:
    """An episode with the priorities of a scheduler, and its rewards ``[T, I]``."""
    seen: Any = env.reset(seed)
    rewards, done, draws = [], False, fw.Draws(0, [0])
    state = scheduler.start(seen.problem)
    while not done:
        state = scheduler.learn(state, seen, draws)
        seen, reward, done, _ = env.step(scheduler.priority(state, seen, draws))
        rewards.append(reward)
    return env.trace(), np.array(rewards)


def same_rounds(one: fw.Trace, other: fw.Trace) -> bool:
    equal = [
        getattr(one, group).keys() == getattr(other, group).keys()
        and all(np.array_equal(getattr(one, group)[k], getattr(other, group)[k]) for k in getattr(one, group))
        for group in ("series", "devices", "accumulated")
    ]
    return all(equal)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS.keys())
@pytest.mark.parametrize("name", ["alsa-pi", "age", "lagrangian"])
def test_every_round_is_that_of_simulate(network: fw.Network, name: str) -> None:
    scheduler = fw.scheduler(name)  # age has ties in every round
    env = fw.environment(network, 5, 30, seed=4, needs=scheduler.needs, record="full")
    for episode in range(3):
        trace, rewards = played(env, scheduler)
        assert env.instances == range(5 * episode, 5 * episode + 5)
        theirs = fw.simulate(network, name, 30, env.instances, seed=4)
        assert same_rounds(trace, theirs)
        assert np.array_equal(rewards, theirs.score)
    again, _ = played(env, scheduler, seed=4)
    assert same_rounds(again, fw.simulate(network, name, 30, 5, seed=4))


def test_decisions_instead_of_priorities() -> None:
    theirs = fw.simulate(PAPER, "age", 20, 3, seed=1)
    env = fw.environment(PAPER, 3, 20)
    for wrapped in (lambda bools: bools, fw.Decision):
        env.reset(seed=1)
        for t in range(20):
            _, reward, done, round_ = env.step(wrapped(theirs.scheduled[t].copy()))
            assert np.array_equal(reward, theirs.score[t])
            assert np.array_equal(round_.after.delivered, theirs.delivered[t])
            assert done == (t == 19)
        assert np.array_equal(env.trace().backlog, theirs.backlog)


@pytest.mark.parametrize("name", [name for name in metric_names() if describe(name).better])
def test_a_reward_is_a_metric_and_higher_is_better(name: str) -> None:
    env = fw.environment(PAPER, 3, 10, reward=name)
    trace, rewards = played(env, fw.scheduler("alsa-pi"))
    sign = -1 if describe(name).better == "lower" else 1
    assert np.array_equal(rewards, sign * trace.series[name])


def test_a_reward_of_ones_own() -> None:
    class Wasted(fw.Metric):
        name, better = "wasted", "lower"

        def measure(self, state: fw.State, round_: fw.PlayedRound) -> Any:
            return state, (round_.decision.transmits & ~round_.after.delivered).sum(axis=1)

    trace, rewards = played(fw.environment(PAPER, 3, 10, reward=Wasted()), fw.scheduler("age"))
    assert np.array_equal(rewards, -trace.series["wasted"].astype(float))
    assert rewards.min() < 0
    with_rule = fw.environment(PAPER, 3, 10, reward="mass:aggregation=constant:beta=0.5")
    assert not np.array_equal(
        played(with_rule, fw.scheduler("age"))[1],
        played(fw.environment(PAPER, 3, 10, reward="mass"), fw.scheduler("age"))[1],
    )


def test_only_what_is_declared_is_seen() -> None:
    seen = fw.environment(PAPER, 2, 5, needs={"channel"}).reset()
    assert seen.success.shape == seen.delay.shape == (2, 25)
    for hidden in ("waiting", "rates", "planning"):
        with pytest.raises(HiddenInformation):
            getattr(seen, hidden)


def test_slots_may_stay_empty() -> None:
    priority = np.tile(np.linspace(-1, 1, 25), (2, 1))
    for idles, action, most in ((False, priority - 2, 5), (True, priority - 0.9, 2), (True, priority - 2, 0)):
        env = fw.environment(PAPER, 2, 5, idles=idles)
        env.reset()
        assert env.step(action)[3].decision.transmits.sum(axis=1).tolist() == [most, most]
    env.reset()
    _, _, _, round_ = env.step(np.where(np.arange(25) < 3, 0.0, -np.inf) + np.zeros((2, 1)))
    assert np.flatnonzero(round_.decision.transmits[0]).tolist() == [0, 1, 2]


AWAY = fw.Network(PAPER.devices, availability=fw.availability.RecordedAvailability(np.eye(25)[:5]))


class OfDevices(fw.Metric):
    name, better, per_device = "of_devices", "lower", True

    def measure(self, state: fw.State, round_: fw.PlayedRound) -> Any:
        return state, round_.after.waiting


TOO_MANY = np.ones((2, 25), dtype=bool)


@pytest.mark.parametrize(
    ("ask", "tokens"),
    [
        (lambda: fw.environment("paper"), ("paper",)),
        (lambda: fw.environment(PAPER, instances=0), ("instances", "0")),
        (lambda: fw.environment(PAPER, instances=[1, 2]), ("instances",)),
        (lambda: fw.environment(PAPER, rounds=0), ("rounds", "0")),
        (lambda: fw.environment(PAPER, seed=-1), ("seed", "-1")),
        (lambda: fw.environment(PAPER, record="all"), ("record", "all")),
        (lambda: fw.environment(PAPER, needs="channel"), ("needs", "channel")),
        (lambda: fw.environment(PAPER, needs=["backlogs"]), ("backlogs", "backlog")),
        (lambda: fw.environment(PAPER, needs=["learner"]), ("learner",)),
        (lambda: fw.environment(PAPER, reward="arrived"), ("reward", "arrived")),
        (lambda: fw.environment(PAPER, reward="device_shards"), ("reward", "device_shards")),
        (lambda: fw.environment(PAPER, reward=OfDevices()), ("reward", "of_devices")),
        (lambda: fw.environment(PAPER, reward="skore"), ("skore", "score")),
        (lambda: fw.environment(PAPER).step(TOO_MANY), ("reset",)),
        (lambda: fw.environment(PAPER).trace(), ("reset",)),
        (lambda: begun().trace(), ("reset",)),
        (lambda: begun().reset(seed=-1), ("seed", "-1")),
        (lambda: begun().step(np.ones(25)), ("(25,)", "(2, 25)")),
        (lambda: begun().step("abc"), ("(2, 25)",)),
        (lambda: begun().step(np.full((2, 25), np.nan)), ("NaN",)),
        (lambda: begun().step(TOO_MANY), ("25", "5")),
        (lambda: begun(AWAY).step(fw.Decision(np.eye(25, dtype=bool)[[1, 1]])), ("away",)),
        (lambda: fw.extend(traced(), 5), ("environment",)),
    ],
)
def test_bad_input_is_refused(ask: Any, tokens: tuple[str, ...]) -> None:
    with pytest.raises(fw.FedwaveError) as caught:
        ask()
    assert mentions(str(caught.value), *tokens)


def begun(network: fw.Network = PAPER) -> fw.Environment:
    env = fw.environment(network, 2, 5)
    env.reset()
    return env


def traced() -> fw.Trace:
    env = begun()
    env.step(np.zeros((2, 25)))
    return env.trace()


def test_an_episode_that_is_over_must_be_begun_again() -> None:
    env = fw.environment(PAPER, 2, 1)
    env.reset()
    seen, _, done, _ = env.step(np.zeros((2, 25)))
    assert seen is None
    assert done
    with pytest.raises(fw.FedwaveError):
        env.step(np.zeros((2, 25)))
    assert env.reset().round == 1


def patient(seen: fw.Observation) -> np.ndarray:
    return seen.success * seen.waiting * seen.delay


class Patient(fw.Scheduler):
    name = "patient-class"
    needs = frozenset({"channel", "backlog"})

    def priority(self, state: fw.State, seen: fw.Observation, draws: fw.Draws) -> np.ndarray:
        return patient(seen)


def test_a_function_is_a_scheduler() -> None:
    mine = fw.scheduler(patient, needs={"channel", "backlog"})
    trace = fw.simulate(PAPER, mine, 30, 4)
    assert same_rounds(trace, fw.simulate(PAPER, Patient(), 30, 4))
    assert trace.label == "patient"
    assert fw.check(mine).passed
    assert fw.scheduler(mine) is mine
    table = fw.compare(PAPER, [mine, fw.scheduler(patient, needs=mine.needs, name="twin"), "alsa-pi"], 10, 2)
    assert list(table.schedulers) == ["patient", "twin", "alsa-pi"]
    live = fw.Live(PAPER, mine)
    assert len(live.choose(snr_db={"1": 3.0, "2": 4.0}, waiting={"1": 3, "2": 9})) == 2


def test_a_function_may_leave_slots_empty() -> None:
    short = fw.scheduler(lambda seen: seen.waiting - 3, needs={"backlog"}, idles=True)
    trace = fw.simulate(PAPER, short, 30, 4)
    assert not (trace.scheduled & (trace.waiting < 3)).any()
    assert trace.scheduled.sum(axis=2).min() < 5


def test_a_trace_of_a_function_is_kept_and_needs_it_to_go_on(tmp_path: Path) -> None:
    mine = fw.scheduler(patient, needs={"channel", "backlog"})
    fw.simulate(PAPER, mine, 10, 2).save(tmp_path / "trace.npz")
    trace = fw.Trace.load(tmp_path / "trace.npz")
    assert trace.label == "patient"
    with pytest.raises(fw.FedwaveError):
        fw.extend(trace, 20)
    assert same_rounds(fw.extend(trace, 20, scheduler=mine), fw.simulate(PAPER, mine, 20, 2))


@pytest.mark.parametrize(
    ("ask", "tokens"),
    [
        (lambda: fw.scheduler(patient, needs="channel"), ("needs",)),
        (lambda: fw.scheduler(patient, needs=3), ("needs",)),
        (lambda: fw.scheduler(patient, needs=["chanel"]), ("chanel", "channel")),
        (lambda: fw.scheduler(patient, name="a:b"), ("a:b",)),
        (lambda: fw.simulate(PAPER, fw.scheduler(patient), 5, 2), ("success", "channel")),
        (lambda: fw.simulate(PAPER, fw.scheduler(lambda seen: seen.delay[0]), 5, 2), ("(25,)", "(2, 25)")),
    ],
)
def test_a_bad_function_is_refused(ask: Any, tokens: tuple[str, ...]) -> None:
    with pytest.raises(fw.FedwaveError) as caught:
        ask()
    assert mentions(str(caught.value), *tokens)


def test_a_function_is_not_registered() -> None:
    fw.scheduler(patient, needs={"channel", "backlog"})
    assert "patient" not in registry.names("scheduler")


def test_a_round_loop_on_public_names() -> None:
    """The world and the dynamics are enough to write another loop."""
    net = NETWORKS["buffers"]
    counts, limit = fw.dynamics.NetworkState.initial(4, 3), np.full(3, 4.0)
    scores = []
    for world in fw.World(net, 1, np.arange(4)).rounds(1, 40):
        picked = world.snr == world.snr.max(axis=1, keepdims=True)
        accepted = fw.dynamics.accept(counts, world.arrivals, limit)
        delivered = fw.dynamics.arriving(net, world, fw.Decision(picked))
        counts, score = fw.dynamics.step(counts, delivered, world.arrivals, accepted, net.gamma)
        scores.append(score)
    theirs = fw.simulate(net, "w-max", 40, 4, seed=1)
    assert np.array_equal(scores, theirs.score)
    assert np.array_equal(counts.lost, theirs.final.lost)


def test_a_mask_means_the_same_in_a_scheduler_and_in_an_environment():
    def good(seen):
        chosen = seen.success > 0.99
        return chosen & (chosen.cumsum(axis=1) <= seen.slots)

    net = fw.paper_network(slots=20)
    trace = fw.simulate(net, fw.scheduler(good, needs={"channel"}), rounds=20, instances=3, seed=1)
    env = fw.environment(net, instances=3, rounds=20, seed=1, needs={"channel"}, record="full")
    seen, done = env.reset(), False
    while not done:
        seen, _, done, _ = env.step(good(seen))
    assert (env.trace().scheduled == trace.scheduled).all()
    assert trace.scheduled.sum(axis=2).min() < 20
