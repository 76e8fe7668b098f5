"""Lots that are put together are the run of the whole experiment; folders that do not fit together are refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lots import SMALL, TASK, contents, listed, lot
from refusals import mentions, refused
from small_run import cut, rewritten
from time_limit import time_limit
from user_file import forgotten, text

import fedwave as fw
from fedwave.experiments import merge as module
from fedwave.experiments.merge import merging
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store import manifest
from fedwave.experiments.store.done import read_done
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.verify import sound, verify
from fedwave.version import NUMERICS


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten():
        yield


@pytest.fixture(scope="module")
def lots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Instances 0, 1 and 2: tests leave them as they are."""
    place = tmp_path_factory.mktemp("lots")
    return [lot(place / f"lot-{k}", k, 1) for k in range(3)]


@pytest.fixture
def here(lots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where first and second are lots, of instances 0 and 1."""
    shutil.copytree(lots[0], tmp_path / "first")
    shutil.copytree(lots[1], tmp_path / "second")
    monkeypatch.chdir(tmp_path)


def merged(folders: Sequence[Path], out: Path) -> tuple[Path, list[str]]:
    """The folder, without figures and tables, and what was said."""
    told: list[str] = []
    with merging(folders, out, told.append):
        pass
    return listed(out), told


def refusal(*folders: str, out: str = "out") -> str:
    before = Path(out).exists()
    with pytest.raises(fw.FedwaveError) as error, time_limit(60):
        fw.merge(folders, out)
    assert Path(out).exists() == before
    assert "\n" not in str(error.value)
    return str(error.value)


SWEEP = {**SMALL, "sweep": {"network.slots": [1, 3], "seed": [4, 5]}}
CASES: dict[str, tuple[Mapping[str, Any], list[int], tuple[str, ...]]] = {
    "simulated": (SMALL, [2, 3, 1], ()),
    "in blocks": (SMALL, [4, 3], ("block=2",)),
    "a sweep": (SWEEP, [2, 1], ()),
    "trained": (TASK, [1, 2], ()),
}


@pytest.mark.parametrize("case", CASES)
def test_lots_become_the_whole_run(case: str, tmp_path: Path) -> None:
    asked, sizes, said = CASES[case]
    first, folders = 6, []
    for number, size in enumerate(sizes):
        folders.append(lot(tmp_path / str(number), first, size, asked, *said))
        first += size
    whole = lot(tmp_path / "whole", 6, sum(sizes), asked, *said)
    out, told = merged(folders[::-1], tmp_path / "out")  # in any order
    assert not told
    assert fw.load(out).drop_attrs().identical(fw.load(whole).drop_attrs())
    assert sound(verify(out))
    assert len({RunFolder(folder).manifest.run_id for folder in (*folders, out, whole)}) == 1
    for folder in folders:  # as they are
        copied = {name: content for name, content in contents(folder).items() if name.startswith(("rounds", "devices"))}
        assert copied.items() <= contents(out).items()
        assert read_done(folder).units.items() <= read_done(out).units.items()


@pytest.mark.slow
@pytest.mark.parametrize(
    "first, second", [(("block=2",), ("block=1",)), (("group=2",), ()), (("training.lanes=3",), ("training.lanes=4",))]
)
def test_lots_that_were_trained_in_other_units(first: tuple[str, ...], second: tuple[str, ...], tmp_path: Path) -> None:
    asked = {**TASK, "schedulers": ["age", "random", "update-aware"]}
    folders = [lot(tmp_path / "a", 0, 3, asked, *first), lot(tmp_path / "b", 3, 2, asked, *second)]
    out, told = merged(folders, tmp_path / "out")
    assert len(told) == 1
    assert mentions(told[0], "units", "digits")
    data = fw.load(out)
    for folder in folders:
        part = fw.load(folder)
        for name in part.data_vars:
            assert data[name].sel(instance=part["instance"]).equals(part[name]), name
    assert sound(verify(out))


@pytest.mark.slow
def test_figures_and_tables(tmp_path: Path) -> None:
    data = fw.run({**SMALL, "instances": 3, "block": 2}, tmp_path / "whole", workers=1)
    folders = [tmp_path / "0", tmp_path / "1"]
    for k, n in ((0, 2), (2, 1)):
        fw.run({**SMALL, "instances": n, "first_instance": k, "block": 2}, folders[k // 2], workers=1)
    assert fw.merge(folders, tmp_path / "out").identical(data)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert mentions((folders[0] / "table.md").read_text(), "5 rounds", "2 instances", "seed 0")
    assert mentions((tmp_path / "out" / "table.md").read_text(), "5 rounds", "3 instances")


def test_parts_and_files_of_ones_own_are_kept_and_not_imported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text())
    (tmp_path / "devices.csv").write_text("count,rate,distance_m\n4,2,300\n")
    asked = {
        **SMALL,
        "imports": [str(tmp_path / "mine.py")],
        "schedulers": ["heavy-test", "age"],
        "network": {"kind": "table", "file": str(tmp_path / "devices.csv"), "slots": 2},
    }
    with forgotten():
        folders = [lot(tmp_path / "a", 0, 1, asked), lot(tmp_path / "b", 1, 1, asked)]
    (tmp_path / "mine.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "devices.csv").unlink()
    out, _ = merged(folders, tmp_path / "out")
    assert {"inputs/mine.py", "inputs/devices.csv"} <= contents(out).keys()
    assert sound(verify(out))
    (folders[0] / "inputs/devices.csv").write_text("count,rate,distance_m\n4,3,300\n")
    with refused("inputs/devices.csv"):
        merged(folders, tmp_path / "again")


def test_merged_lots_can_be_merged_and_mended(lots: list[Path], tmp_path: Path) -> None:
    two, _ = merged(lots[:2], tmp_path / "two")
    out, _ = merged([two, lots[2]], tmp_path / "out")
    before = contents(out)
    assert len(read_done(out).units) == 6
    next(out.glob("rounds/*age*")).unlink()
    assert not sound(verify(out))
    run_experiment(RunFolder(out).experiment(), out, workers=1)
    assert contents(out) == before


def test_a_merge_that_fails_leaves_the_new_folder_empty(
    lots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module.RunFolder, "write_merged", stopped)
        with pytest.raises(KeyboardInterrupt):
            merged(lots, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {".lock"}
    before = [contents(folder) for folder in lots]
    out, _ = merged(lots, tmp_path / "out")
    assert sound(verify(out))
    assert [contents(folder) for folder in lots] == before


def test_what_is_not_a_list_of_folders(tmp_path: Path) -> None:
    with refused("folders", "'a'"):
        fw.merge("a", tmp_path / "out")
    with refused("1 folder"):
        fw.merge([tmp_path], tmp_path / "out")
    with refused("out", "''"):
        fw.merge([tmp_path, tmp_path], "")


def test_lots_that_are_shown_in_other_ways_or_made_with_other_versions(tmp_path: Path) -> None:
    folders = [lot(tmp_path / "a", 0, 1, SMALL, "name=first"), lot(tmp_path / "b", 1, 1)]
    rewritten(folders[1], lambda line: line.get("versions", {}).update(numpy="1.0"))
    told: list[str] = []
    with merging(folders, tmp_path / "out", told.append) as results:
        assert results.experiment.name == "first"
    assert len(told) == 2
    assert mentions(told[0], '"experiment"', '"first"', folders[0], folders[1])
    assert mentions(told[1], "numpy", "made")
    notes = [one.text for one in verify(tmp_path / "out") if one.state == "note"]
    assert any(mentions(note, "numpy", "with") for note in notes)


# --- what does not fit together -------------------------------------------------------------------


DAMAGE: dict[str, tuple[Callable[[Path], object], tuple[object, ...]]] = {
    "one that was stopped": (lambda f: cut(f / "done.jsonl"), ("finished", "1 of 2", "`fedwave resume second`")),
    "one without sums": (lambda f: (f / "SHA256SUMS").unlink(), ("finished", "SHA256SUMS")),
    "a lost table": (lambda f: (f / "rounds/0000_age_1-1.parquet").unlink(), ("sound", "rounds/0000_age_1-1.parquet")),
    "an edited config": (lambda f: (f / "config.yaml").write_text("seed: 1"), ("sound", "second/config.yaml")),
    "no run.json": (lambda f: (f / "run.json").unlink(), ("run.json",)),
    "no folder": (lambda f: shutil.rmtree(f), ("run folder",)),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_folder_that_is_not_finished_or_not_sound(damage: str) -> None:
    do, tokens = DAMAGE[damage]
    do(Path("second"))
    assert mentions(refusal("first", "second"), "second", *tokens)


@pytest.mark.usefixtures("here")
def test_instances_twice_and_instances_missing() -> None:
    lot(Path("late"), 4, 2)
    lot(Path("over"), 1, 2)
    assert mentions(refusal("second", "late"), "first_instance=2", "instances=2", "second", "late")
    assert mentions(refusal("late", "second", "first"), "first_instance=2", "instances=2", "second", "late")
    assert mentions(refusal("over", "first", "second"), "instances 1 to 1", "second", "over")
    assert mentions(refusal("over", "over"), "instances 1 to 2", "over")


OTHERS: dict[str, tuple[Mapping[str, Any], tuple[object, ...]]] = {
    "seed": ({"seed": 1}, ("seed", 1, 0)),
    "slots": ({"network": {**SMALL["network"], "slots": 3}}, ("network.slots", 3, 2)),
    "order": ({"schedulers": ["random", "age"]}, ("schedulers", '["random", "age"]', '["age", "random"]')),
    "a sweep": ({"sweep": {"seed": [0, 1]}}, ("sweep.seed", "[0, 1]")),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("other", OTHERS)
def test_another_experiment_is_refused_with_the_field(other: str) -> None:
    fields, tokens = OTHERS[other]
    lot(Path("other"), 1, 1, {**SMALL, **fields})
    assert mentions(refusal("first", "other"), "first", "other", *tokens)


@pytest.mark.usefixtures("here")
def test_sweeps_that_do_not_fit() -> None:
    axes: dict[str, list[Any]] = {"seed": [0, 1], "network.slots": [1, 2]}
    lot(Path("a"), 0, 1, {**SMALL, "sweep": axes})
    lot(Path("b"), 1, 1, {**SMALL, "sweep": dict(reversed(axes.items()))})
    assert mentions(refusal("a", "b"), "sweep", '["network.slots", "seed"]', '["seed", "network.slots"]')
    for name, first in (("c", 0), ("d", 2)):
        lot(Path(name), first, 2, {**SMALL, "sweep": {"instances": [1, 2]}})
    assert mentions(refusal("c", "d"), "c", "instances", "sweep")


@pytest.mark.usefixtures("here")
def test_another_version_of_the_numerics(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = manifest.Manifest.of
    monkeypatch.setattr(manifest.Manifest, "of", lambda *given: replace(whole(*given), numerics=NUMERICS - 1))
    lot(Path("older"), 1, 1)
    assert mentions(refusal("first", "older"), "older", "numerics", NUMERICS - 1, NUMERICS)


@pytest.mark.usefixtures("here")
def test_other_inputs() -> None:
    asked = {**SMALL, "network": {"kind": "table", "file": "devices.csv", "slots": 1}}
    for first, rate in enumerate((2, 3)):
        Path("devices.csv").write_text(f"count,rate,distance_m\n2,{rate},300\n")
        lot(Path(f"run-{first}"), first, 1, asked)
    assert mentions(refusal("run-0", "run-1"), "run-0", "run-1", "inputs/devices.csv")


@pytest.mark.usefixtures("here")
def test_a_folder_that_is_not_empty() -> None:
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    assert mentions(refusal("first", "second", out="full"), "full", "notes.txt")
    assert [path.name for path in Path("full").iterdir()] == ["notes.txt"]
    assert mentions(refusal("first", "second", out="first"), "first", "empty")
    Path("file").write_text("mine")
    assert mentions(refusal("first", "second", out="file"), "file is a file")
