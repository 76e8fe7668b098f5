"""Environments for Gymnasium, registered when this module is imported, and learned models as schedulers.

>>> import fedwave as fw
>>> import gymnasium
>>> gymnasium.register_envs(fw.rl)  # importing fw.rl registers them
>>> env = gymnasium.make("fedwave/Scheduling-v0", network=fw.paper_network(), rounds=50, reward="backlog")
>>> env.observation_space.shape, env.action_space.shape  # five features and one priority per device
((125,), (25,))
>>> envs = gymnasium.make_vec("fedwave/SchedulingPO-v0", num_envs=64, network=fw.paper_network(), rounds=50)
>>> envs.reset(seed=1)[0].shape
(64, 100)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv

from fedwave.environment import EVERYTHING, environment
from fedwave.errors import FedwaveError, as_int, short_repr
from fedwave.network.network import Network, paper_network
from fedwave.schedulers.base import Scheduler, scheduler
from fedwave.types import Array, FloatArray, Observation

_LARGEST = 12.0  # no feature is larger: log(1 + 2^63) / 4 is 10.9
Steps = tuple[Array, Any, Any, Any, dict[str, Any]]


def features(seen: Observation) -> Array:
    """The Observation as numbers for a neural network: float32 ``[I, F U]``, one feature of all devices after another.

    They are, in this order: the success probability p with "channel"; the shards that wait with "backlog"; the rate
    with "rates"; the delay; the shards of the upload that arrived in the last round, without "backlog"; and 1 for a
    device that is there. Of all but p and the last one it is log(1 + x) / 4, which is near 1.

    >>> import fedwave as fw
    >>> seen = fw.environment(fw.random_network(3, slots=1), instances=2, needs={"backlog"}).reset()
    >>> fw.rl.features(seen).shape  # backlog, delay and availability of three devices
    (2, 9)
    """
    visible = vars(seen)
    shape = seen.delay.shape
    rows: list[Array] = []
    if "success" in visible:
        rows.append(seen.success)
    if "waiting" in visible:
        rows.append(_scaled(seen.waiting))
    if "rates" in visible:
        rows.append(np.broadcast_to(_scaled(seen.rates), shape))
    rows.append(_scaled(seen.delay))
    if "waiting" not in visible:
        rows.append(_scaled(seen.reported))
    rows.append(seen.available)
    return np.concatenate(rows, axis=1, dtype=np.float32)


def _scaled(counts: Array) -> FloatArray:
    return np.log1p(counts) / 4


def policy(model: Any, needs: Iterable[str] = EVERYTHING, *, name: str | None = None, idles: bool = False) -> Scheduler:
    """A learned model as a scheduler.

    ``model`` is one of Stable-Baselines3 (its ``predict`` is asked for the best action), or a torch module; both are
    given ``features`` and return one priority per device. ``needs`` must be what the model was trained with. Any other
    function of the Observation is a scheduler by ``fw.scheduler(function, needs=...)``.

    >>> import fedwave as fw
    >>> from torch import nn
    >>> net = fw.paper_network()
    >>> mine = fw.rl.policy(nn.Linear(125, net.size), name="untrained")
    >>> fw.simulate(net, mine, rounds=20, instances=2).label
    'untrained'
    """
    if hasattr(model, "predict"):  # of Stable-Baselines3

        def priority(seen: Observation) -> FloatArray:
            return np.asarray(model.predict(features(seen), deterministic=True)[0], np.float64)

    elif hasattr(model, "parameters"):  # of torch
        like = next(model.parameters())

        def priority(seen: Observation) -> FloatArray:
            return np.asarray(model(like.new_tensor(features(seen))).detach().cpu(), np.float64)

    else:
        raise FedwaveError(
            f"model is {short_repr(model)}, must have predict or be a torch module: for a function of the Observation "
            "use fw.scheduler(function, needs=...)."
        )
    return scheduler(priority, needs=needs, name=name or type(model).__name__, idles=idles)


class SchedulingEnv(gymnasium.Env[Array, Array]):
    """One network. The action holds a priority per device; the W largest transmit.

    The observation is ``features``. An episode is truncated after ``rounds`` rounds and never terminates; one more
    round is drawn, for the last observation. ``reset(seed=s)`` plays instance 0 of the seed s, and every further
    ``reset()`` the next instance. ``network`` is by default the paper's; ``reward``, ``needs`` and ``idles`` are as in
    ``fw.environment``.
    """

    def __init__(
        self, network: Network | None = None, rounds: int = 200, *, render_mode: None = None, **more: Any
    ) -> None:
        self.rounds = as_int("rounds", rounds, 1)
        network = network or paper_network()
        self._environment = environment(network, 1, self.rounds + 1, **more)
        self.observation_space, self.action_space = _spaces(network, **more)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        unseeded = self._np_random_seed is None
        super().reset(seed=seed)
        # A first reset without a seed takes a random one, as Gymnasium's own environments do.
        seen = self._environment.reset(self.np_random_seed if unseeded else seed)
        return features(seen)[0], {}

    def step(self, action: Array) -> Steps:
        seen, reward, _, played = self._environment.step(np.asarray(action)[None])
        if seen is None:
            raise FedwaveError(f"the episode is over after {self.rounds} rounds: call reset().")
        return features(seen)[0], float(reward[0]), False, played.world.round >= self.rounds, {}


class SchedulingVectorEnv(VectorEnv[Array, Array, Array]):
    """Many copies of one network, stepped together: as ``SchedulingEnv``, and much faster.

    Environment i plays instance i of the seed, then instance ``num_envs`` + i, and so on. All episodes end together;
    the step after that begins new ones, without regard to its actions (``AutoresetMode.NEXT_STEP``).
    """

    def __init__(
        self,
        num_envs: int = 1,
        network: Network | None = None,
        rounds: int = 200,
        *,
        render_mode: None = None,
        **more: Any,
    ) -> None:
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.rounds, self.num_envs = as_int("rounds", rounds, 1), num_envs
        network = network or paper_network()
        self._environment = environment(network, num_envs, self.rounds + 1, **more)
        self.single_observation_space, self.single_action_space = _spaces(network, **more)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        unseeded = self._np_random_seed is None
        super().reset(seed=seed)
        self._over = False
        return features(self._environment.reset(self.np_random_seed if unseeded else seed)), {}

    def step(self, actions: Array) -> Steps:
        never = np.zeros(self.num_envs, dtype=np.bool_)
        if self._over:
            seen, infos = self.reset()
            return seen, np.zeros(self.num_envs), never, never.copy(), infos
        after, reward, _, played = self._environment.step(actions)
        assert after is not None  # one round more than the episode has
        self._over = played.world.round >= self.rounds
        return features(after), reward, never, np.full(self.num_envs, self._over), {}


def _spaces(network: Network, **more: Any) -> tuple[Box, Box]:
    """What is seen of one network, and the priorities of its devices."""
    count = features(environment(network, 1, 1, **more).reset()).shape[1]
    return Box(0.0, _LARGEST, (count,)), Box(-1.0, 1.0, (network.size,))


for _name, _needs in (("Scheduling", EVERYTHING), ("SchedulingPO", ("channel",))):
    gymnasium.register(
        f"fedwave/{_name}-v0",
        entry_point=f"{__name__}:SchedulingEnv",
        vector_entry_point=f"{__name__}:SchedulingVectorEnv",
        kwargs={"needs": _needs},
    )
