"""Checkpoints of a stranger: whole archives with other contents. The unit says so and starts anew."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from summed import with_sum

from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run import work
from fedwave.experiments.run.checkpoints import Checkpointer, FileCheckpointer
from fedwave.experiments.run.envelope import write_enclosed
from fedwave.experiments.run.units import Unit, resolved, units_of
from fedwave.experiments.run.work import run_unit

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
STRANGE: list[Any] = [None, -1, 2**70, 0.5, "x", [], {}, [[9]], [True, True, True]]


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
    """With the envelope that the unit itself would have written around it."""
    file = BytesIO()
    write_enclosed(file, unit.fingerprint, lambda inner: (inner.write(content), None)[1])
    return file.getvalue()


def members(content: bytes) -> dict[str, Any]:
    with np.load(BytesIO(content)) as file:
        return {name: file[name] for name in file.files}


def archive(arrays: dict[str, Any]) -> bytes:
    file = BytesIO()
    np.savez(file, **(with_sum(arrays) if "provenance" in arrays else arrays))
    return file.getvalue()


def forged(rng: np.random.Generator, content: bytes, text: str) -> tuple[str, bytes]:
    """One change in a .npz; ``text`` names the member with JSON in it."""
    arrays = members(content)
    about = json.loads(str(arrays[text]))
    names = sorted(set(arrays) - {text, "sum"})
    name = names[int(rng.integers(len(names)))]
    array = arrays[name]
    key = sorted(about)[int(rng.integers(len(about)))]
    what = int(rng.integers(6))
    if what == 0:
        del arrays[name]
    elif what == 1:
        arrays[name] = array[None]
    elif what == 2:
        arrays[name] = array.astype([np.complex128, "<U3", np.float16, "M8[s]"][int(rng.integers(4))])
    elif what == 3:
        arrays[name] = array.ravel()[: array.size // 2]
    elif what == 4:
        about[key] = STRANGE[int(rng.integers(len(STRANGE)))]
    else:
        del about[key]
    arrays[text] = np.array(json.dumps(about))
    return f"{what} {name} {key} {about.get(key)!r}"[:200], archive(arrays)


def lock_step(rng: np.random.Generator, content: bytes) -> tuple[str, bytes]:
    with zipfile.ZipFile(BytesIO(content)) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    name = ["trace.npz", "models.npz"][int(rng.integers(2))]
    what, parts[name] = forged(rng, parts[name], "provenance" if name == "trace.npz" else "about")
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for part, inside in parts.items():
            made.writestr(part, inside)
    return f"{name} {what}", file.getvalue()


def check(kind: str, count: int, seed: int) -> None:
    """Forged contents are not used; the few that are not told from honest ones change nothing."""
    unit, rng = unit_of(kind), np.random.default_rng(seed)
    content = stopped_halfway(unit)
    whole, used = run_unit(unit, Checkpointer(), lambda rounds: None, pytest.fail), 0
    for _ in range(count):
        text = {"simulation": "provenance", "replay": "about"}.get(kind)
        what, other = forged(rng, content, text) if text else lock_step(rng, content)
        warnings: list[str] = []
        data = run_unit(unit, Kept(enclosed(unit, other)), lambda rounds: None, warnings.append)
        assert all("cannot be used, so the unit starts anew" in one for one in warnings), what
        used += not warnings
        assert data.identical(whole), what
    assert used < count / 3


@pytest.mark.parametrize("kind", KINDS)
def test_forged_checkpoints_are_not_used(kind: str) -> None:
    check(kind, 12 if kind == "simulation" else 6, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_many_forged_checkpoints(kind: str, seed: int) -> None:
    check(kind, 100, 10 + seed)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_in_the_place_of_a_checkpoint(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "checkpoint.npz"
    place.mkdir()
    (place / "letter").write_text("mine")
    warnings: list[str] = []
    data: xr.Dataset = run_unit(unit_of(kind), FileCheckpointer(place, 0), lambda rounds: None, warnings.append)
    assert "cannot be used, so the unit starts anew" in warnings[0]
    assert data.identical(run_unit(unit_of(kind), Checkpointer(), lambda rounds: None, pytest.fail))
    assert (place / "letter").read_text() == "mine"


def test_another_instance_or_seed_in_a_checkpoint() -> None:
    """Its numbers would be those of another world."""
    unit = unit_of("simulation")
    arrays = members(stopped_halfway(unit))
    text = json.loads(str(arrays["provenance"]))
    for change in ({"instances": [1, 0]}, {"seed": 5}):
        arrays["provenance"] = np.array(json.dumps({**text, **change}))
        warnings: list[str] = []
        run_unit(unit, Kept(enclosed(unit, archive(arrays))), lambda rounds: None, warnings.append)
        assert "it is of another unit" in warnings[0]
