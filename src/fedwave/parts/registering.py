"""Which code registered a part: the calls that led there. What they gave to it decides numbers as its own code does."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

# The part and its callers, by family and name; a part that has replaced it since has none.
_callers: dict[tuple[str, str], tuple[Any, list[tuple[str, str | None]]]] = {}


def note_callers(family: str, name: str, part: Any) -> None:
    """Note the modules, with their files, whose code is registering the part now."""
    found: dict[tuple[str, str | None], None] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__") or "__main__")
        is_ours = module.partition(".")[0] == "fedwave"
        # A module is imported, or a part of the user's is called: what called for that gave it nothing.
        if module.startswith("importlib.") or (is_ours and found):
            break
        if not is_ours:
            found[module, frame.f_globals.get("__file__")] = None
        frame = frame.f_back
    _callers[family, name] = part, list(found)


def callers(family: str, name: str, part: Any) -> list[tuple[str, str | None]]:
    """The modules, with their files, whose code registered the part, innermost first."""
    known, found = _callers.get((family, name), (None, []))
    return found if known is part else []
