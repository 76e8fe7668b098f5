"""How and where to train."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fedwave.errors import FedwaveError, as_int, check_number, short_repr
from fedwave.learning.bfloat16 import check_bfloat16
from fedwave.memory import limit

_LARGE = 1_000_000  # parameters of a model that gains from bfloat16 on a GPU
_MOST_LANES = {"cpu": 64, "cuda": 8192}  # more are not faster
_SHARE = 4  # lanes take a quarter of the memory
COPIES = 3  # of a lane's model while it is trained: where it started, as it is, and one in between


@dataclass(frozen=True)
class Settings:
    """How and where to train. Lanes and precision change the last digits of results, so they are recorded with them."""

    tolerance: float = 1e-6  # leave out local training that weighs at most this; 0 trains everything
    device: str = "cpu"  # or "cuda"; "auto" takes a GPU if there is one
    # "float32", "float64", or "bfloat16": float32 weights, bfloat16 layers. "auto" takes bfloat16 for large models on a
    # GPU, else float32.
    precision: str = "float32"
    lanes: int | None = None  # the most models trained at once; None: chosen by the memory

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "float64", "bfloat16", "auto"):
            raise FedwaveError(f"precision is {self.precision!r}, must be 'float32', 'float64', 'bfloat16' or 'auto'.")
        object.__setattr__(self, "device", available_device(self.device))
        if (self.device, self.precision) == ("cpu", "bfloat16"):
            check_bfloat16()
        check_number("tolerance", self.tolerance, ">= 0", "< 1", note=" (0 trains everything)")
        if self.lanes is not None:
            object.__setattr__(self, "lanes", as_int("lanes", self.lanes, 1))

    def for_model(self, model: nn.Module) -> Settings:
        """These settings with a precision and a number of lanes, chosen for this machine where they are open."""
        chosen = self
        numbers = sum(p.numel() for p in model.parameters() if not is_lazy(p))
        if chosen.precision == "auto":
            half = chosen.device == "cuda" and numbers >= _LARGE
            chosen = replace(chosen, precision="bfloat16" if half else "float32")
        if chosen.lanes is None:
            fit = _memory(chosen.device) // _SHARE // (COPIES * max(numbers, 1) * chosen.dtype.itemsize)
            chosen = replace(chosen, lanes=int(min(max(fit, 1), _MOST_LANES[chosen.device])))
        return chosen

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.precision == "float64" else torch.float32


def _memory(device: str) -> float:
    """Bytes of the machine, used or not, so that the same machine always gives the same lanes."""
    return torch.cuda.mem_get_info()[1] if device == "cuda" else limit()


def use_threads(count: int) -> None:
    """Set the number of threads of a step."""
    torch.set_num_threads(count)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread within the block: for steps of a few images, threads wait longer than they work."""
    before = torch.get_num_threads()
    use_threads(1)
    try:
        yield
    finally:
        use_threads(before)


def available_device(wanted: str) -> str:
    """ "cpu" or "cuda"; "auto" takes a GPU if there is one."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted not in ("cpu", "cuda"):
        raise FedwaveError(f"device is {short_repr(wanted)}, must be 'auto', 'cpu' or 'cuda'.")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise FedwaveError("device is 'cuda', but torch finds no CUDA GPU: use 'auto' or 'cpu'.")
    return wanted


def gpu_count() -> int:
    """The number of GPUs."""
    return torch.cuda.device_count()


def gpu_name() -> str:
    """The name of the first GPU."""
    return torch.cuda.get_device_name(0)
