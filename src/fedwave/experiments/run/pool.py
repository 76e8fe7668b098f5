"""Units of work on this machine: in this process, or in several that each do one unit after another.

A worker that dies takes nothing with it: its unit is begun again from its last checkpoint by a new one. Workers die
with the process that started them.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedwave.errors import FedwaveError
from fedwave.experiments.run.checkpoints import FileKeeper, Keeper, NoKeeper
from fedwave.experiments.run.units import Unit
from fedwave.experiments.run.work import run_unit

if TYPE_CHECKING:
    import xarray as xr

# Told (event, unit, more): "begun", "rounds" (how many more), "warning" (a sentence), "died".
Tell = Callable[[str, Unit, Any], None]
Finished = tuple[Unit, "xr.Dataset", float]  # with the seconds it took
_DEATHS = 3  # of workers at the same unit before it is given up
_TELL_SECONDS = 0.2
# Libraries that would each start a thread per core in every worker.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def keeper_for(unit: Unit, path: Path | None) -> Keeper:
    """Where the unit's checkpoints go: a file, or nowhere."""
    seconds = unit.experiment.checkpoint_seconds
    return NoKeeper() if path is None else FileKeeper(path, seconds)


def run_here(
    units: list[Unit], checkpoint: Callable[[Unit], Path | None], tell: Tell
) -> Iterator[Finished]:
    """One unit after another in this process."""
    for unit in units:
        tell("begun", unit, None)
        start = time.monotonic()
        data = run_unit(
            unit,
            keeper_for(unit, checkpoint(unit)),
            partial(tell, "rounds", unit),
            partial(tell, "warning", unit),
        )
        yield unit, data, time.monotonic() - start


def run_in_pool(
    units: list[Unit],
    checkpoint: Callable[[Unit], Path | None],
    tell: Tell,
    workers: int,
    gpus: int = 0,
) -> Iterator[Finished]:
    """Units spread over ``workers`` processes; with GPUs, worker k has GPU k to itself."""
    waiting = list(reversed(units))
    deaths: dict[str, int] = {}
    pool = [_Worker(k if gpus else None) for k in range(min(workers, len(units)))]
    try:
        while waiting or any(worker.unit for worker in pool):
            for worker in pool:
                if worker.unit is None and waiting:
                    worker.begin(waiting.pop(), checkpoint)
                    tell("begun", worker.unit, None)  # type: ignore[arg-type]
            ready = wait([worker.pipe for worker in pool if worker.unit])
            for k, worker in enumerate(pool):
                if worker.pipe not in ready:
                    continue
                unit = worker.unit
                assert unit is not None
                try:
                    kind, content = worker.pipe.recv()
                except (EOFError, ConnectionError, OSError):
                    deaths[unit.name] = deaths.get(unit.name, 0) + 1
                    tell("died", unit, worker.exit_code())
                    if deaths[unit.name] >= _DEATHS:
                        raise FedwaveError(
                            f"unit {unit.name} has ended {_DEATHS} workers ({worker.exit_code()}): is there too "
                            "little memory? Try fewer workers, or a smaller block."
                        ) from None
                    waiting.append(unit)
                    pool[k] = _Worker(k if gpus else None)
                    continue
                if kind == "done":
                    worker.unit = None
                    yield unit, content, time.monotonic() - worker.since
                elif kind == "refused":
                    raise FedwaveError(content)
                elif kind == "failed":
                    raise RuntimeError(f"unit {unit.name} failed in its worker:\n{content}")
                else:
                    tell(kind, unit, content)
    finally:
        for worker in pool:
            worker.stop()


class _Worker:
    """A process and what it does now."""

    def __init__(self, gpu: int | None) -> None:
        context = multiprocessing.get_context("spawn")  # a forked torch may wait for lost threads
        self.pipe, theirs = context.Pipe()
        with _environment(gpu):
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
        theirs.close()  # so that the pipe ends when the process does
        self.unit: Unit | None = None
        self.since = 0.0

    def begin(self, unit: Unit, checkpoint: Callable[[Unit], Path | None]) -> None:
        self.unit, self.since = unit, time.monotonic()
        with suppress(
            BrokenPipeError, ConnectionError
        ):  # it has died: reading from the pipe will tell
            self.pipe.send((unit, checkpoint(unit)))

    def exit_code(self) -> str:
        self._process.join(timeout=5)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


@contextmanager
def _environment(gpu: int | None) -> Iterator[None]:
    """What a worker inherits: one thread for each, so that cores are not fought over."""
    wanted = dict.fromkeys(_THREADS, "1")
    if gpu is not None:
        wanted["CUDA_VISIBLE_DEVICES"] = str(gpu)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass
class _Teller:
    """Sends a worker's rounds now and then, not one by one."""

    pipe: Connection
    rounds: int = 0
    last: float = 0.0

    def count(self, rounds: int) -> None:
        self.rounds += rounds
        if time.monotonic() - self.last > _TELL_SECONDS:
            self.flush()

    def flush(self) -> None:
        self.pipe.send(("rounds", self.rounds))
        self.rounds, self.last = 0, time.monotonic()


def _serve(pipe: Connection) -> None:
    """A worker's life: units until the pipe ends."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            unit, path = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer(unit, path, pipe))


def _answer(unit: Unit, path: Path | None, pipe: Connection) -> tuple[str, Any]:
    teller = _Teller(pipe)
    try:
        if unit.experiment.task is not None:
            from fedwave.learning.replay import use_threads

            use_threads(1)
        data = run_unit(
            unit, keeper_for(unit, path), teller.count, lambda text: pipe.send(("warning", text))
        )
    except FedwaveError as error:
        return "refused", str(error)
    except (BrokenPipeError, ConnectionError):
        raise SystemExit from None  # whoever wanted it is gone
    except Exception:
        import traceback

        return "failed", traceback.format_exc()
    teller.flush()
    return "done", data


def _die_with_parent() -> None:
    """Killed, the parent cannot stop its workers: they see that it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
