"""Checkpoints of a replay as files."""

from __future__ import annotations

from pathlib import Path

from fedwave.files.reading import opened
from fedwave.files.writing import write_whole
from fedwave.learning.checkpoint import read_checkpoint, write_checkpoint
from fedwave.learning.replay import Replay


def save(replay: Replay, path: Path) -> Path:
    return write_whole(path, lambda file: write_checkpoint(replay, file))


def load(replay: Replay, path: Path) -> None:
    with opened(path, str(path)) as (raw, _):
        read_checkpoint(replay, raw, str(path))
