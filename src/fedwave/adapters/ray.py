"""Units of work on a Ray cluster: one task per unit; machines exchange messages only and share no disk.

If a worker or a node dies, its units go on elsewhere from their last checkpoint. Checkpoints are stored on the disk
of the process that runs the engine, so that process can be stopped and started again too. A request to stop is the
mailbox's answer to a message of a unit at work; the unit then sends its last checkpoint. A unit that is abandoned
(retries.py) or that finishes no round for the time-out does not end the run: the others go on.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fedwave.adapters.ray_cluster import connected, import_ray
from fedwave.errors import FedwaveError, as_int
from fedwave.experiments.config.units import Unit
from fedwave.experiments.run.checkpoints import Asked, Checkpointer, SendingCheckpointer
from fedwave.experiments.run.pool import Finished, PathOf
from fedwave.experiments.run.retries import Queue, no_round_in
from fedwave.experiments.run.runner import Engine
from fedwave.experiments.run.signals import TIMEOUT, Stopped, StopRequest
from fedwave.experiments.run.worker import ONE_THREAD, Message, Report, Reporter, answer, result_of
from fedwave.files.writing import write_whole
from fedwave.version import __version__

Sender = tuple[str, int]  # the unit's name and the number of the attempt
_POLL_SECONDS = 0.2  # between two looks into the mailbox
_IDLE_SECONDS = 30.0  # without a unit at work before a warning
_CLOSE_SECONDS = 60.0  # for the last messages of a task to arrive
_AHEAD = 2  # units submitted beyond the free CPUs, so that none is idle and an autoscaler sees the demand


def ray_engine(address: str | None = None, cpus: int | None = None, timeout: float = TIMEOUT) -> Engine:
    """An engine for run_experiment. ``address``: "auto" or host:port; None: starts Ray on this machine only.

    ``cpus`` is the largest number of units at work at once; None: as many as the cluster has room for. A unit that
    finishes no round in ``timeout`` seconds is abandoned.
    """
    ray = import_ray(loopback=address is None)  # fails before a run folder is made
    if cpus is not None:
        cpus = as_int("cpus", cpus, 1)

    def run(
        units: list[Unit], checkpoint: PathOf, report: Report, stop: StopRequest | None = None
    ) -> Generator[Finished, None, None]:
        if not units:
            return
        with connected(ray, address, cpus):
            driver = _Driver(ray, Queue(units), checkpoint, report, stop or StopRequest(), cpus, timeout)
            try:
                yield from driver.results()
            except ray.exceptions.RayError as error:
                raise _failure(error) from None
            finally:
                driver.stop()

    return run


@dataclass
class _Attempt:
    unit: Unit
    number: int
    begun: bool = False
    silent: float = 0.0  # seconds without a round since it begun


@dataclass
class _Driver:
    """Submits units, reads their messages, and submits units again whose worker or node died."""

    ray: Any
    waiting: Queue
    checkpoint: PathOf
    report: Report
    stopping: StopRequest
    most: int | None
    timeout: float = TIMEOUT
    at_work: dict[Any, _Attempt] = field(default_factory=dict)  # by the task's reference
    attempts: Counter[str] = field(default_factory=Counter)  # by the unit's name

    def __post_init__(self) -> None:
        here = self.ray.get_runtime_context().get_node_id()
        place = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        # Ray restarts the mailbox if it dies; what it held is sent again.
        actor = self.ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=place)
        self.mailbox = actor(Mailbox).remote()
        self.task = self.ray.remote(max_retries=0)(do_unit)
        self.idle_since: float | None = time.monotonic()
        self.clock = time.monotonic()

    def results(self) -> Generator[Finished, None, None]:
        while self.waiting or self.at_work:
            if self.stopping.requested:
                self._ask_to_stop()
                if not self.at_work:
                    raise Stopped
            self._submit()
            ready, _ = self.ray.wait(list(self.at_work), timeout=_POLL_SECONDS)
            self._read_mailbox()  # before the answers: the messages of a unit precede its end
            self._warn_if_idle()
            self._abandon_the_late(set(ready))
            for task in ready:
                unit = self.at_work.pop(task).unit
                try:
                    kind, content, seconds = pickle.loads(self.ray.get(task))
                except self.ray.exceptions.RayError as error:
                    self.report(self._died(unit, error))
                    continue
                if kind == "memory":
                    self.report(self._lost(unit, content, "memory"))
                    continue
                if kind == "abandoned":
                    for one in (unit, *self.waiting.failed(unit, content)):
                        self.report(Message("abandoned", one, content))
                    continue
                if kind == "stopped":
                    self.waiting.put_back(unit)
                    continue
                self.waiting.succeeded(unit)
                yield unit, result_of(unit, kind, content), seconds

    def stop(self) -> None:
        """Leave no task on a cluster that outlives this process."""
        with suppress(self.ray.exceptions.RayError):  # the cluster may be gone
            for task in self.at_work:
                self.ray.cancel(task, force=True)
            self.ray.kill(self.mailbox)

    def _ask_to_stop(self) -> None:
        """Tell the units at work, and take back those that have not begun."""
        self.most = 0  # nothing more is submitted
        self.ray.get(self.mailbox.stop.remote())
        for task, attempt in list(self.at_work.items()):
            if not attempt.begun:
                self.ray.cancel(task, force=True)
                self.waiting.put_back(self.at_work.pop(task).unit)

    def _abandon_the_late(self, ready: set[Any]) -> None:
        """Cancel the units that have begun and finish no round.

        Ray ends the worker if it can: one that is stopped (SIGSTOP) keeps its CPU until somebody lets it go on.
        """
        passed, self.clock = min(time.monotonic() - self.clock, 1.0), time.monotonic()
        for task, attempt in list(self.at_work.items()):
            attempt.silent += passed if attempt.begun else 0.0
            if attempt.silent > self.timeout and task not in ready:
                del self.at_work[task]
                self.ray.cancel(task, force=True)
                why = no_round_in(self.timeout, attempt.unit)
                self.report(Message("abandoned", attempt.unit, why))

    def _submit(self) -> None:
        resources = self.ray.cluster_resources()
        while (unit := self.waiting.look(self._units())) is not None:
            gpu = _on_gpu(unit)
            room = int(resources.get("GPU" if gpu else "CPU", 0)) + _AHEAD
            if len(self.at_work) >= (room if self.most is None else min(room, self.most)):
                return
            self.waiting.take(self._units())
            self.attempts[unit.name] += 1
            number, path = self.attempts[unit.name], self.checkpoint(unit)
            start = path.read_bytes() if path is not None and path.is_file() else None
            task = self.task.options(num_cpus=1, num_gpus=1 if gpu else 0, runtime_env={"env_vars": ONE_THREAD}).remote(
                unit, number, start, path is not None, __version__, self.mailbox
            )
            self.at_work[task] = _Attempt(unit, number)

    def _units(self) -> list[Unit]:
        return [attempt.unit for attempt in self.at_work.values()]

    def _read_mailbox(self) -> None:
        current = {(a.unit.name, a.number): a for a in self.at_work.values()}
        messages, saved = self.ray.get(self.mailbox.messages.remote())
        for sender, kind, content in messages:
            attempt = current.get(sender)
            if attempt is None:
                continue  # from a task that was abandoned: another one does its unit now
            attempt.begun = attempt.begun or kind == "begun"
            attempt.silent = 0.0
            self.report(Message(kind, attempt.unit, content))
        for sender in saved:  # one by one: together they might not fit into memory
            content = self.ray.get(self.mailbox.checkpoint.remote(sender))
            attempt = current.get(sender)
            path = self.checkpoint(attempt.unit) if attempt else None
            if path is not None and content is not None and not path.is_dir():
                write_whole(path, lambda file, c=content: file.write(c))  # type: ignore[misc]

    def _warn_if_idle(self) -> None:
        """Warn once that no unit gets a CPU; then wait on, since one may become free or be added."""
        if any(attempt.begun for attempt in self.at_work.values()):
            self.idle_since = time.monotonic()
        elif self.idle_since is not None and time.monotonic() - self.idle_since > _IDLE_SECONDS:
            unit = next(iter(self.at_work.values())).unit
            kind = "GPU" if _on_gpu(unit) else "CPU"
            text = f"waits for a free {kind} of the Ray cluster (`ray status`)"
            self.report(Message("warning", unit, text))
            self.idle_since = None

    def _died(self, unit: Unit, error: Exception) -> Message:
        """Put the unit back if another attempt may succeed, or give it up; raises if all units would fail."""
        known, name = self.ray.exceptions, type(error).__name__
        if isinstance(error, known.RayTaskError):
            raise error  # the node cannot load the task, so every attempt would fail
        if isinstance(error, (known.WorkerCrashedError, known.OutOfMemoryError)):
            return self._lost(unit, name, "memory" if isinstance(error, known.OutOfMemoryError) else "crashed")
        if not isinstance(error, (known.NodeDiedError, known.ObjectLostError, known.RaySystemError)):
            raise error
        return self._lost(unit, f"its node was lost ({name})", "lost")

    def _lost(self, unit: Unit, cause: str, kind: str) -> Message:
        why = self.waiting.crashed(unit, kind, cause)
        return Message("crashed" if why is None else "abandoned", unit, why or cause)


def _on_gpu(unit: Unit) -> bool:
    return unit.experiment.task is not None and unit.experiment.training.device == "cuda"


def _failure(error: Exception) -> FedwaveError:
    """An error of Ray that another attempt would meet again, in one sentence."""
    if "No module named 'fedwave" in str(error):
        return FedwaveError(
            f"fedwave is not installed on a node of the Ray cluster: install fedwave {__version__} there, "
            "in the Python that Ray was started with."
        )
    *_, last = ["", *str(error).strip().splitlines()]
    reason = last.strip().split(". ")[0].rstrip(".")
    return FedwaveError(f"the Ray cluster failed ({type(error).__name__}: {reason}): repair it, and resume the run.")


class Mailbox:
    """An actor beside the driver: keeps messages, and the newest checkpoint of each sender, until they are read."""

    def __init__(self) -> None:
        self._messages: list[tuple[Sender, str, Any]] = []
        self._checkpoints: dict[Sender, bytes] = {}
        self._stopping = False

    def stop(self) -> None:
        """Ask every sender to stop, in answer to its next message."""
        self._stopping = True

    def post(self, sender: Sender, kind: str, content: Any) -> bool:
        """Keep a message; is the sender to stop?"""
        if kind == "checkpoint":
            self._checkpoints[sender] = content
        else:
            self._messages.append((sender, kind, content))
        return self._stopping

    def messages(self) -> tuple[list[tuple[Sender, str, Any]], list[Sender]]:
        """All messages since the last call, and the senders of checkpoints."""
        messages, self._messages = self._messages, []
        return messages, list(self._checkpoints)

    def checkpoint(self, sender: Sender) -> bytes | None:
        """The checkpoint, which is then removed from the mailbox."""
        return self._checkpoints.pop(sender, None)


def do_unit(unit: Unit, attempt: int, start: bytes | None, save: bool, version: str, mailbox: Any) -> bytes:
    """A Ray task: (kind, content, seconds) of the answer, pickled.

    Pickled here, because arrays that Ray unpickles are read-only and lie in its shared memory, which ends with Ray.
    """

    asked = threading.Event()

    def note(sent: Future[bool]) -> None:
        if not sent.cancelled() and sent.exception() is None and sent.result():
            asked.set()

    def send(kind: str, content: Any) -> Future[bool]:
        # A future, not ray.get: Ray gives the CPU of a task that waits in ray.get to another task.
        sent: Future[bool] = mailbox.post.remote((unit.name, attempt), kind, content).future()
        sent.add_done_callback(note)
        return sent

    begun, reporter = time.monotonic(), Reporter(send)
    send("begun", None)
    if version != __version__:
        kind, content = (
            "refused",
            (
                f"a node of the Ray cluster has fedwave {__version__}, but this is fedwave {version}: "
                "install the same there."
            ),
        )
    else:
        seconds = unit.experiment.checkpoint_seconds
        checkpointer = _MailingCheckpointer(start, reporter, seconds, asked.is_set) if save else Checkpointer()
        kind, content = answer(unit, checkpointer, reporter)
    with suppress(import_ray().exceptions.RayError, TimeoutError):  # the result does not need them
        reporter.flush().result(_CLOSE_SECONDS)
    return pickle.dumps((kind, content, time.monotonic() - begun))


class _MailingCheckpointer(SendingCheckpointer):
    """Sends a checkpoint only when the last one has arrived: a slow network must not fill the memory."""

    def __init__(self, start: bytes | None, reporter: Reporter, seconds: float, asked: Asked) -> None:
        super().__init__(start, self._mail, seconds, asked)
        self._reporter = reporter
        self._sent: Future[bool] | None = None

    def due(self) -> bool:
        return (self._sent is None or self._sent.done()) and super().due()

    def _mail(self, content: bytes) -> None:
        self._sent = self._reporter.send("checkpoint", content)
