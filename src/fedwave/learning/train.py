"""``fw.train``: train a task on traces, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from importlib import import_module
from typing import Any, overload

from fedwave.errors import FedwaveError, check_parameters, short_repr
from fedwave.learning.curves import Curves
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task
from fedwave.learning.task import task as make_task
from fedwave.simulation import Meter
from fedwave.trace import Trace, labelled_traces


@overload
def train(
    traces: Trace,
    task: Task | str | Mapping[str, Any],
    *,
    sizes: EvaluationSizes | None = ...,
    meter: Meter | None = ...,
    progress: bool = ...,
    **settings: Any,
) -> Curves: ...
@overload
def train(
    traces: Mapping[str, Trace] | Iterable[Trace],
    task: Task | str | Mapping[str, Any],
    *,
    sizes: EvaluationSizes | None = ...,
    meter: Meter | None = ...,
    progress: bool = ...,
    **settings: Any,
) -> dict[str, Curves]: ...
def train(
    traces: Trace | Mapping[str, Trace] | Iterable[Trace],
    task: Task | str | Mapping[str, Any],
    *,
    sizes: EvaluationSizes | None = None,
    meter: Meter | None = None,
    progress: bool = False,
    **settings: Any,
) -> Curves | dict[str, Curves]:
    """Train a task on a trace; returns the curves, with the final weights.

    A central model is trained for every instance of the trace: in every round its devices train on the shards that
    arrived, and the delivered uploads change it. Several traces of the same number of rounds are trained side by side,
    which is faster than one by one.

    ``traces`` is a Trace, or several: a mapping by label, or an iterable. Of several, the result is a dict of Curves by
    label. ``task`` is a Task, or the name of a dataset with the paper's settings, such as "mnist". ``sizes`` is the
    number of images that the central models are evaluated on. ``meter`` is called with 1 after every round, and
    ``progress`` shows a bar with the time left on standard error.

    The ``settings`` say how to train: ``tolerance`` (1e-6) leaves out local training that weighs at most this, and 0
    trains everything; ``device`` is "cpu", "cuda" or "auto"; ``precision`` is "float32", "float64", "bfloat16" or
    "auto"; ``lanes`` is the number of models that are trained at once, chosen by the memory unless it is given.

    Arrays of the curves are ``[round, instance]``:

    >>> import fedwave as fw
    >>> trace = fw.simulate(fw.random_network(3, 1), "age", rounds=4, instances=2)
    >>> task = fw.task("synthetic:train=100,test=50", model="logistic", epochs=1)
    >>> curves = fw.train(trace, task)
    >>> curves.accuracy.shape
    (4, 2)
    >>> curves.weights[0]["out.weight"].shape
    (10, 784)
    """
    many = labelled_traces(traces)
    replay = Replay(labelled_runs(many), *what_to_train("train", task, sizes, settings))
    with _bar(many, replay.rounds) if progress else nullcontext() as tick:
        for _ in range(replay.rounds):
            replay.advance()
            for listener in (meter, tick):
                if listener is not None:
                    listener(1)
    curves = {one.label: one for one in replay.curves(weights=True)}
    return curves[traces.label] if isinstance(traces, Trace) else curves


def what_to_train(
    function: str, task: Task | str | Mapping[str, Any], sizes: EvaluationSizes | None, settings: Mapping[str, Any]
) -> tuple[Task, Settings, EvaluationSizes]:
    """Checks the arguments that ``train`` and ``train_in_lock_step`` have in common."""
    check_parameters(function, settings, [f.name for f in fields(Settings)])
    if not isinstance(sizes, EvaluationSizes | None):
        raise FedwaveError(f"sizes is {short_repr(sizes)}, must be fw.EvaluationSizes(...).")
    made = task if isinstance(task, Task) else make_task(task)
    return made, Settings(**settings), sizes or EvaluationSizes()


def _bar(traces: Mapping[str, Trace], rounds: int) -> AbstractContextManager[Meter]:
    # By name: progress belongs to the command line, which is built on top of this.
    bars = import_module("fedwave.cli.progress")
    label = next(iter(traces)) if len(traces) == 1 else f"{len(traces)} traces"
    bar: AbstractContextManager[Meter] = bars.rounds_bar(label, rounds, lines=True)
    return bar
