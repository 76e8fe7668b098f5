"""``fw.environment``: the round loop as an environment of reinforcement learning, which is told the decisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, as_int, check_bool, did_you_mean, is_list, short_repr
from fedwave.metrics import describe
from fedwave.network.network import Network
from fedwave.parts import registry
from fedwave.schedulers.base import scheduler
from fedwave.simulation import MetricLike, Simulation, make_setup
from fedwave.trace import Setup, Trace
from fedwave.types import INFORMATION, Array, BoolArray, Decision, FloatArray, Observation, PlayedRound

EVERYTHING = ("channel", "backlog", "rates")
_VISIBLE = INFORMATION.keys() - {"learner", "labels"}  # these need a model or a dataset


def environment(
    network: Network,
    instances: int = 64,
    rounds: int = 200,
    seed: int = 1,
    *,
    reward: MetricLike = "score",
    needs: Iterable[str] = EVERYTHING,
    idles: bool = False,
    record: str = "summary",
) -> Environment:
    """Make an environment: the network in ``instances`` independent copies, which are stepped together.

    ``reward`` is a round metric, such as "score", "backlog" or "mass", or one of your own; it is counted as negative if
    lower is better. ``needs`` names what the Observation holds, as in a Scheduler: with ``{"channel"}`` backlogs and
    rates are hidden. ``idles=True`` leaves a slot empty rather than give it to a device whose priority is below 0.
    ``record="full"`` lets ``trace()`` keep every device, as in ``simulate``.

    >>> import fedwave as fw
    >>> env = fw.environment(fw.paper_network(), instances=8, rounds=100, reward="backlog")
    >>> seen, done = env.reset(), False
    >>> while not done:
    ...     seen, reward, done, played = env.step(seen.success * seen.waiting)
    >>> reward.shape, played.decision.transmits.shape
    ((8,), (8, 25))
    >>> theirs = fw.simulate(fw.paper_network(), "max-weight", rounds=100, instances=8, seed=1)
    >>> bool((env.trace().backlog == theirs.backlog).all())
    True
    """
    if isinstance(needs, str) or not is_list(needs):
        raise FedwaveError(f"needs is {short_repr(needs)}, must be a set, such as {{'channel', 'backlog'}}.")
    check_bool("idles", idles)
    needs = frozenset(needs)
    for need in needs - _VISIBLE:
        raise FedwaveError(
            f"needs has {short_repr(need)}, which an environment cannot show; {did_you_mean(str(need), _VISIBLE)}"
        )
    metric = registry.build("metric", reward)
    described = describe(metric)
    if described.per_device or not described.better:
        rule = "has a number for each device" if described.per_device else "does not say whether lower is better"
        raise FedwaveError(f"reward is {metric.name!r}, which {rule}: choose another metric, such as 'score'.")
    outside = scheduler(_decided_outside, needs=needs, name="environment", idles=idles)
    numbers = as_int("instances", instances, 1)
    setup = make_setup(network, outside, numbers, seed, record=record, metrics=[metric])
    return Environment(setup, as_int("rounds", rounds, 1))


class Environment:
    """What ``fw.environment`` returns: ``reset`` begins an episode, ``step`` plays a round of all its instances.

    The first episode after a seed plays the instances 0 to I - 1 of that seed, the next one I to 2 I - 1, and so on. So
    every episode has worlds of its own, and each is that of ``fw.simulate`` with the same seed and instances.

    >>> import fedwave as fw
    >>> env = fw.environment(fw.paper_network(), instances=4, rounds=50, needs={"channel"})
    >>> seen = env.reset(seed=7)
    >>> seen, reward, done, played = env.step(seen.success)  # priorities, or a decision: True for who transmits
    >>> seen.round, reward.shape, done
    (2, (4,), False)
    >>> env.reset().round, env.instances
    (1, range(4, 8))
    """

    def __init__(self, setup: Setup, rounds: int) -> None:
        self._setup, self.rounds = setup, rounds
        self.network, self.needs = setup.network, frozenset(setup.scheduler.needs)
        self._size = len(setup.instances)
        (self._reward,) = setup.metrics
        self._sign = -1.0 if self._reward.better == "lower" else 1.0
        self._episode = -1
        self._run: Simulation | None = None
        self._seen: Observation | None = None  # of the round that has begun; None: no episode, or it is over

    @property
    def seed(self) -> int:
        """The seed of the worlds."""
        return self._setup.seed

    @property
    def instances(self) -> range:
        """The instance numbers of this episode."""
        first = max(self._episode, 0) * self._size
        return range(first, first + self._size)

    def reset(self, seed: int | None = None) -> Observation:
        """Begin the next episode of this seed, or the first one of another ``seed``; returns what is seen."""
        if seed is not None:
            self._setup = replace(self._setup, seed=as_int("seed", seed, 0))
        self._episode = self._episode + 1 if seed is None else 0
        self._run = Simulation(replace(self._setup, instances=self.instances), self.rounds)
        self._seen = self._run.observe()
        return self._seen

    def step(
        self, action: FloatArray | BoolArray | Decision
    ) -> tuple[Observation | None, FloatArray, bool, PlayedRound]:
        """Play a round.

        ``action`` holds priorities ``[I, U]``, of which the W largest transmit (equal ones are drawn, minus infinity
        never transmits), or bools, True for each device that transmits, or is a Decision. Returns what is seen in the
        next round (None after the last one), the reward ``[I]``, whether the episode is over, and the PlayedRound.
        """
        run, seen = self._run, self._seen
        if run is None or seen is None:
            raise FedwaveError("no episode has begun, or the last one is over: call reset().")
        played = run.finish(seen, self._decision(run, seen, action))
        reward = self._sign * run.measured[self._reward.name]
        done = run.round == self.rounds
        self._seen = None if done else run.observe()
        return self._seen, reward, done, played

    def trace(self) -> Trace:
        """The rounds of this episode so far, as a Trace."""
        if self._run is None or self._run.round == 0:
            raise FedwaveError("no round has been played: call reset() and step(...).")
        return self._run.trace()

    def _decision(self, run: Simulation, seen: Observation, action: Any) -> Decision:
        if isinstance(action, Decision):
            return action
        given: Array = np.asarray(action)
        shape = seen.delay.shape
        if given.shape != shape or given.dtype.kind not in "biuf":
            raise FedwaveError(
                f"action is of type {given.dtype} and shape {given.shape}, must be priorities (numbers) or a decision "
                f"(bools) of shape {shape}."
            )
        if given.dtype == np.bool_:
            return Decision(given.copy())
        if np.isnan(given).any():
            raise FedwaveError(
                "action holds NaN, must hold numbers: minus infinity for a device that must not transmit."
            )
        return run.decide_by_priority(seen, given)


def _decided_outside(seen: Observation) -> FloatArray:
    raise FedwaveError("the decisions of an environment come from outside: call step(...) on it.")
