"""Every fast path against the reference trainer. A path that is not in here cannot be reached by a user.

Compared are the central parameters after the last round, as the distance between the two over the distance the
reference has come since the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from rules import RULES
from small_models import Own, chain, images, linear, own_forward, with_batch_norm
from states import states
from torch import nn

import fedwave as fw
from fedwave.aggregation import Lee, Sync, delivered_mass
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
    "plain chain, bfloat16": Path(chain, settings={"precision": "bfloat16"}, limit=0.15),
    "a chain's own forward": Path(own_forward),
    "a chain that is its own forward": Path(lambda: Own(nn.Flatten(), nn.Linear(12, 3))),
    "short batches": Path(numbers={"shard_size": 5, "batch": 4}),
    "short batches, batch norm": Path(with_batch_norm, numbers={"shard_size": 5, "batch": 4}),
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
        with_batch_norm, network={"miss_probability": 0.4}, numbers={"aggregation": Lee(0.001)},
        settings={"tolerance": 1e-6}, limit=1e-5,
    ),
    "skipping what is one round late": Path(
        numbers={"aggregation": Lee(0.001)}, settings={"tolerance": 1e-3}, limit=1e-2
    ),
    "float32": Path(settings={"precision": "float32"}, limit=1e-4),
    # With a larger rate two pixels of a pool come so close that rounding chooses the other one.
    "float32, the paper's CNN": Path(
        Cnn, (1, 28, 28), numbers={"eta": 0.02}, settings={"precision": "float32"}, limit=1e-4
    ),
    "bfloat16": Path(with_batch_norm, numbers={"eta": 0.02}, settings={"precision": "bfloat16"}, limit=0.15),
}  # fmt: skip

for _name, _rule in RULES.items():
    _numbers = {"aggregation": _rule}
    PATHS |= {
        f"rule: {_name}": Path(numbers=_numbers),
        f"rule: {_name}; batch norm, missed broadcasts, few lanes": Path(
            with_batch_norm,
            network={"miss_probability": 0.4},
            numbers=_numbers,
            settings={"lanes": 3},
        ),
    }
    if _rule.beta >= 1 or _rule.waits:  # nothing that is delivered can be left out
        PATHS[f"rule: {_name}; skipping, missed broadcasts"] = Path(
            network={"miss_probability": 0.4}, numbers=_numbers, settings={"tolerance": 0.5}
        )  # fmt: skip


def runs(path: Path) -> tuple[list[Any], Task]:
    network = fw.random_network(4, 2, seed=3, rate=[0.4, 1.0, 2.0, 3.0], **path.network)
    traces = {
        name: fw.simulate(network, name, rounds=9, instances=2, seed=5)
        for name in ("alsa-pi", "round-robin")
    }
    numbers = {
        "shard_size": 4,
        "batch": 4,
        "epochs": 2,
        "eta": 0.05,
        "aggregation": Lee(0.3),
        "prox": 0.1,
    }
    return labelled_runs(traces), Task(images(path.image), path.model, **(numbers | path.numbers))


@pytest.mark.parametrize("name", PATHS)
def test_fast_path_equals_the_reference(name: str) -> None:
    path = PATHS[name]
    all_runs, task = runs(path)
    settings = Settings(**({"precision": "float64", "tolerance": 0.0} | path.settings))
    replay = Replay(all_runs, task, settings, SIZES)
    starts = [state.w for state in states(replay)]
    for _ in range(replay.rounds):
        replay.advance()
    # In double precision: in single precision the reference itself can take the other pixel of a pool.
    evaluator = Evaluator(task, SIZES, torch.device("cpu"), torch.float64)
    for r, run in enumerate(all_runs):
        results, w = train_run(run, task, evaluator, torch.float64)
        off = sum(float(((w[k] - states(replay)[r].w[k]) ** 2).sum()) for k in w) ** 0.5
        come = sum(float(((w[k] - starts[r][k]) ** 2).sum()) for k in w) ** 0.5
        assert come > 0.01, "nothing was learnt, so nothing is compared"
        assert off / come < path.limit
        losses = np.array([found.loss for found in results])
        fast = np.array([found.loss for found in replay.results[r]])
        np.testing.assert_allclose(fast, losses, rtol=max(1e-6, 3 * path.limit))


def test_the_reference_is_sensitive_to_what_the_paths_could_get_wrong() -> None:
    """If one of these did not matter here, an equality test could not notice its absence."""
    base_runs, base_task = runs(
        Path(network={"miss_probability": 0.4}, numbers={"aggregation": Lee(0.7)})
    )

    def final(task: Task, run: Any) -> torch.Tensor:
        evaluator = Evaluator(task, SIZES, torch.device("cpu"), torch.float64)
        w = train_run(run, task, evaluator, torch.float64)[1]
        return torch.cat([p.flatten() for p in w.values()])

    run = base_runs[0]
    base = final(base_task, run)
    for changed_task, changed_run in (
        (replace(base_task, aggregation=Lee(0.6)), run),
        (replace(base_task, prox=0.0), run),
        (replace(base_task, l2=0.01), run),
        *((replace(base_task, aggregation=rule), run) for rule in RULES.values()),
        (base_task, replace(run, heard=np.ones_like(run.heard))),
        (base_task, replace(run, delay=np.ones_like(run.delay))),
        (base_task, replace(run, learned=np.ones_like(run.learned))),
    ):
        assert float((final(changed_task, changed_run) - base).norm()) > 1e-4


def test_the_rules_do_what_they_are_here_for() -> None:
    """Caps bite in some rounds and not in others; a buffer takes several rounds to fill, more than once."""
    all_runs, _ = runs(Path())
    for name, rule in RULES.items():
        schedules = [run.uploads(rule) for run in all_runs]
        if rule.cap is not None:
            free = replace(rule, cap=None)  # type: ignore[type-var]
            for uploads in schedules:
                mass = (free.weights(uploads) * uploads.mass).sum(axis=-1)
                assert (mass > rule.cap).any(), name
                assert ((mass > 0) & (mass <= rule.cap)).any(), name
        if name.startswith("fedbuff, more"):
            entered = [delivered_mass(rule, uploads) for uploads in schedules]
            came = [uploads.delivered.any(axis=-1) for uploads in schedules]
            for some, mass in zip(came, entered, strict=True):
                assert (some & (mass == 0)).any()
                assert (mass > 0).sum() > 1
