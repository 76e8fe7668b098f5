"""What the runner costs: the MNIST quick preset as an experiment against the bare training of the same units.

Both train the same units one after another in one process with one thread; the runner adds the folder, the records,
the checkpoints and reading the results again. `make bench` prints the ratio of the two, from one run.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.config.units import cut_into_units, resolve
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.run.work import run_unit
from fedwave.learning.settings import use_threads

ROUNDS = 1  # of 25: the costs of the runner are per unit, so fewer rounds show them larger
REPEATS = 1


def main() -> None:
    use_threads(1)
    experiment = resolve(replace(load_experiment("quick", ["training.device=cpu"]), rounds=ROUNDS))
    units = cut_into_units(experiment)
    run_unit(units[-1], None, lambda rounds: None, print)  # reads the data, once
    bare = with_runner = 0.0
    for _ in range(REPEATS):  # alternating, so that a busy machine disturbs both alike
        start = time.perf_counter()
        for unit in units:
            run_unit(unit, None, lambda rounds: None, print)
        bare += time.perf_counter() - start
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            run_experiment(experiment, Path(folder) / "run", workers=1)
            with_runner += time.perf_counter() - start
    more = (with_runner - bare) / REPEATS
    print(f"runner: {len(units)} units of the MNIST quick preset, {ROUNDS} of 25 rounds")
    print(f"  bare training {bare / REPEATS:.1f} s, as an experiment {with_runner / REPEATS:.1f} s: {more:+.2f} s")
    here, all_rounds = bare / REPEATS, bare / REPEATS * 25 / ROUNDS
    print(f"  {100 * more / here:+.1f} % of these rounds, {100 * more / all_rounds:+.1f} % of the preset's 25")


if __name__ == "__main__":
    main()
