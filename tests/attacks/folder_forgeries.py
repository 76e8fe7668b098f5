"""What a stranger may do to a run folder before sending it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import nasty
from .judge import ACCEPT, EITHER, REFUSE

CANARY = Path("../canary")  # from the folder that attacks run in


@dataclass(frozen=True)
class Forged:
    """What must come of it: by command, or "all"."""

    expect: dict[str, str] = field(default_factory=dict)
    same: bool = True  # must results that are accepted be those of the folder before?
    noticed: bool = False  # must `verify` say that the folder is not sound?
    kept: dict[str, bytes] = field(default_factory=dict)  # files of others in the folder, which must stay
    draw: bool = False
    environment: dict[str, str] = field(default_factory=dict)


Forge = Callable[[Path, random.Random], Forged]
_EITHER = Forged()


def _hook(key: str) -> Forge:
    """A .git whose configuration names a program, above the folder and in it."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        evil = Path("evil.sh").absolute()
        evil.write_text(f"#!/bin/sh\necho x >> {CANARY.absolute()}/pwned\n")
        evil.chmod(0o755)
        for place in (Path(), folder):
            git = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@example.org"]
            subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True, capture_output=True)
            (place / "tracked.txt").write_text("x")
            subprocess.run([*git, "add", "tracked.txt"], check=True, capture_output=True)
            with open(place / ".git" / "config", "a", encoding="utf-8") as file:
                file.write(key.replace("EVIL", str(evil)))
            (place / ".gitattributes").write_text("* filter=evil diff=evil\n")
            (place / "tracked.txt").write_text("changed")
        return _EITHER

    return forge


def _link(name: str, target: str) -> Forge:
    """A name in the folder leads outside."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.symlink_to(os.path.abspath(CANARY / target) if target[:1] != "/" else target)
        return _EITHER

    return forge


def _predicted(folder: Path, luck: random.Random) -> Forged:
    """The temporary names of the next processes lead outside."""
    now = os.getpid()
    for pid in range(now - 2, now + 60):
        for name in ("table.md", "summary.csv", "run.json", "done.jsonl"):
            (folder / f".{name}.{pid}.part").symlink_to((CANARY / "notes.txt").absolute())
    return _EITHER


def _replaced(name: str, how: str) -> Forge:
    """A file becomes a folder, a FIFO, a link to itself, or something endless."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        path = _one(folder, name)
        path.unlink(missing_ok=True) if not path.is_dir() else shutil.rmtree(path)
        if how == "folder":
            path.mkdir()
            (path / "inside.txt").write_text("x")
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "loop":
            path.symlink_to(path.name)
        elif how == "endless":
            path.symlink_to("/dev/zero")
        elif how == "sparse":
            with open(path, "wb") as file:
                file.truncate(200 * 2**30)
        elif how == "empty":
            path.write_bytes(b"")
        elif how == "deep":
            path.write_text(json.dumps(nasty.deep(900)) if name.endswith("json") else "[" * 50_000)
        return Forged(noticed=not name.startswith("SHA"))

    return forge


def _config(old: str, new: str, same: bool = True, expect: str = REFUSE) -> Forge:
    """config.yaml is edited."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        path = folder / "config.yaml"
        text = path.read_text()
        assert old in text, old
        path.write_text(text.replace(old, new))
        return Forged({"all": expect, "verify": EITHER}, same, noticed=True)

    return forge


def _manifest(change: Callable[[Any, random.Random], object], *, sealed: bool = False) -> Forge:
    """run.json is edited; ``sealed``: the checksum of it in done.jsonl too."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        path = folder / "run.json"
        content = json.loads(path.read_text())
        change(content, luck)
        path.write_text(json.dumps(content))
        if sealed:
            seal = {"run.json": hashlib.sha256(path.read_bytes()).hexdigest()}
            _rewrite(folder, lambda line: line.update(seal) if "run" in line else None)
        # Whoever makes the checksum too can claim what he likes.
        return Forged(same=not sealed, noticed=not sealed)

    return forge


def _spoilt_line(folder: Path, luck: random.Random) -> Forged:
    """A line of done.jsonl is edited."""
    path = folder / "done.jsonl"
    texts = path.read_text().splitlines()
    number = luck.randrange(len(texts))
    content = json.loads(texts[number])
    nasty.spoil(content, luck)
    texts[number] = json.dumps(content)
    path.write_text("\n".join(texts) + "\n")
    return Forged(noticed=True)


def _rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    from fedwave.experiments.store.done import read_done, write_done

    done = read_done(folder)
    lines = [dict(line) for line in (done.header, *done.units.values())]
    for line in lines:
        change(line)
    write_done(folder, lines[0], lines[1:])


def _swapped(kind: str) -> Forge:
    """Two units' tables change places, also with lines that fit; or a checkpoint is given to other units."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        if kind == "checkpoints":
            for found in list((folder / "checkpoints").glob("*")):
                for other in ("balsa_1-1", "max-weight_0-0", "max-weight_1-1"):
                    shutil.copy(found, found.with_name(found.name.replace("balsa_0-0", other)))
            return _EITHER
        names = sorted(path.name for path in (folder / "rounds").glob("*max-weight*"))[:2]
        if len(names) < 2:
            return _EITHER
        for place in ("rounds", "devices"):
            one, other_ = (folder / place / name for name in names)
            kept = one.read_bytes()
            one.write_bytes(other_.read_bytes())
            other_.write_bytes(kept)
        if kind == "lines":
            _rewrite(folder, lambda line: _fit(folder, line))
        return Forged(noticed=True)

    return forge


def _fit(folder: Path, line: dict[str, Any]) -> None:
    for name in line.get("sha256", {}):
        content = (folder / name).read_bytes()
        line["sha256"][name], line["bytes"][name] = hashlib.sha256(content).hexdigest(), len(content)


def _others(*names: str) -> Forge:
    """Files of somebody else in the folder."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        kept = {}
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"mine: {name}")
            kept[name] = path.read_bytes()
        return Forged({"all": EITHER}, kept=kept)

    return forge


def _not_ours(folder: Path, luck: random.Random) -> Forged:
    """Not a run folder at all, but with files of the names that fedwave writes."""
    shutil.rmtree(folder)
    folder.mkdir()
    kept = {}
    for name in ("table.md", "summary.csv", "SHA256SUMS", "score.png", "rounds.csv"):
        (folder / name).write_text("mine")
        kept[name] = b"mine"
    return Forged({"all": REFUSE}, same=False, kept=kept)


def _nothing(folder: Path, luck: random.Random) -> Forged:
    """An honest folder, which must be accepted: a judge before whom nobody can win is none."""
    return Forged({"all": ACCEPT})


def _nested(folder: Path, luck: random.Random) -> Forged:
    """A run folder of somebody else in the run folder, at work."""
    inner = folder / "inner"
    shutil.copytree(folder, inner)
    kept = {}
    for name in ("inner/.table.md.4711.part", "inner/rounds/.x.parquet.12.part", "inner/table.md"):
        (folder / name).write_text("at work")
        kept[name] = b"at work"
    return Forged({"all": EITHER}, kept=kept)


def _named(text: str) -> Forge:
    """Names that terminals and drawings obey, in config.yaml and the device table."""

    def forge(folder: Path, luck: random.Random) -> Forged:
        path = folder / "config.yaml"
        path.write_text(path.read_text().replace("name: devices", f"name: {json.dumps(text)}"))
        (folder / (text.replace("/", "_")[:80] or "x")).write_text("a strange name")
        return Forged({"all": EITHER}, same=False, draw=True)

    return forge


def _one(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.glob(pattern))), folder / pattern)


WRITING = ("resume", "run")
# Forgeries that matter to some commands only, and the state of the folder in which they do.
ONLY: dict[str, tuple[tuple[str, ...], str]] = {
    "core.fsmonitor runs a program": (WRITING, "stopped"),
    "rounds is a link to a folder outside": (WRITING, "stopped"),
    "checkpoints is a link to a folder outside": (WRITING, "stopped"),
    "temporary names are links to a file outside": (("resume", "report"), "finished"),
    "a checkpoint given to other units": (WRITING, "stopped"),
    "not a run folder, with our names": (("run",), "finished"),
}


def _set(*path: Any, to: Any) -> Callable[[Any, random.Random], None]:
    def change(content: Any, luck: random.Random) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = to

    return change


_COPY_OUTSIDE = _set("inputs", "inputs/devices.csv", "copy", to="../../canary/notes.txt")
_NAME_OUTSIDE = _set("units", 0, "name", to="../../canary/notes")
FORGERIES: list[tuple[str, Forge]] = [
    ("core.fsmonitor runs a program", _hook("[core]\n\tfsmonitor = EVIL\n")),
    ("rounds is a link to a folder outside", _link("rounds", "rounds")),
    ("checkpoints is a link to a folder outside", _link("checkpoints", "rounds")),
    ("inputs is a link to a folder outside", _link("inputs", "")),
    (".lock is a link to a file outside", _link(".lock", "notes.txt")),
    ("table.md is a link to a file outside", _link("table.md", "table.md")),
    ("SHA256SUMS is a link to a file outside", _link("SHA256SUMS", "SHA256SUMS")),
    ("config.yaml is a link to a file outside", _link("config.yaml", "notes.txt")),
    ("run.json is a link to a file outside", _link("run.json", "notes.txt")),
    ("done.jsonl is a link to a file outside", _link("done.jsonl", "notes.txt")),
    ("score.png is a link to /dev/full", _link("score.png", "/dev/full")),
    ("temporary names are links to a file outside", _predicted),
    ("seed edited", _config("seed: 0", "seed: 1")),
    ("rounds edited", _config("rounds: 5", "rounds: 6")),
    ("burn_in edited", _config("burn_in: 0", "burn_in: 3")),
    ("schedulers edited", _config("[max-weight, ", "[age, ")),
    ("a huge number of rounds", _config("rounds: 5", "rounds: 1000000000000")),
    ("an import of /tmp", _config("imports: []", "imports: [../evil.py]")),
    ("a device table outside", _config("file: inputs/devices.csv", "file: ../../canary/notes.txt")),
    ("a merge-key bomb as config.yaml", _replaced("config.yaml", "deep")),
    ("run.json is deep", _replaced("run.json", "deep")),
    ("run.json: another point", _manifest(_set("points", to=[{"network.gamma": 3}]))),
    ("run.json: a unit's name leads outside, sealed", _manifest(_NAME_OUTSIDE, sealed=True)),
    ("run.json: a unit's name is a path, sealed", _manifest(_set("units", 0, "name", to="/etc/passwd"), sealed=True)),
    ("run.json: a copy outside, sealed", _manifest(_COPY_OUTSIDE, sealed=True)),
    ("run.json spoilt", _manifest(nasty.spoil)),
    ("done.jsonl spoilt", _spoilt_line),
    ("tables of two units swapped", _swapped("tables")),
    ("tables and lines of two units swapped", _swapped("lines")),
    ("a checkpoint given to other units", _swapped("checkpoints")),
    ("config.yaml is a folder", _replaced("config.yaml", "folder")),
    ("run.json is a FIFO", _replaced("run.json", "fifo")),
    ("config.yaml is a FIFO", _replaced("config.yaml", "fifo")),
    ("done.jsonl is a FIFO", _replaced("done.jsonl", "fifo")),
    ("done.jsonl is a folder", _replaced("done.jsonl", "folder")),
    ("a table is a folder", _replaced("rounds/*.parquet", "folder")),
    ("a table is a FIFO", _replaced("rounds/*.parquet", "fifo")),
    ("a table is a link to itself", _replaced("rounds/*.parquet", "loop")),
    ("a table is endless", _replaced("rounds/*.parquet", "endless")),
    ("run.json is endless", _replaced("run.json", "endless")),
    ("a table is sparse, 200 GiB", _replaced("rounds/*.parquet", "sparse")),
    ("done.jsonl is sparse, 200 GiB", _replaced("done.jsonl", "sparse")),
    ("table.md is a folder", _replaced("table.md", "folder")),
    ("SHA256SUMS is a FIFO", _replaced("SHA256SUMS", "fifo")),
    ("the copy of the device table is a FIFO", _replaced("inputs/devices.csv", "fifo")),
    ("files of others beside ours", _others("notes.md", ".mine.part", "rounds/.x.part", "sub/.table.md.1.part")),
    ("temporary files of others", _others(".vim.swp.part", ".config.yaml.99999.part", "rounds/.a.1.part")),
    ("not a run folder, with our names", _not_ours),
    ("a run folder within", _nested),
    ("markup as a name", _named("[/] [bold]x[/bold] [link=https://a.example]y")),
    ("mathtext as a name", _named("$\\frac{a}{ $x_{$")),
    ("control characters as a name", _named("a\x1b[31m\x07\u202eb")),
    ("a name of 300 letters", _named("n" * 300)),
    ("nothing", _nothing),
]

__all__ = ["FORGERIES", "ONLY", "Forged"]
