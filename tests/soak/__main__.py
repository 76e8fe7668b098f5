"""`python -m tests.soak --minutes 30`: disturb runs, count what happens; the exit status is 1 if anything was wrong."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from . import ROOT
from .disk import enter_namespace, way

_KEPT = 5  # places of faulty cycles that are not removed


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    much = parser.add_mutually_exclusive_group(required=True)
    much.add_argument("--minutes", type=float, help="cycles of all kinds for so long")
    much.add_argument("--kills", type=int, help="cycles of kills until there were so many")
    much.add_argument("--resumes", type=int, help="so many times several resumers of one folder")
    parser.add_argument("--seed", type=int, default=0, help="of the random choices (default: 0)")
    parser.add_argument("--json", type=Path, help="file to put the counts into")
    parser.add_argument("--as", dest="when", choices=("before", "after"), default="after")
    parser.add_argument("--source", type=Path, help="folder with the package fedwave to test")
    return parser.parse_args()


def run(asked: argparse.Namespace, place: Path) -> int:
    # Only now: the processes, and what is imported here, must be of the source that was asked for.
    from .counts import Counts, shown, store, table
    from .cycles import MIXTURE, Cycle, kills, on_ray, resumers
    from .experiments import Experiments
    from .processes import left_over

    start, counts, luck = time.monotonic(), Counts(), random.Random(asked.seed)
    print(f"small disk: {way()}; seed {asked.seed}; in {place}", flush=True)
    experiments = Experiments(place / "undisturbed")

    def minutes() -> float:
        return (time.monotonic() - start) / 60

    kind, mixture, enough = "soak", dict(MIXTURE), lambda: minutes() >= asked.minutes
    if find_spec("ray") is None:
        del mixture[on_ray]
    if asked.kills is not None:
        kind, mixture, enough = "kills", {kills: 1}, lambda: counts.kills >= asked.kills
    if asked.resumes is not None:
        kind, mixture = "concurrent resumes", {resumers: 1}
        enough = lambda: counts.attempts >= asked.resumes  # noqa: E731

    def one_cycle() -> None:
        (what,) = luck.choices(list(mixture), list(mixture.values()))
        before = len(counts.first_faults), counts.faults.total()
        counts.cycles[what.__name__.replace("_", " ")] += 1
        cycle = Cycle(experiments, place / str(counts.cycle), luck, counts, enough)
        what(cycle)
        faulty = counts.faults.total() > before[1]
        counts.faulty_cycles += faulty
        for fault in counts.first_faults[before[0] :]:
            print(shown(fault), flush=True)
        if not faulty or counts.faulty_cycles > _KEPT:
            shutil.rmtree(cycle.place)

    said = minutes()
    try:
        while not enough():
            one_cycle()
            if minutes() - said >= 1:
                said = minutes()
                print(f"minute {said:.0f}: {counts.line()}", flush=True)
    except KeyboardInterrupt:
        left_over(0.0)  # what was started is in sessions of its own, and was not interrupted
    about = {"seed": asked.seed, "minutes": round(minutes(), 1), "small disk": way()}
    found = counts.to_json(about)
    print(table(found))
    if asked.json is not None:
        store(asked.json, kind, asked.when, found)
    return int(counts.faults.total() > 0)


def main() -> int:
    if not sys.platform.startswith("linux"):
        print("the soak looks for processes in /proc: it needs Linux.", file=sys.stderr)
        return 2
    asked = options()
    source = (asked.source or ROOT / "src").resolve()
    if not (source / "fedwave" / "__init__.py").is_file():
        print(f"--source {source}: there is no package fedwave in it.", file=sys.stderr)
        return 2
    if os.environ.get("PYTHONPATH") != str(source):
        os.environ["PYTHONPATH"] = str(source)
        os.execv(sys.executable, [sys.executable, "-m", "tests.soak", *sys.argv[1:]])
    enter_namespace()
    place = Path(tempfile.mkdtemp(prefix="fedwave-soak-"))
    status = run(asked, place)
    if status == 0:
        shutil.rmtree(place)
    else:
        print(f"What was left of the first faulty runs is in {place}.")
    return status


if __name__ == "__main__":
    sys.exit(main())
