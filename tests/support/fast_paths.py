"""The ways through the fast trainer, and how far each is from the reference trainer.

Compared are the central parameters after the last round, as the distance between the two over the distance the
reference has come since the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import torch
from rules import RULES
from small_models import Masked, Own, chain, deep, images, linear, own_forward, with_batch_norm
from states import states
from torch import nn

import fedwave as fw
from fedwave.aggregation import Lee, Sync
from fedwave.learning.checkpoint import read_checkpoint, write_checkpoint
from fedwave.learning.evaluation import EvaluationSizes, Evaluator
from fedwave.learning.models import Cnn
from fedwave.learning.reference import train_run
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task

SIZES = EvaluationSizes(60, 60)


@dataclass(frozen=True)
class Path:
    """One way through the fast trainer."""

    model: Callable[[], nn.Module] = linear
    image: tuple[int, int, int] = (1, 3, 4)
    numbers: dict[str, Any] = field(default_factory=dict)  # of the task
    network: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    limit: float = 1e-9  # relative distance; float64 unless the settings say otherwise


PATHS = {
    "plain": Path(),
    "batch norm": Path(with_batch_norm),
    "batch norm, missed broadcasts": Path(with_batch_norm, network={"miss_probability": 0.4}),
    "missed broadcasts, large beta": Path(network={"miss_probability": 0.4}, numbers={"aggregation": Lee(0.7)}),
    "plain chain": Path(chain),
    "plain chain, missed broadcasts": Path(chain, network={"miss_probability": 0.4}),
    "plain chain, short batches": Path(chain, numbers={"shard_size": 5, "batch": 4}),
    "plain chain, bfloat16": Path(chain, settings={"precision": "bfloat16"}, limit=0.3),
    "buffers of every type": Path(Masked),
    "buffers of every type, missed broadcasts": Path(Masked, network={"miss_probability": 0.4}),
    "deep chain": Path(deep, (3, 8, 8), numbers={"eta": 0.02}),
    "deep chain, missed broadcasts, short batches": Path(
        deep, (3, 8, 8), network={"miss_probability": 0.4}, numbers={"shard_size": 5, "eta": 0.02}
    ),
    "deep chain, bfloat16": Path(deep, (3, 8, 8), numbers={"eta": 0.02}, settings={"precision": "bfloat16"}, limit=0.3),
    "a chain's own forward": Path(own_forward),
    "a chain that is its own forward": Path(lambda: Own(nn.Flatten(), nn.Linear(12, 3))),
    "short batches": Path(numbers={"shard_size": 5, "batch": 4}),
    # Of three samples: batch norm of two is so steep that rounding errors grow a million times.
    "short batches, batch norm": Path(with_batch_norm, numbers={"shard_size": 9, "batch": 6}),
    "shards of one sample": Path(numbers={"shard_size": 1, "batch": 3}),
    "no proximal term, l2": Path(numbers={"prox": 0.0, "l2": 0.1}),
    "lanes in small blocks": Path(with_batch_norm, settings={"lanes": 2}),
    "buffer limit": Path(network={"buffer_limit": 3}),
    "label skew": Path(numbers={"partition": fw.partition.Dirichlet(0.3)}),
    "by class": Path(numbers={"partition": fw.partition.ByClass(1)}),
    "sync": Path(numbers={"aggregation": Sync()}),
    "sync, missed broadcasts, batch norm": Path(
        with_batch_norm, network={"miss_probability": 0.4}, numbers={"aggregation": Sync()}
    ),
    # Left out are gradients that weigh less than 1e-6 at their delivery.
    "skipping": Path(numbers={"aggregation": Lee(0.001)}, settings={"tolerance": 1e-6}, limit=1e-5),
    "skipping, missed broadcasts": Path(
        with_batch_norm,
        network={"miss_probability": 0.4},
        numbers={"aggregation": Lee(0.001)},
        settings={"tolerance": 1e-6},
        limit=1e-5,
    ),
    "skipping what is one round late": Path(
        numbers={"aggregation": Lee(0.001)}, settings={"tolerance": 1e-3}, limit=1e-2
    ),
    "float32": Path(settings={"precision": "float32"}, limit=1e-4),
    # With a larger rate two pixels of a pool come so close that rounding chooses the other one.
    "float32, the paper's CNN": Path(
        Cnn, (1, 28, 28), numbers={"eta": 0.02}, settings={"precision": "float32"}, limit=1e-4
    ),
    "bfloat16": Path(with_batch_norm, numbers={"eta": 0.02}, settings={"precision": "bfloat16"}, limit=0.3),
}

for _name, _rule in RULES.items():
    _numbers = {"aggregation": _rule}
    PATHS[f"rule: {_name}; batch norm, missed broadcasts, few lanes"] = Path(
        with_batch_norm, network={"miss_probability": 0.4}, numbers=_numbers, settings={"lanes": 3}
    )
    if _rule.beta >= 1 or _rule.waits:  # nothing that is delivered can be left out
        PATHS[f"rule: {_name}; skipping, missed broadcasts"] = Path(
            network={"miss_probability": 0.4}, numbers=_numbers, settings={"tolerance": 0.5}
        )


def runs_of_path(path: Path) -> tuple[list[Any], Task]:
    network = fw.random_network(4, 2, seed=3, rate=[0.4, 1.0, 2.0, 3.0], **path.network)
    traces = {name: fw.simulate(network, name, rounds=6, instances=2, seed=93) for name in ("alsa-pi", "round-robin")}
    numbers = {"shard_size": 4, "batch": 4, "epochs": 2, "eta": 0.05, "aggregation": Lee(0.3), "prox": 0.1}
    return labelled_runs(traces), Task(images(path.image), path.model, **(numbers | path.numbers))


@dataclass(frozen=True)
class Distance:
    """Of one run from the reference."""

    come: float  # how far the reference has come from its start
    off: float  # of the parameters, over that
    loss: float  # the largest relative difference of a round's loss


def distances(path: Path, stop: int | None = None, **settings: Any) -> list[Distance]:
    """Those of all runs; ``settings`` override those of the path. With ``stop``, resumed after so many rounds."""
    return distances_of(*runs_of_path(path), stop, **path.settings | settings)


def distances_of(all_runs: list[Any], task: Task, stop: int | None = None, **settings: Any) -> list[Distance]:
    """The same of any runs and task."""
    chosen = {"precision": "float64", "tolerance": 0.0} | settings
    replay = Replay(all_runs, task, Settings(**chosen), SIZES)
    starts = [state.w for state in states(replay)]
    for t in range(replay.rounds):
        if t == stop:
            kept = BytesIO()
            write_checkpoint(replay, kept)
            replay = Replay(all_runs, task, Settings(**chosen), SIZES)
            read_checkpoint(replay, kept, "its checkpoint")
        replay.advance()
    # In double precision: in single precision the reference itself can take the other pixel of a pool.
    evaluator = Evaluator(task, SIZES, torch.device("cpu"), torch.float64)
    found = []
    for start, state, run, mine in zip(starts, states(replay), all_runs, replay.results.loss.T, strict=True):
        results, w = train_run(run, task, evaluator, torch.float64)
        losses = np.array([one.loss for one in results]).ravel()
        come, off = _apart(w, start), _apart(w, state.w)
        found.append(Distance(come, off / come, float(np.max(np.abs(mine / losses - 1)))))
    return found


def _apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    return sum(float(((one[k] - other[k].cpu()) ** 2).sum()) for k in one) ** 0.5
