"""Folders that do not fit together are refused in one sentence, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forged_folders import forge
from lots import SMALL, TASK, listed, lot
from odd_files import pipe
from time_limit import time_limit

import fedwave as fw
from fedwave.experiments.results.folder import RunFolder
from fedwave.experiments.results.lots import read_lots
from fedwave.version import NUMERICS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the lots first (0 and 1) and second (2 and 3)."""
    place = tmp_path_factory.mktemp("made")
    lot(place / "first", 0, 2)
    lot(place / "second", 2, 2)
    return place


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "lots")
    monkeypatch.chdir(tmp_path / "lots")
    return tmp_path


def refused(*folders: str, out: str = "out") -> str:
    before = Path(out).exists()
    with pytest.raises(fw.FedwaveError) as error, time_limit(60):
        fw.merge(folders, out)
    assert Path(out).exists() == before
    assert "\n" not in str(error.value)
    return str(error.value)


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _piped(path: Path) -> None:
    path.unlink()
    pipe(path)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "an unfinished one": (
        lambda f: (f / "units/0000_age_2-3.json").unlink(),
        "second is not sound: units/0000_age_2-3.json: missing",
    ),
    "one that was stopped": (
        lambda f: [(f / name).unlink() for name in ("units/0000_age_2-3.json", "SHA256SUMS")],
        "second is not finished (1 of 2 units not finished: `fedwave resume second` goes on): only finished runs can "
        "be merged.",
    ),
    "one without sums": (
        lambda f: (f / "SHA256SUMS").unlink(),
        "second is not finished (there is no SHA256SUMS: it is written when the run ends)",
    ),
    "a flipped bit": (lambda f: _flip(f / "rounds/0000_random_2-3.parquet"), "second is not sound: rounds/0000_random"),
    "an edited config": (
        lambda f: (f / "config.yaml").write_text((f / "config.yaml").read_text().replace("seed: 0", "seed: 1")),
        "second is not sound: second/config.yaml has changed since the run was begun (its seed is 1, was 0)",
    ),
    "no plan": (lambda f: (f / "plan.json").unlink(), "second is not sound: plan.json: missing"),
    "no config": (lambda f: (f / "config.yaml").unlink(), "second is no run folder: it has no config.yaml."),
    "a pipe as a table": (lambda f: _piped(f / "devices/0000_age_2-3.parquet"), "second is not sound: devices/0000"),
    "no folder": (lambda f: shutil.rmtree(f), "there is no run folder at second."),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_folder_that_is_not_finished_or_not_sound(damage: str, here: Path) -> None:
    do, sentence = DAMAGE[damage]
    do(Path("second"))
    assert refused("first", "second").startswith(sentence)


def test_instances_twice_and_instances_missing(here: Path) -> None:
    lot(Path("late"), 5, 2)
    lot(Path("over"), 1, 2)
    assert refused("first", "late") == (
        "instances 2 to 4 are missing between first and late: run the same experiment with first_instance=2 "
        "instances=3, and merge that too."
    )
    assert refused("late", "second", "first").startswith(
        "instance 4 is missing between second and late: run the same experiment with first_instance=4 instances=1,"
    )
    assert refused("over", "first", "second").startswith("instance 1 is in first and in over: every")
    assert refused("second", "first", "second").startswith("instances 2 to 3 are in second and in second")


OTHERS: dict[str, tuple[tuple[str, ...], str]] = {
    "seed": (("seed=1",), "its seed is 1, not 0; only runs that differ in their instances can be merged."),
    "rounds": (("rounds=6",), "its rounds is 6, not 5;"),
    "slots": (("network.slots=3",), "its network.slots is 3, not 2;"),
    "schedulers": (("schedulers=[age]",), 'its schedulers is ["age"], not ["age", "random"];'),
    "order": (("schedulers=[random,age]",), 'its schedulers is ["random", "age"], not ["age", "random"];'),
    "metrics": (("metrics=[worst_age]",), 'its metrics is ["worst_age"], not [];'),
    "a sweep": (("sweep.seed=[0,1]",), "its sweep.seed is [0, 1], not null;"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_experiment_is_refused_with_the_field(other: str, here: Path) -> None:
    overrides, words = OTHERS[other]
    lot(Path("other"), 2, 1, SMALL, *overrides)
    assert refused("first", "other").startswith(f"other holds another experiment than first: {words}")


def test_the_same_instances_with_other_schedulers(here: Path) -> None:
    lot(Path("other"), 0, 2, SMALL, "schedulers=[balsa]")
    assert "its schedulers is" in refused("first", "other")


def test_the_order_of_the_axes_of_a_sweep(here: Path) -> None:
    axes: dict[str, list[Any]] = {"seed": [0, 1], "network.slots": [1, 2]}
    lot(Path("a"), 0, 1, {**SMALL, "sweep": axes})
    lot(Path("b"), 1, 1, {**SMALL, "sweep": dict(reversed(axes.items()))})
    assert 'its sweep is ["network.slots", "seed"], not ["seed", "network.slots"];' in refused("a", "b")


def test_a_sweep_over_the_number_of_instances(here: Path) -> None:
    for name, first in (("a", 0), ("b", 2)):
        lot(Path(name), first, 2, {**SMALL, "sweep": {"instances": [1, 2]}})
    assert refused("a", "b").startswith("a varies instances in its sweep")


@pytest.mark.slow
def test_other_precision(here: Path) -> None:
    lot(Path("a"), 0, 1, TASK)
    lot(Path("b"), 1, 1, TASK, "training.precision=float64")
    assert 'its training.precision is "float64", not "float32";' in refused("a", "b")


def test_another_version_of_the_numerics(here: Path) -> None:
    forge(Path("second/plan.json"), lambda content: content.update(numerics=NUMERICS - 1))
    for unit in RunFolder(Path("second")).units():
        record = Path(f"second/units/{unit.name}.json")
        forge(record, lambda content, u=unit: content.update(fingerprint=u.fingerprint))
    Path("second/SHA256SUMS").unlink()
    listed(Path("second"))
    assert refused("first", "second").startswith(
        f"first was run with version {NUMERICS} of the numerics, second with version {NUMERICS - 1}: their numbers"
    )


def test_other_inputs(here: Path) -> None:
    asked = {**SMALL, "network": {"kind": "table", "file": "devices.csv", "slots": 1}}
    for first, rate in enumerate((2, 3)):
        Path("devices.csv").write_text(f"count,rate,distance_m\n2,{rate},300\n")
        lot(Path(f"run-{first}"), first, 1, asked)
    assert refused("run-0", "run-1") == (
        "run-1 and run-0 were not run with the same inputs/devices.csv: they cannot be merged."
    )


def test_a_folder_that_is_not_empty(here: Path) -> None:
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    sentence = "full is not empty (notes.txt is there): choose a new folder."
    assert refused("first", "second", out="full") == sentence
    assert [path.name for path in Path("full").iterdir()] == ["notes.txt"]
    assert refused("first", "second", out="first").startswith("first is not empty (")
    Path("file").write_text("mine")
    assert refused("first", "second", out="file") == "file is a file: choose a new folder."
    assert "lies in rounds/ of the run folder" in refused("first", "second", out="first/rounds/new")


def test_lots_come_in_the_order_of_their_instances(here: Path) -> None:
    found = read_lots([Path("second"), Path("first")])
    assert [lot.numbers for lot in found] == [range(2), range(2, 4)]
