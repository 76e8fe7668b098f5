"""A unit that is stopped goes on from its checkpoint, bit for bit; one whose checkpoint is damaged starts anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from refusals import mentions

from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.config.units import Unit, cut_into_units, resolve
from fedwave.experiments.run import checkpoints, work
from fedwave.experiments.run.checkpoints import Checkpointer
from fedwave.experiments.run.signals import Stopped
from fedwave.experiments.run.work import run_unit

COMMON = {"network": {"kind": "random", "devices": 5, "slots": 2}, "rounds": 8, "instances": 2, "checkpoint_seconds": 0}
TASK = {"dataset": "synthetic", "model": "logistic", "epochs": 1}
LEARNING = {**COMMON, "task": TASK, "training": {"tolerance": 0, "loss_images": 50, "test_images": 50}, "block": 2}
KINDS: dict[str, dict[str, Any]] = {
    "simulation": {**COMMON, "schedulers": ["balsa"]},
    "replay": {**LEARNING, "schedulers": ["balsa", "age"], "group": 2},
    "replay, half-full buffer": {
        **LEARNING,
        "schedulers": ["balsa", "age"],
        "group": 2,
        "task": {**TASK, "aggregation": "fedbuff:size=3"},
    },
    "lock step": {**LEARNING, "schedulers": ["update-aware"]},
    "lock step, sync": {
        **LEARNING,
        "schedulers": ["update-aware"],
        # So few arrivals that data of earlier rounds are trained on in rounds that bring none.
        "network": {"kind": "random", "devices": 5, "slots": 2, "rate": 0.4},
        "task": {**TASK, "aggregation": "sync"},
    },
}
DAMAGES = {
    "cut off": lambda content: content[:-100],
    "half": lambda content: content[: len(content) // 2],
    "rubbish": lambda content: b"no",
    "empty": lambda content: b"",
    **{f"a bit at {share}": lambda content, share=share: flipped(content, share) for share in (0, 0.3, 0.6, 0.999)},
}


def flipped(content: bytes, share: float) -> bytes:
    at = int(share * len(content))
    return content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :]


def unit_of(kind: str, **changes: Any) -> Unit:
    (unit,) = cut_into_units(resolve(experiment_from(KINDS[kind] | changes)))
    return unit


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_PIECE", 1)


def play(unit: Unit, path: Path | None, stop: int | None = None) -> tuple[xr.Dataset, list[int], list[str]]:
    """Results, rounds reported, warnings; it is asked to stop after ``stop`` rounds."""
    played: list[int] = []
    warnings: list[str] = []
    asked = lambda: stop is not None and sum(played) >= stop  # noqa: E731
    return run_unit(unit, path, played.append, warnings.append, asked), played, warnings


def stopped(unit: Unit, path: Path, share: float = 0.5) -> int:
    """Leaves a checkpoint; returns how many rounds it has."""
    runs = len(unit.instances) * len(unit.schedulers)
    rounds = runs * int(share * unit.experiment.rounds)
    with pytest.raises(Stopped):
        play(unit, path, rounds)
    return rounds


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_it_goes_on_where_it_stopped(kind: str, share: float, tmp_path: Path) -> None:
    unit, path = unit_of(kind), tmp_path / "checkpoint.npz"
    whole, _, _ = play(unit, None)
    before = stopped(unit, path, share)
    data, played, warnings = play(unit, path)
    assert warnings == []
    # The first number that is reported need not be played again; a simulation adds the round that it tries.
    runs = len(unit.instances) * len(unit.schedulers)
    assert next(filter(None, played)) in (before, before + runs)
    assert sum(played) == unit.rounds
    assert data.identical(whole)


@pytest.mark.parametrize("kind", ["simulation", "replay", "lock step"])
def test_a_damaged_checkpoint_is_reported_and_not_used(kind: str, tmp_path: Path) -> None:
    unit, path = unit_of(kind), tmp_path / "checkpoint.npz"
    whole, _, _ = play(unit, None)
    stopped(unit, path)
    content = path.read_bytes()
    for name, damage in DAMAGES.items():
        path.write_bytes(damage(content))
        data, played, warnings = play(unit, path)
        assert len(warnings) == 1, name
        assert mentions(warnings[0], path)
        assert sum(played) == unit.rounds
        assert data.identical(whole), name


@pytest.mark.parametrize("kind", ["replay", "lock step"])
def test_a_checkpoint_of_another_run_is_not_used(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    stopped(unit_of(kind), path)
    _, _, warnings = play(replace(unit_of(kind), run_id="another"), path)
    assert mentions(warnings[0], "another run")


def test_a_folder_in_the_place_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("mine")
    data, _, warnings = play(unit_of("simulation"), tmp_path)
    assert mentions(warnings[0], tmp_path)
    assert data.identical(play(unit_of("simulation"), None)[0])
    assert (tmp_path / "letter").read_text() == "mine"


# --- when one is written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "round_", "writing", "expected"),
    [
        (60.0, 25, 0, [50, 100, 150, 200]),  # never older than asked: not after 75
        (60.0, 1, 45, [59, 553]),  # less than a tenth of the time is spent on writing
        (0.0, 1, 45, [1 + 46 * k for k in range(22)]),  # unless all are asked for
    ],
)
def test_when_a_checkpoint_is_written(
    monkeypatch: pytest.MonkeyPatch, seconds: float, round_: int, writing: int, expected: list[int]
) -> None:
    clock, saved = 0, []
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock)

    def save(write: object) -> None:
        nonlocal clock
        saved.append(clock)
        clock += writing

    checkpointer = Checkpointer(unit_of("simulation", checkpoint_seconds=seconds), None)
    monkeypatch.setattr(checkpointer, "save", save)
    while clock < (1000 if writing else 200):
        clock += round_
        checkpointer.between_rounds(lambda file: None)
    assert saved == expected


def test_a_slow_scheduler_writes_checkpoints_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few devices, so a piece by their number would be the whole run."""
    monkeypatch.setattr(work, "_PIECE", 5_000_000)
    monkeypatch.setattr(work, "_PIECE_SECONDS", 0.2)
    (tmp_path / "slow.py").write_text(
        "import time\nimport fedwave as fw\n\n@fw.register\nclass Slow(fw.Scheduler):\n"
        "    name, needs = 'slow-test', {'backlog'}\n\n    def priority(self, state, seen, draws):\n"
        "        time.sleep(0.1)\n        return seen.waiting\n"
    )
    saved: list[object] = []
    monkeypatch.setattr(Checkpointer, "save", lambda self, write: saved.append(write))
    slow = {"schedulers": ["slow-test"], "rounds": 12, "instances": 1, "checkpoint_seconds": 0.2}
    (unit,) = cut_into_units(resolve(experiment_from(slow, imports=[str(tmp_path / "slow.py")])))
    play(unit, None)
    assert len(saved) >= 3
