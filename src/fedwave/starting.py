"""Ctrl-C while a command is still being loaded: one line and exit status 130, not a traceback from an import.

`fedwave/__init__.py` imports this first: where Python runs the command, most of the time goes into what follows there.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

_INTERRUPTED = 128 + 2


def is_command() -> bool:
    """Is this process `fedwave` or `python -m fedwave`? Not a worker of one, nor a script that imports fedwave."""
    first, given = sys.argv[0] if sys.argv else "", sys.orig_argv
    if first == "-m":  # as long as Python imports the package of the module that it is to run
        return "-m" in given and given[given.index("-m") + 1 :][:1] == ["fedwave"]
    return os.path.basename(first) in ("fedwave", "fedwave.exe") and first in given


def loading() -> None:
    """From here on Ctrl-C ends the process at once: nothing has begun that must be cleaned up.

    An exception would not do: libraries print or swallow one that meets them while they are imported.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # only the main thread may set it
            signal.signal(signal.SIGINT, _leave)


def loaded() -> None:
    """From here on Ctrl-C is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"fedwave: stopped.\n")
    finally:
        os._exit(_INTERRUPTED)


if is_command():
    loading()
