"""Units of work on a Ray cluster: workers are actors, their results return through Ray's object store.

The pool of experiments/run/pool.py drives the actors as it drives processes: it retries or abandons units, and asks
them to stop. An actor writes checkpoints where the run folder is readable from its node; without shared storage, a unit
that is lost or stopped starts again. Every failure of the cluster is one sentence.
"""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError, extra_for
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.pool import Engine, Finished, Job, Pool, Worker
from fedwave.experiments.run.process import ONE_THREAD, do_unit, environment
from fedwave.experiments.run.signals import Terminated
from fedwave.version import __version__

_NEWS_SECONDS = 0.2  # between two answers of an actor about its unit
_IDLE_SECONDS = 30.0  # without any news before a warning
_AHEAD = 1  # actors beyond the CPUs of the cluster, so that an autoscaler sees the demand
_TRY_SECONDS = 20.0
# Ray tries for minutes and may end the process, so another process tries first.
_TRY = """
import logging, sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
except Exception as error:
    sys.exit(type(error).__name__ + ": " + " ".join(str(error).split()))
"""
# Ray reads these when it is imported. With the first, a Ray that is started here listens on the loopback address only,
# the default of Ray on Windows and macOS.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# Ray prints the death of a worker to standard output, where a table or JSON is expected; fedwave reports it itself.
_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
_SILENT: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def ray_engine(address: str | None = None, cpus: int | None = None) -> Engine:
    """An engine for run_experiment. ``address``: "auto" or host:port; None: starts Ray on this machine only.

    ``cpus`` is the largest number of units at work at once; None: as many as the cluster has room for.
    """
    ray = import_ray(loopback=address is None)  # fails before a run folder is made

    def run(job: Job) -> Generator[Finished, None, None]:
        if not job.units:
            return
        with connected(ray, address, cpus):
            cluster = _Cluster(ray, cpus, any(map(_on_gpu, job.units)))
            try:
                yield from Pool(job, cluster.worker, cluster.wait).results()
            except ray.exceptions.RayError as error:
                raise FedwaveError(
                    f"the Ray cluster failed ({_reason(error)}): repair it, and resume the run."
                ) from None

    return run


def import_ray(loopback: bool = False) -> Any:
    """The ray package. ``loopback``: if this imports it, a Ray started by this process is not on the network."""
    with environment(_QUIET | (_LOOPBACK if loopback else {})), extra_for("the engine ray"):
        return importlib.import_module("ray")


@contextmanager
def connected(ray: Any, address: str | None, cpus: int | None) -> Iterator[None]:
    """Connect to a cluster, or start Ray on this machine, for the time of the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ours = signal.getsignal(signal.SIGTERM)  # Ray sets a handler of its own, which prints a stack and may abort
    try:
        if address is None:
            _start(ray, cpus)
        else:
            _reach(ray, address)
        signal.signal(signal.SIGTERM, ours)
        yield
    except SystemExit as left:  # raised by Ray's own handler, which is set until ours is back
        if left.code != signal.SIGTERM:
            raise
        raise Terminated from None
    finally:
        ray.shutdown()
        signal.signal(signal.SIGTERM, ours)


def _start(ray: Any, cpus: int | None) -> None:
    """Start Ray on this machine, not reachable from the network: whoever reaches Ray can run any code."""
    here = ray.util.get_node_ip_address()
    if not here.startswith("127.") and here != "::1":
        raise FedwaveError(
            f"Ray would listen on the network ({here}), because your own code has imported it already: leave out that "
            "import, or start Ray yourself (`ray start`) and name its address."
        )
    try:
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, **_SILENT)
    except Exception as error:
        raise FedwaveError(f"Ray cannot be started on this machine ({_reason(error)}): leave out --ray.") from None


def _reach(ray: Any, address: str) -> None:
    """Connect to a cluster; fail soon if it does not answer."""
    host, colon, port = address.rpartition(":")
    if address != "auto" and "://" not in address and not (colon and host and port.isdecimal()):
        raise FedwaveError(f'the address of the Ray cluster is {address!r}, must be "auto" or host:port.')
    try:
        if colon and "://" not in address:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        attempt = [sys.executable, "-c", _TRY, address]
        tried = subprocess.run(attempt, capture_output=True, text=True, timeout=_TRY_SECONDS)
        if tried.returncode:
            raise OSError((tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1])
        ray.init(address=address, **_SILENT)
    except Exception as error:
        why: object = error
        if isinstance(error, subprocess.TimeoutExpired):
            token = b"Unauthenticated" in (error.stderr or b"")
            why = "it asks for a token: set RAY_AUTH_MODE=token" if token else f"no answer in {_TRY_SECONDS:g} seconds"
        raise FedwaveError(
            f"the Ray cluster at {address} cannot be reached ({_reason(why)}): is it running, and is this machine one "
            "of its nodes (`ray start`)?"
        ) from None


def _reason(error: object) -> str:
    """The first sentence of an error, in one line: Ray's errors are long."""
    return (" ".join(str(error).split()) or type(error).__name__).split(". ")[0].rstrip(".")


def _on_gpu(unit: Unit) -> bool:
    return unit.experiment.task is not None and unit.experiment.training.device == "cuda"


class _Cluster:
    """Makes the actors of a run, and records when one of them last sent a message."""

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
        elif self.since is None:  # it waits for a CPU
            return [("stopped", None)] if self._asked else self._idle_warning()
        return found

    def _idle_warning(self) -> list[tuple[str, Any]]:
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
