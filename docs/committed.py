"""The data that are committed beside the pages, and how their numbers are written (for pages.py and claims.py)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.experiments.analysis.statistics import Estimate, estimate
from fedwave.learning.curves import Curves

DOCS = Path(__file__).parent


@cache
def table(name: str) -> list[dict[str, str]]:
    """The lines of a table."""
    with open(DOCS / "results" / name, encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def content(name: str) -> Any:
    """What a JSON file holds."""
    return json.loads((DOCS / "results" / name).read_text(encoding="utf-8"))


def committed_below(folder: str, file: str) -> list[str]:
    """The files of a name in a folder of the results, or in folders of it."""
    results = DOCS / "results"
    return [path.relative_to(results).as_posix() for path in sorted((results / folder).rglob(file))]


def column(lines: Sequence[dict[str, str]], name: str) -> np.ndarray:
    """A column of numbers; an empty field is NaN."""
    return np.array([float(line[name] or "nan") for line in lines])


def score(scheduler: str, metric: str) -> np.ndarray:
    """A metric of the run of scores, by instance."""
    mine = [line for line in table("score/instances.csv") if line["scheduler"] == scheduler]
    return column(sorted(mine, key=lambda line: int(line["instance"])), metric)


def score_apart(one: str, other: str, metric: str = "score") -> Estimate:
    """The paired difference of two schedulers in that run."""
    return estimate(score(one, metric) - score(other, metric))


@cache
def curves(study: str) -> dict[str, Curves]:
    """The curves of a trained run, by scheduler."""
    lines = table(f"{study}/curves.csv")
    found = {}
    for label in dict.fromkeys(line["scheduler"] for line in lines):
        mine = [line for line in lines if line["scheduler"] == label]
        mine.sort(key=lambda line: (int(line["instance"]), int(line["round"])))
        rounds = max(int(line["round"]) for line in mine)
        names = ("loss", "accuracy", "accuracy_on_all")
        loss, accuracy, on_all = (
            column(mine, name).reshape(-1, rounds).T
            if name in mine[0]
            else np.full((rounds, len(mine) // rounds), np.nan)
            for name in names
        )
        by_class = np.empty((*loss.shape, 0))
        found[label] = Curves(label, loss, accuracy, by_class, {}, on_all)
    return found


def last_round(study: str) -> int:
    return len(next(iter(curves(study).values())).loss)


def instances(study: str) -> int:
    return int(next(iter(curves(study).values())).loss.shape[1])


def at(study: str, scheduler: str, round_: int, metric: str = "accuracy") -> np.ndarray:
    """Loss or accuracy after a round, by instance."""
    values: np.ndarray = getattr(curves(study)[scheduler], metric)[round_ - 1]
    return values


def final(study: str, scheduler: str, metric: str = "accuracy") -> np.ndarray:
    """The same after the last round; accuracy on all test images where it was measured."""
    on_all = at(study, scheduler, last_round(study), "accuracy_on_all")
    if metric == "accuracy" and np.isfinite(on_all).any():
        return on_all
    return at(study, scheduler, last_round(study), metric)


def finite_estimate(values: np.ndarray) -> Estimate:
    """Of the instances that did not diverge."""
    return estimate(values[np.isfinite(values)])


def plain(value: float, digits: int, sign: str = "") -> str:
    """.894, as the tables of accuracies have it."""
    return _without_zero(f"{value:{sign}.{digits}f}")


def pair(value: Estimate, digits: int, sign: str = "") -> str:
    """.0082 ± .0006"""
    return f"{plain(value.mean, digits, sign)} ± {plain(value.half_width, digits)}"


def _without_zero(number: str) -> str:
    return re.sub(r"^([+-]?)0\.", r"\1.", number)


def with_width(value: Estimate, digits: int, sign: str = "") -> str:
    """With more digits where the half-width would be rounded to 0, which would read as certainty."""
    if value.half_width > 0:
        digits = max(digits, int(np.ceil(-np.log10(value.half_width))))
    return f"{value.mean:{sign},.{digits}f} ± {value.half_width:,.{digits}f}"
