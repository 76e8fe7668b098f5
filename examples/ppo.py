"""Learn a scheduler with PPO of Stable-Baselines3: pip install 'fedwave[rl]' stable-baselines3."""

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, VecNormalize

import fedwave as fw

NETWORK = fw.paper_network()
STEPS = 8_192  # far too few; docs/reinforcement.md has the result of a million, which takes two minutes


class Batch(VecEnv):
    """A vector environment of Gymnasium as Stable-Baselines3 asks for it."""

    def __init__(self, envs):
        self.envs, self.render_mode = envs, None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self):
        return self.envs.reset(seed=self._seeds[0])[0]

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        seen, rewards, _, over, _ = self.envs.step(self.actions)
        infos = [{} for _ in over]
        if over.all():  # Stable-Baselines3 expects the first observation of the next episode at once
            infos = [{"terminal_observation": last, "TimeLimit.truncated": True} for last in seen]
            seen = self.envs.reset()[0]
        return seen, rewards.astype(np.float32), over, infos

    def close(self):
        self.envs.close()

    def get_attr(self, name, indices=None):
        return [getattr(self, name)] * self.num_envs

    def set_attr(self, name, value, indices=None):
        raise NotImplementedError

    def env_method(self, name, *given, indices=None, **named):
        raise NotImplementedError

    def env_is_wrapped(self, wrapper, indices=None):
        return [False] * self.num_envs


def learn(steps, seed=1):
    """A PPO model, trained in 64 copies of the network that are stepped together."""
    gymnasium.register_envs(fw.rl)
    envs = gymnasium.make_vec("fedwave/Scheduling-v0", num_envs=64, network=NETWORK, reward="backlog")
    batch = VecNormalize(VecMonitor(Batch(envs)), norm_obs=False, gamma=0.95)
    model = PPO("MlpPolicy", batch, n_steps=128, batch_size=2048, gamma=0.95, seed=seed, device="cpu")
    return model.learn(steps)


if __name__ == "__main__":
    mine = fw.rl.policy(learn(STEPS), name="ppo")
    for scheduler in (mine, "random", "max-weight", "lagrangian"):
        trace = fw.simulate(NETWORK, scheduler, rounds=300, instances=20, seed=7, record="summary")
        print(f"{trace.label:12} mean backlog {trace.backlog[100:].mean():7.2f}")
