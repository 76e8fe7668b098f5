"""A scheduler of your own: rank by squared backlog, check it, and compare it on the same worlds."""

import fedwave as fw


@fw.register
class SquaredBacklog(fw.Scheduler):
    """Long queues count more than in proportion."""

    name = "squared-backlog"
    needs = frozenset({"channel", "backlog"})

    def priority(self, state, seen, draws):
        return seen.success * seen.waiting.astype(float) ** 2


if __name__ == "__main__":
    print(fw.check("squared-backlog"))
    network = fw.paper_network()
    for name in ("alsa-pi", "max-weight", "squared-backlog"):
        trace = fw.simulate(network, name, rounds=300, instances=20, seed=1)
        print(f"{name:16} mean backlog {trace.backlog[100:].mean():7.2f}")
