"""What attacks start from: a finished run folder and a stopped one, made by the fedwave under attack."""

from __future__ import annotations

import hashlib
import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path

DEVICES = "name,rate,distance_m\ncamera,0.5,150\nsensor,1,200\nmeter,2,300\n"
# Three devices, four units, five rounds: some hundredths of a second.
SMALL = ("network.slots=1", "instances=2", "rounds=5", "block=1", "checkpoint_seconds=0")
RUN = ("run", "devices.csv", *SMALL, "-s", "max-weight,balsa")
_SAVES = 11  # checkpoints until the run is stopped: two units are finished, the third has played 3 of 5 rounds
_FIGURES = (".png", ".svg")


def build(kind: str, base: Path) -> None:
    """Make what the attacks of a kind need."""
    (base / "devices.csv").write_text(DEVICES)
    _apart(lambda: _run(base, "finished"))
    _apart(lambda: _run(base, "stopped", _SAVES))
    if kind == "flips":
        for name in ("finished", "stopped"):
            shutil.copytree(base / name, base / f"{name}-again")
            _apart(lambda name=name: _resume(base / f"{name}-again"))
        _warm(base)


def copy(base: Path, name: str, to: str = "out") -> Path:
    """A base run folder in the current folder."""
    shutil.copytree(base / name, to)
    return Path(to)


def results(folder: Path) -> dict[str, str]:
    """The sums of all files but figures, by name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix not in _FIGURES
    }


def _apart(work: Callable[[], None]) -> None:
    """Do it in a process of its own: threads that a library starts here would be missing after a fork."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, 9):
        raise RuntimeError(f"the bases of the attacks could not be made: status {status}")


def _run(base: Path, name: str, saves: int | None = None) -> None:
    """A run folder; after so many checkpoints the process ends as if it were killed."""
    from .driver import draw_nothing
    from .shell import command

    os.chdir(base)
    draw_nothing()
    if saves is not None:
        from fedwave.experiments.run import checkpoints, work

        work._PIECE = 1  # a checkpoint after every round
        save, left = checkpoints.Checkpointer.save, [saves]

        def counted(self: checkpoints.Checkpointer, write: checkpoints.Write) -> None:
            save(self, write)
            left[0] -= 1
            if not left[0]:
                os._exit(9)

        checkpoints.Checkpointer.save = counted  # type: ignore[method-assign]
    answer = command(*RUN, "--out", name)
    assert answer.status == 0, answer
    assert saves is None, "the run was not stopped"


def _resume(folder: Path) -> None:
    from .driver import draw_nothing
    from .shell import command

    draw_nothing()
    answer = command("resume", str(folder))
    assert answer.status == 0, answer


def _warm(base: Path) -> None:
    """What the first call in a process prepares, every attack would prepare anew."""
    import pyarrow

    import fedwave as fw

    pyarrow.set_cpu_count(1)
    here = os.getcwd()
    _resume(base / "finished-again")
    fw.load(base / "finished-again")
    os.chdir(here)
