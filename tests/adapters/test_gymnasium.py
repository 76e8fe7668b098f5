"""The Gymnasium environments: the rounds of fw.simulate, and what Gymnasium and Stable-Baselines3 expect."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import mentions

import fedwave as fw

if find_spec("gymnasium") is None:
    pytest.skip("gymnasium is not installed", allow_module_level=True)
import gymnasium
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

gymnasium.register_envs(fw.rl)
NET = fw.random_network(6, seed=1, slots=2)
AWAY = NET.replace(availability="on-off:mean_on=6,mean_off=3")
FULL, PARTIAL = "fedwave/Scheduling-v0", "fedwave/SchedulingPO-v0"


def make(name: str = FULL, **more: Any) -> Any:
    return gymnasium.make(name, **{"network": NET, "rounds": 10, **more})


def make_vec(name: str = FULL, num_envs: int = 4, **more: Any) -> Any:
    return gymnasium.make_vec(name, num_envs=num_envs, **{"network": NET, "rounds": 10, **more})


@pytest.mark.parametrize("name", [FULL, PARTIAL])
@pytest.mark.parametrize("network", [None, AWAY], ids=["paper", "away"])
def test_both_checkers_pass_without_a_warning(name: str, network: fw.Network | None) -> None:
    """A warning is an error in these tests (pyproject.toml)."""
    env = gymnasium.make(name, network=network, rounds=5).unwrapped
    check_env(env)
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(gymnasium.make(name, network=network, rounds=5).unwrapped)


def test_an_import_registers_them() -> None:
    code = (
        "import gymnasium\n"
        f"env = gymnasium.make('fedwave.adapters.gymnasium:{FULL}', rounds=3)\n"
        "print(env.reset(seed=1)[0].shape, env.unwrapped.spec.vector_entry_point)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["(125,)", "fedwave.adapters.gymnasium:SchedulingVectorEnv"]


@pytest.mark.parametrize(
    ("needs", "network", "expected"),
    [
        (("channel", "backlog", "rates"), NET, ["success", "waiting", "rates", "delay", "available"]),
        (("channel",), NET, ["success", "delay", "reported", "available"]),
        ((), AWAY, ["delay", "reported", "available"]),
        (("backlog",), AWAY, ["waiting", "delay", "available"]),
    ],
)
def test_features_are_what_is_visible(needs: tuple[str, ...], network: fw.Network, expected: list[str]) -> None:
    env = fw.environment(network, 3, 20, needs=needs)
    seen: Any = env.reset()
    for _ in range(12):
        seen, *_ = env.step(seen.delay + np.arange(6) / 10)
    assert seen.reported.any()
    found = fw.rl.features(seen).reshape(3, len(expected), 6)
    assert found.dtype == np.float32
    for k, name in enumerate(expected):
        value = np.broadcast_to(getattr(seen, name), (3, 6))
        if name in ("waiting", "rates", "delay", "reported"):
            value = np.log(1 + value) / 4
        assert np.allclose(found[:, k], value), name


def test_no_feature_leaves_the_box() -> None:
    env = make().unwrapped
    largest = np.log1p(2.0**63) / 4
    assert env.observation_space.high.min() > largest


@pytest.mark.parametrize("reward", ["score", "backlog", "mass"])
def test_a_vector_environment_plays_the_rounds_of_simulate(reward: str) -> None:
    """Priorities in float64 give every round of two episodes; the step between them resets."""
    envs, scheduler = make_vec(reward=reward), fw.scheduler("alsa-pi")
    sign = -1 if reward == "backlog" else 1
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    observations, _ = envs.reset(seed=5)
    for episode in range(2):
        theirs = fw.simulate(NET, "alsa-pi", 11, range(4 * episode, 4 * episode + 4), seed=5)
        for t in range(10):
            seen: Any = envs.unwrapped._environment._seen
            assert np.array_equal(observations, fw.rl.features(seen))
            assert seen.round == t + 1
            priority = scheduler.priority({}, seen, fw.Draws(0, [0]))
            observations, rewards, terminated, truncated, _ = envs.step(priority)
            assert np.array_equal(rewards, sign * theirs.series[reward][t])
            assert not terminated.any()
            assert (truncated == (t == 9)).all()
        # The last observation is that of the episode that ends, for bootstrapping.
        waiting = observations.reshape(4, 5, 6)[:, 1]
        assert np.allclose(waiting, np.log1p(theirs.waiting[10]) / 4)
        observations, rewards, terminated, truncated, _ = envs.step(np.ones((4, 6)))
        assert not rewards.any()
        assert not truncated.any()
        assert not observations.reshape(4, 5, 6)[:, 1].any()  # a new episode: nothing waits


def test_one_environment_is_a_row_of_the_vector() -> None:
    env, envs = make(), make_vec(num_envs=1)
    rng = np.random.default_rng(0)
    for _ in range(2):  # episodes
        one, all_ = env.reset(seed=3)[0], envs.reset(seed=3)[0]
        assert np.array_equal(one, all_[0])
        for _ in range(10):
            action = rng.uniform(-1, 1, 6).astype(np.float32)
            mine, theirs = env.step(action), envs.step(action[None])
            assert np.array_equal(mine[0], theirs[0][0])
            assert mine[1] == theirs[1][0]
            assert mine[3] == theirs[3][0]
    assert mine[3]


def test_many_environments_of_one_are_made_too() -> None:
    envs = make_vec(vectorization_mode="sync")
    envs.reset(seed=1)
    for _ in range(12):
        observations, *_ = envs.step(envs.action_space.sample())
    assert observations in envs.observation_space


@pytest.mark.parametrize("make_one", [make, make_vec])
def test_episodes_are_keyed_by_the_seed(make_one: Any) -> None:
    def begin(env: Any, *seeds: int | None) -> list[bytes]:
        return [env.reset(seed=seed)[0].tobytes() for seed in seeds]

    def new() -> Any:
        return make_one(network=fw.random_network(200))  # in a small one two episodes may begin with the same p

    first, second = begin(new(), 1, None)
    assert first != second
    assert begin(new(), 2, 1, None, None)[1:3] == [first, second]
    assert begin(new(), None) != begin(new(), None)  # random, unless it is seeded
    env = new()
    begin(env, None)
    assert begin(env, 1) == [first]


def test_a_step_outside_an_episode_is_refused() -> None:
    for env in (make().unwrapped, make_vec()):
        with pytest.raises(fw.FedwaveError):
            env.step(np.ones(env.action_space.shape))
    env = make().unwrapped
    env.reset()
    for _ in range(10):
        *_, truncated, _ = env.step(np.ones(6))
    assert truncated
    with pytest.raises(fw.FedwaveError):
        env.step(np.ones(6))


def test_a_partial_observation_hides_backlogs_and_rates() -> None:
    env = make(PARTIAL).unwrapped
    assert env._environment.needs == {"channel"}
    assert env.observation_space.shape == (24,)


def test_actions_below_zero_leave_slots_empty() -> None:
    envs = make_vec(reward="uploads", idles=True)
    envs.reset(seed=1)
    assert not envs.step(np.full((4, 6), -0.5))[1].any()


@pytest.mark.parametrize("wrong", [{"network": "paper"}, {"rounds": 0}, {"needs": ["labels"]}, {"reward": "arrived"}])
def test_bad_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(fw.FedwaveError) as caught:
        make_vec(**wrong)
    assert mentions(str(caught.value), next(iter(wrong)))


def test_a_model_of_stable_baselines_is_a_scheduler(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    model = sb3.PPO("MlpPolicy", make(), n_steps=16, batch_size=16, n_epochs=1, seed=1, device="cpu").learn(16)
    mine = fw.rl.policy(model, name="ppo")
    trace = fw.simulate(NET, mine, 10, 4, seed=5)
    assert trace.label == "ppo"
    envs = make_vec()  # its own environments give the same rounds
    observations, _ = envs.reset(seed=5)
    for t in range(10):
        observations, rewards, *_ = envs.step(model.predict(observations, deterministic=True)[0])
        assert np.array_equal(rewards, trace.score[t])
    model.save(tmp_path / "ppo.zip")
    again = fw.rl.policy(sb3.PPO.load(tmp_path / "ppo.zip", device="cpu"), name="ppo")
    assert fw.simulate(NET, again, 10, 4, seed=5).same_as(trace)


def test_a_torch_module_is_a_scheduler() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(30, 6, bias=False)
    with torch.no_grad():  # p + log(1 + n) / 4, as a network
        model.weight.copy_(torch.cat([torch.eye(6), torch.eye(6), torch.zeros(6, 18)], dim=1))

    def written(seen: fw.Observation) -> Any:
        return (seen.success.astype(np.float32) + (np.log1p(seen.waiting) / 4).astype(np.float32)).astype(np.float64)

    mine = fw.scheduler(written, needs={"channel", "backlog"})
    by_model = fw.simulate(NET, fw.rl.policy(model), 20, 4)
    assert by_model.label == "Linear"
    assert np.array_equal(by_model.scheduled, fw.simulate(NET, mine, 20, 4).scheduled)


def test_a_model_decides_live_as_in_a_simulation() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    mine = fw.rl.policy(torch.nn.Linear(30, 6))
    trace, live = fw.simulate(NET, mine, 20, 1), fw.Live(NET, mine)
    for t in range(20):
        snr = dict(zip(live.names, NET.mean_snr * trace.gain[t, 0], strict=True))
        chosen = live.choose(snr=snr, waiting=dict(zip(live.names, trace.waiting[t, 0], strict=True)))
        assert chosen == [live.names[u] for u in np.flatnonzero(trace.scheduled[t, 0])]
        brought = (trace.waiting[t, 0] + trace.arrivals[t, 0]) * trace.delivered[t, 0]
        live.delivered({live.names[u]: brought[u] for u in np.flatnonzero(trace.delivered[t, 0])})


@pytest.mark.parametrize("model", [None, "ppo.zip", lambda seen: seen.delay])
def test_another_model_is_refused(model: Any) -> None:
    with pytest.raises(fw.FedwaveError) as caught:
        fw.rl.policy(model)
    assert mentions(str(caught.value), "model", "fw.scheduler")
