"""Checks that this CPU can train in bfloat16: some virtual machines offer AMX instructions that kill the process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from functools import cache

from fedwave.errors import FedwaveError

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
    """Tries bfloat16 in a child process, once in a process."""
    status = 1
    with suppress(OSError):  # no process can be started
        nothing = subprocess.DEVNULL
        status = subprocess.call([sys.executable, "-P", "-c", _TRIAL], stdin=nothing, stdout=nothing, stderr=nothing)
    return status in (0, 1)  # 1: an exception, which training would raise too
