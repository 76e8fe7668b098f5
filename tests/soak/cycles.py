"""One cycle: a run is begun, disturbed in one way, resumed to its end, and checked."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from .check import DISK_FULL, IN_USE, WORKERS_DIED, Bystander, check_folder, judge
from .counts import Counts
from .disk import can_be_small, make_room, small_disk
from .experiments import KINDS, Experiments, names_in
from .processes import Process

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
VICTIMS = ("runner", "worker", "both")
DEADLY = 4  # strikes in a cycle at most
RESUMERS = 12  # at most
MANY = 1_000_000  # changes of a folder: more than there are
RAY_PATIENCE = 60.0  # seconds that the processes of a Ray node may need to notice the end of their driver


class Cycle:
    """A folder with a run of one kind, in a place of its own."""

    def __init__(self, experiments: Experiments, place: Path, luck: random.Random, counts: Counts) -> None:
        self.luck, self.counts, self._experiments = luck, counts, experiments
        self.kind = luck.choice(list(KINDS))
        self.wanted = experiments.undisturbed(self.kind)
        self.workers = luck.choice((1, 2))
        self.engine: tuple[str, ...] = ()
        self.place, self.folder = place, place / "a run" / "run"
        self._patience = 10.0
        place.mkdir(parents=True)
        self.bystander = Bystander(place / "canary", self.folder)
        self._stale: list[tuple[Process, list[int]]] = []

    def on_ray(self) -> None:
        self.engine, self._patience = ("--ray",), RAY_PATIENCE

    def start(self, number: int = 0) -> Process:
        """Begin the run, or go on with it."""
        how = ("--workers", str(self.workers), *self.engine)
        words = self._experiments.go_on(self.kind, self.folder, *how)
        return Process(words, self.place / f"log{number}")

    def judge(self, process: Process, sent: set[signal.Signals], refusals: tuple[str, ...]) -> bool:
        waited = process.wait(RAY_PATIENCE * 2 if self.engine else 60.0)
        if process.workers_struck:
            refusals += WORKERS_DIED
        return judge(process, self.counts, self.wanted, self.folder, waited, sent, refusals)

    def pause(self, process: Process) -> None:
        """Some moment of a run: any, or one at which it is writing."""
        usual = self.wanted.seconds[self.workers] * (3 if self.engine else 1)
        moment = time.monotonic() + self.luck.uniform(0.02, 1.0) * usual
        changes = MANY
        if self.luck.random() < 0.5:  # its first files are few: what is half-written there would hurt most
            moment = time.monotonic() + 2 * usual
            changes = self.luck.randint(1, self.luck.choice((8, 40)))
        before = names_in(self.folder)
        while process.status is None and time.monotonic() < moment and changes > 0:
            time.sleep(0.002)
            now = names_in(self.folder)
            changes -= now != before
            before = now

    def finish(self) -> None:
        """Go on, undisturbed, to the end; it must be reached."""
        self.bystander.enter()
        start = time.monotonic()
        self.judge(self.start(), set(), ())
        took, known = time.monotonic() - start, self.wanted.seconds
        known[self.workers] = max(known[self.workers], took)

    def check(self) -> None:
        """Whatever was stopped and not killed goes on now, when its run is long finished."""
        for process, pids in self._stale:
            process.send(signal.SIGCONT, pids)
        log = self.place / "verify"
        check_folder(self.folder, self.wanted, self.counts, log, self._patience)
        self.bystander.check(self.counts)

    def strike(self, process: Process) -> set[signal.Signals]:
        """Send a random signal to a random victim, sometimes twice; returns what the runner was sent."""
        number, victim = self.luck.choice(SIGNALS), self.luck.choice(VICTIMS)
        sent: set[signal.Signals] = set()
        workers = process.workers()
        if number == signal.SIGKILL and victim == "runner" and workers and self.luck.random() < 0.3:
            process.send(signal.SIGSTOP, workers)  # they cannot notice their runner's end
            self._stale.append((process, workers))
        times = 1 if number in (signal.SIGKILL, signal.SIGSTOP) else self.luck.choice((1, 1, 2))
        if process.status is not None:
            self.wanted.seconds[self.workers] *= 0.8  # too late: not so long the next time
        for _ in range(times):
            whom = process.strike(number, victim, self.luck)
            if whom is None:
                break
            self.counts.signals[f"{number.name} of {whom}"] += 1
            sent |= {number} if whom != "worker" else set()
            time.sleep(self.luck.uniform(0.0, 0.3))
        return sent


def kills(cycle: Cycle) -> None:
    """Signals of all kinds, one after another."""
    for _ in range(cycle.luck.randint(1, DEADLY)):
        process = cycle.start()
        cycle.pause(process)
        cycle.judge(process, cycle.strike(process), ())
    cycle.finish()
    cycle.check()


def resumers(cycle: Cycle) -> None:
    """Several processes go on with a folder at the same time, half finished or finished."""
    if cycle.luck.random() < 0.4:
        shutil.copytree(cycle.wanted.folder, cycle.folder)
    else:
        _half_finished(cycle)
    cycle.bystander.enter()
    some = 2 if cycle.luck.random() < 0.5 else cycle.luck.randint(3, RESUMERS)
    # At once, or one after another while the first is at work, so that they also meet its last steps.
    between = cycle.luck.choice((0.0, 2 * cycle.wanted.seconds[cycle.workers] / some))
    started = []
    for number in range(some):
        started.append(cycle.start(number))
        time.sleep(cycle.luck.uniform(0.0, between))
    for process in started:
        cycle.judge(process, set(), (IN_USE,))
    if not any(process.status == 0 for process in started):
        words = "\n".join(process.output() for process in started)
        cycle.counts.fault("wrong exit status or sentence", f"nobody finished the run:\n{words}")
    cycle.check()


def _half_finished(cycle: Cycle) -> None:
    while not (cycle.folder / "run.json").exists():
        process = cycle.start()
        cycle.pause(process)
        process.strike(signal.SIGKILL, "runner", cycle.luck)
        cycle.judge(process, {signal.SIGKILL}, ())


def full_disk(cycle: Cycle) -> None:
    """The disk is full before the run is finished; room is made; it goes on."""
    disk = cycle.folder.parent
    with small_disk(disk, int(cycle.luck.uniform(0.02, 1.1) * cycle.wanted.size)):
        for _ in range(cycle.luck.choice((1, 1, 2))):
            process = cycle.start()
            sent: set[signal.Signals] = set()
            if cycle.luck.random() < 0.2:
                cycle.pause(process)
                sent = cycle.strike(process)
            cycle.judge(process, sent, DISK_FULL)
            cycle.counts.full_disks += any(words in process.errors() for words in DISK_FULL)
        make_room(disk)
        cycle.finish()
        cycle.check()


def on_ray(cycle: Cycle) -> None:
    """Signals to the driver of a Ray node; the end is reached without Ray."""
    cycle.on_ray()
    process = cycle.start()
    cycle.pause(process)
    number = cycle.luck.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
    if process.strike(number, "runner", cycle.luck):
        cycle.counts.signals[f"{number.name} of Ray's driver"] += 1
    cycle.judge(process, {number}, ())
    cycle.engine = ()
    cycle.finish()
    cycle.check()


def mixture() -> dict[Callable[[Cycle], None], int]:
    """How often each comes, of 100; what this machine lacks does not come."""
    here = {full_disk: can_be_small(), on_ray: find_spec("ray") is not None}
    often = {kills: 58, resumers: 22, full_disk: 18, on_ray: 2}
    return {what: share for what, share in often.items() if here.get(what, True)}
