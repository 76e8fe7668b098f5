"""Theory against practice: the parts of `fedwave reproduce theory`."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from killing import command

import fedwave as fw
from fedwave.experiments.run.runner import run_experiment
from fedwave.paper.reproduce_theory import backlogs, decision_times, two_devices
from fedwave.paper.theory_figures import gap_figure, times_figure


def test_the_map_has_the_exact_values() -> None:
    rates, levels = (1.0, 5.0), ((0.7,),)
    optimal, greedy = two_devices(rates, levels)
    assert optimal[0] == pytest.approx([2.198, 5.708], abs=6e-4)
    assert greedy[0] == pytest.approx([2.198, 6.215], abs=6e-4)
    texts = [text.get_text() for text in gap_figure(rates, levels, np.maximum(greedy / optimal - 1, 0)).axes[0].texts]
    assert texts == ["0.0", "8.9"]


def test_times_are_those_of_decisions_and_end_where_a_scheduler_refuses() -> None:
    times = decision_times(["dp", "alsa-pi", "balsa"], [2, 40], rounds=4, instances=2)
    assert list(times) == [("dp", 2), ("alsa-pi", 2), ("balsa", 2), ("alsa-pi", 40), ("balsa", 40)]
    assert min(seconds for both in times.values() for seconds in both) > 0
    assert len(times_figure(times).axes[0].lines) == 3


def test_the_bound_is_the_last_row_and_the_rest_is_sorted() -> None:
    small = fw.load_experiment("paper-backlogs", ["rounds=30", "burn_in=10", "instances=3"])
    network = fw.paper_network()
    (_, rows), files = backlogs(run_experiment(small).only.data, network, "alsa-pi", 10)
    told, bound = files["backlogs.json"]["schedulers"], fw.backlog_bound(network).value
    assert files["backlogs.json"]["bound"]["value"] == told["the bound"]["mean"] == bound
    assert [row[0] for row in rows] == list(told)
    assert list(told)[-1] == "the bound"
    means = [told[label]["mean"] for label in told]
    assert means[:-1] == sorted(means[:-1], reverse=True)
    for label, backlog, above, score in rows:
        mean = told[label]["mean"]
        assert float(backlog.partition("±")[0]) == pytest.approx(mean, abs=0.5)
        assert float(score.partition("±")[0]) == pytest.approx(67 - 0.01 * mean, abs=0.006)
        if label != "the bound":
            assert above == f"{100 * (mean / bound - 1):+.2f} %"
            assert told[label]["gap"] == pytest.approx(mean / bound - 1)
        assert label in files["backlogs.md"]
        assert label in files["backlogs.tex"]


@pytest.mark.slow
def test_the_command_makes_every_part(tmp_path: Path) -> None:
    sizes = ["rounds=60", "burn_in=10", "instances=2"]
    words = ["reproduce", "theory", "--quick", *sizes, "--out", str(tmp_path)]
    made = subprocess.run(command(*words, "--json"), capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert list(told["backlogs"])[-1] == "the bound"
    assert told["backlogs"]["the bound"]["mean"] == pytest.approx(100.128, abs=0.01)
    for name in ("gap", "times", "regret", "convergence"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        with open(tmp_path / f"{name}.csv") as file:
            assert len(list(csv.reader(file))) > 5
