"""Checks that this CPU can train in bfloat16: some virtual machines offer AMX instructions that kill the process."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from fedwave.errors import FedwaveError
from fedwave.files.cache import cache_folder

_OF_THE_CPU = ("model name", "flags", "CPU ", "Features")  # in /proc/cpuinfo; the last two on ARM
# Small products take other ways through torch than large ones.
_TRIAL = """
import torch
from torch.nn.functional import conv2d
for n in (4, 64):
    for shapes, product in (
        (((n, n), (n, n)), torch.matmul),
        (((2, n, n), (2, n, n)), torch.bmm),
        (((n, n, 8, 8), (n, n, 3, 3)), conv2d),
        (((2, 2 * n, 8, 8), (2 * n, n, 3, 3)), lambda x, w: conv2d(x, w, groups=2)),
    ):
        factors = [torch.ones(s, dtype=torch.bfloat16, requires_grad=True) for s in shapes]
        product(*factors).square().sum().backward()
"""


def check_bfloat16() -> None:
    """Raises FedwaveError if bfloat16 kills the process on this CPU."""
    if not cpu_trains_in_bfloat16():
        raise FedwaveError(
            "precision is 'bfloat16', but bfloat16 products kill the process on this CPU: set "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before Python starts, or choose precision=float32."
        )


@cache
def cpu_trains_in_bfloat16() -> bool:
    """Tries bfloat16 in a child process, unless a file in fedwave's cache says that it worked before."""
    marker = None
    with suppress(FedwaveError):  # there is no home
        folder = cache_folder("a trial", "")
        marker = folder / f"bfloat16-{hashlib.sha256(_machine().encode()).hexdigest()[:16]}"
        if os.path.exists(marker):
            return True
    status = 1
    with suppress(OSError):  # no process can be started
        status = subprocess.run(
            [sys.executable, "-P", "-c", _TRIAL],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode
    if status == 0 and marker is not None:
        with suppress(OSError):  # read-only, or no home: the next process tries again
            for place in (marker.parent.parent, marker.parent):
                place.mkdir(exist_ok=True)
            marker.touch()
    return status in (0, 1)  # 1: an exception, which training would raise too


def _machine() -> str:
    """The versions and the processor that the answer depends on."""
    cpu = platform.processor()
    with suppress(OSError):  # Linux
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        cpu = "\n".join(line for line in lines if line.startswith(_OF_THE_CPU))
    isa = os.environ.get("ONEDNN_MAX_CPU_ISA")
    return f"torch {torch.__version__}\nkernel {platform.release()}\n{isa}\n{cpu}"
