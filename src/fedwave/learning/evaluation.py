"""Evaluates central models on fixed subsets of the images, the same for every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedwave.errors import as_int
from fedwave.learning.backends.base import Backend
from fedwave.learning.backends.torch import model_outputs
from fedwave.learning.curves import Evaluation
from fedwave.learning.model_rows import ModelRows, Tensors
from fedwave.learning.task import Task
from fedwave.types import IntArray

_LOGITS_AT_ONCE = 2**26  # numbers

# Evaluations that a GPU may still compute: calling it waits for them.
PendingEvaluations = Callable[[], list[Evaluation]]


@dataclass(frozen=True)
class EvaluationSizes:
    """How many images the central model is evaluated on after every round.

    The images are a fixed random choice, the same for every run and round. More images than the dataset has means all
    of them.

    ``loss_images`` is the number of training images for ``Curves.loss``, ``test_images`` that of test images for
    ``Curves.accuracy`` and ``Curves.class_accuracy``. Every ``full_every`` rounds, and in the last one, the model is
    also tested on all test images, for ``Curves.accuracy_on_all``; 0 means never.

    >>> import fedwave as fw
    >>> fw.EvaluationSizes(test_images=500)
    EvaluationSizes(loss_images=2000, test_images=500, full_every=0)
    """

    loss_images: int = 2000
    test_images: int = 10_000
    full_every: int = 0

    def __post_init__(self) -> None:
        for name, least in (("loss_images", 1), ("test_images", 1), ("full_every", 0)):
            object.__setattr__(self, name, as_int(name, getattr(self, name), least))


class Evaluator:
    """Training loss and test accuracy, overall and per class, of central models."""

    def __init__(self, task: Task, sizes: EvaluationSizes, device: torch.device, dtype: torch.dtype) -> None:
        data = task.dataset
        self._classes, self._sizes, self._on_gpu = data.classes, sizes, device.type == "cuda"
        chosen = _subset(len(data.train_labels), sizes.loss_images)
        self._loss_images = torch.as_tensor(data.train_images[chosen]).to(device, dtype).contiguous()
        self._loss_labels = torch.as_tensor(data.train_labels[chosen]).to(device)
        test = _subset(len(data.test_labels), sizes.test_images)
        kept = np.arange(len(data.test_labels)) if sizes.full_every else test
        self._images = torch.as_tensor(data.test_images[kept]).to(device, dtype).contiguous()
        self._labels = torch.as_tensor(data.test_labels[kept]).to(device)
        # The number that was asked for, or of all images; captions state it.
        self.images_used = {"loss_images": len(chosen), "test_images": len(test)}
        # Indices of the images of every round among those that are kept.
        self._usual = torch.as_tensor(np.flatnonzero(np.isin(kept, test))).to(device)
        self._usual_images, self._usual_labels = self._images, self._labels
        if sizes.full_every:
            self._usual_images = self._images[self._usual]
            self._usual_labels = self._labels[self._usual]

    def __call__(self, model: nn.Module, parameters: Tensors, buffers: Tensors, *, full: bool) -> Evaluation:
        """Evaluate one model; with ``full`` on all test images too."""
        model.eval()
        with torch.no_grad():
            return self._evaluation(lambda images: model_outputs(model, parameters | buffers, images), full)

    def evaluate_many(self, backend: Backend, models: ModelRows, *, full: bool) -> PendingEvaluations:
        """Evaluate several models; a GPU is not waited for until the evaluations are asked for."""
        if self._on_gpu:
            return self._evaluate_on_gpu(backend, models, full)
        found = [self._one(backend, models.rows(slice(i, i + 1)), full) for i in range(len(models))]
        return lambda: found

    def full_in(self, round_: int, last: int) -> bool:
        """Are all test images used in this round?"""
        every = self._sizes.full_every
        return bool(every) and (round_ % every == 0 or round_ == last)

    def _one(self, backend: Backend, model: ModelRows, full: bool) -> Evaluation:
        return self._evaluation(lambda images: backend.logits(model, images)[0], full)

    def _evaluation(self, logits_of: Callable[[Tensor], Tensor], full: bool) -> Evaluation:
        """The usual test images are used in every round, so that a curve never mixes two sets of images."""
        loss = F.cross_entropy(_wide(logits_of(self._loss_images)), self._loss_labels)
        images, labels = (self._images, self._labels) if full else (self._usual_images, self._usual_labels)
        guess = logits_of(images).argmax(dim=1)
        usual = self._usual if full else slice(None)
        of_all = self._counts(guess, labels) if full else (None, None)
        return Evaluation(float(loss), *self._counts(guess[usual], labels[usual]), *of_all)

    def _evaluate_on_gpu(self, backend: Backend, models: ModelRows, full: bool) -> PendingEvaluations:
        """The same for many models at once, without a loop over them."""
        sets = [(self._usual_images, self._usual_labels)]
        if full:
            sets.append((self._images, self._labels))
        loss, _ = self._measured(backend, models, self._loss_images, self._loss_labels)
        rights = [self._measured(backend, models, *one)[1] for one in sets]
        parts = [_copy_to_cpu(part) for part in (loss.double(), *rights)]
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        there = [_by_class(labels, self._classes) for _, labels in sets]

        def found() -> list[Evaluation]:
            arrived.synchronize()
            loss, *rights = (part.numpy() for part in parts)
            counts = list(zip(rights, there, strict=True))
            return [
                Evaluation(float(loss[i]), *(part for right, of_class in counts for part in (right[i], of_class)))
                for i in range(len(models))
            ]

        return found

    def _measured(self, backend: Backend, models: ModelRows, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss ``[model]`` and right answers ``[model, class]``, on the device."""
        each = max(1, _LOGITS_AT_ONCE // (len(labels) * self._classes))
        of_class = F.one_hot(labels, self._classes).to(torch.float32)
        losses, right = [], []
        for first in range(0, len(models), each):
            logits = backend.logits(models.rows(slice(first, first + each)), images)
            wide = _wide(logits)
            mine = wide.gather(2, labels.expand(len(wide), -1)[:, :, None])[:, :, 0]
            losses.append((wide.logsumexp(2) - mine).mean(1))
            # Whole numbers below 2^24: exact in float32.
            right.append(((logits.argmax(2) == labels).to(torch.float32) @ of_class).long())
        return torch.cat(losses), torch.cat(right)

    def _counts(self, guess: Tensor, labels: Tensor) -> tuple[IntArray, IntArray]:
        """Right answers and images of every class."""
        right = _by_class(labels[guess == labels], self._classes)
        return right, _by_class(labels, self._classes)


def _subset(size: int, wanted: int) -> IntArray:
    """A fixed choice of ``wanted`` images out of ``size``, the same in every run."""
    if wanted >= size:
        return np.arange(size)
    return np.sort(np.random.default_rng(0).permutation(size)[:wanted])


def _wide(logits: Tensor) -> Tensor:
    """Half precision is too coarse for a mean over thousands of images."""
    return logits.float() if logits.element_size() < 4 else logits


def _copy_to_cpu(numbers: Tensor) -> Tensor:
    """A copy in the memory of the processor; the copying may still be under way."""
    copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
    return copy.copy_(numbers, non_blocking=True)


def _by_class(labels: Tensor, classes: int) -> IntArray:
    counts: IntArray = torch.bincount(labels, minlength=classes).cpu().numpy()
    return counts
