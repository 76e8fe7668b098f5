"""The verdicts of docs/reproduction.md follow from the numbers; what its prose says is what they say."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import mentions

import fedwave as fw

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
import claims
import verdicts
from committed import DATA, Results


@pytest.mark.parametrize(
    ("fits", "wanted", "all_true"),
    [
        ([True, True], "holds", True),
        ([True, False], "in part", False),
        ([True, None], "in part", None),
        ([False, False], "does not hold", False),
        ([None, False], "open", False),
        ([None, None], "open", None),
    ],
)
def test_a_claim_about_several(fits: list[bool | None], wanted: str, all_true: bool | None) -> None:
    assert verdicts.verdict(fits) == wanted
    assert verdicts.together(fits) is all_true


@pytest.mark.parametrize(
    ("mean", "half_width", "wanted"),
    [
        (0.001, 0.002, (False, False, True, True)),
        (0.001, 0.2, (None, None, None, None)),
        (0.2, 0.1, (True, False, False, False)),
        (-0.2, 0.1, (False, True, False, True)),
    ],
)
def test_an_interval_beside_a_reach(mean: float, half_width: float, wanted: tuple[bool | None, ...]) -> None:
    rules = (verdicts.above, verdicts.below, verdicts.within, verdicts.at_most)
    assert tuple(rule(fw.statistics.Estimate(mean, half_width, 0), 0.01) for rule in rules) == wanted


def test_the_page_in_short() -> None:
    """What the first lines of the page say in words."""
    for study in verdicts.TARGETS:
        for of in (claims.larger_loss, claims.lower_accuracy):
            assert of(DATA, study)[1] == verdicts.HOLDS, (study, of.__name__)
        assert claims.fewer_rounds(DATA, study)[1] in (verdicts.HOLDS, verdicts.PART)
        assert claims.without_knowledge(DATA, study)[1] in (verdicts.HOLDS, verdicts.PART, verdicts.OPEN)
    for of in (claims.theorem_1_product, claims.theorem_1_power, claims.theorem_2, claims.theorem_3):
        assert of(DATA)[1] == verdicts.NOT, of.__name__
    assert claims.score_is_learning(DATA)[1] == verdicts.PART
    assert claims.similar_scores(DATA)[1] == verdicts.HOLDS


class MadeUp(Results):
    """Final accuracies that a test can choose, of ten instances."""

    def __init__(self) -> None:
        noise = np.linspace(-0.001, 0.001, 10)
        levels = dict(zip(verdicts.PAPER, (0.97, 0.965, 0.964, 0.963, 0.94, 0.9), strict=True))
        self.chosen = {name: level + np.roll(noise, place) for place, (name, level) in enumerate(levels.items())}

    def final(self, study: str, scheduler: str, metric: str = "accuracy") -> np.ndarray:
        return self.chosen[scheduler]

    def instances(self, study: str) -> int:
        return 10


def test_no_committed_run_has_diverged() -> None:
    """The verdicts leave diverged instances out, and would have to say so."""
    for study in verdicts.TARGETS:
        for name in verdicts.PAPER:
            assert not DATA.curves(study)[name].diverged.any(), (study, name)


def test_other_numbers_give_other_verdicts() -> None:
    data = MadeUp()
    made_up = data.chosen
    assert claims.lower_accuracy(data, "mnist")[1] == verdicts.HOLDS
    assert claims.similar_accuracy(data, "mnist")[1] == verdicts.HOLDS
    assert claims.larger_variance(data, "mnist")[1] == verdicts.OPEN  # equal, but ten instances cannot tell
    made_up["w-max"] = made_up["bench"] + 0.001
    assert claims.lower_accuracy(data, "mnist")[1] == verdicts.PART
    made_up["round-robin"] = made_up["bench"]
    assert claims.lower_accuracy(data, "mnist")[1] == verdicts.NOT
    made_up["round-robin"] = made_up["bench"] - 0.1
    for name in verdicts.OURS:
        made_up[name] = made_up["bench"] - 0.03
    assert claims.similar_accuracy(data, "mnist")[1] == verdicts.PART  # not similar, but nearer than RR
    for name in verdicts.OURS:
        made_up[name] = made_up["bench"] - 0.08
    text, verdict = claims.similar_accuracy(data, "mnist")
    assert verdict == verdicts.NOT
    assert mentions(text, "ALSA-PI", "-.0800")


def test_who_has_fewer_spikes_than_bench_is_as_stable_and_refutes_that_it_is_the_most_stable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise = np.array([0.0, 1.0, 2.0, 1.0])  # mean 1, half-width 1.3
    spikes = {name: noise for name in verdicts.PAPER}
    monkeypatch.setattr(claims, "spikes", lambda data, study, name: spikes[name])
    assert claims.bench_most_stable(DATA, "cifar10")[1] == verdicts.HOLDS
    assert claims.stable_as_bench(DATA, "cifar10")[1] == verdicts.HOLDS
    spikes["bench"] = noise + 3  # everybody has fewer, of each instance
    assert claims.bench_most_stable(DATA, "cifar10")[1] == verdicts.NOT
    assert claims.stable_as_bench(DATA, "cifar10")[1] == verdicts.HOLDS
    spikes |= {name: noise + 6 for name in (*verdicts.OURS, "w-max")}
    assert claims.bench_most_stable(DATA, "cifar10")[1] == verdicts.NOT  # RR is enough
    assert claims.stable_as_bench(DATA, "cifar10")[1] == verdicts.NOT
    spikes["round-robin"] = noise[::-1] * 5  # more or fewer: these instances cannot tell
    assert claims.bench_most_stable(DATA, "cifar10")[1] == verdicts.OPEN
    spikes["alsa-pi"] = spikes["bench"]
    assert claims.stable_as_bench(DATA, "cifar10")[1] == verdicts.PART


def test_every_claim_has_a_row_and_a_verdict() -> None:
    for part, found in claims.PARTS.items():
        text = claims.claims(DATA, part)
        assert text.count("\n| ") == len(found) + 1
        assert text.count("**") == 2 * len(found) * (2 if part == "learning" else 1)
    for part in ("score", "mnist", "cifar10", "theorems"):
        numbers = [int(number) for number in re.findall(r"\d+", claims.claims_held(DATA, part))]
        assert sum(numbers) == len(claims.PARTS["learning" if part in verdicts.TARGETS else part])


def test_choices_become_a_table_as_soon_as_they_are_committed(tmp_path: Path) -> None:
    data = Results(tmp_path)
    assert mentions(claims.choices(data), "not committed")
    heading = "scheduler,metric,mean,half_width,standard_error,difference,difference_half_width,instances,difference_instances"  # noqa: E501
    for axis, values in {"task.prox": ("0", "0.01"), "network.success": ("soft",)}.items():
        lines = [
            f"{value},{name},{metric},{mean},.002,.001,{apart},.003,5,5"
            for value in values
            for name, mean, apart in (
                ("bench", 0.96, 0.01),
                ("alsa-pi", 0.95, ""),
                ("round-robin", 0.93, -0.02),
                ("w-max", 0.9, -0.05 if value == "0" else 0.01),
            )
            for metric in ("accuracy", "loss")
        ]
        folder = tmp_path / "choices" / axis
        folder.mkdir(parents=True)
        (folder / "summary.csv").write_text("\n".join([f"{axis},{heading}", *lines]) + "\n")
    text = claims.choices(data)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["0", ".960 ± .002", ".950 ± .002", ".930 ± .002", ".900 ± .002", "holds"] in rows
    assert [row[-1] for row in rows if row[:1] in (["0.01"], ["soft"])] == ["in part"] * 2
    assert [row[0] for row in rows if row and row[-1].startswith("RR")] == [
        "Success model",
        "Weight of the proximal term",
    ]
