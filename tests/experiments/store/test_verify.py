"""A run folder is looked at without running or importing anything; two runs are compared to the last bit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import mentions, refused
from small_run import cut, rewritten
from user_file import forgotten, text

import fedwave as fw
from fedwave.cli.folders import show_again
from fedwave.cli.options import Printing
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.checksums import file_sha256, read_sums, write_sums
from fedwave.experiments.store.diff import compare_runs
from fedwave.experiments.store.verify import Finding, sound, verify

pytestmark = pytest.mark.usefixtures("no_figures")


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
    with forgotten(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedwave.experiments.report.figures.common.save_figure", lambda figure, stem: [])
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


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit(path: Path, old: str, new: str) -> None:
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))


def without_line(path: Path, name: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if name not in line))


def test_a_sound_folder(folder: Path) -> None:
    found = verify(folder)
    assert sound(found)
    assert said(found, "wrong") == ""
    assert mentions(said(found, "note"), "inputs", "files", "code")
    told = said(found, "ok")
    assert mentions(told, "files", "4 units", "inputs/devices.csv", "inputs/mine.py", "versions", "fedwave")


WRONG: dict[str, tuple[Callable[[Path], object], tuple[object, ...]]] = {
    "a changed report": (lambda f: (f / "table.md").write_text("better"), ("table.md", "changed")),
    "a lost report": (lambda f: (f / "summary.csv").unlink(), ("summary.csv", "missing")),
    "no sums": (lambda f: (f / "SHA256SUMS").unlink(), ("SHA256SUMS",)),
    "an unfinished unit": (lambda f: cut(f / "done.jsonl"), ("1 of 4",)),
    "a damaged line": (lambda f: edit(f / "done.jsonl", '"seconds": 0', '"seconds": 7'), ("done.jsonl", "line")),
    "a changed copy": (lambda f: (f / "inputs/devices.csv").write_text("x"), ("inputs/devices.csv", "changed")),
    "a lost copy": (lambda f: (f / "inputs/mine.py").unlink(), ("inputs/mine.py", "missing")),
    "another seed": (lambda f: edit(f / "config.yaml", "\nseed: 0", "\nseed: 7"), ("config.yaml", "changed")),
    "a line lost from the sums": (lambda f: without_line(f / "SHA256SUMS", "run.json"), ("run.json", "SHA256SUMS")),
    "a table of another run": (
        lambda f: shutil.copy(f / "rounds/0000_random_0-0.parquet", f / "rounds/0000_random_7-7.parquet"),
        ("0000_random_7-7.parquet", "no unit"),
    ),
    "a name too long": (
        lambda f: (f / "SHA256SUMS").write_text((f / "SHA256SUMS").read_text() + f"{'0' * 64}  {'x' * 300}\n"),
        ("missing",),
    ),
}


@pytest.mark.parametrize("damage", WRONG)
def test_what_is_wrong_is_named(damage: str, folder: Path) -> None:
    do, tokens = WRONG[damage]
    do(folder)
    found = verify(folder)
    assert not sound(found)
    assert mentions(said(found, "wrong") + said(found, "open"), *tokens)


def test_what_is_not_a_run_folder(tmp_path: Path) -> None:
    for look in (verify, lambda folder: compare_runs(folder, folder)):
        with refused("run.json"):
            look(tmp_path)
    for missing, words in (("x" * 300, "File name too long"), (tmp_path / "nowhere", "run folder")):
        with refused(words):
            fw.load(missing)


def test_a_report_gives_no_damaged_file_a_checksum_of_its_own(folder: Path) -> None:
    before = (folder / "SHA256SUMS").read_bytes()
    (folder / "inputs" / "devices.csv").write_text("count,rate,distance_m\n4,3,300\n")
    show_again(folder, Printing(json=True))
    assert (folder / "SHA256SUMS").read_bytes() == before
    assert mentions(said(verify(folder), "wrong"), "inputs/devices.csv")


def test_nothing_of_the_user_is_imported(folder: Path, made: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from fedwave.parts import registry\n"
        "from fedwave.experiments.store.diff import compare_runs\n"
        "from fedwave.experiments.store.verify import verify\n"
        f"verify(Path({str(folder)!r})); compare_runs(Path({str(folder)!r}), Path({str(made)!r}))\n"
        "assert not any(registry.own().values()) and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- two runs -------------------------------------------------------------------------------------


def test_equal_runs_in_two_places(made: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "second")
    assert (made / "SHA256SUMS").read_bytes() == (other / "SHA256SUMS").read_bytes()
    found = compare_runs(made, other)
    assert sound(found)
    assert mentions(said(found, "ok"), "the same to the last bit", "files")


def test_another_seed_and_its_first_number(made: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "second", "seed=3", "name=other")
    found = compare_runs(made, other)
    assert not sound(found)
    told = said(found, "differs")
    assert mentions(told, "seed", "0 in A", "3 in B")
    one, another = fw.load(made), fw.load(other)
    t, s, i, name = next(
        (t, s, i, str(name))
        for t in one["round"].values
        for s in one.scheduler.values
        for i in one.instance.values
        for name in one.data_vars
        if "round" in one[name].dims and _at(one, name, s, i, t) != _at(another, name, s, i, t)
    )
    a, b = (_at(data, name, s, i, t) for data in (one, another))
    assert mentions(told, name, s, i, t, a, b)
    assert mentions(said(found, "note"), "name", '"experiment" in A', '"other" in B')


def _at(data: Any, name: Any, scheduler: str, instance: int, round_: int) -> Any:
    return data[name].sel(scheduler=scheduler, instance=instance, round=round_).values.item()


def test_other_inputs_and_shapes(made: Path, tmp_path: Path) -> None:
    inputs_differ = compare_runs(made, make(tmp_path / "second", gains=0.01))
    assert mentions(said(inputs_differ, "differs"), "inputs/gains.npy")
    longer = compare_runs(make(tmp_path / "third", "rounds=8"), made)
    assert mentions(said(longer, "differs"), "rounds", "8 in A", "6 in B")
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

    def forge(line: dict[str, Any]) -> None:
        if name in line.get("sha256", {}):
            line["sha256"][name] = file_sha256(folder / name)
            line["bytes"][name] = (folder / name).stat().st_size

    rewritten(folder, forge)
    told = said(compare_runs(made, folder), "differs")
    assert "1 of " in told
    assert mentions(told, "score", "random", "instance 1", "round 3")


def test_a_damaged_run_is_not_compared(made: Path, folder: Path) -> None:
    flip(folder / "rounds/0000_random_0-0.parquet")
    found = compare_runs(made, folder)
    assert not sound(found)
    assert mentions(said(found, "wrong"), "0000_random_0-0.parquet", "corrupt")


def test_how_the_work_was_cut_is_no_difference(made: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "second", "block=2")
    found = compare_runs(made, other)
    assert sound(found)
    assert mentions(said(found, "note"), "block", "1 in A", "2 in B")
    runs = [json.loads((one / "done.jsonl").read_text().splitlines()[0])["run"] for one in (made, other)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("name", ["results.nc", "table.md", "summary.csv"])
def test_two_runs_with_other_tables_are_not_the_same(made: Path, folder: Path, name: str) -> None:
    """Also if whoever edited one has written the sums anew."""
    flip(folder / name)
    known = read_sums(folder)
    write_sums(folder, [name], {other: sum_ for other, sum_ in known.items() if other != name})
    assert sound(verify(folder))
    assert mentions(said(compare_runs(made, folder), "differs"), name, "files")
