"""bfloat16 on a CPU is tried in a child process, which may die of it; the user's process does not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import blobs, linear, trace

import fedwave as fw
from fedwave.learning.bfloat16 import cpu_trains_in_bfloat16
from fedwave.learning.task import Task

# Python imports it when it starts; the trial is the only program that is given as a text.
SITE = f"""
import os, sys
if 'bfloat16' in sys.orig_argv[-1] and '-c' in sys.orig_argv:
    os.kill(os.getpid(), {int(signal.SIGILL)})
"""


@pytest.fixture
def cpu_that_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "sitecustomize.py").write_text(SITE)
    cpu_trains_in_bfloat16.cache_clear()
    yield
    cpu_trains_in_bfloat16.cache_clear()


def trained(precision: str) -> fw.Curves:
    made = trace([[1, 1], [1, 1]], [[1, 0], [0, 1]])
    return fw.train(made, Task(blobs(), linear, epochs=1), precision=precision)


def test_a_cpu_that_dies_of_it_is_told_in_a_sentence(cpu_that_dies: None) -> None:
    with pytest.raises(fw.FedwaveError, match="set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"):
        trained("bfloat16")
    assert trained("auto").settings["precision"] == "float32"
