"""How and where to train."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedwave.errors import FedwaveError, is_number, whole


@dataclass(frozen=True)
class Settings:
    """How to train. The settings belong to the results: lanes and precision change the last digits."""

    tolerance: float = 1e-6  # leave out local training that weighs less; 0 trains everything
    device: str = "cpu"  # or "cuda"; "auto" takes a GPU if there is one
    # "float64", or "bfloat16": float32 weights, bfloat16 layers; "auto": bfloat16 on a GPU, float32 on a CPU.
    precision: str = "float32"
    lanes: int | None = None  # models trained at once; None: 64 on a CPU, 1024 on a GPU

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "float64", "bfloat16", "auto"):
            raise FedwaveError(
                f"precision is {self.precision!r}, must be 'float32', 'float64', 'bfloat16' or 'auto'."
            )
        object.__setattr__(self, "device", available_device(self.device))
        on_gpu = self.device == "cuda"
        if self.precision == "auto":
            object.__setattr__(self, "precision", "bfloat16" if on_gpu else "float32")
        if self.lanes is None:
            object.__setattr__(self, "lanes", 1024 if on_gpu else 64)
        if not (is_number(self.tolerance) and 0 <= self.tolerance < 1):
            raise FedwaveError(
                f"tolerance is {self.tolerance}, must lie in [0, 1): 0 trains everything."
            )
        object.__setattr__(self, "lanes", whole("lanes", self.lanes, 1))

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.precision == "float64" else torch.float32


def use_threads(count: int) -> None:
    """Set the number of threads of a step."""
    torch.set_num_threads(count)


def available_device(wanted: str) -> str:
    """ "cpu" or "cuda"; "auto" takes a GPU if there is one."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted not in ("cpu", "cuda") or (wanted == "cuda" and not torch.cuda.is_available()):
        raise FedwaveError(
            f"device is {wanted!r}, must be auto, cpu, or cuda (if there is a CUDA GPU)."
        )
    return wanted


def gpu_count() -> int:
    """The number of GPUs."""
    return torch.cuda.device_count()


def gpu_name() -> str:
    """The name of the first GPU."""
    return torch.cuda.get_device_name(0)
