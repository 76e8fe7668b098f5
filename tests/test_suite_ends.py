"""A test that crashes or hangs must fail the suite, not stop it for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

OPTIONS = Path(__file__).parents[1] / "pyproject.toml"
CRASHES = "import os, signal\n\ndef test_{0}():\n    os.kill(os.getpid(), signal.SIGILL)\n"
HANGS = "import ctypes\n\ndef test_{0}():\n    ctypes.PyDLL(None).pause()\n"  # keeps Python's lock


@pytest.mark.parametrize(("content", "dist"), [(CRASHES, "loadfile"), (HANGS, "load")])
def test_a_broken_test_ends_the_run(content: str, dist: str, tmp_path: Path) -> None:
    for name, text in (("a", content), ("b", "def test_{0}():\n    pass\n"), ("c", content)):
        (tmp_path / f"test_{name}.py").write_text(text.format(name))
    words = ["-c", OPTIONS, "-n", "2", "--dist", dist, "-p", "no:cacheprovider", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", "faulthandler_timeout=2", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "crashed while running" in done.stdout
    assert "line 4 in test_" in done.stderr  # its stack
