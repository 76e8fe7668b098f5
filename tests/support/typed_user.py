"""A user's script that touches the whole public surface; tests/test_root.py gives it to ``mypy --strict``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

import fedwave as fw

Floats = npt.NDArray[np.float64]


@fw.register
@dataclass(frozen=True)
class Squared(fw.Scheduler):
    """Long queues count more than in proportion."""

    power: float = 2.0
    name = "squared"
    needs = frozenset({"channel", "backlog"})

    def priority(self, state: fw.State, seen: fw.Observation, draws: fw.Draws) -> Floats:
        out: Floats = seen.success * seen.waiting.astype(np.float64) ** self.power
        return out + 1e-9 * draws.uniform(seen.delay.shape[1])

    def remember(self, state: fw.State, seen: fw.Observation, decision: fw.Decision) -> fw.State:
        assert decision.transmits.shape == seen.delay.shape
        return state


@fw.register
@dataclass(frozen=True)
class Half(fw.fading.Fading):
    """Rayleigh fading of half the power."""

    name = "half"

    def sample(self, block: fw.fading.Block, carry: object) -> tuple[Floats, object]:
        return block.draw(self.fresh), None

    def fresh(self, rng: Generator, shape: tuple[int, ...]) -> Floats:
        return 0.5 * rng.standard_exponential(shape)


@fw.register
@dataclass(frozen=True)
class Equal(fw.aggregation.Aggregation):
    """Every delivered upload weighs the same."""

    name = "equal"
    beta: float = 0.5

    def weights(self, uploads: fw.aggregation.Uploads) -> Floats:
        return np.where(uploads.delivered, 0.1, 0.0)


@fw.register
class Silent(fw.Metric):
    """Devices without new data."""

    name, label = "silent", "devices without new data"

    def measure(self, state: fw.State, played: fw.PlayedRound) -> tuple[fw.State, npt.NDArray[np.int64]]:
        return state, np.count_nonzero(played.world.arrivals == 0, axis=1)


def study(folder: str) -> None:
    net: fw.Network = fw.paper_network(success=fw.success.Turbo(midpoint_db=-4.657), fading=fw.fading.Rician(6))
    hand = fw.Network([fw.Device(rate=1, distance_m=100)], slots=1, arrivals=fw.arrivals.Poisson())
    big: fw.Network = fw.random_network(50, 5)
    trace: fw.Trace = fw.simulate(net, "balsa:stage_rule=max1", rounds=4, instances=2, seed=0)
    longer = fw.extend(trace, 6)
    assert longer.score.shape == (6, 2)
    assert fw.remake(trace).same_as(trace)
    assert trace.network.size + hand.size + big.size == 76
    frame = trace.to_xarray()
    assert "backlog" in frame
    one: fw.Scheduler = fw.scheduler("balsa", prior=fw.priors.Gamma(2.0, 1.0))
    table: fw.Comparison = fw.compare(net, ["alsa-pi", one, Squared()], rounds=4, instances=2)
    assert len(table.to_pandas()) > 0
    bound = fw.backlog_bound(net)
    assert float(bound) == bound.value
    assert fw.score_bound(net) > 0
    assert float(fw.mass_bound(net, fw.aggregation.Constant(0.5))) > 0
    problem = fw.theory.ExactProblem([1, 5], [[0.7], [0.7]])
    assert fw.theory.value_iteration(problem).backlog < fw.theory.mean_backlog(problem, lambda p, n: p * n)
    backlog: fw.statistics.Estimate = fw.statistics.estimate(trace.backlog.mean(axis=0))
    shown = fw.tables.with_interval(backlog.mean, backlog.half_width)
    figure, (axis,) = fw.figures.figure_with(1, 1, (5, 4))
    fw.figures.draw_band(axis, fw.statistics.band(trace.backlog), "balsa", fw.figures.styles(["balsa"])["balsa"])
    fw.figures.finish(figure, axis, fw.tables.markdown(["scheduler", "backlog"], [["balsa", shown]]), "")
    skewed = fw.task("synthetic", epochs=1, partition=fw.partition.Dirichlet(0.2), aggregation=Equal())
    curves: fw.Curves = fw.train(trace, skewed, sizes=fw.EvaluationSizes(50, 50))
    assert len(curves.weights) == 2
    both: dict[str, fw.Curves] = fw.train({"a": trace}, skewed, sizes=fw.EvaluationSizes(50, 50))
    assert both["a"].accuracy.shape == (4, 2)
    data = fw.run({"schedulers": ["age", "squared"], "rounds": 3, "instances": 2}, folder)
    assert fw.load(folder).sizes == data.sizes
    experiment: fw.Experiment = fw.load_experiment("quick", ["rounds=3"])
    assert experiment.rounds == 3
    passed: tuple[str, ...] = fw.check("half").passed + fw.check("squared").passed
    print(passed, fw.scheduler_names(), fw.__version__)


if __name__ == "__main__":
    import sys

    study(sys.argv[1])
