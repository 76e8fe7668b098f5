"""What the pages show of the studies, from their run folders: `python studies/collect.py RUNS`.

RUNS holds a folder for each study, named as its file: `fedwave run studies/rules.yaml --out RUNS/rules`. Folders that
are not there are left out, and their committed tables stay.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.experiments.analysis.prediction_check import check_prediction
from fedwave.experiments.analysis.statistics import paired_difference
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.report.figures.common import write_figure
from fedwave.experiments.report.figures.prediction import prediction_figure
from fedwave.experiments.store.checksums import file_sha256
from fedwave.experiments.store.dataset import Point
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of
from fedwave.experiments.store.provenance import versions_of
from fedwave.files.writing import write_csv, write_json
from fedwave.types import FloatArray

STUDIES = Path(__file__).parent
RESULTS = STUDIES.parent / "docs" / "results"
RECOMMENDED, PAPERS = "constant:beta=1,stretch=2", "lee"
CIFAR = "cifar10"  # of the law, and a scenario of the recommended setting
LAST = 5  # rounds whose mean accuracy is compared: a single one is noisy
# Pairs of (rule, scheduler): the first less the second.
DISTANCES = {
    "from bench": ((RECOMMENDED, "mass-bayes"), (PAPERS, "bench")),
    "from alsa-pi": ((RECOMMENDED, "mass-bayes"), (PAPERS, "alsa-pi")),
    "from alsa-pi, same rule": ((RECOMMENDED, "mass-bayes"), (RECOMMENDED, "alsa-pi")),
    "of alsa-pi from bench": ((PAPERS, "alsa-pi"), (PAPERS, "bench")),
}


def main(runs: Path) -> None:
    """All studies that were run."""
    for study in sorted(STUDIES.glob("*.yaml")):
        folder = runs / study.stem
        if not folder.exists():
            print(f"{study.stem}: not in {runs}")
        elif study.stem.startswith("law-") or study.stem == CIFAR:
            law(folder)
        elif study.stem in ("rules", "recommended-choice") or study.stem.startswith("choices-"):
            summary(folder)
    recommended(runs)


def summary(folder: Path) -> None:
    """The accuracies of a sweep."""
    place = RESULTS.joinpath(*folder.name.split("-"))
    place.mkdir(parents=True, exist_ok=True)
    results_of(RunFolder(folder))  # finished and sound, or refused
    with open(folder / "summary.csv", encoding="utf-8", newline="") as file:
        heading, *lines = csv.reader(file)
    kept = [line for line in lines if line[heading.index("metric")] == "accuracy"]
    write_csv(place / "summary.csv", heading, kept)
    keep_provenance(folder, place / "provenance.json")


def law(folder: Path) -> None:
    """Rank correlations of every predictor, and the curves against the useful mass."""
    place = RESULTS / "law"
    place.mkdir(exist_ok=True)
    found = check_prediction(folder)
    name = folder.name.removeprefix("law-")
    write_json(place / f"{name}.json", found.to_json())
    keep_provenance(folder, place / "provenance" / f"{folder.name}.json")
    if name in ("chosen-on", "devices"):
        write_figure(prediction_figure(found), place / f"{name}.png")


def keep_provenance(folder: Path, kept: Path) -> None:
    """The run id, the checksum of config.yaml, and every machine with its versions, units and seconds."""
    kept.parent.mkdir(exist_ok=True)
    store, runs = RunFolder(folder), dict[str, dict[str, Any]]()
    for line in store.done.units.values():
        versions = versions_of(line)
        about = {"fedwave": versions.get("fedwave"), "versions": versions}
        about |= {name: line.get(name) for name in ("host", "processor", "gpu", "commit")}
        one = runs.setdefault(str(about), {**about, "units": 0, "seconds": 0.0, "finished": ""})
        one["units"] += 1
        one["seconds"] = round(one["seconds"] + line["seconds"], 3)
        one["finished"] = max(one["finished"], line["finished"])
    config = file_sha256(folder / "config.yaml")
    write_json(kept, {"run": store.manifest.run_id, "config_sha256": config, "runs": list(runs.values())})


def recommended(runs: Path) -> None:
    """The recommended setting in every scenario and at every step size: accuracies and paired distances.

    Committed lines of scenarios that are not in RUNS stay.
    """
    table, rows = RESULTS / "recommended" / "summary.csv", []
    with open(table, encoding="utf-8", newline="") as file:
        before = list(csv.reader(file))[1:]
    for study in [*sorted(STUDIES.glob("recommended-*.yaml")), STUDIES / f"{CIFAR}.yaml"]:
        if study.stem == "recommended-choice":
            continue
        folder = runs / study.stem
        title = load_experiment(study).name.removeprefix("recommended, ")
        if not folder.exists():
            rows += [line for line in before if line[0] == title]
            continue
        results = results_of(RunFolder(folder))
        keep_provenance(folder, table.parent / "provenance" / f"{study.stem}.json")
        for eta in dict.fromkeys(step_size(point) for point in results.points):
            mine = [point for point in results.points if step_size(point) == eta]
            found = {(rule(point), s): accuracy(point, s) for point in mine for s in schedulers(point)}
            means = [float(found[RECOMMENDED, "mass-bayes"].mean()), float(found[PAPERS, "bench"].mean())]
            apart = [paired_difference(found[a], found[b]) for a, b in DISTANCES.values()]
            spread = [value for one in apart for value in (one.mean, one.half_width)]
            rows.append([title, eta, apart[0].instances, *means, *spread])
    heads = [part for name in DISTANCES for part in (name, f"{name}, half-width")]
    write_csv(table, ["scenario", "eta", "instances", "recommended", "bench", *heads], rows)


def step_size(point: Point) -> float:
    """Of local training."""
    assert point.experiment.task is not None
    return point.experiment.task.eta


def rule(point: Point) -> str:
    """The aggregation rule of a point of the sweep."""
    return str(point.where["task.aggregation"])


def schedulers(point: Point) -> list[str]:
    """Those of a point of the sweep."""
    return [str(label) for label in point.data["scheduler"].values]


def accuracy(point: Point, scheduler: str) -> FloatArray:
    """By instance; 0 for a run that diverged."""
    last = point.data["accuracy"].sel(scheduler=scheduler).transpose("round", "instance").values
    return np.nan_to_num(last[-LAST:].astype(np.float64).mean(axis=0))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python studies/collect.py RUNS, a folder that holds the run folders")
    main(Path(sys.argv[1]))
