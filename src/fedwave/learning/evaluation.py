"""Evaluation of the central model on fixed subsets, the same for every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedwave.errors import whole
from fedwave.learning.batched_layers import side_by_side
from fedwave.learning.cpu.lanes import CpuLanes
from fedwave.learning.curves import Evaluation
from fedwave.learning.gpu.chain_steps import ChainEvaluator
from fedwave.learning.layout import Layout
from fedwave.learning.rows import Models
from fedwave.learning.state import Tensors
from fedwave.learning.task import Task, subset
from fedwave.types import IntArray

# What was found, once it is there: calling it may wait for a GPU.
Found = Callable[[], list[Evaluation]]


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
    """Training loss and test accuracy, overall and per class, of central models."""

    def __init__(
        self,
        task: Task,
        sizes: EvaluationSizes,
        device: torch.device,
        dtype: torch.dtype,
        autocast: torch.dtype | None = None,
        compiled: CpuLanes | None = None,
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
        self._judges = self._judges_of(task, device, dtype, autocast)
        self._compiled = compiled  # judges the models that it trains
        self._images_of_class = {
            "usual": _by_class(self._usual_labels, self._classes),
            "all": _by_class(self._labels, self._classes),
        }

    def _judges_of(
        self, task: Task, device: torch.device, dtype: torch.dtype, autocast: torch.dtype | None
    ) -> dict[str, ChainEvaluator] | None:
        """On a GPU, chains of known layers are judged many at a time."""
        if device.type != "cuda":
            return None
        model = task.new_model(0, 0).to(device, dtype).eval()
        if side_by_side(model) is None:
            return None
        sets = {"loss": self._loss_images, "usual": self._usual_images, "all": self._images}
        layout = Layout(model)
        return {k: ChainEvaluator(model, layout, x, autocast=autocast) for k, x in sets.items()}

    def __call__(self, model: nn.Module, parameters: Tensors, buffers: Tensors, *, full: bool) -> Evaluation:
        """Evaluate one model; with ``full`` on all test images too.

        The usual test images are used in every round, so that a curve never mixes two sets of images.
        """
        model.eval()
        with torch.no_grad(), self._autocast:
            return self._judged(lambda x: self._logits(model, parameters, buffers, x), full)

    def _judged(self, logits_of: Callable[[Tensor], Tensor], full: bool) -> Evaluation:
        logits = logits_of(self._loss_images)
        # Half precision is too coarse for a mean over thousands of images.
        wide = logits.float() if logits.element_size() < 4 else logits
        loss = F.cross_entropy(wide, self._loss_labels)
        images, labels = (self._images, self._labels) if full else (self._usual_images, self._usual_labels)
        guess = logits_of(images).argmax(dim=1)
        usual = self._usual if full else slice(None)
        of_all = self._counts(guess, labels) if full else (None, None)
        return Evaluation(float(loss), *self._counts(guess[usual], labels[usual]), *of_all)

    def start(self, model: nn.Module, layout: Layout, models: Models, *, full: bool) -> Found:
        """Evaluate several models. On a GPU nothing is waited for, until what was found is asked for."""
        if self._judges is not None:
            return self._judged_together(models, full)
        if self._compiled is not None:
            found = [self._judged_by_compiled(models, i, full) for i in range(len(models))]
            return lambda: found
        views = layout.views(models.w)
        each = [
            self(model, {k: p[i] for k, p in views.items()}, {k: p[i] for k, p in models.rest.items()}, full=full)
            for i in range(len(models))
        ]
        return lambda: each

    def _judged_together(self, models: Models, full: bool) -> Found:
        assert self._judges is not None
        sets = {"loss": self._loss_labels, "usual": self._usual_labels}
        if full:
            sets["all"] = self._labels
        parts = []
        for name, labels in sets.items():
            loss, right = self._judges[name](models.w, models.rest, labels, self._classes)
            parts.append(_on_its_way(loss.double() if name == "loss" else right))
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()

        def found() -> list[Evaluation]:
            arrived.synchronize()
            loss, *rights = (part.numpy() for part in parts)
            images = [self._images_of_class[name] for name in sets if name != "loss"]
            counts = list(zip(rights, images, strict=True))
            return [
                Evaluation(float(loss[i]), *(part for right, of_class in counts for part in (right[i], of_class)))
                for i in range(len(models))
            ]

        return found

    def _judged_by_compiled(self, models: Models, row: int, full: bool) -> Evaluation:
        compiled = self._compiled
        assert compiled is not None
        return self._judged(lambda x: torch.as_tensor(compiled.logits(models, row, x.numpy())), full)

    def full_in(self, round_: int, last: int) -> bool:
        """Is this a round in which all test images are used?"""
        every = self._sizes.full_every
        return bool(every) and (round_ % every == 0 or round_ == last)

    def _counts(self, guess: Tensor, labels: Tensor) -> tuple[IntArray, IntArray]:
        """Right answers and images of every class."""
        right = _by_class(labels[guess == labels], self._classes)
        return right, _by_class(labels, self._classes)

    @staticmethod
    def _logits(model: nn.Module, parameters: Tensors, buffers: Tensors, images: Tensor) -> Tensor:
        # In pieces: 10,000 images at once would need gigabytes for the first layer of a large model.
        pieces = [
            # A copy: a model may write into its images.
            functional_call(model, (parameters, buffers), (x.clone(),))
            for x in torch.split(images, 1000)
        ]
        return torch.cat(pieces)


def _on_its_way(numbers: Tensor) -> Tensor:
    """A copy for the processor, which may not have arrived yet."""
    there = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
    return there.copy_(numbers, non_blocking=True)


def _by_class(labels: Tensor, classes: int) -> IntArray:
    counts: IntArray = torch.bincount(labels, minlength=classes).cpu().numpy()
    return counts
