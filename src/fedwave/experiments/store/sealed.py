"""JSON files of a run folder that carry their own sum: no byte of one changes unnoticed.

The last field, ``seal``, is the SHA-256 sum of the text without it. It finds damage and edits by hand; it is no
signature, since whoever writes a whole file can write its seal too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError
from fedwave.files.reading import read_bytes
from fedwave.files.writing import write_text

_DEEPEST = 50  # levels; ours have some ten
_END = "\n}"  # of the text without its seal
_MOST_BYTES = 100_000_000  # of a plan with some 300,000 units


class Damaged(FedwaveError):
    """A file of a run folder has changed since it was written."""


def write_sealed(path: Path, content: Mapping[str, Any]) -> Path:
    """Write a JSON object, which must not be empty, with its seal."""
    return write_text(path, sealed_text(content))


def sealed_text(content: Mapping[str, Any]) -> str:
    """The text of a JSON object, which must not be empty, with its seal.

    Infinite numbers are written as Python's json reads them back (Infinity): json_text would make texts of them.
    """
    text = json.dumps(dict(content), indent=2)
    return text.removesuffix(_END) + _seal(text.encode())


def read_sealed(path: Path) -> dict[str, Any]:
    """The object without its seal; raises Damaged, with the file's name, if any byte has changed."""
    raw = plain_bytes(path)
    size = len(_seal(b""))
    if raw[-size:] != _seal(raw[:-size] + _END.encode()).encode():
        raise Damaged(f"{path} is damaged: it does not have the sum that it was written with.")
    try:
        content: dict[str, Any] = json.loads(raw)
        del content["seal"]
        _check_depth(content)
    except (ValueError, TypeError, KeyError, RecursionError) as error:  # a seal made by others
        raise Damaged(f"{path} is damaged ({error}).") from None
    return content


def _check_depth(content: Any) -> None:
    """Refuse what others made so deep that Python could read it, but not write it again."""
    level = [content]
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def plain_bytes(path: Path, most: int = _MOST_BYTES) -> bytes:
    """The content of a plain file of bearable size: a pipe or a device would never end."""
    try:
        return read_bytes(path, "it", most)
    except FedwaveError as error:
        raise Damaged(f"{path} is damaged: {error}") from None


def _seal(text: bytes) -> str:
    return f',\n  "seal": "{hashlib.sha256(text).hexdigest()}"{_END}\n'
