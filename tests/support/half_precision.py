"""Tests in bfloat16 are skipped on a CPU that bfloat16 kills the process on."""

from __future__ import annotations

import pytest

from fedwave.learning.bfloat16 import cpu_trains_in_bfloat16


def needs_bfloat16() -> None:
    if not cpu_trains_in_bfloat16():
        pytest.skip("bfloat16 kills the process on this CPU")
