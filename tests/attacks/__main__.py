"""`python -m tests.attacks KIND`: runs attacks, prints what came of them and how to repeat the bad ones."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from .attack import BAD, GOOD, MEANING
from .driver import KINDS, Done, run


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    asked.add_argument("kind", choices=[*KINDS, "all"])
    asked.add_argument("--from", dest="first", type=int, default=0)
    asked.add_argument("--to", dest="last", type=int, help="one after the last; all of the kind")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--source", help="the src folder of the fedwave to attack; else the installed one")
    asked.add_argument("--json", help="add the counts to this file")
    asked.add_argument("--column", default="after", help="the name of the counts in it: before or after")
    asked.add_argument("--bad", type=int, default=8, help="bad ones that are shown")
    asked.add_argument("--all", action="store_true", help="show every attack")
    how = asked.parse_args()
    if how.source and not Path(how.source, "fedwave").is_dir():
        asked.error(f"there is no fedwave in {how.source}")  # else the installed one would be attacked
    if how.source and os.environ.get("PYTHONPATH", "").split(os.pathsep)[0] != how.source:
        os.environ["PYTHONPATH"] = how.source
        os.execv(sys.executable, [sys.executable, "-m", f"{__package__}", *sys.argv[1:]])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    counts = {}
    for kind in KINDS if how.kind == "all" else [how.kind]:
        last = KINDS[kind] if how.last is None else how.last
        counts[kind] = _attack(kind, range(how.first, last), how)
    if len(counts) > 1:
        _print_table(counts)
    return 1 if any(found[name] for found in counts.values() for name in BAD) else 0


def _attack(kind: str, numbers: range, how: argparse.Namespace) -> Counter[str]:
    counts: Counter[str] = Counter()
    bad: list[Done] = []
    began = time.monotonic()
    for done in run(kind, numbers, how.seed):
        counts[done.outcome] += 1
        if done.outcome in BAD:
            bad.append(done)
        if how.all or (done.outcome in BAD and len(bad) <= how.bad):
            print(f"{done.outcome:<10}{done.what}\n          {done.detail!a}\n          {done.repeat}", flush=True)
    took = time.monotonic() - began
    found = ", ".join(f"{counts[name]} {name}" for name in (*GOOD, *BAD) if counts[name])
    print(f"{kind}: {len(numbers)} attacks in {took:.0f} s: {found}", flush=True)
    if how.json:
        _note(Path(how.json), how, kind, len(numbers), counts)
    log = os.environ.get("ATTACKS_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(vars(done)) + "\n" for done in bad)
    return counts


def _print_table(counts: dict[str, Counter[str]]) -> None:
    names = [*GOOD, *BAD]
    print("".join([f"{'':<10}{'attacks':>10}", *(f"{name:>10}" for name in names)]))
    for kind, found in counts.items():
        print("".join([f"{kind:<10}{found.total():>10}", *(f"{found[name]:>10}" for name in names)]))


def _note(path: Path, how: argparse.Namespace, kind: str, tried: int, counts: Counter[str]) -> None:
    from fedwave.version import __version__

    content = json.loads(path.read_text()) if path.exists() else {}
    content["outcomes"] = MEANING
    column = content.setdefault(how.column, {})
    column.update(fedwave=__version__, seed=how.seed)
    kinds = column.setdefault("kinds", {})
    kinds[kind] = {"attacks": tried} | {name: counts[name] for name in (*GOOD, *BAD)}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
