"""Every fast path against the reference trainer. A path that is not in here cannot be reached by a user.

`python -m tests.equality` compares them on a GPU.
"""

from __future__ import annotations

import pytest
from fast_paths import PATHS, distances
from half_precision import needs_bfloat16


@pytest.mark.parametrize("name", PATHS)
def test_fast_path_equals_the_reference(name: str) -> None:
    path = PATHS[name]
    if path.settings.get("precision") == "bfloat16":
        needs_bfloat16()
    for run in distances(path):
        assert run.come > 0.01, "nothing was learnt, so nothing is compared"
        assert run.off < path.limit
        assert run.loss < max(1e-6, 3 * path.limit)
