"""Evaluation of the central model on fixed subsets, the same for every run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedwave.errors import whole
from fedwave.learning.curves import Evaluation
from fedwave.learning.state import Tensors
from fedwave.learning.task import Task, subset
from fedwave.types import IntArray


@dataclass(frozen=True)
class EvaluationSizes:
    """The numbers of images that the central model is evaluated on."""

    loss_images: int = 2000  # training images, for the loss
    test_images: int = 10_000  # test images of every round
    full_every: int = 0  # rounds between tests on all test images; 0: never

    def __post_init__(self) -> None:
        for name, least in (("loss_images", 1), ("test_images", 1), ("full_every", 0)):
            object.__setattr__(self, name, whole(name, getattr(self, name), least))


class Evaluator:
    """Training loss and test accuracy, overall and per class, of one central model."""

    def __init__(
        self,
        task: Task,
        sizes: EvaluationSizes,
        device: torch.device,
        dtype: torch.dtype,
        autocast: torch.dtype | None = None,
    ) -> None:
        self._autocast = torch.autocast(device.type, autocast, enabled=autocast is not None)
        data = task.dataset
        self._classes, self._sizes = data.classes, sizes
        chosen = subset(len(data.train_labels), sizes.loss_images)
        self._loss_images = torch.as_tensor(data.train_images[chosen]).to(device, dtype)
        self._loss_labels = torch.as_tensor(data.train_labels[chosen]).to(device)
        test = subset(len(data.test_labels), sizes.test_images)
        kept = np.arange(len(data.test_labels)) if sizes.full_every else test
        self._images = torch.as_tensor(data.test_images[kept]).to(device, dtype)
        self._labels = torch.as_tensor(data.test_labels[kept]).to(device)
        # As many as asked for, or all there are: what captions state.
        self.images_used = {"loss_images": len(chosen), "test_images": len(test)}
        # Indices of the images of every round among those kept.
        self._usual = torch.as_tensor(np.flatnonzero(np.isin(kept, test))).to(device)
        self._usual_images, self._usual_labels = self._images, self._labels
        if sizes.full_every:
            self._usual_images = self._images[self._usual]
            self._usual_labels = self._labels[self._usual]

    def __call__(
        self, model: nn.Module, parameters: Tensors, buffers: Tensors, *, full: bool
    ) -> Evaluation:
        """Evaluate one model; with ``full`` on all test images too.

        The usual test images are used in every round, so that a curve never mixes two sets of images.
        """
        model.eval()
        with torch.no_grad(), self._autocast:
            logits = self._logits(model, parameters, buffers, self._loss_images)
            # Half precision is too coarse for a mean over thousands of images.
            wide = logits.float() if logits.element_size() < 4 else logits
            loss = F.cross_entropy(wide, self._loss_labels)
            images = self._images if full else self._usual_images
            guess = self._logits(model, parameters, buffers, images).argmax(dim=1)
        labels = self._labels if full else self._usual_labels
        usual = self._usual if full else slice(None)
        of_all = self._counts(guess, labels) if full else (None, None)
        return Evaluation(float(loss), *self._counts(guess[usual], labels[usual]), *of_all)

    def many(
        self, model: nn.Module, parameters: Tensors, buffers: Tensors, *, full: bool
    ) -> list[Evaluation]:
        """Evaluate several models; parameters and buffers ``[N, ...]``."""
        count = len(next(iter(parameters.values())))
        return [
            self(
                model,
                {k: p[i] for k, p in parameters.items()},
                {k: p[i] for k, p in buffers.items()},
                full=full,
            )
            for i in range(count)
        ]

    def full_in(self, round_: int, last: int) -> bool:
        """Is this a round in which all test images are used?"""
        every = self._sizes.full_every
        return bool(every) and (round_ % every == 0 or round_ == last)

    def _counts(self, guess: Tensor, labels: Tensor) -> tuple[IntArray, IntArray]:
        """Right answers and images of every class."""
        right, images = (
            torch.bincount(x, minlength=self._classes).cpu().numpy()
            for x in (labels[guess == labels], labels)
        )
        return right, images

    @staticmethod
    def _logits(model: nn.Module, parameters: Tensors, buffers: Tensors, images: Tensor) -> Tensor:
        # In pieces: 10,000 images at once would need gigabytes for the first layer of a large model.
        pieces = [
            # A copy: a model may write into its images.
            functional_call(model, (parameters, buffers), (x.clone(),))
            for x in torch.split(images, 1000)
        ]
        return torch.cat(pieces)
