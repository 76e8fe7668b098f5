"""What a backend does, and where and in which number types it computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedwave.learning.model_rows import ModelRows
from fedwave.learning.sampling import Batches
from fedwave.types import IntArray


@dataclass(frozen=True)
class Precision:
    """A device, the type of parameters and, if they differ, of layers."""

    device: torch.device
    dtype: torch.dtype
    half: torch.dtype | None = None

    def autocast(self) -> torch.autocast:
        """The context that layers are computed in."""
        return torch.autocast(self.device.type, self.half, enabled=self.half is not None)


class Backend(ABC):
    """Trains and evaluates many models of one kind, which are rows of tensors."""

    needs_keys: bool  # has the model random layers, whose lanes need keys?

    @abstractmethod
    def train(self, rows: ModelRows, batches: Batches, keys: IntArray) -> ModelRows:
        """The models after local training, in rows that the next call may overwrite; ``rows`` stay as they are.

        Each row is a lane, longest first; ``keys`` are those of their random layers.
        """

    @abstractmethod
    def logits(self, rows: ModelRows, images: Tensor) -> Tensor:
        """The outputs in evaluation mode, ``[model, image, class]``."""
