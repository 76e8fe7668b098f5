"""The numbers of the pages are those of the data beside them (docs/pages.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from script_module import module_of

from fedwave.experiments.config.read import load_experiment

DOCS = Path(__file__).parents[1] / "docs"
PAGES = module_of(DOCS / "pages.py")
MARKED = re.compile(r"<!--=.*?<!--/-->", re.DOTALL)


@pytest.mark.parametrize("page", PAGES.PAGES, ids=lambda page: page.name)
def test_the_page_says_what_the_data_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert PAGES.filled(text) == text, "run `python docs/pages.py`"


def test_every_generator_is_used() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES.PAGES)
    used = {found.partition(":")[0] for found in re.findall(r"<!--=(.*?)-->", text)}
    assert used == PAGES.GENERATORS.keys()


@pytest.mark.parametrize(
    "page", [DOCS / "results" / "README.md", DOCS / "theory.md"], ids=lambda page: page.name
)
def test_an_interval_without_data_says_so(page: Path) -> None:
    """Every ± is filled from data, or its section says that there are none."""
    for section in re.split(r"\n## ", page.read_text(encoding="utf-8")):
        if "±" in MARKED.sub("", section).replace("± is the half-width", ""):
            assert re.search(r"no data here|has data here", section), section.splitlines()[0]


def test_the_score_page_shows_every_scheduler_of_its_preset() -> None:
    shown = dict.fromkeys(row["scheduler"] for row in PAGES.table("score/instances.csv"))
    assert tuple(shown) == load_experiment("paper-score").labels


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
