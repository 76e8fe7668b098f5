"""Commands in strange surroundings, and inputs about which it is known whether they are fine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from . import bases
from .attack import Attack, Verdict
from .judge import EITHER, REFUSE, finite_json, judge, sound_folder
from .shell import Answer, command, process

_COMPARE = ("compare", "devices.csv", "--slots", "1", "-r", "5", "-i", "2", "-s", "age,balsa")
_RUN = (*bases.RUN, "--out", "out")


def make(number: int, base: Path) -> Attack:
    """Both lists in turn, again from the start when one is through."""
    place, odd = divmod(number, 2)
    if odd:
        return _KNOWN[place % len(_KNOWN)].attack(base)
    name, words, environment, ending = _AROUND[place % len(_AROUND)]
    if words[0] in ("verify", "report", "resume"):
        bases.copy(base, "finished")
    return Attack(f"{name}: fedwave {words[0]}", lambda: _around(words, environment, ending), ("out", "out.jsonl"))


def _around(words: tuple[str, ...], environment: dict[str, str], ending: str) -> Verdict:
    answer = process(words, environment, ending)
    if ending:  # what cannot be said cannot be judged: any status will do, but no traceback and no signal
        loud = "Traceback" in answer.err or "Exception ignored" in answer.err
        if answer.status is None:
            return Verdict("hang")
        if answer.status < 0:
            return Verdict("killed", f"signal {-answer.status}")
        return Verdict("traceback", answer.err.strip()[-200:]) if loud else Verdict("right")
    return judge(answer, EITHER, fine=(0, 1) if words[0] == "verify" else (0,))


_AROUND: list[tuple[str, tuple[str, ...], dict[str, str], str]] = [
    ("standard output is full", _COMPARE, {}, ">/dev/full"),
    ("standard output is full", ("list", "schedulers"), {}, ">/dev/full"),
    ("standard output is full", ("config",), {}, ">/dev/full"),
    ("standard output is full", ("verify", "out"), {}, ">/dev/full"),
    ("standard output is closed", _COMPARE, {}, ">&-"),
    ("standard output is closed", ("list", "presets"), {}, ">&-"),
    ("standard output is closed", ("config", "--schema"), {}, ">&-"),
    ("standard error is closed", ("compare", "nothing"), {}, "2>&-"),
    ("standard error is full", ("compare", "nothing"), {}, "2>/dev/full"),
    ("a reader that leaves", ("config", "--schema"), {}, "| head -c 10 >/dev/null"),
    ("a reader that leaves", ("list", "schedulers"), {}, "| true"),
    ("a reader that leaves", (*_COMPARE, "--json"), {}, "| true"),
    ("COLUMNS=1", _COMPARE, {"COLUMNS": "1"}, ""),
    ("COLUMNS=0", ("list", "schedulers"), {"COLUMNS": "0"}, ""),
    ("COLUMNS=-5", ("verify", "out"), {"COLUMNS": "-5"}, ""),
    ("COLUMNS is huge", _COMPARE, {"COLUMNS": "999999999"}, ""),
    ("COLUMNS is text", _COMPARE, {"COLUMNS": "abc"}, ""),
    ("ASCII", _COMPARE, {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, ""),
    ("ASCII", ("list", "schedulers"), {"PYTHONIOENCODING": "ascii"}, ""),
    ("ASCII", _RUN, {"PYTHONIOENCODING": "ascii"}, ""),
    ("Latin-1", ("config",), {"PYTHONIOENCODING": "latin-1"}, ""),
    ("TERM=dumb", _COMPARE, {"TERM": "dumb", "FORCE_COLOR": "1"}, ""),
    ("no HOME", ("data", "--help"), {"HOME": ""}, ""),
    ("a HOME that is a file", _RUN, {"HOME": "/dev/null", "MPLCONFIGDIR": "/dev/null/x"}, ""),
    (
        "FEDWAVE_DATA is a file",
        ("train", "devices.csv", "--slots", "1", "--out", "out"),
        {"FEDWAVE_DATA": "devices.csv"},
        "",
    ),
    ("FEDWAVE_DATA is nonsense", ("data", "nothing"), {"FEDWAVE_DATA": "~nobody/\x1b[31m"}, ""),
    ("TMPDIR is nowhere", _COMPARE, {"TMPDIR": "/nowhere"}, ""),
    ("OMP_NUM_THREADS is nonsense", _COMPARE, {"OMP_NUM_THREADS": "-3"}, ""),
    ("MPLBACKEND is nonsense", _RUN, {"MPLBACKEND": "nonsense"}, ""),
    ("hash seed", (*_COMPARE, "--json"), {"PYTHONHASHSEED": "1"}, ""),
]


class Known:
    """Words of which it is known what must come."""

    def __init__(self, what: str, expect: str, *words: str, before: Callable[[], None] = lambda: None) -> None:
        self.what, self.expect, self.words, self.before = what, expect, words, before

    def attack(self, base: Path) -> Attack:
        self.before()
        if self.words[0] == "report":
            bases.copy(base, "finished")
        taken: list[Answer] = []

        def go() -> Verdict:
            taken.append(command(*self.words))
            return judge(taken[0], self.expect, proof)

        def proof() -> str:
            if self.words[0] == "compare" and "--json" in self.words:
                return finite_json(taken[0].out)
            return sound_folder() if Path("out/config.yaml").exists() else ""

        return Attack(f"{self.what}: fedwave {' '.join(self.words)[:100]}", go, ("out", "out.jsonl"), draw=True)


def _mine(*names: str) -> Callable[[], None]:
    def put() -> None:
        Path("mine").mkdir()
        for name in names:
            Path("mine", name).write_text("not fedwave's")

    return put


_JSON = (*_COMPARE, "--json")
_KNOWN = [
    Known(
        "a scheduler with a long label", EITHER, *bases.RUN, "--out", "out", "-s", "alpha-fresh:alpha=0." + "1" * 300
    ),
    Known("--events to a folder", REFUSE, *bases.RUN, "--out", "out", "--events", "."),
    Known("--events to /dev/full", EITHER, *bases.RUN, "--out", "out", "--events", "/dev/full"),
    Known(
        "--events to a FIFO", REFUSE, *bases.RUN, "--out", "out", "--events", "fifo", before=lambda: os.mkfifo("fifo")
    ),
    Known("a seed of 2**53 + 1", EITHER, *_RUN, "seed=9007199254740993"),
    Known("a table that is somebody's", REFUSE, *bases.RUN, "--out", "mine", before=_mine("table.md", "summary.csv")),
    Known("sums that are somebody's", REFUSE, *bases.RUN, "--out", "mine", before=_mine("SHA256SUMS")),
    Known("much memory", REFUSE, "compare", "devices.csv", "-i", "2000000", "-r", "1000000", "--slots", "1"),
    Known("many instances", REFUSE, "compare", "random", "network.devices=1000000", "-i", "100000", "-r", "1000"),
    Known("a rate of 1e9", EITHER, *_JSON, "network.set.rate=1e9", "-s", "whittle"),
    Known(
        *("a shard of 1e8 samples", REFUSE, "train", "devices.csv", "--task", "synthetic", "task.model=logistic"),
        *("--slots", "1", "-r", "2", "-i", "1", "-s", "age", "task.shard_size=100000000", "--out", "out"),
        "training.device=cpu",
    ),
    Known(
        "a sweep of 10,000 points",
        EITHER,
        "config",
        "devices.csv",
        "sweep.seed=[" + ",".join(map(str, range(10_000))) + "]",
        "sweep.rounds=[1,2]",
    ),
    Known("a tiny time-out", REFUSE, *bases.RUN, "--out", "out", "--timeout", "1e-9"),
    Known("an endless time-out", EITHER, *bases.RUN, "--out", "out", "--timeout", "inf"),
    Known("a huge time-out", EITHER, *bases.RUN, "--out", "out", "--timeout", "1e308"),
]
