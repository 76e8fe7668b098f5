"""The data that are committed beside the pages, and how their tables are written (for the modules here)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fedwave as fw
from fedwave.paper import Floats
from fedwave.paper.compact import Row, read_compact, read_rows, read_text

_rows = cache(read_rows)


@cache
def _json(path: Path) -> Any:
    return json.loads(read_text(path))


@cache
def _curves(folder: Path) -> dict[str, fw.Curves]:
    learnt = read_compact(folder).learnt
    assert learnt is not None
    return learnt.curves()


class Results:
    """Reads the files of a folder of results, each once.

    A folder ``score`` has the compact export of a simulated run; ``mnist`` and ``cifar10`` those of trained ones, the
    studies; ``theory`` has the files of `fedwave reproduce theory`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, name: str) -> list[Row]:
        """The rows of a table."""
        return _rows(self.folder / name)

    def content(self, name: str) -> Any:
        """What a JSON file holds."""
        return _json(self.folder / name)

    def curves(self, study: str) -> dict[str, fw.Curves]:
        """The curves of a trained run, by scheduler."""
        return _curves(self.folder / study)

    def score(self, scheduler: str, metric: str) -> Floats:
        """A metric of the run of scores, by instance."""
        return column([row for row in self.table("score/instances.csv") if row["scheduler"] == scheduler], metric)

    def score_apart(self, one: str, other: str, metric: str = "score") -> fw.statistics.Estimate:
        """The paired difference of two schedulers in that run."""
        return fw.statistics.estimate(self.score(one, metric) - self.score(other, metric))

    def score_rounds(self) -> int:
        """The number of rounds of that run."""
        return max(int(row["round"]) for row in self.table("score/rounds.csv"))

    def last_round(self, study: str) -> int:
        """The number of rounds of a study."""
        return len(next(iter(self.curves(study).values())).loss)

    def instances(self, study: str) -> int:
        """The number of instances of a study."""
        return int(next(iter(self.curves(study).values())).loss.shape[1])

    def at(self, study: str, scheduler: str, round_: int, metric: str = "accuracy") -> Floats:
        """Loss or accuracy after a round, by instance."""
        values: Floats = self.curves(study)[scheduler].series[metric][round_ - 1]
        return values

    def final(self, study: str, scheduler: str, metric: str = "accuracy") -> Floats:
        """The same after the last round; accuracy on all test images where it was measured."""
        last = self.last_round(study)
        if metric == "accuracy" and np.isfinite(self.at(study, scheduler, last, "accuracy_on_all")).any():
            metric = "accuracy_on_all"
        return self.at(study, scheduler, last, metric)


def column(rows: list[Row], name: str) -> Floats:
    """A column of numbers; an empty field is NaN."""
    return np.array([float(row[name] or "nan") for row in rows])


def estimate_in(row: Row, mean: str, half_width: str) -> fw.statistics.Estimate:
    """The estimate in two fields of a row."""
    return fw.statistics.Estimate(float(row[mean] or "nan"), float(row[half_width] or "nan"), 0)


DOCS = Path(__file__).parent
DATA = Results(DOCS / "results")


def table_block(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table between empty lines of a page."""
    return "\n" + fw.tables.markdown(heading, rows)
