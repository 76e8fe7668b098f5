"""fw.run: takes what the command takes, writes what it writes, and needs a guard only where it says so."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killing import command
from refusals import mentions, refused

import fedwave as fw

SMALL = ["rounds=4", "instances=2", "schedulers=[age, random]"]
TRAINED = [*SMALL, "task.dataset=synthetic", "task.model=logistic", "training.test_images=50"]


def ran(folder: Path, words: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=240, **more)  # type: ignore[call-overload, no-any-return]


def contents(folder: Path) -> dict[str, str]:
    """Every file and its sum; of those that hold times and the process, the name only."""
    timed = ("done.jsonl",)
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file():
            content = b"" if name.startswith(timed) else path.read_bytes()
            found[name] = hashlib.sha256(content).hexdigest()
    return found


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("paper", SMALL),
        ("paper-score", SMALL),
        ("devices.csv", [*SMALL, "sweep.network.slots=[1,2]"]),
        pytest.param("random", TRAINED, marks=pytest.mark.slow),
    ],
)
def test_it_writes_what_the_command_writes(
    source: str, fields: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("devices.csv").write_text("rate,distance_m\n1,100\n5,300\n2,200\n")
    fw.run(source, "python", overrides=fields, workers=1)
    done = ran(tmp_path, command("run", source, *fields, "--out", "command", "--workers", "1"))
    assert done.returncode == 0, done.stderr
    assert contents(Path("python")) == contents(Path("command"))


@pytest.mark.usefixtures("no_figures")
def test_progress_is_shown_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fw.run("paper", tmp_path / "quiet", overrides=SMALL)
    assert capsys.readouterr() == ("", "")
    fw.run("paper", tmp_path / "shown", overrides=SMALL, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert [mentions(line, "paper", f"{k} of 2") for k, line in enumerate(err.splitlines())] == [True] * 3


@pytest.mark.usefixtures("no_figures")
def test_it_takes_one_text_paths_and_numpy_numbers(tmp_path: Path) -> None:
    parts = tmp_path / "parts.py"
    parts.write_text("import fedwave as fw\n")
    table = tmp_path / "devices.csv"
    table.write_text("rate,distance_m\n1,100\n5,300\n")
    network = {"kind": "table", "file": table, "slots": np.int64(1), "gamma": np.float64(0.5)}
    asked = {"network": network, "schedulers": ["age"], "instances": np.int32(2)}
    for number, imports in enumerate((parts, str(parts), [parts])):
        found = fw.run(asked, tmp_path / str(number), overrides="rounds=3", imports=imports)
        assert found.score.shape == (1, 2, 3)


def test_what_it_cannot_take_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong: list[tuple[tuple[Any, ...], dict[str, Any], tuple[object, ...]]] = [
        (("paper", ""), {}, ("folder", "''")),
        ((None, "x"), {}, ("experiment", "None")),
        (("paper", "x"), {"imports": [3]}, ("imports", 3)),
        (("paper", "x"), {"overrides": 3}, ("overrides", 3)),
    ]
    for words, more, tokens in wrong:
        with refused(*tokens):
            fw.run(*words, **more)
    assert not list(tmp_path.iterdir())


def script(guard: str) -> str:
    return f'import fedwave as fw\nprint("imported")\n{guard}fw.run("random", "out", overrides={TRAINED}, workers=2)\n'


def test_a_script_without_its_guard_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script(""))
    done = ran(tmp_path, [sys.executable, "script.py"])
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert mentions(last, tmp_path / "script.py", '`if __name__ == "__main__":`', "workers=1")
    assert done.stderr.count("Traceback") == 1
    assert "RuntimeError" not in done.stderr
    assert done.stdout.count("imported") <= 3  # here and in two workers: no more are started


def test_a_script_with_its_guard_runs(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script('if __name__ == "__main__":\n    '))
    done = ran(tmp_path, [sys.executable, "script.py"])
    assert (done.returncode, done.stderr) == (0, "")
    assert fw.load(tmp_path / "out").accuracy.shape == (2, 2, 4)


def test_a_program_on_standard_input_is_refused(tmp_path: Path) -> None:
    done = ran(tmp_path, [sys.executable, "-"], input=script(""))
    assert mentions(done.stderr.splitlines()[-1], "<stdin>", "workers=1")
