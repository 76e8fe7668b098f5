"""Recorded arrays ``[T, U]`` or ``[T, I, U]``: their checks, and the block of rounds that a World asks for."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.rng import Block
from fedwave.types import Array


def as_record(values: Any, kind: type, what: str) -> Array:
    """A read-only copy of a record, as numbers of this type."""
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biufO":  # numpy would convert complex numbers, dates and texts without an error
            raise TypeError
        record: Array = np.array(given, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        raise FedwaveError(
            f"{what} hold something that is not a number, or rows of different lengths: clean the record first."
        ) from None
    if record.ndim not in (2, 3):
        raise FedwaveError(f"{what} have {record.ndim} axes, must be [round, device] or [round, instance, device].")
    if record.size == 0:
        raise FedwaveError(f"{what} have shape {record.shape}, must not be empty.")
    record.flags.writeable = False
    return record


def same_in_all_instances(record: Array) -> bool:
    """Is the record the same in every instance: given once, or copied?"""
    return record.ndim == 2 or all(np.array_equal(record[:, 0], record[:, i]) for i in range(1, record.shape[1]))


def check_covers(what: str, record: Array, rounds: int, devices: int, last_instance: int) -> None:
    """Raises FedwaveError if a record does not cover a run."""
    if record.shape[0] < rounds:
        raise FedwaveError(
            f"the recorded {what} cover {record.shape[0]} rounds but the run has {rounds}: "
            "record more, or run fewer rounds."
        )
    if record.shape[-1] != devices:
        raise FedwaveError(
            f"the recorded {what} are of {record.shape[-1]} devices but the network has {devices}: "
            "give a record with one column per device."
        )
    if record.ndim == 3 and record.shape[1] <= last_instance:
        raise FedwaveError(
            f"the recorded {what} cover {record.shape[1]} instances but the run needs {last_instance + 1}: "
            "record more, or run fewer instances."
        )


def recorded_block(record: Array, block: Block) -> Array:
    """The rounds of a block, ``[B, I, U]``; zeros after the end of the record.

    A block may reach past the last round that is played, and only there past the record: ``check_covers`` is called
    before the run.
    """
    rows = record[block.first - 1 : block.first - 1 + block.rounds]
    rows = rows[:, None, :] if record.ndim == 2 else rows[:, block.ids, :]
    out = np.zeros((block.rounds, block.ids.size, block.devices), dtype=record.dtype)
    out[: rows.shape[0]] = rows
    return out
