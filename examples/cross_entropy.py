"""Learn a scheduler by the cross-entropy method: every instance of an environment tries weights of its own."""

import numpy as np

import fedwave as fw

NETWORK = fw.paper_network()
NEEDS = {"channel", "backlog", "rates"}
GENERATIONS, CANDIDATES, ELITE = 6, 128, 16


def inputs(seen):
    """What a device is judged by, ``[I, U, K]``: p, n and theta, mostly as logarithms."""
    p, n = np.log(seen.success + 1e-3), np.log1p(seen.waiting)
    theta = np.broadcast_to(np.log(seen.rates), n.shape)
    return np.stack([p, n, n**2 / 4, theta, n * theta / 4, seen.success, np.log(seen.delay)], axis=-1)


def learn(generations, candidates, elite, seed=1):
    """The weights whose largest inner products with the inputs give the smallest backlog."""
    rng = np.random.default_rng(seed)
    env = fw.environment(NETWORK, candidates, rounds=200, seed=seed, reward="backlog", needs=NEEDS)
    seen = env.reset()
    mean = np.zeros(inputs(seen).shape[-1])
    mean[0] = 1  # begin with the success probability
    deviation = np.ones_like(mean)
    for _ in range(generations):
        weights = mean + deviation * rng.normal(size=(candidates, mean.size))
        total, done = np.zeros(candidates), False
        while not done:
            seen, reward, done, _ = env.step((inputs(seen) @ weights[:, :, None])[:, :, 0])
            total += reward
        best = weights[np.argsort(total)[-elite:]]
        mean, deviation = best.mean(axis=0), best.std(axis=0) + 0.02
        seen = env.reset()
    return mean


def learned(weights):
    """The scheduler with these weights."""
    return fw.scheduler(lambda seen: inputs(seen) @ weights, needs=NEEDS, name="cross-entropy")


if __name__ == "__main__":
    mine = learned(learn(GENERATIONS, CANDIDATES, ELITE))
    for scheduler in (mine, "max-weight", "lagrangian"):
        trace = fw.simulate(NETWORK, scheduler, rounds=400, instances=20, seed=7, record="summary")
        print(f"{trace.label:16} mean backlog {trace.backlog[100:].mean():7.2f}")
    print(f"{'bound':16} mean backlog {fw.backlog_bound(NETWORK).value:7.2f}")
