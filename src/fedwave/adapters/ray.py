"""Units of work on a Ray cluster: workers are actors, their results return through Ray's object store.

The pool of experiments/run/pool.py drives the actors as it drives processes: it retries or abandons units, and asks
them to stop. An actor writes checkpoints where the run folder is readable from its node; without shared storage, a unit
that is lost or stopped begins anew.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedwave.adapters.ray_cluster import connected, import_ray
from fedwave.errors import FedwaveError, as_int, error_text
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.pool import Engine, Finished, PathOf, Pool, Report, Worker
from fedwave.experiments.run.signals import TIMEOUT, StopRequest
from fedwave.experiments.run.worker import ONE_THREAD, do_unit
from fedwave.version import __version__

_NEWS_SECONDS = 0.2  # between two answers of an actor about its unit
_IDLE_SECONDS = 30.0  # without any news before a warning
_AHEAD = 1  # actors beyond the CPUs of the cluster, so that an autoscaler sees the demand


def ray_engine(address: str | None = None, cpus: int | None = None, timeout: float = TIMEOUT) -> Engine:
    """An engine for run_experiment. ``address``: "auto" or host:port; None: starts Ray on this machine only.

    ``cpus`` is the largest number of units at work at once; None: as many as the cluster has room for. A unit that
    finishes no round in ``timeout`` seconds is abandoned.
    """
    ray = import_ray(loopback=address is None)  # fails before a run folder is made
    if cpus is not None:
        cpus = as_int("cpus", cpus, 1)

    def run(
        units: list[Unit], checkpoint: PathOf, report: Report, stop: StopRequest
    ) -> Generator[Finished, None, None]:
        if not units:
            return
        with connected(ray, address, cpus):
            cluster = _Cluster(ray, cpus, any(map(_on_gpu, units)))
            try:
                yield from Pool(units, checkpoint, report, stop, timeout, cluster.worker, cluster.wait).results()
            except ray.exceptions.RayError as error:
                reason = error_text(error).split(". ")[0]
                raise FedwaveError(f"the Ray cluster failed ({reason}): repair it, and resume the run.") from None

    return run


def _on_gpu(unit: Unit) -> bool:
    return unit.experiment.task is not None and unit.experiment.training.device == "cuda"


class _Cluster:
    """Makes the actors of a run, and knows when one of them was last heard."""

    def __init__(self, ray: Any, most: int | None, gpu: bool) -> None:
        self.ray, self._most, self.kind = ray, most, "GPU" if gpu else "CPU"
        how = {"num_cpus": 1, "num_gpus": int(gpu), "max_concurrency": 2, "runtime_env": {"env_vars": ONE_THREAD}}
        self.make = ray.remote(**how)(RemoteWorker)
        self.heard: float | None = time.monotonic()  # None: the warning has been given

    def worker(self, number: int) -> Worker | None:
        room = int(self.ray.cluster_resources().get(self.kind, 0)) + _AHEAD
        return _Actor(number, self) if number < (room if self._most is None else min(room, self._most)) else None

    def wait(self, watched: list[Any]) -> None:
        if watched:
            self.ray.wait(watched, timeout=_NEWS_SECONDS)


class _Actor(Worker):
    """The driver's side of an actor, which may have to wait for a free CPU before it begins."""

    def __init__(self, number: int, cluster: _Cluster) -> None:
        super().__init__(number)
        self._cluster, self._ray = cluster, cluster.ray
        self._actor = cluster.make.remote()
        self._asked = False

    def begin(self, unit: Unit, path: Path | None) -> None:
        super().begin(unit, path)
        self._task = self._actor.do.remote(unit, path and path.absolute(), __version__)
        self._news = self._actor.news.remote(stop=False)

    def ask_to_stop(self) -> None:
        self._asked = True

    def watched(self) -> list[Any]:
        return [self._task, self._news]

    def messages(self) -> list[tuple[str, Any]]:
        if self.unit is None:
            return []
        found: list[tuple[str, Any]] = []
        try:
            ready, _ = self._ray.wait(self.watched(), num_returns=2, timeout=0)
            if ready:  # news comes soon, and an actor that died fails both
                found = self._ray.get(self._news)
                if self._task in ready:
                    # Pickled: arrays that Ray unpickles are read-only and lie in its memory, which ends with Ray.
                    return found + pickle.loads(self._ray.get(self._task))  # type: ignore[no-any-return]
                self._news = self._actor.news.remote(stop=self._asked)
        except self._ray.exceptions.RayError as error:
            return [self._died(error)]
        if found:
            self._cluster.heard = self._cluster.heard and time.monotonic()
        elif self.since is None:
            return self._not_begun()
        return found

    def _not_begun(self) -> list[tuple[str, Any]]:
        """It waits for a CPU: the time-out does not count yet, and a request to stop is fulfilled."""
        self.silent = 0.0
        if self._asked:
            return [("stopped", None)]
        heard = self._cluster.heard
        if heard is None or time.monotonic() - heard < _IDLE_SECONDS:
            return []
        self._cluster.heard = None
        return [("warning", f"waits for a free {self._cluster.kind} of the Ray cluster (`ray status`)")]

    def _died(self, error: Exception) -> tuple[str, str]:
        known, name = self._ray.exceptions, type(error).__name__
        if "No module named 'fedwave" in str(error):
            raise FedwaveError(
                f"fedwave is not installed on a node of the Ray cluster: install fedwave {__version__} there, "
                "in the Python that Ray was started with."
            )
        if isinstance(error, known.OutOfMemoryError):
            return "memory", name
        if isinstance(error, (known.RayActorError, known.ObjectLostError)):
            return "crashed", f"its worker or node was lost: {name}"
        raise error

    def end(self) -> None:
        with suppress(self._ray.exceptions.RayError):  # the cluster may be gone
            self._ray.kill(self._actor)


class RemoteWorker:
    """An actor with two threads: one does a unit, the other answers the driver meanwhile."""

    def __init__(self) -> None:
        self._messages: deque[tuple[str, Any]] = deque()
        self._asked = threading.Event()

    def do(self, unit: Unit, path: Path | None, version: str) -> bytes:
        """The last messages about the unit, with its answer, pickled."""

        def send(kind: str, content: Any) -> None:
            self._messages.append((kind, content))

        if version == __version__:
            shared = path is not None and path.parents[1].is_dir()  # the run folder is seen from this node
            answer = do_unit(unit, path if shared else None, self._asked.is_set, send)
        else:
            why = f"a node of the Ray cluster has fedwave {__version__}, but this is fedwave {version}"
            answer = "refused", f"{why}: install the same there."
        return pickle.dumps([*self._take(), answer])

    def news(self, stop: bool) -> list[tuple[str, Any]]:
        """The messages since the last call, after a moment; ``stop`` asks the unit to stop."""
        if stop:
            self._asked.set()
        time.sleep(_NEWS_SECONDS)
        return self._take()

    def _take(self) -> list[tuple[str, Any]]:
        taken = []
        with suppress(IndexError):  # none is left; the other thread may take some too
            while True:
                taken.append(self._messages.popleft())
        return taken
