"""Units of work on a Ray cluster: a task for each unit, nothing but messages between the machines.

A worker or a whole node may die: its units go on elsewhere from their last checkpoint. Checkpoints are kept on the disk
of the process that runs the engine, so that process can be stopped and started again too.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedwave.adapters.ray_cluster import connected, import_ray
from fedwave.adapters.ray_deaths import Deaths, trouble
from fedwave.adapters.ray_worker import Mailbox, do_unit
from fedwave.errors import FedwaveError, whole
from fedwave.experiments.run.pool import Finished, Tell
from fedwave.experiments.run.runner import Engine
from fedwave.experiments.run.units import Unit
from fedwave.files import write_whole
from fedwave.version import __version__

_LOOK_SECONDS = 0.2  # between two looks into the mailbox
_PATIENCE = 30.0  # seconds without any unit at work before the user is told
_AHEAD = 2  # units submitted beyond the free places: none stays empty, and an autoscaler sees what is wanted
# Libraries that would each start a thread per core in every worker.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def ray_engine(address: str | None = None, cpus: int | None = None) -> Engine:
    """An engine for run_experiment. ``address``: "auto" or host:port; None: a Ray of its own, on this machine only.

    ``cpus`` is the most units at work at once; None: as many as the cluster has room for.
    """
    ray = import_ray()  # refuse at once, before a run folder is made
    if cpus is not None:
        cpus = whole("cpus", cpus, 1)

    def run(
        units: list[Unit], checkpoint: Callable[[Unit], Path | None], tell: Tell
    ) -> Iterator[Finished]:
        if not units:
            return
        with connected(ray, address, cpus):
            driver = _Driver(ray, list(reversed(units)), checkpoint, tell, cpus)
            try:
                yield from driver.results()
            except ray.exceptions.RayError as error:
                raise trouble(error) from None
            finally:
                driver.stop()

    return run


@dataclass
class _Attempt:
    unit: Unit
    number: int
    begun: bool = False


@dataclass
class _Driver:
    """Submits units, reads what they send, and submits again those that died."""

    ray: Any
    waiting: list[Unit]  # the next one last
    checkpoint: Callable[[Unit], Path | None]
    tell: Tell
    most: int | None
    at_work: dict[Any, _Attempt] = field(default_factory=dict)  # by the task's reference
    attempts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        here = self.ray.get_runtime_context().get_node_id()
        place = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        # Started anew if it dies: it holds nothing that is not sent again.
        actor = self.ray.remote(
            num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=place
        )
        self.mailbox = actor(Mailbox).remote()
        self.task = self.ray.remote(max_retries=0)(do_unit)
        self.deaths = Deaths(self.ray.exceptions)
        self.idle_since: float | None = time.monotonic()

    def results(self) -> Iterator[Finished]:
        while self.waiting or self.at_work:
            self._submit()
            ready, _ = self.ray.wait(list(self.at_work), timeout=_LOOK_SECONDS)
            self._read_mail()  # before the answers: what a unit sent comes before its end
            self._complain()
            for task in ready:
                attempt = self.at_work.pop(task)
                try:
                    answer = pickle.loads(self.ray.get(task))
                except self.ray.exceptions.RayError as error:
                    self.tell("died", attempt.unit, self.deaths.died(attempt.unit, error))
                    self.waiting.append(attempt.unit)
                    continue
                yield self._finished(attempt, *answer)

    def stop(self) -> None:
        """Leave nothing at work on a cluster that goes on without us."""
        with suppress(self.ray.exceptions.RayError):  # the cluster itself may be what is gone
            for task in self.at_work:
                self.ray.cancel(task, force=True)
            self.ray.kill(self.mailbox)

    def _submit(self) -> None:
        resources = self.ray.cluster_resources()
        while self.waiting:
            gpu = _on_gpu(self.waiting[-1])
            room = int(resources.get("GPU" if gpu else "CPU", 0)) + _AHEAD
            if len(self.at_work) >= (room if self.most is None else min(room, self.most)):
                return
            unit = self.waiting.pop()
            number = self.attempts[unit.name] = self.attempts.get(unit.name, 0) + 1
            path = self.checkpoint(unit)
            begin = path.read_bytes() if path is not None and path.exists() else None
            task = self.task.options(
                num_cpus=1,
                num_gpus=1 if gpu else 0,
                runtime_env={"env_vars": dict.fromkeys(_THREADS, "1")},
            ).remote(unit, number, begin, path is not None, __version__, self.mailbox)
            self.at_work[task] = _Attempt(unit, number)

    def _read_mail(self) -> None:
        current = {(a.unit.name, a.number): a for a in self.at_work.values()}
        letters, saved = self.ray.get(self.mailbox.letters.remote())
        for sender, kind, content in letters:
            attempt = current.get(sender)
            if attempt is None:
                continue  # from a task given up for dead: another does its unit now
            attempt.begun = attempt.begun or kind == "begun"
            self.tell(kind, attempt.unit, content)
        for sender in saved:  # one by one: together they might not fit into the memory
            content = self.ray.get(self.mailbox.checkpoint.remote(sender))
            attempt = current.get(sender)
            path = self.checkpoint(attempt.unit) if attempt else None
            if path is not None and content is not None:
                write_whole(path, lambda file, c=content: file.write(c))  # type: ignore[misc]

    def _finished(self, attempt: _Attempt, kind: str, content: Any, seconds: float) -> Finished:
        unit = attempt.unit
        if kind == "refused":
            raise FedwaveError(content)
        if kind == "failed":
            raise RuntimeError(f"unit {unit.name} failed in its worker:\n{content}")
        return unit, content, seconds

    def _complain(self) -> None:
        """Say once that nothing gets a place; wait on, since one may be freed or added."""
        if any(attempt.begun for attempt in self.at_work.values()):
            self.idle_since = time.monotonic()
        elif self.idle_since is not None and time.monotonic() - self.idle_since > _PATIENCE:
            unit = next(iter(self.at_work.values())).unit
            kind = "GPU" if _on_gpu(unit) else "CPU"
            self.tell("warning", unit, f"waits for a free {kind} of the Ray cluster (`ray status`)")
            self.idle_since = None


def _on_gpu(unit: Unit) -> bool:
    return unit.experiment.task is not None and unit.experiment.training.device == "cuda"
