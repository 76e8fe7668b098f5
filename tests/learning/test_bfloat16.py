"""bfloat16 on a CPU is tried in a child process, which may die of it; the user's process does not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny import blobs, linear, trace

import fedwave as fw
from fedwave.learning.bfloat16 import cpu_trains_in_bfloat16
from fedwave.learning.task import Task

# Python imports it when it starts; the trial is the only program that is given as a text.
SITE = "import os, sys\nif 'bfloat16' in sys.orig_argv[-1] and '-c' in sys.orig_argv:\n    {}\n"
DIES = f"os.kill(os.getpid(), {int(signal.SIGILL)})"
WORKS = "os._exit(0)"

Trial = Callable[[str], None]


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
    """Decide how the trial ends."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def ends(how: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(SITE.format(how))
        cpu_trains_in_bfloat16.cache_clear()

    yield ends
    cpu_trains_in_bfloat16.cache_clear()


def trained(precision: str) -> fw.Curves:
    made = trace([[1, 1], [1, 1]], [[1, 0], [0, 1]])
    return fw.train(made, Task(blobs(), linear, epochs=1), precision=precision)


def test_a_cpu_that_dies_of_it_is_told_in_a_sentence(trial: Trial) -> None:
    trial(DIES)
    with pytest.raises(fw.FedwaveError, match="set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16"):
        trained("bfloat16")
    assert trained("auto").settings["precision"] == "float32"


def test_a_cpu_that_can_is_tried_once_in_a_process(trial: Trial) -> None:
    trial(WORKS)
    assert trained("bfloat16").settings["precision"] == "bfloat16"
    assert trained("bfloat16").settings["precision"] == "bfloat16"
    assert cpu_trains_in_bfloat16.cache_info().misses == 1
