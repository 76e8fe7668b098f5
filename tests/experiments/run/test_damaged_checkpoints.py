"""Checkpoints that are damaged or of another unit: the unit says so and starts anew."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from refusals import mentions
from summed import archive

from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.config.units import Unit, resolved, units_of
from fedwave.experiments.run import work
from fedwave.experiments.run.checkpoints import Checkpointer, FileCheckpointer
from fedwave.experiments.run.work import run_unit
from fedwave.experiments.store.checkpoint_file import write_checkpoint_file

COMMON = {"network": {"kind": "random", "devices": 4, "slots": 2}, "rounds": 5, "instances": 2}
LEARNING = {
    **COMMON,
    "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1},
    "training": {"tolerance": 0, "loss_images": 20, "test_images": 20},
    "block": 2,
}
KINDS: dict[str, dict[str, Any]] = {
    "simulation": {**COMMON, "schedulers": ["balsa"]},
    "replay": {**LEARNING, "schedulers": ["age"]},
    "lock step": {**LEARNING, "schedulers": ["update-aware"]},
}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_PIECE", 1)


class Stopped(Exception):
    pass


def unit_of(kind: str) -> Unit:
    (unit,) = units_of(resolved(experiment_from(KINDS[kind])))
    return unit


class Kept(Checkpointer):
    """Keeps what a unit writes as its last checkpoint."""

    def __init__(self, content: bytes | None = None) -> None:
        super().__init__(0)
        self.content = content

    def save(self, write: Any) -> None:
        file = BytesIO()
        write(file)
        self.content = file.getvalue()

    def load(self) -> Any:
        return None if self.content is None else BytesIO(self.content)


def stopped_halfway(unit: Unit) -> bytes:
    kept, played = Kept(), [0]

    def meter(rounds: int) -> None:
        played[0] += rounds
        if played[0] > unit.rounds // 2:
            raise Stopped

    with pytest.raises(Stopped):
        run_unit(unit, kept, meter, pytest.fail)
    assert kept.content is not None
    return kept.content


def enclosed(unit: Unit, content: bytes) -> bytes:
    """As the unit itself would have written it."""
    file = BytesIO()
    write_checkpoint_file(file, unit, lambda inner: (inner.write(content), None)[1])
    return file.getvalue()


def members(content: bytes) -> dict[str, Any]:
    with np.load(BytesIO(content)) as file:
        return {name: file[name] for name in file.files}


def edited(content: bytes) -> bytes:
    """One byte of the last array changed."""
    at = content.rindex(b"\x93NUMPY", 0, content.rindex(b"\x93NUMPY")) + 200
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [edited, lambda content: content[: len(content) // 2]], ids=["edited", "cut"])
def test_damaged_checkpoints_are_not_used(kind: str, damage: Any) -> None:
    unit = unit_of(kind)
    content = stopped_halfway(unit)
    whole = run_unit(unit, Checkpointer(), lambda rounds: None, pytest.fail)
    assert run_unit(unit, Kept(content), lambda rounds: None, pytest.fail).identical(whole)
    warnings: list[str] = []
    data = run_unit(unit, Kept(damage(content)), lambda rounds: None, warnings.append)
    assert len(warnings) == 1
    assert mentions(warnings[0], "checkpoint")
    assert data.identical(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_in_the_place_of_a_checkpoint(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "checkpoint.npz"
    place.mkdir()
    (place / "letter").write_text("mine")
    warnings: list[str] = []
    data: xr.Dataset = run_unit(unit_of(kind), FileCheckpointer(place, 0), lambda rounds: None, warnings.append)
    assert mentions(warnings[0], "checkpoint")
    assert data.identical(run_unit(unit_of(kind), Checkpointer(), lambda rounds: None, pytest.fail))
    assert (place / "letter").read_text() == "mine"


def test_another_instance_or_seed_in_a_checkpoint() -> None:
    """Its numbers would be those of another world."""
    unit = unit_of("simulation")
    arrays = members(stopped_halfway(unit))
    text = json.loads(str(arrays["header"]))
    for change in ({"instances": [1, 0]}, {"seed": "5"}):
        arrays["header"] = np.array(json.dumps({**text, **change}))
        warnings: list[str] = []
        run_unit(unit, Kept(enclosed(unit, archive(arrays))), lambda rounds: None, warnings.append)
        assert mentions(warnings[0], "another unit")
