"""Bad input on the command line: one sentence on standard error, exit status 2, no traceback, nothing written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from killing import command
from refusals import mentions
from small_run import WORDS
from user_file import forgotten

TRAIN = ("train", "random", "network.devices=4", "--slots", 2, "-r", 1, "-i", 1, "-s", "w-max", "-t")
# One of each kind; the fields of an experiment have their own table in tests/experiments/config.
REFUSALS = {
    # The experiment, and fields of it.
    ("compare", "papr"): ("papr", "paper"),
    ("run", "none.yaml"): ("none.yaml", "No such file"),
    ("compare", "none.csv"): ("none.csv", "No such file"),
    ("compare", "none.txt"): ("experiment", "none.txt"),
    ("compare", "paper", "quick"): ("quick", "paper"),
    ("compare", "quick", "rounds"): ("rounds", "quick"),
    ("compare", "=3"): ("'=3'", "field=value"),
    ("compare", "round=3"): ("field", "'round'", "'rounds'"),
    ("compare", "rounds=[3"): ("'rounds'", "YAML"),
    ("compare", "network.fading=recorded:path=none.npy"): ("none.npy", "No such file"),
    ("compare", "quick", "metric=loss"): ("metric", "loss"),
    ("compare", "sweep.network.slots=[2,3]"): ("network.slots", "`fedwave run`"),
    ("run", "sweep.schedulers=[[age],[w-max]]", "-o", "."): ("sweep.schedulers",),
    # Options.
    ("compare", "-s", "balsa:stage_rul=max1"): ("stage_rul", "stage_rule"),
    ("compare", "-s", "alpha-fresh:alpha"): ("'alpha'", "key=value"),
    ("compare", "-s", ","): ("schedulers", "empty"),
    ("compare", "--slots", 26): ("slots", 26, 25),
    ("compare", "--rounds", "many"): ("--rounds", "'many'"),
    ("compare", "--seed", -1): ("seed", -1),
    ("compare", "--workers", 0): ("workers", 0),
    ("compare", "--import", "none.py"): ("none.py", "No such file"),
    ("config", "--import", "no_such_module"): ("no_such_module",),
    ("run", "paper", "--timeout", 0): ("timeout", "0.0"),
    ("run", "paper", "--out", ""): ("path is empty",),
    ("run", "--events", "none/e"): ("none/e", "No such file"),
    ("compare", "--slot", "3", "--bogus"): ("option", "--slot"),
    # Commands.
    ("simulate",): ("command", "simulate"),
    ("resume", "nowhere"): ("nowhere",),
    ("resume", "."): ("run.json",),
    ("resume",): ("DIR",),
    ("verify", ".", "nowhere"): ("nowhere",),
    ("report", "nowhere"): ("nowhere",),
    ("reproduce", "scores"): ("scores", "score"),
    ("reproduce", "score", "quick"): ("quick", "paper-score"),
    ("reproduce", "theory", "--from", "old"): ("--from", "theory"),
    # Tasks.
    (*TRAIN, "sinthetic"): ("task.dataset", "sinthetic", "synthetic"),
    (*TRAIN, "synthetic", "training.device=cuda"): ("device", "cuda"),
    ("train", "paper-score"): ("paper-score", "task"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", REFUSALS, ids=lambda words: " ".join(map(str, words)))
def test_one_sentence_and_status_2(refuses, words: tuple[object, ...], here: Path, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refuses(words, *REFUSALS[words])
    assert [path for path in here.rglob("*") if path.is_file()] == []


def test_a_word_of_any_length_gives_a_short_sentence(refuses) -> None:
    assert len(refuses(("x" * 5000,))) < 300


def test_a_file_is_named_for_what_it_has_wrong(here: Path, refuses) -> None:
    (here / "e.yaml").write_text("rounds: five")
    refuses(("run", "e.yaml", "--out", "run"), "e.yaml", "rounds", "'five'")
    (here / "e.yaml").write_text("rounds: 5")
    assert "e.yaml" not in refuses(("run", "e.yaml", "rounds=x"), "rounds", "'x'")


def test_a_metric_named_like_an_axis_is_refused_before_the_run(here: Path, refuses) -> None:
    (here / "mine.py").write_text(
        "import fedwave as fw\n\n@fw.register\nclass Mine(fw.Metric):\n    name = 'seed'\n\n"
        "    def measure(self, *seen, **more):\n        return 0.0\n"
    )
    words = ("--import", "mine.py", "metrics=[seed]", "sweep.seed=[1,2]")
    with forgotten():
        refuses((*WORDS, *words, "--out", "run"), "'seed'", "sweep.seed")
    assert not (here / "run").exists()


def test_a_place_that_cannot_be_written_is_found_before_the_run(refuses, here: Path) -> None:
    (here / "file").write_text("mine")
    long = ("--rounds", 10**9)
    for words in (
        ("reproduce", "score", f"rounds={10**9}", "--out", "file"),
        ("compare", *long, "--out", "file"),
        ("run", "sweep.seed=[1]", *long, "--out", "file/deeper"),
        ("train", *long, "-t", "synthetic", "--out", "file"),
        ("run", "sweep.seed=[1]", *long, "-o", "new", "--events", "file/e"),
    ):
        refuses(words, "file", "written")
    assert (here / "file").read_text() == "mine"


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("events", ["config.yaml", "table.md", ".lock"])
def test_events_do_not_go_into_files_of_the_run(events: str, here: Path, small_run: Path, refuses) -> None:
    before = {path: path.read_bytes() for path in small_run.rglob("*") if path.is_file()}
    refuses((*WORDS, "--out", "run", "--events", f"run/{events}"), f"run/{events}")
    assert {path: path.read_bytes() for path in small_run.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("no_figures")
def test_nothing_is_written_into_the_own_folders_of_a_run(here: Path, small_run: Path, refuses, fedwave) -> None:
    refuses(("report", "run", "--out", "run/rounds"), "run/rounds")
    refuses((*WORDS, "--out", "run/rounds/inner"), "run/rounds/inner")
    assert fedwave(*WORDS, "--out", "run/another")[0] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_under_standard_output_leaves_the_results(here: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*map(str, WORDS), "--out", "run"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert mentions(done.stderr, "standard output", "stored", "run"), done.stderr
    assert (here / "run/SHA256SUMS").exists()
