"""The numbers of the pages are those of the data beside them (docs/pages.py)."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest
from refusals import mentions

import fedwave as fw

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))
import cifar10_numbers  # noqa: E402
import committed  # noqa: E402
import pages as PAGES  # noqa: E402

MARKED = re.compile(r"<!--=.*?<!--/-->", re.DOTALL)


@pytest.mark.parametrize("page", PAGES.PAGES, ids=lambda page: page.name)
def test_the_page_says_what_the_data_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert PAGES.filled(text) == text, "run `python docs/pages.py`"


def test_every_generator_is_used() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES.PAGES)
    used = {found.partition(":")[0] for found in re.findall(r"<!--=(.*?)-->", text)}
    assert used == PAGES.GENERATORS.keys()


@pytest.mark.parametrize("page", [DOCS / "results" / "README.md", DOCS / "theory.md"], ids=lambda page: page.name)
def test_an_interval_without_data_says_so(page: Path) -> None:
    """Every ± is filled from data, or its section says that there are none."""
    for section in re.split(r"\n## ", page.read_text(encoding="utf-8")):
        if "±" in MARKED.sub("", section).replace("± is the half-width", ""):
            assert re.search(r"no data here|has data here", section), section.splitlines()[0]


def test_the_score_page_shows_every_scheduler_of_its_preset() -> None:
    shown = dict.fromkeys(row["scheduler"] for row in committed.DATA.table("score/instances.csv"))
    assert tuple(shown) == fw.load_experiment("paper-score").labels


def test_the_next_lot_has_the_first_instances_that_are_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper has 20; more can be added afterwards."""
    for trained, lot in ((7, "7-10"), (16, "16-19"), (18, "18-19"), (20, "20-23")):
        monkeypatch.setattr(committed.DATA, "instances", lambda study, count=trained: count)
        assert f"lot=cifar10-{lot}\n" in cifar10_numbers.next_lot()
        assert cifar10_numbers.cifar_trained() == f"{trained} of 20"


def test_who_reaches_the_highest_target_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(committed.DATA.curves("cifar10"))
    monkeypatch.setattr(committed.DATA, "curves", lambda study: found)
    better = found["bench"].accuracy.copy()
    better[-3:, :2] = 0.73
    found["bench"] = dataclasses.replace(found["bench"], metric=better)
    assert mentions(cifar10_numbers.highest_target(), ".72", 2)


def test_a_changed_number_is_noticed() -> None:
    text = (DOCS / "theory.md").read_text(encoding="utf-8")
    wrong = text.replace("3.3 ± 1.2", "3.9 ± 1.4")
    assert wrong != text
    assert PAGES.filled(wrong) == text


def test_the_code_of_the_theory_page_gives_its_numbers() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "theory.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    checked = 0
    for line in block.splitlines():
        code, _, comment = line.partition("  # ")
        numbers = re.findall(r"\d+\.\d+", comment)
        if numbers:
            assert f"{eval(code, names):.3f}" == numbers[0]
            checked += 1
        else:
            exec(code, names)
    assert checked == 2
