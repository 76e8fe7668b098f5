"""The results that claims are judged by: compact exports, tables and JSON files in a folder, docs/results here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import fedwave as fw
from fedwave.paper.array_types import Floats
from fedwave.paper.compact import Rows, read_compact, read_rows, read_text


class Results:
    """Reads the files of a folder of results, each once.

    A folder ``score`` has the compact export of a simulated run; ``mnist`` and ``cifar10`` those of trained ones, the
    studies; ``theory`` has the files of `fedwave reproduce theory`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = cache(self._table)
        self.content = cache(self._content)
        self.curves = cache(self._curves)

    def _table(self, name: str) -> Rows:
        """The lines of a table."""
        return read_rows(self.folder / name)

    def _content(self, name: str) -> Any:
        """What a JSON file holds."""
        return json.loads(read_text(self.folder / name))

    def _curves(self, study: str) -> dict[str, fw.Curves]:
        """The curves of a trained run, by scheduler."""
        learnt = read_compact(self.folder / study).learnt
        assert learnt is not None
        return learnt.curves()

    def below(self, folder: str, file: str) -> list[str]:
        """The files of a name in a folder of the results, or in folders of it."""
        return [path.relative_to(self.folder).as_posix() for path in sorted((self.folder / folder).rglob(file))]

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
        on_all = self.at(study, scheduler, self.last_round(study), "accuracy_on_all")
        if metric == "accuracy" and np.isfinite(on_all).any():
            return on_all
        return self.at(study, scheduler, self.last_round(study), metric)


def column(rows: Sequence[dict[str, str]], name: str) -> Floats:
    """A column of numbers; an empty field is NaN."""
    return np.array([float(row[name] or "nan") for row in rows])
