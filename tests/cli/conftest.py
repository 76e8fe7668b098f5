from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from refusals import mentions

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


@pytest.fixture
def refuses(fedwave: Callable[..., Answer]) -> Callable[..., str]:
    """Run a command that must fail with status 2 and one line, which names every token; returns that line."""

    def run(words: tuple[object, ...], *tokens: object) -> str:
        status, out, err = fedwave(*words)
        assert (status, out) == (2, "")
        assert err.startswith("fedwave: ")
        assert err.count("\n") == 1
        assert mentions(err, *tokens), f"{tokens} are not all in: {err}"
        return err

    return run
