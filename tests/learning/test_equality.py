"""Every fast path against the reference trainer. A path that is not in here cannot be reached by a user.

`python -m tests.equality` compares them on a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from fast_paths import PATHS, SIZES, Path, distances, runs_of_path
from half_precision import needs_bfloat16
from rules import RULES

from fedwave.aggregation import Lee, delivered_mass
from fedwave.learning.evaluation import Evaluator
from fedwave.learning.reference import train_run
from fedwave.learning.task import Task


@pytest.mark.parametrize("name", PATHS)
def test_fast_path_equals_the_reference(name: str) -> None:
    path = PATHS[name]
    if path.settings.get("precision") == "bfloat16":
        needs_bfloat16()
    for run in distances(path):
        assert run.come > 0.01, "nothing was learnt, so nothing is compared"
        assert run.off < path.limit
        assert run.loss < max(1e-6, 3 * path.limit)


def test_the_reference_is_sensitive_to_what_the_paths_could_get_wrong() -> None:
    """If one of these did not matter here, an equality test could not notice its absence."""
    base_runs, base_task = runs_of_path(Path(network={"miss_probability": 0.4}, numbers={"aggregation": Lee(0.7)}))

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
    all_runs, _ = runs_of_path(Path())
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
