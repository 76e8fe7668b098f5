"""Refusals that name the value, the file and the place, before anything is written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from killing import command
from user_file import forgotten

pytestmark = pytest.mark.usefixtures("no_figures")
SMALL = ("run", "paper", "-s", "age", "-t", "3", "-i", "1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run_folder(here: Path, fedwave) -> Path:
    assert fedwave(*SMALL, "--out", "run")[0] == 0
    return here / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("roundz: 5", "experiment e.yaml: there is no field 'roundz'; did you mean 'rounds'?"),
        ("rounds: five", "experiment e.yaml: rounds is 'five', must be a whole number."),
        ("rounds: 1.0e+9", "without a point or exponent: write 1000000000."),
        ("network: {kind: random, rate: -1}", "experiment e.yaml: network.rate is -1.0"),
    ],
)
def test_what_a_file_has_wrong_is_told_with_its_name(text: str, said: str, here: Path, fedwave) -> None:
    (here / "e.yaml").write_text(text)
    status, _, err = fedwave("run", "e.yaml", "--out", "run")
    assert status == 2
    assert said in err


def test_what_a_word_has_wrong_is_not_the_fault_of_the_file(here: Path, fedwave) -> None:
    (here / "e.yaml").write_text("rounds: 5")
    assert fedwave("run", "e.yaml", "rounds=x")[2] == ("fedwave: rounds is 'x', must be a whole number.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "paper", "--timeout", "abc"), "'abc'."),
        (("run", "paper", "--rounds", "many"), "'many'."),
        (("run", "paper", "--slots", "1"), "write network.slots=VALUE."),
        (("verify", "nothere"), "nothere does not exist."),
        (("verify", "e.yaml"), "e.yaml is a file, not a run folder."),
    ],
)
def test_the_value_and_the_way_out_are_told(words: tuple[str, ...], said: str, here: Path, fedwave) -> None:
    (here / "e.yaml").write_text("rounds: 5")
    status, _, err = fedwave(*words)
    assert status == 2
    assert err.endswith(f"{said}\n")


def test_a_metric_named_like_an_axis_is_refused_before_the_run(here: Path, fedwave) -> None:
    (here / "mine.py").write_text(
        "import fedwave as fw\n\n@fw.register\nclass Mine(fw.Metric):\n    name = 'network_gamma'\n\n"
        "    def measure(self, *seen, **more):\n        return 0.0\n"
    )
    words = ("--import", "mine.py", "metrics=[network_gamma]", "sweep.network.gamma=[0.1,0.2]")
    with forgotten():
        status, _, err = fedwave(*SMALL, *words, "--out", "run")
    assert status == 2
    assert "metric 'network_gamma' has the name of the axis sweep.network.gamma" in err
    assert not (here / "run").exists()


@pytest.mark.parametrize("events", ["config.yaml", "table.md", "units/x", ".lock", "../run/plan.json"])
def test_events_do_not_go_into_files_of_the_run(events: str, run_folder: Path, fedwave) -> None:
    before = contents(run_folder)
    status, _, err = fedwave(*SMALL, "--out", "run", "--events", f"run/{events}")
    assert status == 2
    assert "is a file that fedwave itself writes into run: choose another place." in err
    assert contents(run_folder) == before
    assert fedwave(*SMALL, "--out", "run", "--events", "run/my-events")[0] == 0


def test_nothing_is_written_into_the_own_folders_of_a_run(run_folder: Path, fedwave) -> None:
    before = contents(run_folder)
    status, _, err = fedwave("report", "run", "--out", "run/units")
    assert (status, err.startswith("fedwave: run/units lies in units/ of the run folder ")) == (2, True)
    status, _, err = fedwave(*SMALL, "--out", "run/rounds/inner")
    assert (status, "run/rounds/inner lies in rounds/" in err) == (2, True)
    assert contents(run_folder) == before
    assert fedwave(*SMALL, "--out", "run/another")[0] == 0


def test_an_edited_name_is_shown_as_it_is(here: Path, fedwave) -> None:
    assert fedwave(*SMALL, "name=smile😀", "--out", "run")[0] == 0
    config = here / "run/config.yaml"
    config.write_text(config.read_text("utf-8").replace("😀", "😎"), "utf-8")
    assert 'its name is "smile😎", was "smile😀"' in fedwave("report", "run")[2]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_under_standard_output_leaves_the_results(here: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*SMALL, "--out", "run"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.endswith(" The results are stored in run.\n"), done.stderr
    assert (here / "run/SHA256SUMS").exists()
