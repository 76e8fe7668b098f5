"""A unit that is stopped goes on from its checkpoint, bit for bit; one whose checkpoint is damaged starts anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from refusals import mentions

from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.config.units import Unit, resolved, units_of
from fedwave.experiments.run import work
from fedwave.experiments.run.checkpoints import Checkpointer, FileCheckpointer
from fedwave.experiments.run.work import run_unit

COMMON = {"network": {"kind": "random", "devices": 5, "slots": 2}, "rounds": 8, "instances": 2}
LEARNING = {
    **COMMON,
    "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1},
    "training": {"tolerance": 0, "loss_images": 50, "test_images": 50},
    "block": 2,
}
KINDS: dict[str, dict[str, Any]] = {
    "simulation": {**COMMON, "schedulers": ["balsa"]},
    "replay": {**LEARNING, "schedulers": ["balsa", "age"], "group": 2},
    "replay, half-full buffer": {
        **LEARNING,
        "schedulers": ["balsa", "age"],
        "group": 2,
        "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1, "aggregation": "fedbuff:size=3"},
    },
    "lock step": {**LEARNING, "schedulers": ["update-aware"]},
    "lock step, sync": {
        **LEARNING,
        "schedulers": ["update-aware"],
        # So few arrivals that data of earlier rounds are trained on in rounds that bring none.
        "network": {"kind": "random", "devices": 5, "slots": 2, "rate": 0.4},
        "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1, "aggregation": "sync"},
    },
}


def unit_of(kind: str) -> Unit:
    (unit,) = units_of(resolved(experiment_from(KINDS[kind])))
    return unit


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_PIECE", 1)


class Stopped(Exception):
    pass


def play(unit: Unit, path: Path, stop: int | None = None) -> tuple[xr.Dataset, list[int], list[str]]:
    """Results, rounds reported, warnings; stopped (by an exception) after ``stop`` rounds."""
    played: list[int] = []
    warnings: list[str] = []

    def meter(rounds: int) -> None:
        played.append(rounds)
        if stop is not None and sum(played) >= stop:
            raise Stopped

    data = run_unit(unit, FileCheckpointer(path, 0), meter, warnings.append)
    return data, played, warnings


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_it_goes_on_where_it_stopped(kind: str, share: float, tmp_path: Path) -> None:
    unit, path = unit_of(kind), tmp_path / "checkpoint.npz"
    whole = run_unit(unit, Checkpointer(), lambda rounds: None, pytest.fail)
    with pytest.raises(Stopped):
        play(unit, path, stop=int(share * unit.rounds))
    data, played, warnings = play(unit, path)
    assert warnings == []
    # The first number reported is what need not be played again: all but the round it was stopped in.
    runs = len(unit.instances) * len(unit.schedulers)
    assert next(filter(None, played)) >= int(share * unit.rounds) - 2 * runs
    assert sum(played) == unit.rounds
    assert data.identical(whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["cut off", "rubbish", "empty"])
def test_a_damaged_checkpoint_is_reported_and_not_used(kind: str, damage: str, tmp_path: Path) -> None:
    unit, path = unit_of(kind), tmp_path / "checkpoint.npz"
    with pytest.raises(Stopped):
        play(unit, path, stop=unit.rounds // 2)
    damaged = {"cut off": path.read_bytes()[:-100], "rubbish": b"no", "empty": b""}
    path.write_bytes(damaged[damage])
    data, played, warnings = play(unit, path)
    assert len(warnings) == 1
    assert mentions(warnings[0], path)
    assert sum(played) == unit.rounds
    assert data.identical(run_unit(unit, Checkpointer(), lambda rounds: None, pytest.fail))


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_noticed(kind: str, tmp_path: Path) -> None:
    unit, path = unit_of(kind), tmp_path / "checkpoint.npz"
    with pytest.raises(Stopped):
        play(unit, path, stop=unit.rounds // 2)
    whole, content = (run_unit(unit, Checkpointer(), lambda rounds: None, pytest.fail), path.read_bytes())
    places = [place * len(content) // 6 for place in range(6)]
    for place in (*places, len(content) - 100, len(content) - 40, len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 16
        path.write_bytes(damaged)
        data, _, warnings = play(unit, path)
        assert len(warnings) == 1
        assert data.identical(whole)


def test_a_checkpoint_of_another_unit_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(Stopped):
        play(unit_of("replay"), path, stop=8)
    _, _, warnings = play(replace(unit_of("replay"), run_id="another"), path)
    assert mentions(warnings[0], "another run")
