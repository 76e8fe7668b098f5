"""`fedwave verify`, `report` and `resume` of a finished run: the folder is all that they need."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from refusals import mentions
from small_run import WORDS, cut
from user_file import forgotten, text

from fedwave.experiments.run import pool

SIZE = ("-r", 3, "-i", 1, "-o", "run")
LEARN = ("train", "mine.yaml", "-s", "heavy-test,age", "--import", "mine.py", "--workers", 1, *SIZE)
TASK = """
network: {kind: table, file: devices.csv, slots: 1}
task: {dataset: synthetic, model: logistic, epochs: 1}
training: {loss_images: 20, test_images: 20}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(text())
    Path("devices.csv").write_text("count,rate,distance_m\n3,2,200\n")
    Path("mine.yaml").write_text(TASK)
    with forgotten():
        yield


@pytest.mark.usefixtures("no_figures")
def test_a_finished_run_needs_nothing_but_its_folder(fedwave, monkeypatch: pytest.MonkeyPatch) -> None:
    status, told, err = fedwave(*LEARN, "--json")
    assert (status, err) == (0, "")
    sums = Path("run/SHA256SUMS").read_text()
    for name in ("mine.py", "devices.csv", "mine.yaml"):
        Path(name).unlink()
    Path("away").mkdir()
    Path("run").rename("away/moved")
    monkeypatch.setattr(pool, "run_unit", None)
    found = json.loads(told)["schedulers"]
    for words in (("resume", "away/moved"), ("report", "away/moved")):
        Path("away/moved/table.md").unlink()
        status, text_, err = fedwave(*words, "--json")
        assert (status, err) == (0, "")
        assert json.loads(text_)["schedulers"] == found
        assert Path("away/moved/SHA256SUMS").read_text() == sums
    status, _, err = fedwave("report", "away/moved", "--out", "again", "metric=accuracy")
    assert (status, err) == (0, "")
    for path in Path("again").iterdir():
        if path.name not in ("SHA256SUMS", ".lock"):
            assert path.read_bytes() == (Path("away/moved") / path.name).read_bytes(), path.name
    assert fedwave("verify", "away/moved")[0] == 0


@pytest.mark.usefixtures("no_figures")
def test_a_report_begins_with_the_metric_asked_for(fedwave, refuses, small_run: Path) -> None:
    assert fedwave("report", "run")[1].splitlines()[1].split()[:2] == ["scheduler", "backlog"]
    assert fedwave("report", "run", "--quiet") == (0, "", "")
    assert fedwave("report", "run", "metric=jain")[1].splitlines()[1].split()[1] == "Jain"
    refuses(("report", "run", "metric=jian"), "metric", "'jian'", "'jain'")
    refuses(("report", "run", "metrc=jain"), "'metrc'", "'metric'")
    refuses(("report", "run", "jain"), "'jain'", "key=value")


@pytest.mark.usefixtures("no_figures")
def test_a_report_against_another_scheduler_and_without_the_first_rounds(fedwave, refuses, small_run: Path) -> None:
    assert fedwave(*WORDS, "-o", "asked", "against=random", "burn_in=2")[0] == 0
    assert fedwave("report", "run", "against=random", "burn_in=2")[0] == 0
    assert Path("run/table.md").read_bytes() == Path("asked/table.md").read_bytes()
    assert fedwave("verify", "run")[0] == 0
    refuses(("report", "run", "against=agee"), "against", "'agee'", "'age'")
    refuses(("report", "run", "burn_in=-1"), "burn_in", "-1")


@pytest.mark.usefixtures("no_figures")
def test_a_report_of_learning_needs_no_torch(fedwave) -> None:
    assert fedwave(*LEARN)[0] == 0
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "sys.argv = ['fedwave', 'report', 'run']; from fedwave.cli import main; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.usefixtures("no_figures")
def test_the_list_and_the_exit_status(fedwave) -> None:
    small = ("-s", "age", "-r", 4, "-i", 2)
    for out, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert fedwave("run", "devices.csv", *small, "--seed", seed, "-o", out)[0] == 0
    status, told, err = fedwave("verify", "a")
    assert (status, err) == (0, "")
    listed = [line.split()[:2] for line in told.splitlines()]
    assert listed[:2] == [["ok", "experiment"], ["ok", "units"]]
    assert told.splitlines()[-1] == "a is sound."
    status, told, err = fedwave("verify", "a", "b")
    assert (status, err) == (0, "")
    assert mentions(told.splitlines()[-1], "same")
    status, told, err = fedwave("verify", "a", "c", "--json")
    assert (status, err) == (1, "")
    content = json.loads(told)
    assert content["same"] is False
    first = content["findings"][0]
    assert (first["about"], first["state"]) == ("experiment", "differs")
    assert mentions(first["text"], "seed", "0 in A", "1 in B")
    Path("a/summary.csv").write_text("1\n")
    status, told, err = fedwave("verify", "a")
    assert (status, err) == (1, "")
    assert mentions(told.splitlines()[-1], "NOT sound")
    assert "summary.csv: changed" in told


@pytest.mark.usefixtures("no_figures")
def test_an_unfinished_run_has_no_report(fedwave, refuses, small_run: Path) -> None:
    cut(small_run / "done.jsonl")
    refuses(("report", "run"), "1 of 2", "`fedwave resume run`")
    status, told, _ = fedwave("verify", "run")
    assert status == 1
    assert mentions(told, "1 of 2")
