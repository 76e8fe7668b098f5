"""Runs attacks one after another, each in a forked process that has fedwave imported already."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from . import canary
from .attack import Attack, Verdict, worst

KINDS = {"commands": 800, "folders": 100, "flips": 4000, "packages": 30}
LONGEST_S = 20.0
MEMORY = 3 * 2**30  # bytes that an attack may use beyond what the driver has
_HEAVY = (
    "numpy.random",
    "pandas",
    "pyarrow.parquet",
    "xarray",
    "pydantic",
    "ruamel.yaml",
    "scipy.stats",
    "PIL.Image",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "rich.table",
    "fedwave.cli.app",
    "fedwave.experiments.store.verify",
)
# Downloads fail at once, whether there is a network or not.
_NO_NETWORK = {
    "PIP_NO_INDEX": "1",
    "npm_config_offline": "true",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "no_proxy": "127.0.0.1",
}


@dataclass(frozen=True)
class Done:
    """An attack that is over."""

    kind: str
    number: int
    seed: int
    what: str
    outcome: str
    detail: str
    seconds: float

    @property
    def repeat(self) -> str:
        last = self.number + 1
        return f"python -m tests.attacks {self.kind} --from {self.number} --to {last} --seed {self.seed}"


def run(kind: str, numbers: range, seed: int) -> Iterator[Done]:
    """The attacks with these numbers."""
    for name in (*_HEAVY, *(("fedwave.learning.replay",) if kind == "commands" else ())):
        import_module(name)
    make: Callable[[int, random.Random, Path], Attack] = import_module(f"{__package__}.{kind}").make
    fast = Path("/dev/shm")  # fsync costs nothing there
    with tempfile.TemporaryDirectory(
        prefix="fedwave-attacks-", dir=fast if fast.is_dir() else None, ignore_cleanup_errors=True
    ) as scratch:
        base = Path(scratch) / "base"
        base.mkdir()
        import_module(f"{__package__}.bases").build(kind, base)
        for number in numbers:
            place = Path(scratch) / "attack"
            began = time.monotonic()
            for _ in range(2):  # what is slow once may be the machine's fault
                luck = random.Random(f"{kind} {number} {seed}")
                what, verdict = one(partial(make, number, luck, base), place)
                _remove(place)
                if verdict.outcome != "hang":
                    break
            seconds = time.monotonic() - began
            yield Done(kind, number, seed, what, verdict.outcome, verdict.detail, seconds)


def one(make: Callable[[], Attack], place: Path) -> tuple[str, Verdict]:
    """Make an attack in a new folder, let it go, and look at what is around it afterwards."""
    for name in ("work", "canary", "home", "tmp"):
        (place / name).mkdir(parents=True)
    canary.plant(place / "canary")
    plan, result = place / "tmp" / "plan.json", place / "tmp" / "result.json"
    child = os.fork()
    if child == 0:
        _in_child(make, place, plan, result)
    status = _wait(child)
    if not plan.exists():
        told = result.read_text() if result.exists() else f"status {status}"
        raise RuntimeError(f"the attack could not be made: {told}")
    planned = json.loads(plan.read_text())
    if status is None:
        verdict = Verdict("hang", f"no answer after {LONGEST_S:.0f} s")
    elif result.exists():
        verdict = Verdict(**json.loads(result.read_text()))
    else:
        verdict = Verdict("killed", f"status {status}")
    told = canary.changes(planned["before"], canary.state_of(place, planned["allowed"]))
    if told:
        verdict = worst(verdict, Verdict("outside", "; ".join(told[:4])))
    return planned["what"], verdict


def _in_child(make: Callable[[], Attack], place: Path, plan: Path, result: Path) -> None:
    """Never returns."""
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.simplefilter("ignore")
        os.chdir(place / "work")
        for name in list(os.environ):
            if name.startswith(("FEDWAVE", "XDG", "COLUMNS", "LINES")):
                del os.environ[name]
        os.environ.update(
            HOME=str(place / "home"), TMPDIR=str(place / "tmp"), LANG="C.UTF-8", PYTHONWARNINGS="ignore", **_NO_NETWORK
        )
        tempfile.tempdir = None
        attack = make()
        os.environ.update(attack.environment)
        if not attack.draw:
            draw_nothing()
        allowed = [*(f"work/{name}" for name in attack.allowed), "home", "tmp"]
        before = canary.state_of(place, allowed)
        plan.write_text(json.dumps({"what": attack.what, "allowed": allowed, "before": before}))
        _limit_memory()
        verdict = attack.go()
        _limit_memory(None)
        os.chdir(place)
        result.write_text(json.dumps(verdict._asdict()))
    except BaseException:
        result.write_text(json.dumps({"outcome": "traceback", "detail": traceback.format_exc()[-1500:]}))
    finally:
        os._exit(0)


def draw_nothing() -> None:
    """Write a few bytes for every figure: most attacks are not about drawing."""
    from matplotlib.figure import Figure

    def savefig(self: Figure, file: object, **about: object) -> None:
        file.write(b"a figure\n")  # type: ignore[attr-defined]

    Figure.savefig = savefig  # type: ignore[method-assign, assignment]


def _limit_memory(more: int | None = MEMORY) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = hard
    if more is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        soft = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _wait(child: int) -> int | None:
    """The status of a child; None if it takes too long, and is killed with all that it has started."""
    until = time.monotonic() + LONGEST_S
    pause = 0.001
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _kill_group(child)
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)
    _kill_group(child)
    os.waitpid(child, 0)
    return None


def _kill_group(child: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _remove(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    if place.exists():  # names that are too long for a path, or folders without rights
        subprocess.run(["chmod", "-R", "u+rwx", str(place)], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", str(place)], check=False, capture_output=True)
    if place.exists():
        print(f"{place} cannot be removed", file=sys.stderr)
