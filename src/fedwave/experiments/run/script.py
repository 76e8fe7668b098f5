"""Workers import the script that started the run, for the parts that it registers: it must not run again there."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

from fedwave.errors import FedwaveError

_UNGUARDED = 87  # exit status of a worker in which the script has called for a run


def leave_if_imported_by_a_worker() -> None:
    """End this process if it is a worker that is still importing the script: the script lacks its guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_UNGUARDED)  # the process that started it says why (check_exit)


def check_exit(status: int | None) -> None:
    """Refuse a script whose import in a worker has started the run again."""
    if status == _UNGUARDED:
        raise FedwaveError(
            f"{_script() or 'the script'} starts this run whenever it is imported, and each worker process imports it: "
            'put the call below `if __name__ == "__main__":`, or pass workers=1.'
        ) from None


def check_script() -> None:
    """Refuse a program that no worker can import."""
    script = _script()
    if script is not None and not Path(script).exists():
        raise FedwaveError(
            f"this program is {script}, which worker processes cannot import: save it as a file, or pass workers=1."
        )


def _script() -> str | None:
    """The file that multiprocessing makes each worker import, if it is one."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return None  # python -m module
    return getattr(main, "__file__", None)
