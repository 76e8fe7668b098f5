"""A run with parts of the user's own: in workers, resumed, and read without them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from killing import command, results
from user_file import forgotten, text

import fedwave as fw
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.pool import run_here
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.sealed import read_sealed
from fedwave.parts.user_code import checksum


class Stop(Exception):
    pass


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten():
        yield


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(text())
    return tmp_path / "mine.py"


def asked(file: Path) -> Any:
    return experiment_from(
        {
            "imports": [str(file)],
            "network": {"kind": "random", "devices": 5, "slots": 2, "fading": "steady-test"},
            "schedulers": ["heavy-test:weight=2", "age"],
            "rounds": 6,
            "instances": 2,
            "block": 1,
        }
    )


def stopped(file: Path, folder: Path) -> None:
    """A run with one of its four units done."""

    def first(units: Any, checkpoint: Any, report: Any, stop: Any) -> Iterator[Any]:
        yield next(run_here(units, checkpoint, report))
        raise Stop

    with pytest.raises(Stop):
        run_experiment(asked(file), folder, engine=first)


def resumed(folder: Path, *words: str) -> str:
    """Standard error of `fedwave resume` in a process that has imported nothing."""
    run = subprocess.run(command("resume", str(folder), *words), capture_output=True, text=True)
    assert run.returncode in (0, 2), run.stderr
    assert run.stderr.count("\n") <= 1
    return run.stderr


def test_workers_import_the_text_and_not_the_file(own: Path, tmp_path: Path) -> None:
    experiment = asked(own)
    own.unlink()
    run_experiment(experiment, tmp_path / "here", workers=1)
    run_experiment(experiment, tmp_path / "pool", workers=2)
    assert len(results_of(tmp_path / "here")) == 8
    assert results_of(tmp_path / "here") == results_of(tmp_path / "pool")


def results_of(folder: Path) -> dict[str, bytes]:
    found = [*folder.glob("rounds/*"), *folder.glob("devices/*")]
    return {path.name + path.parent.name: path.read_bytes() for path in found}


def test_the_folder_keeps_a_copy_and_the_checksums(own: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_experiment(asked(own), folder, workers=1)
    assert (folder / "inputs" / "mine.py").read_text() == text()
    kept = read_sealed(folder / "inputs" / "inputs.json")
    name, sum_ = "inputs/mine.py", checksum(text())
    assert kept == {name: {"kind": "code", "copy": name, "sha256": sum_}}
    assert read_sealed(folder / "inputs" / "places.json") == {name: str(own)}
    assert json.loads((folder / "plan.json").read_text())["inputs"] == {name: sum_}


def test_files_of_one_name_have_a_copy_each(own: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text("# nothing\n")
    small = {"rounds": 2, "instances": 1, "schedulers": ["age"]}
    both = experiment_from({"imports": [str(own), str(other)], **small})
    run_experiment(both, tmp_path / "run", workers=1)
    copies = {path.name: path.read_text() for path in (tmp_path / "run/inputs").glob("*.py")}
    assert copies == {"mine.py": text(), "1_mine.py": "# nothing\n"}


def test_results_are_read_without_the_parts(own: Path, tmp_path: Path) -> None:
    run_experiment(asked(own), tmp_path / "run", workers=1)
    own.write_text("raise SystemExit('imported')")
    code = (
        "import sys, fedwave as fw; from fedwave.parts import registry\n"
        f"print(fw.load({str(tmp_path / 'run')!r}).backlog.shape)\n"
        "assert not any(registry.own().values())\n"
        "assert not any('fedwave_parts' in name for name in sys.modules)\n"
    )
    read = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (read.stdout, read.stderr) == ("(2, 2, 6)\n", "")


@pytest.mark.usefixtures("no_figures")
def test_resume_takes_the_file_from_where_it_is_named(own: Path, tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    write_results(run_experiment(asked(own), whole, workers=1), whole)
    stopped(own, folder)
    assert f"`fedwave resume {folder} --import {own}`" in resumed(folder)
    moved = own.rename(tmp_path / "moved.py")
    assert "--import mine.py`, with the place of mine.py (copies are in" in resumed(folder)
    assert resumed(folder, "--import", str(moved)) == ""
    assert results(folder) == results(whole)


def test_resume_takes_the_copy_if_it_is_named(own: Path, tmp_path: Path) -> None:
    stopped(own, tmp_path / "run")
    own.unlink()
    assert resumed(tmp_path / "run", "--import", str(tmp_path / "run/inputs/mine.py")) == ""


def test_resume_refuses_a_changed_file(own: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stopped(own, folder)
    own.write_text(text(3))
    assert f"{own} has changed since the run in {folder} was started: restore it (a copy is" in resumed(folder)
    other = tmp_path / "other.py"
    other.write_text(text(4))
    own.write_text(text())
    assert f"{other} does not have the SHA-256 checksum" in resumed(folder, "--import", str(other))
    both = ("--import", str(own), "--import", str(other))
    assert f"{other} is not needed" in resumed(folder, *both)
    own.write_text(text(3))
    with pytest.raises(fw.FedwaveError, match=r"mine\.py has changed"):
        run_experiment(asked(own), folder, workers=1)


@pytest.mark.parametrize("content", ["{", "[]", '{"/x.py": {}}', "{}"])
def test_a_damaged_list_of_inputs(own: Path, tmp_path: Path, content: str) -> None:
    stopped(own, tmp_path / "run")
    (tmp_path / "run/inputs/inputs.json").write_text(content)
    with pytest.raises(fw.FedwaveError, match=r"inputs\.json is damaged"):
        RunFolder(tmp_path / "run").experiment()


def test_a_damaged_plan(own: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_experiment(asked(own), folder, workers=1)
    (folder / "plan.json").write_text("{}")
    with pytest.raises(fw.FedwaveError, match=r"plan\.json is damaged: it does not have the sum"):
        fw.load(folder)
    told = resumed(folder, "--import", str(own))
    assert told.startswith(f"fedwave: {folder / 'plan.json'} is damaged: it does not have the sum")
    assert told.endswith("It is written again from config.yaml.\n")
    assert told.count("\n") == 1
    assert resumed(folder) == ""
    assert fw.load(folder).sizes["scheduler"] == 2
