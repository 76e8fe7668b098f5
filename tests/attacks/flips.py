"""One bit of one file of a run folder is flipped, and every command that reads the folder is asked."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from . import bases
from .attack import Attack, Verdict, worst
from .judge import judge, judge_call
from .shell import Answer, command, real

_REAL = 101  # one in so many is done by real processes
# `verify` is asked of every finished run, and one of these besides.
_TURN = (
    ("finished", "load"),
    ("finished", "report"),
    ("stopped", "resume"),
    ("finished", "load"),
    ("finished", "resume"),
    ("finished", "load"),
    ("stopped", "resume"),
)


def make(number: int, luck: random.Random, base: Path) -> Attack:
    """Commands and files in turn, the bit at random."""
    name, asked = _TURN[number % len(_TURN)]
    folder = bases.copy(base, name)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)
    path = files[number // len(_TURN) % len(files)]
    content, bit = bytearray(path.read_bytes()), luck.randrange(8 * path.stat().st_size)
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
    inner = path.relative_to(folder).as_posix()
    run = real if number % _REAL == 0 else command

    def go() -> Verdict:
        wanted = bases.results(base / f"{name}-again")
        if name == "stopped":
            return _taken_up(run, folder, wanted, asked)
        looked = _looked_at(run, folder, inner, base / name)
        if asked == "load":
            return worst(looked, _loaded(folder, base / name))
        return worst(looked, _taken_up(run, folder, wanted, asked))

    return Attack(f"bit {bit} of {inner} of a {name} run, then {asked}", go)


def _looked_at(run: Callable[..., Answer], folder: Path, inner: str, base: Path) -> Verdict:
    """`verify` must notice it in every file that the sums cover, and in the sums."""
    answer = run("verify", str(folder))
    listed = (base / "SHA256SUMS").read_text()
    covered = inner in ("SHA256SUMS", "done.jsonl") or f"  {inner}\n" in listed
    verdict = judge(answer, fine=(0, 1))
    if verdict.outcome == "right" and answer.status == 1:
        return Verdict("refused", "verify notices it")
    if verdict.outcome == "right" and covered:
        return Verdict("silent", "verify does not notice it")
    return verdict


def _loaded(folder: Path, base: Path) -> Verdict:
    """`fw.load` refuses, or gives what it gives of the folder as it was."""
    import fedwave as fw

    return judge_call(
        lambda: fw.load(folder), proof=lambda data: "" if data.identical(fw.load(base)) else "load gives other results"
    )


def _taken_up(run: Callable[..., Answer], folder: Path, wanted: dict[str, str], asked: str) -> Verdict:
    """`report` and `resume` refuse, or leave what they leave of the folder as it was, or what `verify` refuses."""

    def proof() -> str:
        now = bases.results(folder)
        apart = [n for n in wanted if _is_result(n) and now.get(n) != wanted[n]]
        if not apart:
            return ""
        if any(not name.startswith("inputs/") for name in apart):
            return f"{asked} gives another {', '.join(apart[:4])}"
        if command("verify", str(folder)).status == 0:
            return f"{asked} keeps the damage in {', '.join(apart[:4])}, and verify finds it sound"
        return ""

    return judge(run(asked, str(folder)), proof=proof)


def _is_result(name: str) -> bool:
    """Must it be the same in every run of the experiment? The rest says when and where a run was made."""
    # SHA256SUMS has the sums of figures, which may be drawn or not.
    return name not in (".lock", "done.jsonl", "SHA256SUMS")
