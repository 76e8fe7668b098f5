"""Outputs that break, as real processes see them: one sentence or silence, a clear exit status, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from killing import started
from refusals import mentions

SMALL = ("-r", "4", "-i", "2", "-s", "age")
COMPARE = ("compare", *SMALL)
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")


def shell(line: str, folder: Path, **environment: str) -> tuple[int, str, str]:
    """Run a line of bash in which $F is the command: the status, standard output and standard error."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        capture_output=True,
        timeout=120,
        env={**os.environ, "F": f"{sys.executable} -m fedwave", **environment},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    line = "{ $F list presets --json; echo $? >&2; } | true; { $F --help; echo $? >&2; } | true"
    assert shell(line, tmp_path)[2] == "141\n141\n"


@needs_full
def test_a_full_output_is_named(tmp_path: Path) -> None:
    line = "$F compare -r 4 -i 2 -s age >/dev/full; echo $?; $F config >/dev/full; echo $?"
    sentence = "fedwave: standard output cannot be written to: No space left on device.\n"
    assert shell(line, tmp_path) == (0, "1\n1\n", 2 * sentence)


@needs_full
def test_a_full_standard_error_changes_no_exit_status(tmp_path: Path) -> None:
    line = "$F compare none 2>/dev/full; echo $?; $F compare -r 4 -i 2 --json -s age 2>/dev/full >x; echo $?"
    assert shell(line, tmp_path, FORCE_COLOR="1") == (0, "2\n0\n", "")  # with a progress bar
    assert json.loads((tmp_path / "x").read_text())["rounds"] == 4


def test_closed_streams_do_not_become_data_files(tmp_path: Path) -> None:
    run = "run paper rounds=4 instances=2 schedulers=[age] --workers 2 -o"
    line = f"$F {run} a <&- >&- 2>&-; echo $?; $F compare none >&- 2>&-; echo $?; $F verify a >&-; echo $?"
    assert shell(line, tmp_path) == (0, "0\n2\n0\n", "")


def test_a_terminal_that_knows_ascii_only(tmp_path: Path) -> None:
    (tmp_path / "é.csv").write_text("name,rate,distance_m\né😀,1,100\nb,1,200\n", encoding="utf-8")
    line = "$F compare é.csv --slots 1 -r 4 -i 2 -s age && $F compare none-é; $F config name=é && $F --help"
    status, text, err = shell(line, tmp_path, PYTHONIOENCODING="ascii:strict", PYTHONUTF8="1")
    assert status == 0, err
    assert text.isascii()
    assert err.isascii()
    assert "+-" in text
    assert "gamma = 0.01" in text
    assert r"\xe9\U0001f600" in text
    assert r'name: "\xE9"' in text
    assert mentions(err, "experiment", r"none-\xe9")


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"TERM": "dumb", "COLUMNS": "1"},
        {"COLUMNS": "abc", "FORCE_COLOR": "1"},
    ],
)
def test_odd_terminals(tmp_path: Path, environment: dict[str, str]) -> None:
    line = "$F compare -r 4 -i 2 -s age,w-max && $F list schedulers && $F --help && $F compare -r 4 -i 2 -s age --json"
    status, text, err = shell(line, tmp_path, **environment)
    assert (status, err.count("Traceback")) == (0, 0)
    assert "backlog" in text


def test_files_whose_names_are_not_utf8(tmp_path: Path) -> None:
    text = "{name: x, rounds: 4, instances: 2, schedulers: [age]}"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.yaml")).write_text(text)
    line = "$F run $'caf\\xe9.yaml' -o $'out\\xe9' && $F verify $'out\\xe9' && $F report $'out\\xe9' --json"
    status, text, err = shell(line, tmp_path)
    assert (status, err) == (0, "")
    assert mentions(text, r"out\xe9", "sound")


def test_events_that_cannot_be_written_are_refused_or_given_up(refuses, fedwave, tmp_path: Path) -> None:
    words = ("run", "paper", *SMALL, "-o", tmp_path / "run", "--events")
    os.mkfifo(tmp_path / "pipe")
    for events, reason in ((tmp_path, "Is a directory"), (tmp_path / ("e" * 256), "too long"), (tmp_path / "pipe", "")):
        refuses((*words, events), events, reason)
    if Path("/dev/full").exists():
        status, text, err = fedwave(*words, "/dev/full")
        assert (status, "backlog" in text) == (0, True)
        assert mentions(err, "events", "No space left on device")
        assert err.count("\n") == 1


def test_ctrl_c_while_the_command_is_loaded(tmp_path: Path) -> None:
    """Loading takes most of a second: whenever it is interrupted, the end is one line."""
    words = [sys.executable, "-X", "importtime", "-m", "fedwave", "list"]
    for awaited in ("rich.console\n", "typer.main\n", "fedwave.cli.output\n"):
        with started(words) as begun:
            assert begun.stderr is not None
            for line in begun.stderr:  # a line per module that has been imported
                if line.endswith(" " + awaited):
                    break
            begun.send_signal(signal.SIGINT)
            rest = begun.stderr.read()
            status = begun.wait(60)
        if status == 0 and awaited == "fedwave.cli.output\n":
            continue  # it was faster
        said = [line for line in rest.splitlines() if not line.startswith("import time:")]
        assert (status, said) == (130, ["fedwave: stopped."]), (awaited, rest)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_command_exits(number: signal.Signals) -> None:
    """Libraries clean up at the exit: an exception there would be printed as a traceback."""
    slow = "import atexit, os, sys, time\natexit.register(lambda: (print('exits', flush=True), time.sleep(60)))\n"
    code = slow + "sys.argv = ['fedwave', '--version']\nfrom fedwave.cli import main\nmain()"
    with started([sys.executable, "-c", code]) as begun:
        assert begun.stdout is not None
        assert begun.stderr is not None
        assert any(line == "exits\n" for line in begun.stdout)
        begun.send_signal(number)
        assert (begun.stderr.read(), begun.wait(60)) == ("fedwave: stopped.\n", 128 + number)


def test_a_script_keeps_its_own_ctrl_c(tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text("import signal, fedwave\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
    text, err = started([sys.executable, str(script)]).communicate(timeout=60)
    assert text == "True\n", err


def test_warnings_are_plain_lines(fedwave, tmp_path: Path) -> None:
    parts = tmp_path / "parts.py"
    parts.write_text("import warnings\nwarnings.simplefilter('always')\nwarnings.warn('[/] a\\x1b[2J\\nb')\n")
    status, _, err = fedwave(*COMPARE, "--import", parts)
    assert status == 0
    assert mentions(err, r"[/] a\x1b[2J\nb", "UserWarning")
    assert err.count("\n") == 1
