"""What the README, CONTRIBUTING and examples show is run here."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import first_hour
import pytest

import fedwave as fw

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/production.md", "docs/reinforcement.md"])
def test_code_on_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    if page == "README.md":  # "from .1 (chance) to above .7"
        accuracy = names["curves"].accuracy[:, 0]  # type: ignore[attr-defined]
        assert accuracy[0] < 0.2
        assert accuracy[-1] > 0.7


def test_the_page_of_the_first_hour_can_be_followed() -> None:
    """tests/first_hour.py runs it; here is checked that it finds all blocks, and that they are whole."""
    found = first_hour.blocks("docs/first-hour.md")
    titles = [block.note.removeprefix("title=") for block in found if "title=" in block.note]
    assert titles == ["my_scheduler.py", "powers.py", "my_task.py", "mine.yaml", "script.py"]
    assert [block.note for block in found if block.language == "sh"].count("ctrl-c") == 1
    for block in found:
        if block.language == "python":
            compile(block.text, block.note, "exec")
    assert [block.language for block in first_hour.blocks("README.md", "Install")] == ["sh"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert "mean backlog" in capsys.readouterr().out


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target, section in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            assert not section or section in _sections(there), f"{page.name} links to {target}#{section}"


def _sections(page: Path) -> list[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]


def test_every_scheduler_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in fw.scheduler_names() if f"`{name}`" not in text] == []
