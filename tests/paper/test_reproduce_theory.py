"""Theory against practice: the parts of `fedwave reproduce theory`."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
from killing import command

import fedwave as fw
from fedwave.experiments.run.runner import run_experiment
from fedwave.paper.reproduce_theory import backlogs, decision_times, gap_figure, gap_map, times_figure, times_ratio


def test_the_map_has_the_exact_values() -> None:
    found = gap_map((1.0, 5.0), ((0.7,),))
    assert found.optimal[0] == pytest.approx([2.198, 5.708], abs=6e-4)
    assert found.greedy[0] == pytest.approx([2.198, 6.215], abs=6e-4)
    assert found.gap[0] == pytest.approx([0.0, 0.089], abs=6e-4)
    texts = [text.get_text() for text in gap_figure(found).axes[0].texts]
    assert texts == ["0.0", "8.9"]


def test_times_are_those_of_decisions_and_end_where_a_scheduler_refuses() -> None:
    times = decision_times(["dp", "alsa-pi", "balsa"], [2, 40], rounds=4, instances=2)
    assert [(t.scheduler, t.devices) for t in times] == [
        ("dp", 2),
        ("alsa-pi", 2),
        ("balsa", 2),
        ("alsa-pi", 40),
        ("balsa", 40),
    ]
    assert all(t.first > 0 and t.later > 0 for t in times)
    assert times_ratio(times, "balsa", "alsa-pi", 40) > 0
    assert len(times_figure(times).axes[0].lines) == 3


def test_the_bound_is_the_last_row_and_the_rest_is_sorted() -> None:
    small = fw.load_experiment("paper-backlogs", ["rounds=30", "burn_in=10", "instances=3"])
    network = fw.paper_network()
    rows, files = backlogs(run_experiment(small).only.data, network, "alsa-pi", 10)
    bound = rows[-1].backlog.mean
    assert rows[-1].label == "the bound"
    assert bound == fw.backlog_bound(network).value == files["backlogs.json"]["bound"]["value"]
    assert rows[-1].score.mean == pytest.approx(67 - 0.01 * bound)
    means = [row.backlog.mean for row in rows[:-1]]
    assert means == sorted(means, reverse=True)
    for row in rows[:-1]:
        assert row.gap == pytest.approx(row.backlog.mean / bound - 1)
        assert row.score.mean == pytest.approx(67 - 0.01 * row.backlog.mean)
        assert row.label in files["backlogs.md"]
        assert row.label in files["backlogs.tex"]


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
