"""Run folders as a stranger might send them, given to every command that takes one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from . import bases
from .attack import Attack, Verdict
from .folder_forgeries import FORGERIES, ONLY, Forged
from .judge import EITHER, judge, judge_call
from .shell import Answer, command, real

_REAL = 20  # one in so many is done by a real process
_ASKED = ("resume", "report", "verify", "load", "run")


def make(number: int, luck: random.Random, base: Path) -> Attack:
    """Forgeries in turn; a folder may be finished or stopped, unless the forgery says."""
    name, forge = FORGERIES[number % len(FORGERIES)]
    turn = number // len(FORGERIES)
    among, state = ONLY.get(name, (_ASKED, ""))
    asked = among[(number + turn) % len(among)]
    if not state:
        state = "finished" if asked in ("report", "load") else luck.choice(("finished", "stopped"))
    if asked == "run":
        Path("devices.csv").write_text(bases.DEVICES)
    folder = bases.copy(base, state)
    forged = forge(folder, luck)
    run = real if number % _REAL == 7 else command

    def go() -> Verdict:
        return _ask(run, asked, folder, forged, base / state)

    what = f"{name}: a {state} folder, {asked}"
    # Of links that lead outside nothing may change there; what is below `out` by a link is outside too.
    return Attack(what, go, allowed=("out",), draw=forged.draw, environment=forged.environment)


def _ask(run: Callable[..., Answer], asked: str, folder: Path, forged: Forged, base: Path) -> Verdict:
    """A change of what the results are made from must be refused or change nothing; other files must stay."""
    expect = forged.expect.get(asked, forged.expect.get("all", EITHER))

    def proof() -> str:
        for name, content in forged.kept.items():
            path = folder / name
            if not path.is_symlink() and (not path.is_file() or path.read_bytes() != content):
                return f"{name}, which is not fedwave's, was changed or removed"
        return _other_results(folder, base.parent / "finished") if forged.same else ""

    if asked == "load":
        import fedwave as fw

        proof_of = (lambda data: _other_data(data, base)) if forged.same else None
        return judge_call(lambda: fw.load(folder), expect, proof=proof_of)
    if asked == "run":
        return judge(run(*bases.RUN, "--out", str(folder)), expect, proof)
    answer = run(asked, str(folder))
    if asked != "verify":
        return judge(answer, expect, proof)
    verdict = judge(answer, EITHER, fine=(0, 1))
    if verdict.outcome == "right" and answer.status == 1:
        return Verdict("refused", "verify notices it")
    if verdict.outcome == "right" and forged.noticed:
        return Verdict("silent", "verify does not notice it")
    return verdict


def _other_data(data: object, base: Path) -> str:
    import fedwave as fw

    same = data.drop_attrs().identical(fw.load(base).drop_attrs())  # type: ignore[attr-defined]
    return "" if same else "load gives other results"


def _other_results(folder: Path, base: Path) -> str:
    """The tables of all units must be those of the undisturbed run."""
    before, now = bases.results(base), bases.results(folder)
    apart = [n for n in before if n.startswith(("rounds/", "devices/")) and now.get(n) != before[n]]
    return f"other results in {', '.join(apart[:3])}" if apart else ""
