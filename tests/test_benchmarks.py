"""Every module in benchmarks/ is importable and explains itself; every one that is named somewhere exists."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")
WITH_HELP = [name for name in NAMES if "ArgumentParser" in (ROOT / "benchmarks" / f"{name}.py").read_text()]
PAGES = [ROOT / "Makefile", ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("name", NAMES)
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
    named = re.findall(r"-m benchmarks\.(\w+)", page.read_text(encoding="utf-8"))
    assert set(named) <= set(NAMES)
