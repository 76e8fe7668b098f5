"""A run folder is looked at without running or importing anything; two runs are compared to the last bit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_folders import forge
from odd_files import enormous, pipe
from refusals import mentions, refused
from time_limit import time_limit
from user_file import forgotten, text

import fedwave as fw
from fedwave.cli.report import show_again
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store import inputs
from fedwave.experiments.store.same_run import compare_runs
from fedwave.experiments.store.sums import read_sums, write_sums
from fedwave.experiments.store.verify import Finding, sound, verify


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten():
        yield


def make(place: Path, *overrides: str, gains: float = 1.0) -> Path:
    """A finished run folder, from files in its own place."""
    place.mkdir(parents=True)
    (place / "mine.py").write_text(text())
    (place / "devices.csv").write_text("count,rate,distance_m\n4,2,300\n")
    np.save(place / "gains.npy", np.full((9, 2, 4), gains))
    network = {"kind": "table", "file": str(place / "devices.csv"), "slots": 2}
    network["fading"] = {"name": "recorded", "path": str(place / "gains.npy")}
    asked = {
        "imports": [str(place / "mine.py")],
        "network": network,
        "schedulers": ["heavy-test", "random"],
        "rounds": 6,
        "instances": 2,
        "block": 1,
    }
    with forgotten():
        write_results(run_experiment(experiment_from(asked, overrides), place / "run", workers=1), place / "run")
    return place / "run"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("made") / "first")


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def said(found: list[Finding], state: str) -> str:
    return "\n".join(f"{one.about}: {one.text}" for one in found if one.state == state)


def test_a_sound_folder(folder: Path) -> None:
    found = verify(folder)
    assert sound(found)
    assert said(found, "wrong") == ""
    assert mentions(said(found, "note"), "inputs", "files", "code")
    told = said(found, "ok")
    assert mentions(told, "files", "4 units", "inputs/devices.csv", "inputs/mine.py", "versions", "fedwave")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _edit(path: Path, old: str, new: str) -> None:
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed table": (lambda f: _flip(f / "rounds/0000_random_0-0.parquet"), ("rounds/0000_random_0-0.parquet",)),
    "a changed report": (lambda f: (f / "table.md").write_text("better"), ("table.md", "changed")),
    "a lost figure": (lambda f: (f / "summary.csv").unlink(), ("summary.csv", "missing")),
    "no sums": (lambda f: (f / "SHA256SUMS").unlink(), ("SHA256SUMS",)),
    "a lost unit": (lambda f: (f / "units/0000_random_1-1.json").unlink(), ("1 of 4",)),
    "a changed copy": (lambda f: (f / "inputs/devices.csv").write_text("x"), ("inputs/devices.csv", "missing")),
    "another seed": (lambda f: _edit(f / "config.yaml", "\nseed: 0", "\nseed: 7"), ("seed", 7, 0)),
    "other sums of inputs": (
        lambda f: _edit(f / "inputs/inputs.json", '"sha256": "', '"sha256": "0'),
        ("inputs.json", "damaged"),
    ),
    "no plan": (lambda f: (f / "plan.json").write_text("{"), ("plan.json",)),
}


@pytest.mark.parametrize("damage", WRONG)
def test_what_is_wrong_is_named(damage: str, folder: Path) -> None:
    do, tokens = WRONG[damage]
    do(folder)
    found = verify(folder)
    assert not sound(found)
    assert mentions(said(found, "wrong") + said(found, "open"), *tokens)


def test_what_is_worth_knowing(folder: Path, made: Path) -> None:
    original = made.parent / "devices.csv"
    kept = original.read_text()
    try:
        original.write_text("count,rate,distance_m\n9,2,300\n")
        found = verify(folder)
        assert sound(found)
        assert mentions(said(found, "note"), "changed", original)
        original.unlink()
        assert mentions(said(verify(folder), "ok"), "not at", original)
    finally:
        original.write_text(kept)
    (folder / "notes.txt").write_text("mine")
    forge(folder / "provenance.json", lambda made: made["runs"][0]["packages"].update(numpy="1.0"))
    found = verify(folder)
    assert sound(found)
    told = said(found, "note")
    assert mentions(told, "notes.txt")
    assert mentions(told, 1.0, f"{np.__version__}")
    (folder / "provenance.json").unlink()
    assert sound(verify(folder))


def test_what_is_no_run_folder(tmp_path: Path) -> None:
    with refused("config.yaml"):
        verify(tmp_path)
    with refused("run folder"):
        compare_runs(tmp_path, tmp_path)


def test_equal_runs_in_two_places_have_equal_sums(made: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "second")
    assert read_sums(made) == read_sums(other)
    assert not any(name.startswith(("timings", "provenance")) for name in read_sums(made))
    found = compare_runs(made, other)
    assert sound(found)
    assert said(found, "differs") + said(found, "note") == ""
    assert mentions(said(found, "ok"), "same")


@pytest.mark.usefixtures("no_figures")
def test_the_first_difference_is_named_with_both_values(made: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "second", "seed=3", "name=other", "burn_in=1")
    found = compare_runs(made, other)
    assert not sound(found)
    told = said(found, "differs")
    assert mentions(told, "seed", "0 in A", "3 in B")
    one, another = fw.load(made), fw.load(other)
    first = next(
        (t, s, i, str(name))
        for t in one["round"].values
        for s in one.scheduler.values
        for i in one.instance.values
        for name in one.data_vars
        if "round" in one[name].dims and _at(one, name, s, i, t) != _at(another, name, s, i, t)
    )
    t, s, i, name = first
    a, b = (_at(data, name, s, i, t) for data in (one, another))
    assert mentions(told, name, s, i, t, a, b)
    assert mentions(said(found, "note"), "name", '"experiment" in A', '"other" in B')


def _at(data: Any, name: Any, scheduler: str, instance: int, round_: int) -> Any:
    return data[name].sel(scheduler=scheduler, instance=instance, round=round_).values.item()


@pytest.mark.usefixtures("no_figures")
def test_other_inputs_and_shapes(made: Path, tmp_path: Path) -> None:
    inputs_differ = compare_runs(made, make(tmp_path / "second", gains=0.01))
    assert mentions(said(inputs_differ, "differs"), "inputs/gains.npy")
    longer = compare_runs(make(tmp_path / "third", "rounds=8"), made)
    told = said(longer, "differs")
    assert mentions(told, "rounds", "8 in A", "6 in B")
    assert mentions(told, "rounds", "8 in A", "6 in B")
    fewer = compare_runs(made, make(tmp_path / "fourth", "schedulers=[heavy-test]"))
    assert mentions(said(fewer, "differs"), "schedulers", "2 in A", "1 in B")
    assert mentions(said(fewer, "ok"), "same")


def test_a_single_bit_is_found(made: Path, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = "rounds/0000_random_1-1.parquet"
    table = pq.read_table(folder / name)
    score = table["score"].to_numpy().copy()
    score[2] = np.nextafter(score[2], np.inf)
    place = table.column_names.index("score")
    pq.write_table(table.set_column(place, table.schema.field("score"), pa.array(score)), folder / name)
    sum_ = inputs.file_sum(str(folder / name))
    forge(folder / "units/0000_random_1-1.json", lambda unit: unit["sha256"].update({name: sum_}))
    told = said(compare_runs(made, folder), "differs")
    assert "1 of " in told
    assert mentions(told, "score", "random", "instance 1", "round 3")


def test_a_damaged_run_is_not_compared(made: Path, folder: Path) -> None:
    _flip(folder / "rounds/0000_random_0-0.parquet")
    found = compare_runs(made, folder)
    assert not sound(found)
    assert mentions(said(found, "wrong"), "0000_random_0-0.parquet", "damaged")


def test_nothing_of_the_user_is_imported(folder: Path, made: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from fedwave.parts import registry\n"
        "from fedwave.experiments.store.same_run import compare_runs\n"
        "from fedwave.experiments.store.verify import verify\n"
        f"verify(Path({str(folder)!r})); compare_runs(Path({str(folder)!r}), Path({str(made)!r}))\n"
        "assert not any(registry.own().values()) and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("no_figures")
def test_how_the_work_was_cut_is_no_difference(made: Path, tmp_path: Path) -> None:
    found = compare_runs(made, make(tmp_path / "second", "block=2"))
    assert sound(found)
    assert mentions(said(found, "note"), "block", "1 in A", "2 in B")


def test_numbers_of_single_points_belong_to_the_fingerprint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    asked = {
        "network": {"kind": "random"},
        "sweep": {"network.devices": [5, 10]},
        "schedulers": ["age"],
        "rounds": 4,
        "instances": 2,
    }
    write_results(run_experiment(experiment_from(asked), folder, workers=1), folder)
    forge(folder / "plan.json", lambda plan: plan["points"][0].update({"network.slots": 3}))
    write_sums(folder, read_sums(folder))
    assert mentions(said(verify(folder), "wrong"), "another run")


# --- what a list can lose, and what two folders can hide ------------------------------------------


@pytest.mark.parametrize("kept", [0, 5])
def test_lines_lost_from_the_sums(folder: Path, kept: int) -> None:
    (folder / "table.md").write_text("forged")
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(sums.read_text().splitlines(keepends=True)[:kept]))
    found = verify(folder)
    assert mentions(said(found, "wrong"), "SHA256SUMS")
    assert not sound(found)


def test_one_line_lost_from_the_sums(folder: Path) -> None:
    """Of a table that not every experiment has."""
    (folder / "instances.csv").write_text("forged")
    sums = folder / "SHA256SUMS"
    lines = sums.read_text().splitlines(keepends=True)
    sums.write_text("".join(line for line in lines if "instances.csv" not in line))
    assert mentions(said(verify(folder), "wrong"), "instances.csv", "SHA256SUMS")


def test_the_time_of_another_unit(folder: Path) -> None:
    first, other, *_ = sorted(folder.glob("timings/*.json"))
    first.write_bytes(other.read_bytes())
    assert mentions(said(verify(folder), "wrong"), first.name, "another unit")


def test_a_table_of_another_run_among_ours(folder: Path) -> None:
    stray = folder / "rounds" / "0000_random_7-7.parquet"
    shutil.copy(next((folder / "rounds").iterdir()), stray)
    assert mentions(said(verify(folder), "wrong"), "0000_random_7-7.parquet", "no unit")


@pytest.mark.parametrize("name", ["results.nc", "table.md", "summary.csv"])
def test_two_runs_with_other_tables_are_not_the_same(made: Path, folder: Path, name: str) -> None:
    """Also if whoever edited one has written the sums anew."""
    assert sound(compare_runs(made, folder))
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    write_sums(folder, read_sums(folder))
    assert sound(verify(folder))
    assert mentions(said(compare_runs(made, folder), "differs"), name, "files")


@pytest.mark.parametrize("thing", [pipe, enormous])
def test_sums_and_tables_that_never_end(folder: Path, thing: Callable[[Path], None]) -> None:
    table = next((folder / "rounds").iterdir())
    for path in (folder / "SHA256SUMS", table):
        path.unlink()
        thing(path)
    with time_limit(20):
        found = said(verify(folder), "wrong")
    assert "SHA256SUMS" in found
    assert table.name in found


def test_names_too_long_for_a_file(folder: Path) -> None:
    with open(folder / "SHA256SUMS", "a") as file:
        file.write(f"{'0' * 64}  {'x' * 300}\n")
    assert "xxx: missing" in said(verify(folder), "wrong")
    with refused("File name too long"):
        fw.load("x" * 300)


def test_a_finished_run_mends_what_no_result_needs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The damaged copy does not get a sum of its own."""
    before = (folder / "SHA256SUMS").read_bytes()
    (folder / "inputs" / "devices.csv").write_text("count,rate,distance_m\n4,3,300\n")
    _flip(folder / "provenance.json")
    show_again(folder, json=True)
    err = capsys.readouterr().err
    assert mentions(err, "inputs/devices.csv", "copied")
    assert mentions(err, "provenance.json", "damaged")
    assert mentions(err, "anew")
    assert (folder / "SHA256SUMS").read_bytes() == before
    assert sound(verify(folder))


def test_a_damaged_copy_whose_original_is_gone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = folder / "inputs" / "places.json"
    before = (folder / "SHA256SUMS").read_bytes()
    (folder / "inputs" / "devices.csv").write_text("count,rate,distance_m\n4,3,300\n")
    forge(places, lambda content: content.update({"inputs/devices.csv": "/nowhere/devices.csv"}))
    show_again(folder, json=True)
    err = capsys.readouterr().err
    assert mentions(err, "/nowhere/devices.csv")
    assert (folder / "SHA256SUMS").read_bytes() == before
    assert "inputs/devices.csv" in said(verify(folder), "wrong")
