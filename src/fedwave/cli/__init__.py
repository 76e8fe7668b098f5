"""The command line: reads options, calls the package, prints. No numerics here."""

import os
import signal
from contextlib import suppress
from types import FrameType

_INTERRUPTED = 128 + 2  # by SIGINT


def main() -> None:
    """Entry point of the `fedwave` command."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with suppress(ValueError):  # only the main thread may set it
        if is_default:
            signal.signal(signal.SIGINT, _leave)
    from fedwave.cli.app import main as command

    with suppress(ValueError):
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process while it imports: libraries print or swallow an exception that meets them then."""
    try:
        os.write(2, b"fedwave: stopped.\n")
    finally:
        os._exit(_INTERRUPTED)


__all__ = ["main"]
