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
from refusals import mentions
from time_limit import time_limit

import fedwave as fw
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.lots import read_lots
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


def refusal(*folders: str, out: str = "out") -> str:
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


DAMAGE: dict[str, tuple[Callable[[Path], object], tuple[object, ...]]] = {
    "an unfinished one": (lambda f: (f / "units/0000_age_2-3.json").unlink(), ("sound", "units/0000_age_2-3.json")),
    "one that was stopped": (
        lambda f: [(f / name).unlink() for name in ("units/0000_age_2-3.json", "SHA256SUMS")],
        ("finished", "1 of 2", "`fedwave resume second`"),
    ),
    "one without sums": (lambda f: (f / "SHA256SUMS").unlink(), ("finished", "SHA256SUMS")),
    "a flipped bit": (
        lambda f: _flip(f / "rounds/0000_random_2-3.parquet"),
        ("sound", "rounds/0000_random_2-3.parquet"),
    ),
    "an edited config": (
        lambda f: (f / "config.yaml").write_text((f / "config.yaml").read_text().replace("\nseed: 0", "\nseed: 1")),
        ("sound", "second/config.yaml", "seed", 1, 0),
    ),
    "no plan": (lambda f: (f / "plan.json").unlink(), ("sound", "plan.json")),
    "no config": (lambda f: (f / "config.yaml").unlink(), ("config.yaml",)),
    "a pipe as a table": (lambda f: _piped(f / "devices/0000_age_2-3.parquet"), ("sound", "0000_age_2-3.parquet")),
    "no folder": (lambda f: shutil.rmtree(f), ("run folder",)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_folder_that_is_not_finished_or_not_sound(damage: str, here: Path) -> None:
    do, tokens = DAMAGE[damage]
    do(Path("second"))
    assert mentions(refusal("first", "second"), "second", *tokens)


def test_instances_twice_and_instances_missing(here: Path) -> None:
    lot(Path("late"), 5, 2)
    lot(Path("over"), 1, 2)
    assert mentions(refusal("first", "late"), "first_instance=2", "instances=3", "first", "late")
    assert mentions(refusal("late", "second", "first"), "first_instance=4", "instances=1", "second", "late")
    assert mentions(refusal("over", "first", "second"), "instance 1", "first", "over")
    assert mentions(refusal("second", "first", "second"), "instances 2 to 3", "second")


OTHERS: dict[str, tuple[tuple[str, ...], tuple[object, ...]]] = {
    "seed": (("seed=1",), ("seed", 1, 0)),
    "rounds": (("rounds=6",), ("rounds", 6, 5)),
    "slots": (("network.slots=3",), ("network.slots", 3, 2)),
    "schedulers": (("schedulers=[age]",), ("schedulers", '["age"]', '["age", "random"]')),
    "order": (("schedulers=[random,age]",), ("schedulers", '["random", "age"]', '["age", "random"]')),
    "metrics": (("metrics=[worst_age]",), ("metrics", '["worst_age"]')),
    "a sweep": (("sweep.seed=[0,1]",), ("sweep.seed", "[0, 1]")),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_experiment_is_refused_with_the_field(other: str, here: Path) -> None:
    overrides, tokens = OTHERS[other]
    lot(Path("other"), 2, 1, SMALL, *overrides)
    assert mentions(refusal("first", "other"), "first", "other", *tokens)


def test_the_same_instances_with_other_schedulers(here: Path) -> None:
    lot(Path("other"), 0, 2, SMALL, "schedulers=[balsa]")
    assert mentions(refusal("first", "other"), "schedulers")


def test_the_order_of_the_axes_of_a_sweep(here: Path) -> None:
    axes: dict[str, list[Any]] = {"seed": [0, 1], "network.slots": [1, 2]}
    lot(Path("a"), 0, 1, {**SMALL, "sweep": axes})
    lot(Path("b"), 1, 1, {**SMALL, "sweep": dict(reversed(axes.items()))})
    assert mentions(refusal("a", "b"), "sweep", '["network.slots", "seed"]', '["seed", "network.slots"]')


def test_a_sweep_over_the_number_of_instances(here: Path) -> None:
    for name, first in (("a", 0), ("b", 2)):
        lot(Path(name), first, 2, {**SMALL, "sweep": {"instances": [1, 2]}})
    assert mentions(refusal("a", "b"), "a", "instances", "sweep")


@pytest.mark.slow
def test_other_precision(here: Path) -> None:
    lot(Path("a"), 0, 1, TASK)
    lot(Path("b"), 1, 1, TASK, "training.precision=float64")
    assert mentions(refusal("a", "b"), "training.precision", "float64", "float32")


def test_another_version_of_the_numerics(here: Path) -> None:
    forge(Path("second/plan.json"), lambda content: content.update(numerics=NUMERICS - 1))
    for unit in RunFolder(Path("second")).units():
        record = Path(f"second/units/{unit.name}.json")
        forge(record, lambda content, u=unit: content.update(fingerprint=u.fingerprint))
    Path("second/SHA256SUMS").unlink()
    listed(Path("second"))
    assert mentions(refusal("first", "second"), "first", NUMERICS, "second", NUMERICS - 1)


def test_other_inputs(here: Path) -> None:
    asked = {**SMALL, "network": {"kind": "table", "file": "devices.csv", "slots": 1}}
    for first, rate in enumerate((2, 3)):
        Path("devices.csv").write_text(f"count,rate,distance_m\n2,{rate},300\n")
        lot(Path(f"run-{first}"), first, 1, asked)
    assert mentions(refusal("run-0", "run-1"), "run-0", "run-1", "inputs/devices.csv")


def test_a_folder_that_is_not_empty(here: Path) -> None:
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    assert mentions(refusal("first", "second", out="full"), "full", "notes.txt")
    assert [path.name for path in Path("full").iterdir()] == ["notes.txt"]
    assert mentions(refusal("first", "second", out="first"), "first", "empty")
    Path("file").write_text("mine")
    assert mentions(refusal("first", "second", out="file"), "file is a file")
    assert mentions(refusal("first", "second", out="first/rounds/new"), "rounds/")


def test_lots_come_in_the_order_of_their_instances(here: Path) -> None:
    found = read_lots([Path("second"), Path("first")])
    assert [lot.numbers for lot in found] == [range(2), range(2, 4)]
