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
    """Decide how the trial ends; the answer is kept in ``tmp_path / "caches"``."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)

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


def test_it_is_tried_once_on_a_machine(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    trial(WORKS)
    assert cpu_trains_in_bfloat16()
    trial(DIES)
    assert cpu_trains_in_bfloat16()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_AMX")
    trial(DIES)
    assert not cpu_trains_in_bfloat16()
    trial(WORKS)
    assert cpu_trains_in_bfloat16()


def test_without_a_place_to_keep_the_answer_each_process_tries(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/caches")
    trial(WORKS)
    assert cpu_trains_in_bfloat16()
    trial(DIES)
    assert not cpu_trains_in_bfloat16()
