"""Refusals that name the value, the file and the place, before anything is written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from killing import command
from refusals import mentions
from small_run import WORDS
from user_file import forgotten

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run_folder(here: Path, small_run: Path) -> Path:
    """The small run, as `run` in the current folder."""
    return small_run


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("roundz: 5", ("e.yaml", "roundz", "rounds")),
        ("rounds: five", ("e.yaml", "rounds", "'five'")),
        ("rounds: 1.0e+9", ("rounds", 1000000000)),
        ("network: {kind: random, rate: -1}", ("e.yaml", "network.rate", -1)),
    ],
)
def test_what_a_file_has_wrong_is_told_with_its_name(
    text: str, tokens: tuple[object, ...], here: Path, fedwave
) -> None:
    (here / "e.yaml").write_text(text)
    status, _, err = fedwave("run", "e.yaml", "--out", "run")
    assert status == 2
    assert mentions(err, *tokens)


def test_what_a_word_has_wrong_is_not_the_fault_of_the_file(here: Path, refuses) -> None:
    (here / "e.yaml").write_text("rounds: 5")
    assert "e.yaml" not in refuses(("run", "e.yaml", "rounds=x"), "rounds", "'x'")


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (("run", "paper", "--timeout", "abc"), ("--timeout", "'abc'")),
        (("run", "paper", "--rounds", "many"), ("--rounds", "'many'")),
        (("run", "paper", "--slots", "1"), ("--slots", "network.slots=VALUE")),
        (("verify", "nothere"), ("nothere",)),
        (("verify", "e.yaml"), ("e.yaml", "run folder")),
    ],
)
def test_the_value_and_the_way_out_are_told(
    words: tuple[str, ...], tokens: tuple[str, ...], here: Path, refuses
) -> None:
    (here / "e.yaml").write_text("rounds: 5")
    refuses(words, *tokens)


def test_a_metric_named_like_an_axis_is_refused_before_the_run(here: Path, fedwave) -> None:
    (here / "mine.py").write_text(
        "import fedwave as fw\n\n@fw.register\nclass Mine(fw.Metric):\n    name = 'network_gamma'\n\n"
        "    def measure(self, *seen, **more):\n        return 0.0\n"
    )
    words = ("--import", "mine.py", "metrics=[network_gamma]", "sweep.network.gamma=[0.1,0.2]")
    with forgotten():
        status, _, err = fedwave(*WORDS, *words, "--out", "run")
    assert status == 2
    assert mentions(err, "network_gamma", "sweep.network.gamma")
    assert not (here / "run").exists()


@pytest.mark.parametrize("events", ["config.yaml", "table.md", "units/x", ".lock", "../run/plan.json"])
def test_events_do_not_go_into_files_of_the_run(events: str, run_folder: Path, fedwave) -> None:
    before = contents(run_folder)
    status, _, err = fedwave(*WORDS, "--out", "run", "--events", f"run/{events}")
    assert status == 2
    assert mentions(err, f"run/{events}".replace("run/../", ""))
    assert contents(run_folder) == before
    assert fedwave(*WORDS, "--out", "run", "--events", "run/my-events")[0] == 0


def test_nothing_is_written_into_the_own_folders_of_a_run(run_folder: Path, fedwave) -> None:
    before = contents(run_folder)
    status, _, err = fedwave("report", "run", "--out", "run/units")
    assert (status, mentions(err, "run/units")) == (2, True)
    status, _, err = fedwave(*WORDS, "--out", "run/rounds/inner")
    assert (status, mentions(err, "run/rounds/inner")) == (2, True)
    assert contents(run_folder) == before
    assert fedwave(*WORDS, "--out", "run/another")[0] == 0


def test_an_edited_name_is_shown_as_it_is(here: Path, fedwave) -> None:
    assert fedwave(*WORDS, "name=smile😀", "--out", "run")[0] == 0
    config = here / "run/config.yaml"
    config.write_text(config.read_text("utf-8").replace("😀", "😎"), "utf-8")
    assert mentions(fedwave("report", "run")[2], "name", "smile😎", "smile😀")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_under_standard_output_leaves_the_results(here: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*map(str, WORDS), "--out", "run"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert mentions(done.stderr, "standard output", "stored", "run"), done.stderr
    assert (here / "run/SHA256SUMS").exists()
