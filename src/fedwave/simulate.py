"""``fw.simulate``, and a trace run again or continued."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedwave.errors import FedwaveError, whole
from fedwave.metrics import Metric
from fedwave.network.network import Network
from fedwave.network.partition import Labels
from fedwave.recalled import check_trace, network_of, unpacked
from fedwave.schedulers.base import Scheduler
from fedwave.simulation import Meter, MetricLike, SchedulerLike, Simulation
from fedwave.trace import Trace
from fedwave.types import Learner


def simulate(
    network: Network,
    scheduler: SchedulerLike,
    rounds: int = 500,
    instances: int | Sequence[int] = 50,
    seed: int = 0,
    *,
    record: str = "full",
    beliefs: bool = False,
    metrics: Iterable[MetricLike] = (),
    meter: Meter | None = None,
    labels: Labels | None = None,
    learner: Learner | None = None,
) -> Trace:
    """Run one scheduler on a network.

    ``scheduler`` is a name, a name with parameters ("balsa:stage_rule=max1") or a Scheduler. ``instances`` is the
    number of independent repetitions, or a list of their numbers: instance 7 is the same whether 8 or 800 run.
    ``record="summary"`` keeps one number per round and instance instead of one per device, for large networks.
    ``beliefs`` keeps what a learning scheduler believed. ``metrics`` are measured in addition to the built-in ones.
    ``labels`` are the classes of the samples that arrive, for schedulers that see them: ``fw.partition.Labels``, or
    ``task.labels()``; other schedulers ignore them.
    ``learner`` trains in lock step, for schedulers that need it (learning/lockstep.py makes one).

    >>> import fedwave as fw
    >>> trace = fw.simulate(fw.paper_network(), "alsa-pi", rounds=20, instances=3, seed=1)
    >>> trace.score.shape, trace.waiting.shape
    ((20, 3), (20, 3, 25))
    """
    run = Simulation.begin(
        network,
        scheduler,
        rounds,
        instances,
        seed,
        record=record,
        beliefs=beliefs,
        metrics=metrics,
        labels=labels,
        learner=learner,
        meter=meter,
    )
    run.play()
    return run.trace()


def extend(
    trace: Trace,
    rounds: int,
    *,
    network: Network | None = None,
    scheduler: Scheduler | None = None,
    metrics: Iterable[Metric] | None = None,
    meter: Meter | None = None,
    labels: Labels | None = None,
    learner: Learner | None = None,
) -> Trace:
    """Continue a trace until it has ``rounds`` rounds, as if it had never stopped.

    The trace contains everything that is needed. Your own parts that are not registered must be passed again, and so
    must a learner if the scheduler needs one.
    """
    check_trace(trace)
    rounds = whole("rounds", rounds, 1)
    if rounds <= trace.rounds:
        raise FedwaveError(f"the trace has {trace.rounds} rounds already: ask for more than {rounds}.")
    run = Simulation.resume(
        trace,
        rounds,
        network=network,
        scheduler=scheduler,
        metrics=metrics,
        labels=labels,
        learner=learner,
        meter=meter,
    )
    try:
        run.play()
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise FedwaveError(
            f"scheduler {run.scheduler.name!r} cannot go on from what the trace holds ({error})."
        ) from error
    return run.trace()


def remake(
    trace: Trace,
    *,
    network: Network | None = None,
    scheduler: Scheduler | None = None,
    labels: Labels | None = None,
    learner: Learner | None = None,
) -> Trace:
    """Run the simulation of this trace again."""
    check_trace(trace)
    made = trace.provenance
    if labels is None and "labels" in made:
        labels = unpacked(trace, "labels")
    return simulate(
        network_of(trace) if network is None else network,
        unpacked(trace, "scheduler") if scheduler is None else scheduler,
        trace.rounds,
        made["instances"],
        made["seed"],
        record=made["record"],
        beliefs=made["keep_beliefs"],
        metrics=unpacked(trace, "more_metrics"),
        labels=labels,
        learner=learner,
    )
