"""A folder from a stranger names code; nothing of it is executed unless the user names it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forged_folders import forge
from killing import command
from user_file import forgotten, text

import fedwave as fw
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store import inputs
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.sealed import write_sealed
from fedwave.experiments.store.verify import verify
from fedwave.parts.user_code import checksum

EVIL = "open('pwned', 'w').close()\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with forgotten():
        yield


def asked(*imports: str) -> Any:
    return experiment_from({"imports": list(imports), "schedulers": ["heavy-test", "age"], "rounds": 3, "instances": 1})


def open_run(tmp_path: Path, *imports: str) -> Path:
    """A run of which a unit is missing, in a folder that was unpacked somewhere."""
    folder = tmp_path / "unpacked" / "run"
    with forgotten():
        run_experiment(asked(*imports), folder, workers=1)
    min((folder / "units").glob("*")).unlink()
    return folder


def fedwave(*words: object, **more: Any) -> tuple[int, str]:
    run = subprocess.run(command(*map(str, words)), capture_output=True, text=True, **more)
    assert "Traceback" not in run.stderr
    assert run.stderr.count("\n") <= 1
    return run.returncode, run.stderr


@pytest.mark.parametrize(
    "place",
    [
        "beside.py",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("{tmp}/unpacked/beside.py", "unpacked/beside.py")),
    ],
)
@pytest.mark.parametrize("words", [("resume", "run"), ("run", "run/config.yaml", "--out", "run")])
def test_places_of_somebody_else_are_not_executed(place: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text())
    folder = open_run(tmp_path, "mine.py")
    for record in (folder / "units").iterdir():  # they would give it away
        record.unlink()
    evil = text() + EVIL  # with its sums, as its author would make them
    for where in ("beside.py", "unpacked/beside.py"):
        (tmp_path / where).write_text(evil)
    for name in ("inputs/inputs.json", "plan.json"):
        sums = {checksum(text()): checksum(evil)}
        forge(folder / name, lambda content, sums=sums: _replace_all(content, sums))
    write_sealed(folder / "inputs/places.json", {"inputs/mine.py": place.format(tmp=tmp_path)})
    status, told = fedwave(*words, cwd=folder.parent)
    assert status == 2
    assert "only if you name it: " in told
    assert not list(tmp_path.rglob("pwned"))


def _replace_all(content: Any, values: dict[str, str]) -> None:
    for key, value in content.items():
        if isinstance(value, dict):
            _replace_all(value, values)
        elif isinstance(value, str):
            content[key] = values.get(value, value)


def test_what_the_named_file_imports_is_not_taken_from_an_old_place(tmp_path: Path) -> None:
    """The old place is a folder of somebody else's, with a module that the user's file names."""
    (tmp_path / "mine.py").write_text(text() + "\ntry:\n    import beside_mine\nexcept ImportError:\n    pass\n")
    folder = open_run(tmp_path, "mine.py")
    (folder.parent / "beside_mine.py").write_text(EVIL)
    place = str(folder.parent / "mine.py")
    write_sealed(folder / "inputs/places.json", {"inputs/mine.py": place})
    assert fedwave("resume", folder, "--import", "mine.py") == (0, "")
    assert not list(tmp_path.rglob("pwned"))


def test_the_sentence_has_the_command_that_goes_on(tmp_path: Path) -> None:
    mine, other = tmp_path / "my parts.py", tmp_path / "other.py"
    mine.write_text(text())
    other.write_text("# nothing\n")
    folder = open_run(tmp_path, str(mine), str(other))
    status, told = fedwave("resume", folder, "--import", other)
    assert status == 2
    go_on = told.split("`")[1]
    assert go_on == f"fedwave resume {folder} --import '{mine}' --import {other}"
    assert fedwave(*shlex.split(go_on)[1:]) == (0, "")


@pytest.mark.usefixtures("no_figures")
def test_code_that_this_process_has_imported_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text())
    folder = open_run(tmp_path, "mine.py")
    with pytest.raises(fw.FedwaveError, match=r"--import .*/mine\.py`"):
        fw.run(folder / "config.yaml", folder)
    fw.run(folder / "config.yaml", folder, imports="mine.py")
    min((folder / "units").glob("*")).unlink()
    assert RunFolder(folder).experiment().imports == (str(tmp_path / "mine.py"),)
    fw.run(folder / "config.yaml", folder)  # again: it is imported here


def test_an_experiment_that_the_user_wrote_names_its_code(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text())
    Path("e.yaml").write_text("{imports: [mine.py], schedulers: [heavy-test], rounds: 2, instances: 1}")
    assert fedwave("run", "e.yaml", "--out", "run") == (0, "")
    min(Path("run/units").glob("*")).unlink()
    assert fedwave("run", "e.yaml", "--out", "run") == (0, "")
    # The run folder's own file is not one that the user wrote, whatever it names.
    config = Path("run/config.yaml")
    config.write_text(config.read_text().replace("inputs/mine.py", "../evil.py"))
    Path("evil.py").write_text(EVIL)
    status, told = fedwave("run", "run/config.yaml", "--out", "again")
    assert status == 2
    assert f"only if you name it: add `--import {tmp_path / 'evil.py'}`." in told
    assert not Path("pwned").exists()


def test_modules_are_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "heavy_module.py").write_text(text())
    monkeypatch.syspath_prepend(str(lib))
    folder = open_run(tmp_path, "heavy_module")
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(lib)])}
    status, told = fedwave("resume", folder, env=there)
    assert status == 2
    assert f"`fedwave resume {folder} --import heavy_module`" in told
    (lib / "heavy_module.py").write_text(text(2))
    status, told = fedwave("resume", folder, "--import", "heavy_module", env=there)
    assert (status, "heavy_module.py has changed" in told) == (2, True)
    (lib / "heavy_module.py").write_text(text())
    assert fedwave("resume", folder, "--import", "heavy_module", env=there) == (0, "")


def test_parts_of_a_script_are_named_in_the_record_and_not_pinned(tmp_path: Path) -> None:
    script = text() + (
        'if __name__ == "__main__":\n'
        '    fw.run({"schedulers": ["heavy-test", "age"], "rounds": 2, "instances": 1}, "run", workers=2)\n'
    )
    (tmp_path / "script.py").write_text(script)
    python = command()[0]
    subprocess.run([python, "script.py"], check=True)
    assert inputs.known_inputs(Path("run")) == {"scheduler heavy-test": inputs.Input("part", inputs.NOT_PINNED)}
    assert any("scheduler heavy-test was defined by a script" in one.text for one in verify(Path("run")))
    min(Path("run/units").glob("*")).unlink()
    status, told = fedwave("resume", "run")
    assert (status, "scheduler heavy-test" in told) == (2, True)
    subprocess.run([python, "script.py"], check=True)
    assert fedwave("resume", "run") == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["provenance.json", "plan.json"])
def test_a_deep_file_is_damaged(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked/run"
    run_experiment(experiment_from({"schedulers": ["age", "random"], "rounds": 3, "instances": 1}), folder)
    min((folder / "units").glob("*")).unlink()
    deep: list[Any] = []
    for _ in range(800):
        deep = [deep]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)  # whoever wrote it had one
    try:
        forge(folder / name, lambda all_: all_.update(runs=[{"packages": {}, "x": deep}], points=deep))
    finally:
        sys.setrecursionlimit(before)
    status, told = fedwave("resume", folder)
    assert status == 0
    assert f"{name} is damaged (it is nested too deeply)" in told
