"""Every program in benchmarks/ is importable and explains itself; every one that is named somewhere exists."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {path.stem: path for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__"}
FILES |= {f"peers.{name}": ROOT / "benchmarks" / "peers" / f"{name}.py" for name in ("__main__", "report")}
WITH_HELP = [name for name, path in FILES.items() if "ArgumentParser" in path.read_text()]
PAGES = [ROOT / "Makefile", ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]


@pytest.mark.parametrize("name", FILES)
def test_it_can_be_imported(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").main)


@pytest.mark.parametrize("name", WITH_HELP)
def test_it_has_help(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main()
    assert not ended.value.code
    assert capsys.readouterr().out.startswith("usage:")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_named_exists(page: Path) -> None:
    named = re.findall(r"-m benchmarks\.([\w.]*\w)", page.read_text(encoding="utf-8"))
    assert set(named) <= {*FILES, "peers"}
