"""Names are data: on the terminal, in tables and in figures they are shown as they are, and steer nothing."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from fedwave.cli.progress import rounds_bar, run_bar, steps
from fedwave.cli.terminal import print_error
from fedwave.plain_text import is_unseen

MARKUP = [
    "[/]",
    "[bold red]x",
    "[link=http://evil.example]here[/link]",
    ":smile:",
    "$x_$",
    r"\frac{1}$",
    "a|b`c`",
    "<b>&lt;",
    "=1+1",
    "_x_",
]
STEERING = "a\x1b[2J\x1b]0;title\x07\u202eb\u2066c\u200f\u061c\x9bd\r\ne"
SEEN = r"a\x1b[2J\x1b]0;title\x07\u202eb\u2066c\u200f\u061c\x9bd\r\ne"
COUNTS = {"finished": 0, "units": 1, "rounds": 1, "of": 2}  # in every event
SMALL = ("rounds=4", "instances=2", "network.slots=2")
PARTS = """
import fedwave as fw
@fw.register
class Own(fw.Scheduler):
    name, needs = {name!r}, frozenset()
    def priority(self, state, seen, draws):
        return seen.delay
@fw.register
class Label(fw.Metric):
    name, label = "own", {label!r}
    def measure(self, state, played):
        return state, played.score
"""


def steers(text: str) -> bool:
    return any(is_unseen(character) and character != "\n" for character in text)


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    path = tmp_path / "[bold]$d_$ 😀.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["name", "rate", "distance_m"], *([n, 1, 100] for n in MARKUP)])
    return path


@pytest.mark.parametrize("name", ["[/]", "[link]$x_$|`<b>_y_😀"])
def test_a_whole_run_with_hostile_names(fedwave, tmp_path: Path, devices: Path, name: str) -> None:
    parts = tmp_path / "[red]parts.py"
    parts.write_text(PARTS.format(name=name, label=f"$\\frac{STEERING}"), encoding="utf-8")
    words = ["run", devices, *SMALL, "--import", parts, "metrics=[own]", "metric=own"]
    words.append("name=" + json.dumps(f"[/] {name}", ensure_ascii=False))
    out = tmp_path / "out [/] \x1b[2J"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        status, text, err = fedwave(*words, "-s", f"age,{name}", "-o", out)
    assert (status, err, warned) == (0, "", [])
    assert not steers(text)
    assert f"[/] {name}: U = 10" in text
    assert f"\n{name} " in text
    assert r"out [/] \x1b[2J: " in text
    for file in ("table.md", "table.tex", "devices.svg", "metrics.svg", "config.yaml"):
        assert not steers((out / file).read_text(encoding="utf-8")), file
    found = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert set(found["schedulers"]) == {"age", name}
    with (out / "devices.csv").open(encoding="utf-8", newline="") as file:
        assert [row["device"] for row in csv.DictReader(file)] == MARKUP * 2
    assert fedwave("verify", out)[0] == 0
    assert fedwave("report", out)[0] == 0


def test_what_a_user_s_code_says_cannot_steer_the_terminal(fedwave, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(f"raise ValueError({STEERING!r})")
    status, text, err = fedwave("compare", "--import", broken)
    assert (status, text) == (2, "")
    assert err.count("\n") == 1
    assert not steers(err)
    assert r"a\x1b[2J" in err


@pytest.mark.parametrize(
    "words",
    [
        ("compare", STEERING),
        ("run", f"{STEERING}.yaml"),
        ("compare", "-s", STEERING),
        ("compare", "--import", f"{STEERING}.py"),
        ("compare", f"{STEERING}=1"),
        ("verify", STEERING),
        ("describe", f"{STEERING}.npz"),
        ("list", STEERING),
        (f"--{STEERING}",),
        (STEERING,),
        ("compare", "--rounds", STEERING),
        ("compare", "caf\udce9"),
    ],
)
def test_a_refusal_is_one_line_that_steers_nothing(refuses, words, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert not steers(refuses(words))


def test_progress_shows_names_as_they_are(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "300")
    with run_bar(f"[bold]{STEERING}") as watch:
        watch(COUNTS | {"event": "unit-warning", "unit": f"[/]{STEERING}", "message": f":smile: {STEERING}"})
    with rounds_bar(f"[/]{STEERING}", 3) as played:
        played(1)
    with steps() as message:
        message(f"[/]{STEERING}")
    err = capsys.readouterr().err
    for shown in (f"[bold]{SEEN}", f"unit [/]{SEEN}: :smile: {SEEN}", f"[/]{SEEN}"):
        assert shown in err
    for hidden in ("\x1b[2J", "\x1b]0;", "\x07", "\u202e", "\u2066", "\u200f", "\u061c", "\x9b"):
        assert hidden not in err


def test_lines_instead_of_a_bar_are_plain_too(capsys) -> None:
    with run_bar(STEERING, lines=True) as watch:
        watch(COUNTS | {"event": "started"})
    with rounds_bar(STEERING, 1, lines=True) as played:
        played(1)
    print_error(STEERING)
    assert capsys.readouterr().err == (f"{SEEN}: 0 of 1 units finished\n{SEEN}: round 1 of 1\nfedwave: {SEEN}\n")


@pytest.mark.usefixtures("no_figures")
def test_an_emoji_is_a_name_like_others(fedwave, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    family = "👨\u200d👩\u200d👧"
    np.save("😀.npy", np.ones((4, 25)))
    words = ["compare", "network.fading=recorded:path=😀.npy", "-r", "4", "-i", "2", "-s", "age,w-max"]
    assert fedwave(*words, "-o", family)[::2] == (0, "")
    Path(f"{family}.yaml").write_text(f"rounds: 4\ninstances: 2\nschedulers: [age]\nname: {family}\n")
    assert fedwave("run", f"{family}.yaml")[::2] == (0, "")
    assert fedwave("verify", f"out/{family}")[0] == 0


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    ("name", "folder"),
    [("../../up", "up"), (".hidden", "hidden"), ("a\\b:c*?", "a-b-c"), ("..", "experiment"), ("a.txt", "a.txt")],
)
def test_the_folder_of_an_experiment_stays_in_out(fedwave, tmp_path, monkeypatch, name, folder) -> None:
    monkeypatch.chdir(tmp_path)
    assert fedwave("run", "paper", f"name={json.dumps(name)}", *SMALL, "schedulers=[age]")[0] == 0
    assert [path.name for path in Path("out").iterdir()] == [folder]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_names_that_no_file_can_have_are_refused_before_the_run(refuses, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    deep = "/".join(["d" * 200] * 19 + ["e" * 170])  # a path that exists, and whose files could not
    for words in (
        ("run", "paper", f"name={'x' * 300}", *SMALL),
        ("run", "paper", *SMALL, "-o", "x" * 256),
        ("run", "paper", *SMALL, "-o", deep),
        ("compare", *SMALL, "-o", "/".join(["d" * 200] * 21)),
    ):
        assert "too long" in refuses(words)
    assert not list(tmp_path.rglob("*.parquet"))
