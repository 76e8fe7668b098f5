"""The command line: reads options, calls the package, prints. No numerics here."""

import os
import signal
from types import FrameType

__all__ = ["main"]


def main() -> None:
    """Entry point of the `fedwave` command."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not ignored, as after nohup
    if usual:
        signal.signal(signal.SIGINT, _leave)
    from fedwave.cli.app import main as command

    if usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(signal.getsignal(number)):
                signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process while it imports or exits: libraries print or swallow an exception that meets them then."""
    try:
        os.write(2, b"fedwave: stopped.\n")
    finally:
        os._exit(128 + number)
