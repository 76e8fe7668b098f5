"""Evaluates central models on fixed subsets of the samples, the same for every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedwave.errors import as_int
from fedwave.learning.backends.base import Backend
from fedwave.learning.backends.torch import model_outputs
from fedwave.learning.curves import Evaluation
from fedwave.learning.model_rows import ModelRows, Tensors, as_tensor
from fedwave.learning.task import Task
from fedwave.types import Array, FloatArray, IntArray

_LOGITS_AT_ONCE = 2**26  # numbers

# An evaluation that a GPU may still compute: calling it waits for the result.
PendingEvaluation = Callable[[], Evaluation]


@dataclass(frozen=True)
class EvaluationSizes:
    """How many samples the central model is evaluated on after every round.

    The samples are a fixed random choice, the same for every run and round. Values above the size of the
    dataset use all samples.

    ``loss_images`` is the number of training samples for ``Curves.loss``, ``test_images`` that of test samples for
    ``Curves.accuracy`` and ``Curves.class_accuracy``. Every ``full_every`` rounds, and in the last one, the model is
    also tested on all test samples, for ``Curves.accuracy_on_all``; 0 means never.

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
        self._task, self._classes, self._every = task, task.classes, sizes.full_every
        self._on_gpu = device.type == "cuda" and task.is_usual and self._classes > 0

        def placed(inputs: Array, targets: Array) -> tuple[Tensor, Tensor]:
            return as_tensor(inputs, dtype, device).contiguous(), as_tensor(targets, dtype, device)

        chosen = _subset(len(data.train_targets), sizes.loss_images)
        test = _subset(len(data.test_targets), sizes.test_images)
        self._for_loss = placed(data.train_inputs[chosen], data.train_targets[chosen])
        self._usual = placed(data.test_inputs[test], data.test_targets[test])
        self._all = placed(data.test_inputs, data.test_targets) if sizes.full_every else self._usual
        self._places = torch.as_tensor(test).to(device)  # of the samples of every round among all
        if self._classes:  # samples of each class
            self._present, self._present_in_all = (self._by_class(targets) for _, targets in (self._usual, self._all))
        # The number that was asked for, or of all samples; captions state it.
        self.images_used = {"loss_images": len(chosen), "test_images": len(test)}

    def __call__(self, model: nn.Module, parameters: Tensors, buffers: Tensors, *, full: bool) -> Evaluation:
        """Evaluate one model; with ``full`` on all test samples too."""
        model.eval()
        with torch.no_grad():
            return self._evaluate([lambda inputs: model_outputs(model, parameters | buffers, inputs)], full)

    def evaluate_many(self, backend: Backend, models: ModelRows, *, full: bool) -> PendingEvaluation:
        """Evaluate several models; a GPU is not waited for until the evaluation is asked for."""
        if self._on_gpu:
            return self._evaluate_on_gpu(backend, models, full)

        def one(i: int) -> Callable[[Tensor], Tensor]:
            return lambda inputs: backend.logits(models.rows(slice(i, i + 1)), inputs)[0]

        found = self._evaluate([one(i) for i in range(len(models))], full)
        return lambda: found

    def full_in(self, round_: int, last: int) -> bool:
        """Are all test samples used in this round?"""
        return bool(self._every) and (round_ % self._every == 0 or round_ == last)

    def _evaluate(self, models: Sequence[Callable[[Tensor], Tensor]], full: bool) -> Evaluation:
        """The usual test samples are used in every round, so that a curve never mixes two sets of samples."""
        loss, tested, tested_on_all = [], [], []
        for outputs_of in models:
            inputs, targets = self._for_loss
            loss.append(float(self._task.loss(_wide(outputs_of(inputs)), targets)))
            inputs, targets = self._all if full else self._usual
            outputs = outputs_of(inputs)
            if full:
                tested_on_all.append(self._tested(outputs, targets))
                outputs, targets = outputs[self._places], targets[self._places]
            tested.append(self._tested(outputs, targets))
        return self._evaluation(np.array(loss), np.array(tested), np.array(tested_on_all) if full else None)

    def _tested(self, outputs: Tensor, targets: Tensor) -> Array:
        """Right answers of each class, ``[C]``; with another metric than the accuracy its value, ``[1]``."""
        if self._classes:
            return self._by_class(targets[outputs.argmax(dim=-1) == targets])
        return np.array([float(self._task.metric(_wide(outputs), targets))])

    def _evaluate_on_gpu(self, backend: Backend, models: ModelRows, full: bool) -> PendingEvaluation:
        """The same for many models at once, without a loop over them."""
        loss, _ = self._measured(backend, models, *self._for_loss)
        rights = [self._measured(backend, models, *one)[1] for one in (self._usual, self._all)[: 1 + full]]
        parts = [_copy_to_cpu(part) for part in (loss.double(), *rights)]
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()

        def found() -> Evaluation:
            arrived.synchronize()
            return self._evaluation(*(part.numpy() for part in parts))

        return found

    def _evaluation(self, loss: FloatArray, right: Array, right_of_all: Array | None = None) -> Evaluation:
        """From the loss ``[N]`` and right answers ``[N, C]``; with another metric its values ``[N, 1]``."""
        if not self._classes:
            on_all = right[:, 0] * np.nan if right_of_all is None else right_of_all[:, 0]
            return Evaluation(loss, right[:, 0], np.empty((len(loss), 0)), on_all)
        by_class = np.where(self._present > 0, right / np.maximum(self._present, 1), np.nan)
        on_all = np.full(len(loss), np.nan)
        if right_of_all is not None:
            on_all = right_of_all.sum(axis=1) / self._present_in_all.sum()
        return Evaluation(loss, right.sum(axis=1) / self._present.sum(), by_class, on_all)

    def _measured(self, backend: Backend, models: ModelRows, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss ``[model]`` and right answers ``[model, class]``, on the device."""
        each = max(1, _LOGITS_AT_ONCE // (len(targets) * self._classes))
        of_class = F.one_hot(targets, self._classes).to(torch.float32)
        losses, right = [], []
        for first in range(0, len(models), each):
            logits = backend.logits(models.rows(slice(first, first + each)), inputs)
            wide = _wide(logits)
            mine = wide.gather(2, targets.expand(len(wide), -1)[:, :, None])[:, :, 0]
            losses.append((wide.logsumexp(2) - mine).mean(1))
            # Whole numbers below 2^24: exact in float32.
            right.append(((logits.argmax(2) == targets).to(torch.float32) @ of_class).long())
        return torch.cat(losses), torch.cat(right)

    def _by_class(self, targets: Tensor) -> IntArray:
        """How often each class is among the targets."""
        counts: IntArray = torch.bincount(targets.flatten(), minlength=self._classes).cpu().numpy()
        return counts


def _subset(size: int, wanted: int) -> IntArray:
    """A fixed choice of ``wanted`` samples out of ``size``, the same in every run."""
    if wanted >= size:
        return np.arange(size)
    return np.sort(np.random.default_rng(0).permutation(size)[:wanted])


def _wide(logits: Tensor) -> Tensor:
    """Half precision is too coarse for a mean over thousands of samples."""
    return logits.float() if logits.element_size() < 4 else logits


def _copy_to_cpu(numbers: Tensor) -> Tensor:
    """A copy in the memory of the processor; the copying may still be under way."""
    copy = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
    return copy.copy_(numbers, non_blocking=True)
