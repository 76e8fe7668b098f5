"""The command line with nasty words, fields and files, and in strange surroundings."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from . import bases, nasty, nasty_files, surroundings
from .attack import Attack, Verdict
from .judge import EITHER, REFUSE, finite_json, judge, sound_folder
from .shell import Answer, command, real

_REAL = 20  # one in so many is a real process
_PLAIN = ("devices.csv", "--slots", "1", "-r", "5", "-i", "2", "-s", "age,balsa")
_TRAIN = (
    *("devices.csv", "task.model=logistic", "--task", "synthetic", "--slots", "1", "-r", "2", "-i", "1", "-s", "age"),
    *("training.test_images=50", "training.loss_images=50", "training.device=cpu", "--workers", "1"),
)
# A command that works: what is nasty is added to it.
BASES: dict[str, tuple[str, ...]] = {
    "compare": ("compare", *_PLAIN, "--json"),
    "run": ("run", "devices.csv", *bases.SMALL, "-s", "age,balsa", "--out", "out"),
    "train": ("train", *_TRAIN, "--out", "out"),
    "reproduce": ("reproduce", "score", "rounds=3", "instances=1", "--out", "out"),
    "resume": ("resume", "out"),
    "report": ("report", "out"),
    "verify": ("verify", "out"),
    "list": ("list", "schedulers"),
    "config": ("config", "devices.csv"),
    "describe": ("describe", "devices.csv"),
    "data": ("data", "mnist", "--out", "out"),
}
# The options of every command that take a number, and those that take a text: written down, so that numbers of
# attacks keep their meaning; test_attacks.py compares them with the commands.
_SIZE = "--rounds --instances --seed --slots --workers"
OPTIONS: dict[str, tuple[str, str]] = {
    "run": (_SIZE, "--schedulers --task --import --events --out"),
    "compare": (f"{_SIZE} --burn-in --half-width", "--schedulers --import --out"),
    "train": (_SIZE, "--schedulers --task --import --out"),
    "reproduce": ("--workers", "--out --from"),
    "resume": ("--workers", "--import --events"),
    "report": ("", "--out --compact"),
    "list": ("", "--import"),
    "config": ("", "--import"),
    "describe": ("", "--import"),
    "data": ("", "--out"),
}
_WRITES = ("--out", "--events", "--compact")
_OFTEN = ("compare", "compare", "compare", "run", "run", "resume", "report", "reproduce", "config", "list", "data")


def make(number: int, luck: random.Random, base: Path) -> Attack:
    Path("devices.csv").write_text(bases.DEVICES)
    run = real if number % _REAL == 3 else command
    # Sixteen in turn, so that every part of the numbers has all kinds.
    turn = number % 16
    if turn < 5:
        return _option(run, luck, base)
    if turn < 9:
        return _field(run, luck)
    if turn < 13:
        return _file(run, luck, base)
    if turn == 13:
        return _word(run, luck)
    return surroundings.make(number // 16 * 2 + turn - 14, base)


def _option(run: Callable[..., Answer], luck: random.Random, base: Path) -> Attack:
    """An option with a value that is out of range, of another type, or strange."""
    name = "train" if luck.random() < 0.04 else luck.choice(_OFTEN)
    numbers, texts = OPTIONS[name]
    option = luck.choice((*numbers.split(), *texts.split()))
    number = option in numbers.split() and luck.random() < 0.85
    texts_ = nasty.PLACES if option in _WRITES else nasty.TEXTS
    value = luck.choice(nasty.NUMBERS if number else texts_)
    return _of_words(run, name, [*BASES[name], option, value], base, EITHER)


def _word(run: Callable[..., Answer], luck: random.Random) -> Attack:
    """A word that is no experiment, no field and no option."""
    name = luck.choice(("compare", "run", "config", "reproduce", "data", "resume", "report", "verify", "nonsense"))
    text = luck.choice([t for t in nasty.TEXTS if t not in ("--", "-", ".", "..", "/", "", " ", "~", "../..")])
    words = [name, text] if luck.random() < 0.7 else [*BASES.get(name, (name,)), text]
    return _of_words(run, name, words, None, EITHER if name == "verify" or "=" in text else REFUSE)


def _field(run: Callable[..., Answer], luck: random.Random) -> Attack:
    """A field of the experiment with a value that does not suit it."""
    import json

    from fedwave.experiments.config.sweep import field_names

    field = luck.choice([f for f in field_names() if f not in ("imports", "checkpoint_seconds")])
    if luck.random() < 0.08:
        field = luck.choice(
            ("sweep.network.slots", "network.set.rate", "sweep.rounds", "network.set.x", "sweep.x", "x.y", "")
        )
    if luck.random() < 0.5:
        value = luck.choice((*nasty.NUMBERS, *nasty.TEXTS))
    else:
        try:
            value = json.dumps(nasty.values(luck))[:20_000]
        except RecursionError:
            value = "[" * 3000
    name = luck.choice(("config", "config", "config", "compare", "run"))
    words = [*BASES[name], f"{field}={value}"]
    return _of_words(run, name, words, None, EITHER)


def _of_words(run: Callable[..., Answer], name: str, words: Sequence[str], base: Path | None, expect: str) -> Attack:
    if any("\0" in word for word in words):
        words = [word.replace("\0", "") for word in words]
    if name in ("resume", "report", "verify") and base is not None:
        bases.copy(base, "stopped" if name == "resume" else "finished")
    taken: list[Answer] = []

    def go() -> Verdict:
        taken.append(run(*words))
        return judge(taken[0], expect, proof, fine=(0, 1) if name == "verify" else (0,))

    def proof() -> str:
        out = taken[0].out
        if name == "compare" and out.lstrip().startswith("{"):
            return finite_json(out)
        if name == "run" and Path("out/config.yaml").exists():
            return sound_folder()
        return ""

    shown = " ".join(ascii(w)[1:-1][:60] for w in words[-3:])
    # Files that the words name themselves may be written; of the canary's none is named.
    allowed = _named(words) if name not in ("verify", "list") else ()
    return Attack(f"fedwave {name} ... {shown}", go, allowed)


def _named(words: Sequence[str]) -> tuple[str, ...]:
    """What --out and --events name within the current folder, and `out`."""
    found = ["out"]
    for option, value in pairwise(words):
        if option in _WRITES and value and not value.startswith("/"):
            found.append(value.split("/")[0])
    return tuple(found)


def _file(run: Callable[..., Answer], luck: random.Random, base: Path) -> Attack:
    """A file that an argument names."""
    what, ending, contents, words = luck.choice(_ARGUMENTS)
    content = luck.choice([*contents.items(), *nasty_files.ANY.items()])
    path = Path(f"nasty{ending}")
    content[1](path)
    full = [word.replace("FILE", str(path)) for word in words]
    expect = EITHER if (what, content[0]) in _FINE or content[0] in _FINE_ANYWHERE else REFUSE
    attack = _of_words(run, full[0], full, None, expect)
    return Attack(f"{what}, {content[0]}: {attack.what}", attack.go, attack.allowed)


_COMPARE = ("-r", "5", "-i", "2", "-s", "age,balsa", "--slots", "1", "--json")
_ARGUMENTS: list[tuple[str, str, dict[str, nasty_files.Put], tuple[str, ...]]] = [
    ("an experiment in YAML", ".yaml", nasty_files.YAML, ("config", "FILE")),
    ("an experiment in YAML", ".yaml", nasty_files.YAML, ("run", "FILE", "--out", "out")),
    ("an experiment in JSON", ".json", nasty_files.JSON, ("config", "FILE")),
    ("a device table", ".csv", nasty_files.CSV, ("compare", "FILE", *_COMPARE)),
    ("a device table", ".csv", nasty_files.CSV, ("run", "FILE", *bases.SMALL, "-s", "age", "--out", "out")),
    ("a device table in YAML", ".yaml", nasty_files.YAML, ("config", "network.kind=table", "network.file=FILE")),
    *(
        (what, ending, files, ("compare", "devices.csv", *_COMPARE, f"network.{what}=recorded:path=FILE"))
        for what in ("fading", "arrivals")
        for ending, files in ((".npy", nasty_files.NPY), (".csv", nasty_files.CSV))
    ),
    (
        "an error curve",
        ".csv",
        nasty_files.CSV,
        ("compare", "devices.csv", *_COMPARE, "network.success=table:path=FILE"),
    ),
    ("parts", ".py", nasty_files.PYTHON, ("list", "schedulers", "--import", "FILE")),
    ("parts", ".py", nasty_files.PYTHON, ("compare", "devices.csv", *_COMPARE, "--import", "FILE")),
    ("a run folder", "", nasty_files.JSON, ("resume", "FILE")),
    ("a run folder", "", nasty_files.JSON, ("report", "FILE")),
    ("a run folder", "", nasty_files.JSON, ("verify", "FILE")),
    ("a run folder", "", nasty_files.JSON, ("reproduce", "score", "--from", "FILE", "--out", "out")),
]
# What may be accepted: an empty experiment is one with all defaults, an empty Python file registers nothing, ...
_FINE = {
    ("parts", "empty"),
    ("parts", "only a byte order mark"),
    ("parts", "a name of markup"),
    ("fading", "too few rounds"),
    ("arrivals", "records"),
    ("fading", "one axis"),
    ("arrivals", "one axis"),
    ("parts", "deep brackets"),
}
_FINE_ANYWHERE = ("a long line", "a directive", "null", "!!timestamp")
