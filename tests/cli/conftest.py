from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from fedwave.cli import main

Answer = tuple[int, str, str]


@pytest.fixture
def fedwave(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run the command as a shell would: exit status, standard output, standard error."""

    def run(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["fedwave", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err

    return run
