"""Recorded gains and recorded arrivals: what an array ``[T, U]`` or ``[T, I, U]`` needs to stand for a model."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from fedwave.errors import FedwaveError
from fedwave.files.tables import read_array
from fedwave.rng import Block
from fedwave.types import Array


class Recorded:
    """A record, the first field of its class: ``[T, U]`` for all instances, or ``[T, I, U]``."""

    what: ClassVar[str]  # is recorded

    @classmethod
    def from_file(cls, path: str) -> Self:
        """Reads a .npy file, or a .csv file with a line per round and a column per device."""
        return cls(read_array(path, f"the record of {cls.what}"))  # type: ignore[call-arg]  # the record

    @property
    def record(self) -> Array:
        """The array."""
        record: Array = getattr(self, fields(self)[0].name)  # type: ignore[arg-type]  # a dataclass
        return record

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.record.shape})"

    @property
    def shared(self) -> bool:
        """Is the record the same in every instance: given once, or copied?"""
        record = self.record
        return record.ndim == 2 or all(np.array_equal(record[:, 0], record[:, i]) for i in range(1, record.shape[1]))

    def check_run(self, rounds: int, devices: int, last_instance: int) -> None:
        """Raises FedwaveError if the record does not cover a run."""
        shape = self.record.shape
        hint = " Transposed?" if shape[0] == devices and shape[-1] >= rounds else ""
        if shape[0] < rounds:
            raise FedwaveError(
                f"the recorded {self.what} cover {shape[0]} rounds but the run has {rounds}: "
                f"record more, or run fewer rounds.{hint}"
            )
        if shape[-1] != devices:
            raise FedwaveError(
                f"the recorded {self.what} are of {shape[-1]} devices but the network has {devices}: "
                f"give a record with one column per device.{hint}"
            )
        if len(shape) == 3 and shape[1] <= last_instance:
            raise FedwaveError(
                f"the recorded {self.what} cover {shape[1]} instances but the run needs {last_instance + 1}: "
                "record more, or run fewer instances."
            )

    def rounds_of(self, block: Block) -> Array:
        """The rounds of a block, ``[B, I, U]``; zeros after the end of the record.

        A block may reach past the last round that is played, and only there past the record: ``check_run`` is called
        before the run.
        """
        rows = self.record[block.first - 1 : block.first - 1 + block.rounds]
        rows = rows[:, None, :] if rows.ndim == 2 else rows[:, block.ids, :]
        out = np.zeros((block.rounds, block.ids.size, block.devices), dtype=rows.dtype)
        out[: rows.shape[0]] = rows
        return out


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
