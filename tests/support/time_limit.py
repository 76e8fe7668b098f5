"""A test that hangs is ended, so that a broken tree fails."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TookTooLong(BaseException):
    """Not an Exception, which the code under test may take for bad input."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """End what runs for longer. The main thread only, not on Windows."""

    def stop(*_: object) -> None:
        raise TookTooLong(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
