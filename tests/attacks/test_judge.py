"""The judge of the attacks, the canary and the driver: what they must notice, and what they must let pass."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from . import canary, commands, driver
from .attack import Attack, Verdict, worst
from .judge import ACCEPT, EITHER, REFUSE, judge, judge_call
from .shell import Answer

from fedwave.errors import FedwaveError  # isort: skip

ANSWERS = [
    (Answer(2, "", "fedwave: rounds is 0, must be 1.\n"), EITHER, "refused"),
    (Answer(2, "", "fedwave: rounds is 0, must be 1.\n"), ACCEPT, "fussy"),
    (Answer(2, "", "fedwave: one\ntwo\n"), EITHER, "ugly"),
    (Answer(2, "", "fedwave: unit 3 is damaged.\nfedwave: a.csv cannot be read.\n"), EITHER, "refused"),
    (Answer(2, "", f"fedwave: {'a' * 600}\n"), EITHER, "ugly"),
    (Answer(2, "", "fedwave: a \x1b[31m.\n"), EITHER, "ugly"),
    (Answer(2, "", ""), EITHER, "ugly"),
    (Answer(0, "a table\n", ""), EITHER, "right"),
    (Answer(0, "a table\n", ""), REFUSE, "silent"),
    (Answer(0, "a \u202e table\n", ""), EITHER, "ugly"),
    (Answer(1, "", "Traceback (most recent call last):\nKeyError: 3\n"), EITHER, "traceback"),
    (Answer(1, "", "Traceback (most recent call last):\nMemoryError\n"), EITHER, "killed"),
    (Answer(1, "", "out is not sound"), EITHER, "ugly"),
    (Answer(-9, "", ""), EITHER, "killed"),
    (Answer(None, "", ""), EITHER, "hang"),
]


@pytest.mark.parametrize("answer, expect, outcome", ANSWERS)
def test_a_command_is_judged(answer: Answer, expect: str, outcome: str) -> None:
    assert judge(answer, expect).outcome == outcome


def test_an_accepted_result_must_be_proven() -> None:
    assert judge(Answer(0, "", ""), proof=lambda: "another number") == ("silent", "another number")
    assert judge(Answer(1, "", ""), fine=(0, 1)).outcome == "right"


def test_a_call_is_judged() -> None:
    def refuses() -> None:
        raise FedwaveError("seed is -1, must be 0 or more.")

    def fails() -> None:
        raise KeyError("seed")

    assert judge_call(refuses).outcome == "refused"
    assert judge_call(refuses, ACCEPT).outcome == "fussy"
    assert judge_call(fails).outcome == "traceback"
    assert judge_call(int, REFUSE).outcome == "silent"
    assert judge_call(int, proof=lambda value: "" if value == 0 else "no").outcome == "right"


def test_the_worst_outcome_counts() -> None:
    assert worst(Verdict("right"), Verdict("silent"), Verdict("refused")).outcome == "silent"
    assert worst(Verdict("silent"), Verdict("outside")).outcome == "outside"


def _rewrite(folder: Path) -> None:
    path = folder / "notes.txt"
    about = path.stat()
    path.write_text(path.read_text().replace("n", "N"))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.parametrize(
    "touch, told",
    [
        (lambda folder: (folder / "table.md").unlink(), "table.md was removed"),
        (lambda folder: (folder / "rounds/new").write_text(""), "rounds/new was written"),
        (_rewrite, "notes.txt was changed"),
        (lambda folder: (folder / "notes.txt").touch(), "notes.txt was changed"),
        (lambda folder: (folder / "link").symlink_to("elsewhere"), "link was written"),
    ],
)
def test_the_canary_sees_every_change(touch: Callable[[Path], None], told: str, tmp_path: Path) -> None:
    canary.plant(tmp_path)
    before = canary.state_of(tmp_path)
    assert canary.changes(before, canary.state_of(tmp_path)) == []
    touch(tmp_path)
    assert canary.changes(before, canary.state_of(tmp_path)) == [told]
    assert "rounds/keep.parquet" not in canary.state_of(tmp_path, ["rounds"])


def _writes_outside() -> Verdict:
    Path("../canary/notes.txt").write_text("mine")
    return Verdict("right")


def _dies() -> Verdict:
    os.kill(os.getpid(), signal.SIGKILL)
    return Verdict("right")


def _eats() -> Verdict:
    return judge_call(lambda: len(bytearray(2 * driver.MEMORY)))


def _writes_where_it_may() -> Verdict:
    Path("out").write_text("x")
    return Verdict("right")


@pytest.mark.parametrize(
    "go, outcome", [(_writes_outside, "outside"), (_dies, "killed"), (_eats, "killed"), (_writes_where_it_may, "right")]
)
def test_the_driver_tells_what_happened(go: Callable[[], Verdict], outcome: str, tmp_path: Path) -> None:
    what, verdict = driver.one(lambda: Attack("test", go, draw=True), tmp_path / "place")
    assert (what, verdict.outcome) == ("test", outcome)


def test_an_attack_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LONGEST_S", 2.0)

    def sleeps() -> Verdict:
        time.sleep(60)
        return Verdict("right")

    assert driver.one(lambda: Attack("test", sleeps, draw=True), tmp_path / "place")[1].outcome == "hang"


def test_the_options_are_those_of_the_commands() -> None:
    """One that is added must be attacked too."""
    from typer.main import get_command

    from fedwave.cli.app import app

    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        if name in ("merge", "predict"):
            continue  # they have tests of their own: the numbers of these attacks keep their meaning
        with_value = {
            max(one.opts, key=len)
            for one in command.params
            if one.param_type_name == "option" and not one.is_flag and "--help" not in one.opts
        }
        known = " ".join(commands.OPTIONS.get(name, ())).split()
        # The first is in surroundings.py; the second would start a cluster.
        assert with_value - {"--timeout", "--ray"} == set(known), name
        assert name in commands.BASES


def test_an_attack_is_made_from_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [commands.make(7, random.Random("a"), tmp_path).what for _ in range(2)]
    assert made[0] == made[1]
