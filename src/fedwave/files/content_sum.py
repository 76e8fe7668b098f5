"""The sum that a trace carries: it finds damage and edits, also those that leave a trace that could be.

It is no signature: whoever changes a file can compute its sum anew. So what is read is checked besides
(trace_check.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np

from fedwave.types import Array

SUM = "sum"  # the member of the archive that holds it


def content_sum(members: Mapping[str, Array]) -> str:
    """SHA-256 over the name, type, shape and bytes of every member, in their order, but the sum itself."""
    sum_ = hashlib.sha256()
    for name, array in members.items():
        if name == SUM:
            continue
        heading = [name, array.dtype.str, array.shape]
        sum_.update(json.dumps(heading).encode() + b"\n")
        # A flat view of the bytes; only an array that is not in C order is copied.
        sum_.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return sum_.hexdigest()
