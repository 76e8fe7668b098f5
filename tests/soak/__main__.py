"""`python -m tests.soak --minutes 30`: disturb runs, count what happens; the exit status is 1 if anything was wrong."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import ROOT
from .counts import Counts
from .cycles import Cycle, mixture
from .disk import can_be_small, enter_namespace
from .experiments import Experiments
from .processes import left_over

_KEPT = 5  # places of faulty cycles that are not removed


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, required=True, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="of the random choices (default: 0)")
    parser.add_argument("--json", type=Path, help="file to put the counts into")
    return parser.parse_args()


def run(asked: argparse.Namespace, place: Path) -> int:
    start, counts, luck = time.monotonic(), Counts(), random.Random(asked.seed)
    print(f"small disks: {can_be_small()}; seed {asked.seed}; in {place}", flush=True)
    experiments = Experiments(place / "undisturbed")
    kinds = mixture()
    said = minutes = 0.0
    try:
        while minutes < asked.minutes:
            (what,) = luck.choices(list(kinds), list(kinds.values()))
            faults = counts.faults.total()
            counts.cycles[what.__name__.replace("_", " ")] += 1
            cycle = Cycle(experiments, place / str(counts.cycles.total()), luck, counts)
            what(cycle)
            faulty = counts.faults.total() > faults
            counts.faulty_cycles += faulty
            if not faulty or counts.faulty_cycles > _KEPT:
                shutil.rmtree(cycle.place)
            minutes = (time.monotonic() - start) / 60
            if minutes - said >= 1:
                said = minutes
                print(f"minute {said:.0f}: {counts.line()}", flush=True)
    except KeyboardInterrupt:
        left_over(0.0)  # what was started is in sessions of its own, and was not interrupted
    found = counts.to_json({"seed": asked.seed, "minutes": round(minutes, 1), "small disks": can_be_small()})
    print(json.dumps(found, indent=2))
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({"soak": {"after": found}}, indent=2) + "\n")
    return int(counts.faults.total() > 0)


def main() -> int:
    if not sys.platform.startswith("linux"):
        print("the soak looks for processes in /proc: it needs Linux.", file=sys.stderr)
        return 2
    asked = options()
    enter_namespace()
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # the processes test this source
    place = Path(tempfile.mkdtemp(prefix="fedwave-soak-"))
    status = run(asked, place)
    if status == 0:
        shutil.rmtree(place)
    else:
        print(f"What was left of the first faulty runs is in {place}.")
    return status


if __name__ == "__main__":
    sys.exit(main())
