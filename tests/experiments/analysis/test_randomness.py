"""Instances that are copies give no interval, and a caption says what the others' intervals cover."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import mentions

import fedwave as fw
from fedwave.experiments.analysis.randomness import Randomness
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.summary import note_of
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.dataset import unit_dataset

RNG = np.random.default_rng(0)
GAINS = fw.fading.RecordedGains(RNG.exponential(size=(20, 25)))
ARRIVALS = fw.arrivals.RecordedArrivals(RNG.poisson(3, size=(20, 25)))
CERTAIN: dict[str, Any] = {"fading": GAINS, "arrivals": ARRIVALS, "success": "threshold"}
COPIES = ("Gains", "arrivals", "copies")


def compared(schedulers: list[str], **network: Any) -> Any:
    return fw.compare(fw.paper_network(**network), schedulers, rounds=20, instances=3)


def test_copies_have_no_interval_and_say_so() -> None:
    found = compared(["alsa-pi", "round-robin"], **CERTAIN)
    assert mentions(found.note, *COPIES)
    assert not mentions(found.note, "cover")
    assert not found.has_intervals
    assert "±" not in repr(found)
    for metric in found.metrics:
        assert np.isnan(found.estimate("alsa-pi", metric).half_width)
        assert np.isnan(found.difference("round-robin", metric).half_width)
    trace = fw.simulate(fw.paper_network(**CERTAIN), "round-robin", 20, 3)
    assert found.estimate("round-robin", "backlog").mean == trace.backlog.mean()
    assert (trace.backlog == trace.backlog[:, :1]).all()  # they are copies indeed
    ratio = found.backlog_ratio("round-robin")
    assert ratio.value > 1
    assert np.isnan(ratio.low)
    assert found.about()["intervals_cover"] == []
    caption = found.plot("backlog").get_supxlabel()
    assert caption.replace("\n", " ") == found.note


def test_a_scheduler_that_draws_has_an_interval() -> None:
    found = compared(["round-robin", "random", "balsa"], **CERTAIN)
    assert mentions(found.note, *COPIES, "random", "balsa")
    widths = [found.estimate(k, "backlog").half_width for k in found.schedulers]
    assert np.isnan(widths[0])
    assert min(widths[1:]) > 0
    assert found.difference("random", "backlog").half_width > 0
    lines = repr(found).splitlines()
    assert {line.split()[1]: "±" in line for line in lines[3:6]} == {
        "round-robin": False,
        "random": True,
        "balsa": True,
    }


@pytest.mark.parametrize(
    "network, cover, noted",
    [
        ({}, "gains, arrivals, transmission luck", ()),
        ({"success": "threshold"}, "gains, arrivals", ()),
        ({"fading": GAINS}, "arrivals, transmission luck", ("Gains", "arrivals", "transmission luck")),
        ({"arrivals": ARRIVALS, "success": "arq:model=threshold"}, "gains", ("Arrivals", "gains")),
        ({"fading": GAINS, "arrivals": ARRIVALS}, "transmission luck", ("Gains", "arrivals", "transmission luck")),
    ],
)
def test_intervals_cover_what_is_drawn(network: dict[str, Any], cover: str, noted: tuple[str, ...]) -> None:
    found = compared(["alsa-pi", "age"], **network)
    assert ", ".join(found.about()["intervals_cover"]) == cover
    assert bool(found.note) == bool(noted)
    assert mentions(found.note, *noted)
    assert found.estimate("age", "backlog").half_width > 0


def test_one_record_per_instance_is_no_copy() -> None:
    many = fw.fading.RecordedGains(RNG.exponential(size=(20, 3, 25)))
    assert fw.paper_network(fading=many).random_parts == ("gains", "arrivals", "uploads")
    assert fw.paper_network(fading=GAINS).random_parts == ("arrivals", "uploads")
    assert fw.paper_network(success="harq:model=threshold").random_parts[-1] == "uploads"
    almost = tiled(GAINS.gains)
    almost[-1, -1, -1] += 1  # one number of one instance is enough
    assert not fw.fading.RecordedGains(almost).shared


class Steady(fw.arrivals.Poisson):
    """A model of one's own that says that it draws nothing."""

    name, shared = "steady", True

    def sample(self, block: Any, rates: np.ndarray) -> np.ndarray:
        return np.ones((block.rounds, block.ids.size, block.devices), np.int64)


def tiled(record: np.ndarray) -> np.ndarray:
    return np.repeat(record[:, None], 3, axis=1)


@pytest.mark.parametrize(
    "certain",
    [
        {
            "fading": fw.fading.RecordedGains(tiled(GAINS.gains)),
            "arrivals": fw.arrivals.RecordedArrivals(tiled(ARRIVALS.counts)),
        },
        {"fading": GAINS, "arrivals": Steady()},
    ],
    ids=["a record copied to every instance", "a model that draws nothing"],
)
def test_other_copies(certain: dict[str, Any]) -> None:
    found = compared(["alsa-pi", "round-robin"], success="threshold", **certain)
    assert mentions(found.note, *COPIES)
    assert not mentions(found.note, "cover")
    assert "±" not in repr(found)


def test_missed_broadcasts_are_chance_where_something_is_learnt() -> None:
    network = fw.paper_network(**CERTAIN, miss_probability=0.5)
    assert network.random_parts == ("broadcasts",)
    trace = fw.simulate(network, "alsa-pi", 5, 2)
    task = fw.task("synthetic", model="logistic", epochs=1)
    alone = unit_dataset({"alsa-pi": trace})
    learnt = unit_dataset({"alsa-pi": trace}, {"alsa-pi": fw.train(trace, task)})
    assert Randomness.of(alone).covered == ()
    assert Randomness.of(learnt).covered == ("missed broadcasts", "training")
    certain = Randomness((), (), trained=True)
    assert certain.covers("alsa-pi", "accuracy")
    assert not certain.covers("alsa-pi", "backlog")


def test_a_run_folder_says_it_in_every_file(tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", GAINS.gains)
    np.save(tmp_path / "arrivals.npy", ARRIVALS.counts)
    network = {
        "fading": f"recorded:path={tmp_path}/gains.npy",
        "arrivals": f"recorded:path={tmp_path}/arrivals.npy",
        "success": "threshold",
    }
    asked = {"network": network, "schedulers": ["alsa-pi", "round-robin"], "rounds": 10, "instances": 2}
    out = tmp_path / "out"
    fw.run(asked, out)
    summary = json.loads((out / "summary.json").read_text())
    assert mentions(summary["note"], *COPIES)
    assert summary["intervals_cover"] == []
    assert summary["schedulers"]["alsa-pi"]["backlog"]["half_width"] is None
    for table in ("table.md", "table.tex"):
        text = (out / table).read_text()
        assert mentions(text, *COPIES)
        assert "±" not in text
        assert "pm" not in text
    # Text is drawn as shapes; matplotlib notes what it was beside them.
    for name in ("score.svg", "devices.svg"):
        drawn = (out / name).read_text()
        assert mentions(drawn, "upload", "chance")
        assert "95 %" not in drawn
    with open(out / "rounds.csv", newline="") as file:
        assert {row["backlog_half_width"] for row in csv.DictReader(file)} == {""}
    assert fw.load(out).attrs["chance"] == ""


def test_points_with_different_notes_keep_the_burn_in(tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", GAINS.gains)
    fading = ["rayleigh", {"name": "recorded", "path": str(tmp_path / "gains.npy")}]
    asked = {"schedulers": ["age"], "rounds": 6, "instances": 2, "burn_in": 3}
    swept = experiment_from({**asked, "sweep": {"network.fading": fading}})
    note = note_of(run_experiment(swept, workers=1))
    assert mentions(note, "3 rounds", "Fading")
    assert note.count("Gains are recorded") == 1
    swept = experiment_from({**asked, "sweep": {"burn_in": [0, 2]}})
    note = note_of(run_experiment(swept, workers=1))
    assert mentions(note, "Rounds left out", "2 rounds")


def test_older_results_say_nothing() -> None:
    data = unit_dataset({"age": fw.simulate(fw.paper_network(), "age", 3, 2)})
    assert Randomness.of(data.drop_attrs(deep=False)) == Randomness()
