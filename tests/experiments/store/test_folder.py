"""A run folder: it is begun, stopped anywhere, damaged, edited, and goes on or is refused; nothing else is lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from killing import command, half_finished, leftovers, results
from odd_files import pipe
from refusals import mentions, refused
from small_run import cut, rewritten
from time_limit import time_limit

import fedwave as fw
from fedwave.experiments.config.read import experiment_from, to_yaml
from fedwave.experiments.config.sweep import to_mapping
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run import work
from fedwave.experiments.run.runner import Event, run_experiment
from fedwave.experiments.store import folder as folder_module
from fedwave.experiments.store.done import read_done
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.verify import sound, verify
from fedwave.version import NUMERICS

EXPERIMENT = experiment_from(
    {
        "network": {"kind": "random", "devices": 5, "slots": 2},
        "schedulers": ["alsa-pi", "random"],
        "rounds": 10,
        "instances": 4,
        "block": 2,
        "checkpoint_seconds": 0,
    }
)
UNITS = ["0000_alsa-pi_0-1", "0000_alsa-pi_2-3", "0000_random_0-1", "0000_random_2-3"]
pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where ``finished`` is a finished run, and ``half`` one with a checkpoint of its last unit; not to be changed."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedwave.experiments.report.figures.common.save_figure", lambda figure, stem: [])
        patch.setattr(work, "_PIECE", 1)
        write_results(run_experiment(EXPERIMENT, place / "finished"), place / "finished")
        half_finished(EXPERIMENT, place / "half")
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(made / "finished", tmp_path / "run"))


@pytest.fixture
def half(made: Path, tmp_path: Path) -> Path:
    """A copy of the other."""
    return Path(shutil.copytree(made / "half", tmp_path / "half"))


def go_on(folder: Path) -> list[Event]:
    """Run the experiment into its folder again; returns what was reported."""
    events: list[Event] = []
    write_results(run_experiment(EXPERIMENT, folder, watch=events.append, workers=1), folder)
    return events


def begun(events: list[Event]) -> list[str]:
    return [event["unit"] for event in events if event["event"] == "unit-begun"]


def warnings(events: list[Event]) -> list[str]:
    return [event["message"] for event in events if "message" in event]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def swap(one: Path, other: Path) -> None:
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])


def lines(folder: Path) -> list[bytes]:
    return (folder / "done.jsonl").read_bytes().splitlines(keepends=True)


def test_the_files_of_a_run(made: Path) -> None:
    folder = made / "finished"
    header, *units = map(json.loads, lines(folder))
    assert [unit["unit"] for unit in units] == UNITS
    assert header["run"] == RunFolder(folder).manifest.run_id
    content = json.loads((folder / "run.json").read_text())
    assert set(content) == {"format", "numerics", "experiment", "points", "inputs", "units"}
    assert str(made) not in (folder / "run.json").read_text()
    assert content["experiment"] == to_mapping(RunFolder(folder).experiment_as_run)
    shown = {path.name for path in folder.iterdir()}
    assert {".lock", "run.json", "config.yaml", "done.jsonl", "rounds", "devices", "results.nc", "SHA256SUMS"} <= shown
    assert "checkpoints" not in shown


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "gone": lambda path: path.unlink(),
    "of another unit": lambda path: swap(path, path.with_name(path.name.replace("random_0-1", "alsa-pi_0-1"))),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["rounds", "devices"])
def test_a_damaged_table_is_named_and_only_its_unit_is_run_again(damage: str, kind: str, folder: Path) -> None:
    before, name = results(folder), f"{kind}/0000_random_0-1.parquet"
    DAMAGES[damage](folder / name)
    with refused("corrupt"):
        fw.load(folder)
    events = go_on(folder)
    assert set(begun(events)) == {UNITS[2]} | ({UNITS[0]} if damage == "of another unit" else set())
    assert any(name in event["message"] for event in events if event["event"] == "damaged")
    assert results(folder) == before
    assert sound(verify(folder))


def test_a_unit_whose_tables_and_line_are_of_another_run_is_run_again(folder: Path, tmp_path: Path) -> None:
    before, other = results(folder), tmp_path / "other"
    run_experiment(replace(RunFolder(folder).experiment(), seed=6), other, workers=1)
    for kind in ("rounds", "devices"):
        shutil.copy(other / kind / f"{UNITS[0]}.parquet", folder / kind)
    theirs = next(line for line in lines(other) if json.loads(line).get("unit") == UNITS[0])
    ours = [line for line in lines(folder) if json.loads(line).get("unit") != UNITS[0]]
    (folder / "done.jsonl").write_bytes(b"".join([*ours, theirs]))
    assert begun(go_on(folder)) == [UNITS[0]]
    assert results(folder) == before


def test_a_torn_or_damaged_line_is_an_unfinished_unit(folder: Path) -> None:
    before, path = results(folder), folder / "done.jsonl"
    whole = path.read_bytes()
    header, first, *others = lines(folder)
    damaged = b"".join([header, first.replace(b'"seconds": ', b'"seconds": 1'), *others])
    for content, unit in ((whole[:-1], UNITS[3]), (whole[:-200], UNITS[3]), (damaged, UNITS[0])):
        path.write_bytes(content)
        number = 2 + UNITS.index(unit)
        assert [f.state for f in verify(folder) if f"line {number}" in f.text] == ["wrong"]
        with refused("1 of 4"):
            fw.load(folder)
        assert begun(go_on(folder)) == [unit]
        assert (len(read_done(folder).units), read_done(folder).corrupt) == (4, [])
        assert results(folder) == before
    path.write_bytes(b"".join([header.replace(b'"run": "', b'"run": "0'), first, *others]))
    for read in (fw.load, go_on):
        with refused("done.jsonl", "first line"):
            read(folder)


EDITS = [
    ("\nseed: 0", "\nseed: 7"),
    ("burn_in: 0", "burn_in: 2"),
    ("rounds: 10", "rounds: 10 # ten"),
    ("gamma: 0.01", "gamma: ["),
]


@pytest.mark.parametrize(("old", "new"), EDITS)
def test_an_edited_config_is_refused_and_nothing_is_written(old: str, new: str, half: Path) -> None:
    config, before = half / "config.yaml", lines(half)
    config.write_text(config.read_text().replace(old, new))
    for read in (go_on, fw.load, lambda folder: RunFolder(folder).experiment()):
        with refused(config, "changed"):
            read(half)
    assert lines(half) == before
    config.write_text(config.read_text().replace(new, old))
    go_on(half)


MANIFESTS: dict[str, Callable[[Path], object]] = {
    "a list": lambda path: path.write_text("[]"),
    "not text": lambda path: path.write_bytes(b"\xff\xfe"),
    "a pipe": lambda path: (path.unlink(), pipe(path)),
}


@pytest.mark.parametrize("damage", MANIFESTS)
def test_a_run_json_that_is_not_ours_is_refused_in_one_sentence(damage: str, folder: Path) -> None:
    (folder / "done.jsonl").unlink()  # it has the checksum
    MANIFESTS[damage](folder / "run.json")
    for read in (fw.load, go_on):
        with time_limit(30), refused("run.json") as caught:
            read(folder)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run["units"][0].update(name="../../x"),
        lambda run: run["units"][0].update(point=7),
        lambda run: run["units"][0].update(schedulers=["max-weight"]),
        lambda run: run.update(units=[]),
        lambda run: run.update(inputs={"x": {"kind": "data", "sha256": "0", "copy": "../x"}}),
        lambda run: run["experiment"].update(rounds="many"),
        lambda run: run.update(format=2),
    ],
)
def test_fields_of_run_json_are_checked(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    content = json.loads((folder / "run.json").read_text())
    change(content)
    (folder / "run.json").write_text(json.dumps(content))
    (folder / "done.jsonl").unlink()
    with refused(folder):
        RunFolder(folder).units()


def test_another_experiment_is_refused_and_nothing_lost(folder: Path) -> None:
    before = results(folder)
    with refused("seed", 0, 3, "--out"):
        run_experiment(experiment_from({**to_mapping(EXPERIMENT), "seed": 3}), folder)
    assert results(folder) == before


def test_other_numerics_do_not_go_on(half: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "NUMERICS", NUMERICS + 1)
    with refused(NUMERICS, NUMERICS + 1, "numerics"):
        go_on(half)
    assert fw.load(made / "finished").sizes["round"] == 10  # reading is another thing


def test_other_versions_are_said(half: Path) -> None:
    rewritten(half, lambda line: line.get("versions", {}).update(numpy="1.0", own="\x1b[31m"))
    (said,) = warnings(go_on(half))
    assert mentions(said, "numpy 1.0", __import__("numpy").__version__)
    assert "\x1b" not in said
    notes = [one.text for one in verify(half) if one.state == "note"]
    assert any("numpy 1.0" in note for note in notes)


# --- checkpoints ----------------------------------------------------------------------------------


def checkpoint(folder: Path) -> Path:
    (path,) = folder.glob("checkpoints/*.npz")
    return path


@pytest.mark.parametrize("other", ["instance", "scheduler", "run"])
def test_the_checkpoint_of_another_unit_is_named_and_not_used(
    other: str, half: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints of two simulations differ in nothing that the simulation looks at but their numbers."""
    monkeypatch.setattr(work, "_PIECE", 1)
    path, store = checkpoint(half), RunFolder(half)
    unit = {"instance": UNITS[2], "scheduler": UNITS[1], "run": UNITS[3]}[other]
    if other == "run":
        half_finished(experiment_from({**to_mapping(EXPERIMENT), "seed": 5}), half.parent / "other")
        path.write_bytes(checkpoint(half.parent / "other").read_bytes())
    else:
        path.rename(path.with_name(f"{unit}.npz"))
        kept = [line for line in lines(half) if f'"{unit}"'.encode() not in line]
        (half / "done.jsonl").write_bytes(b"".join(kept))
    assert [one.state for one in verify(half) if f"{unit}.npz" in one.text] == ["wrong"]
    (told,) = warnings(go_on(half))
    assert mentions(told, store.path / f"checkpoints/{unit}.npz", "another unit")
    assert results(half) == results(made / "finished")


def test_a_checkpoint_that_is_a_folder_or_a_pipe(half: Path, made: Path) -> None:
    path = checkpoint(half)
    path.unlink()
    path.mkdir()
    other = shutil.copytree(half, half.parent / "other")
    go_on(half)
    assert results(half) == results(made / "finished")
    path = other / "checkpoints" / path.name
    path.rmdir()
    os.mkfifo(path)
    with time_limit(60):
        assert mentions(warnings(go_on(other))[0], path.name)


# --- one writer, full disks, kills ----------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from fedwave.experiments.store.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_process_is_told_and_a_dead_one_does_not_matter(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        before = results(folder)
        with refused(folder, "in use"):
            run_experiment(EXPERIMENT, folder)
        told = subprocess.run(command("resume", str(folder)), capture_output=True, text=True)
        assert told.returncode == 2
        assert mentions(told.stderr, folder, "in use")
        assert told.stderr.count("\n") == 1
        assert results(folder) == before
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    go_on(folder)
    assert leftovers(folder) == []


@pytest.mark.parametrize("limit", [600, 4000, 12_000])
def test_a_full_disk(limit: int, folder: Path, tmp_path: Path) -> None:
    """Files larger than the limit cannot be written, as on a disk that has run full."""
    full = tmp_path / "full"
    (tmp_path / "experiment.yaml").write_text(to_yaml(EXPERIMENT))
    words = command("compare", str(tmp_path / "experiment.yaml"), "--out", str(full))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    told = subprocess.run(words, capture_output=True, text=True, preexec_fn=limited)
    assert told.returncode == 1, told.stderr
    assert mentions(told.stderr, "File too large")
    assert told.stderr.count("\n") == 1
    assert leftovers(full) == []
    # With room again it goes on, and nothing that was finished is done again.
    finished = set(read_done(full).units) if (full / "done.jsonl").exists() else set()
    assert not finished & set(begun(go_on(full)))
    assert results(full) == results(folder)


DYING = """
import os, sys
from pathlib import Path
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.run.runner import run_experiment

experiment, place = load_experiment(sys.argv[1]), Path(sys.argv[2])
replace = os.replace
for last in range(1, 9):
    if (child := os.fork()) == 0:  # dies at its last-th file, without any clean-up
        done = 0

        def counted(old, new):
            global done
            done += 1
            if done == last:
                os._exit(9)
            replace(old, new)

        os.replace = counted
        run_experiment(experiment, place / str(last), workers=1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_run_that_died_at_any_of_its_first_files_goes_on(made: Path, tmp_path: Path) -> None:
    """Before run.json was there, too: what it left is not taken for somebody else's."""
    (tmp_path / "experiment.yaml").write_text(to_yaml(EXPERIMENT))
    dead = tmp_path / "dead"
    words = [sys.executable, "-c", DYING, str(tmp_path / "experiment.yaml"), str(dead)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert told.stdout.split() == ["9"] * 8, told.stderr
    assert not (dead / "2" / "run.json").exists()
    for place in dead.iterdir():
        go_on(place)
        assert results(place) == results(made / "finished")
        assert leftovers(place) == []


def test_the_same_run_again_has_the_same_sums(folder: Path, tmp_path: Path) -> None:
    go_on(tmp_path / "again")
    assert (tmp_path / "again/SHA256SUMS").read_bytes() == (folder / "SHA256SUMS").read_bytes()
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=folder).returncode == 0
    cut(folder / "done.jsonl")
    assert begun(go_on(folder)) == [UNITS[3]]
    assert (tmp_path / "again/SHA256SUMS").read_bytes() == (folder / "SHA256SUMS").read_bytes()
