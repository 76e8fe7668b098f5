"""Lots that are put together are the run of the whole experiment, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from forged_folders import forge
from lots import SMALL, TASK, contents, listed, lot
from refusals import mentions, refused
from user_file import forgotten, text

import fedwave as fw
from fedwave.experiments import merge as module
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.merge import merging
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.provenance import merged_of, runs_of
from fedwave.experiments.store.sealed import read_sealed
from fedwave.experiments.store.checksums import write_sums
from fedwave.experiments.store.verify import sound, verify
from fedwave.version import NUMERICS


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten():
        yield


def merged(folders: Sequence[Path], out: Path) -> tuple[Path, list[str]]:
    """The folder, without figures and tables, and what was said."""
    told: list[str] = []
    with merging(folders, out, told.append):
        pass
    return listed(out), told


@pytest.fixture(scope="module")
def lots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Instances 0, 1 and 2: tests leave them as they are."""
    place = tmp_path_factory.mktemp("lots")
    return [lot(place / f"lot-{k}", k, 1) for k in range(3)]


SWEEP = {**SMALL, "sweep": {"network.slots": [1, 3], "seed": [4, 5]}}
CASES: dict[str, tuple[Mapping[str, Any], list[int], tuple[str, ...], tuple[str, ...]]] = {
    # the experiment, the sizes of the lots, and what each of them and the whole say
    "simulated": (SMALL, [2, 3, 1], (), ()),
    "in blocks": (SMALL, [4, 3], ("block=2",), ("block=2",)),
    "in blocks across lots": (SMALL, [2, 3], ("block=50",), ("block=3",)),
    "a sweep": (SWEEP, [2, 1], (), ()),
}


@pytest.mark.parametrize("case", CASES)
def test_lots_become_the_whole_run(case: str, tmp_path: Path) -> None:
    asked, sizes, said, of_whole = CASES[case]
    first, folders = 6, []
    for number, size in enumerate(sizes):
        folders.append(lot(tmp_path / str(number), first, size, asked, *said))
        first += size
    whole = lot(tmp_path / "whole", 6, sum(sizes), asked, *of_whole)
    out, told = merged(folders[::-1], tmp_path / "out")  # in any order
    assert not told
    assert contents(out) == contents(whole)
    assert sound(verify(out))
    assert fw.load(out).identical(fw.load(whole))
    assert len(list(out.glob("timings/*.json"))) == len(list(whole.glob("timings/*.json")))


def test_trained_lots_become_the_whole_run(tmp_path: Path) -> None:
    folders = [lot(tmp_path / "a", 0, 1, TASK), lot(tmp_path / "b", 1, 2, TASK)]
    whole = lot(tmp_path / "whole", 0, 3, TASK)
    out, told = merged(folders, tmp_path / "out")
    assert not told
    assert contents(out) == contents(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first, second", [(("block=2",), ("block=1",)), (("group=2",), ()), (("training.lanes=3",), ("training.lanes=4",))]
)
def test_lots_that_were_trained_in_other_units(first: tuple[str, ...], second: tuple[str, ...], tmp_path: Path) -> None:
    asked = {**TASK, "schedulers": ["age", "random", "update-aware"]}
    folders = [lot(tmp_path / "a", 0, 3, asked, *first), lot(tmp_path / "b", 3, 2, asked, *second)]
    out, told = merged(folders, tmp_path / "out")
    assert len(told) == 1
    assert mentions(told[0], "units", "lanes")
    data = fw.load(out)
    for folder in folders:
        part = fw.load(folder)
        for name in part.data_vars:
            assert data[name].sel(instance=part["instance"]).equals(part[name]), name
    assert sound(verify(out))


@pytest.mark.slow
def test_figures_and_tables(tmp_path: Path) -> None:
    data = fw.run({**SMALL, "instances": 3}, tmp_path / "whole", workers=1)
    folders = [
        fw.run({**SMALL, "instances": n, "first_instance": k}, tmp_path / f"{k}", workers=1) and tmp_path / f"{k}"
        for k, n in ((0, 1), (1, 2))
    ]
    assert fw.merge(folders, tmp_path / "out").identical(data)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert mentions((folders[0] / "table.md").read_text(), "5 rounds", "1 instance", "seed 0")
    assert mentions((folders[1] / "table.md").read_text(), "5 rounds", "2 instances", "1 to 2")
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
        whole = lot(tmp_path / "whole", 0, 2, asked)
    (tmp_path / "mine.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "devices.csv").unlink()
    out, _ = merged(folders, tmp_path / "out")
    assert contents(out) == contents(whole)
    assert {"inputs/mine.py", "inputs/devices.csv", "inputs/inputs.json"} <= contents(out).keys()


def test_provenance_names_the_lots_and_merged_lots_can_be_merged(lots: list[Path], tmp_path: Path) -> None:
    two, _ = merged(lots[:2], tmp_path / "two")
    out, _ = merged([two, lots[2]], tmp_path / "out")
    about = merged_of(out)
    assert about is not None
    assert [one["folder"] for one in about["lots"]] == ["lot-0", "lot-1", "lot-2"]
    assert [one["instances"] for one in about["lots"]] == [[0, 0], [1, 1], [2, 2]]
    assert [one["fingerprint"] for one in about["lots"]] == [RunFolder(f).fingerprint() for f in lots]
    assert {one["numerics"] for one in about["lots"]} == {NUMERICS}
    assert [one["fedwave"] for one in about["lots"]] == [[fw.__version__]] * 3
    assert [run["lot"] for run in runs_of(out)] == [one["lot"] for one in about["lots"]]
    took = [read_sealed(path)["seconds"] for f in lots for path in f.glob("timings/*.json")]
    whole = [read_sealed(path)["seconds"] for path in out.glob("timings/*.json")]
    assert sum(whole) == pytest.approx(sum(took), abs=0.01)


def test_a_merged_run_that_is_damaged_is_mended_as_any_other(lots: list[Path], tmp_path: Path) -> None:
    out, _ = merged(lots, tmp_path / "out")
    before = contents(out)
    next(out.glob("rounds/*age*")).unlink()
    assert not sound(verify(out))
    run_experiment(RunFolder(out).experiment(), out, workers=1)
    assert contents(out) == before
    about = merged_of(out)
    assert about is not None
    assert len(about["lots"]) == 3
    assert len(runs_of(out)) == 4


def test_a_merge_that_fails_leaves_the_new_folder_empty(
    lots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_merged_provenance", stopped)
        with pytest.raises(KeyboardInterrupt):
            merged(lots, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} <= {".lock", ".fedwave"}
    before = [contents(folder) for folder in lots]
    out, _ = merged(lots, tmp_path / "out")
    assert sound(verify(out))
    assert [contents(folder) for folder in lots] == before


def test_a_copy_that_is_not_what_was_pinned_is_refused(tmp_path: Path) -> None:
    """A list of inputs from a stranger can leave out the sum, which `verify` then cannot compare."""
    (tmp_path / "devices.csv").write_text("count,rate,distance_m\n4,2,300\n")
    network = {"kind": "table", "file": str(tmp_path / "devices.csv"), "slots": 2}
    folders = [lot(tmp_path / f"{k}", k, 1, {**SMALL, "network": network}) for k in (0, 1)]
    for folder in folders:
        for name in ("inputs/inputs.json", "plan.json"):
            forge(folder / name, lambda content: _without_sum(content, "inputs/devices.csv"))
        for unit in RunFolder(folder).units():
            record = folder / f"units/{unit.name}.json"
            forge(record, lambda c, u=unit: c.update(fingerprint=u.fingerprint))
        (folder / "SHA256SUMS").unlink()
        write_sums(folder, [path.relative_to(folder).as_posix() for path in folder.rglob("*")])
    with refused("devices.csv", "sum"):
        merged(folders, tmp_path / "out")


def _without_sum(content: dict[str, Any], name: str) -> None:
    if name in content:
        content[name]["sha256"] = ""
    else:
        content["inputs"][name] = ""


def test_what_is_no_list_of_folders(tmp_path: Path) -> None:
    with refused("folders", "'a'"):
        fw.merge("a", tmp_path / "out")
    with refused("1 folder"):
        fw.merge([tmp_path], tmp_path / "out")
    with refused("out", "''"):
        fw.merge([tmp_path, tmp_path], "")


def test_lots_that_are_shown_in_other_ways_or_made_with_other_versions(tmp_path: Path) -> None:
    folders = [lot(tmp_path / "a", 0, 1, SMALL, "name=first"), lot(tmp_path / "b", 1, 1)]
    told: list[str] = []

    def older(content: dict[str, Any]) -> None:
        content["runs"][0]["packages"]["numpy"] = "1.0"

    forge(folders[1] / "provenance.json", older)
    with merging(folders, tmp_path / "out", told.append) as results:
        assert results.experiment.name == "first"
    assert len(told) == 2
    assert mentions(told[0], '"experiment"', '"first"', folders[0], folders[1])
    assert mentions(told[1], "numpy", "made")
    assert told[1].endswith("with 1.0.")
    notes = [one.text for one in verify(tmp_path / "out") if one.state == "note"]
    assert any(mentions(note, "numpy", "with") for note in notes)


def test_an_older_folder_is_a_lot_too(lots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Experiments had no field first_instance: their folders are read, resumed and merged as before."""
    from fedwave.experiments.store import folder as written

    real = written.to_yaml
    with monkeypatch.context() as patched:
        patched.setattr(written, "to_yaml", lambda e: real(e).replace("first_instance: 0\n", ""))
        old = tmp_path / "old"
        lot(old, 0, 2, SMALL, "block=1")
    assert "first_instance" not in (old / "config.yaml").read_text()
    new = lot(tmp_path / "new", 0, 2, SMALL, "block=1")
    assert RunFolder(old).fingerprint() == RunFolder(new).fingerprint()
    assert RunFolder(old).stored().first_instance == 0
    next(old.glob("units/*")).unlink()
    asked = experiment_from(SMALL, ["instances=2", "block=1"])
    run_experiment(asked, old, workers=1)
    assert sound(verify(old))
    out, _ = merged([old, lots[2]], tmp_path / "out")
    assert contents(out) == contents(merged([new, lots[2]], tmp_path / "again")[0])
