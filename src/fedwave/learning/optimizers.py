"""Optimizers of local training; without torch, so that names and parameters are checked without it.

An optimizer turns the gradient of a step into the direction in which w moves: w <- w - eta * direction. What it
remembers is a mapping of tensors, each of the shape of w. It begins anew in every local training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from fedwave.errors import check_number

Memory = dict[str, Any]  # tensors


class Optimizer(ABC):
    """Base class of optimizers. Every number of w is treated by itself, so w may hold many models.

    An optimizer of your own defines ``step``, and ``start`` if it has a memory:

    >>> import fedwave as fw
    >>> class Sign(fw.optimizers.Optimizer):
    ...     name = "sign"
    ...
    ...     def step(self, memory, gradient, number):
    ...         return memory, gradient / (abs(gradient) + 1e-12)
    >>> fw.check(Sign)
    optimizer 'sign': 6 checks passed
    """

    family: ClassVar[str] = "optimizer"
    name: ClassVar[str]

    def start(self, w: Any) -> Memory:
        """The memory before the first step."""
        return {}

    @abstractmethod
    def step(self, memory: Memory, gradient: Any, number: int) -> tuple[Memory, Any]:
        """The memory after a step, and the direction; ``number`` counts the steps from 1."""


@dataclass(frozen=True)
class Sgd(Optimizer):
    """Plain gradient descent.

    >>> import fedwave as fw
    >>> fw.optimizers.Sgd().step({}, 0.5, 1)
    ({}, 0.5)
    """

    name = "sgd"

    def step(self, memory: Memory, gradient: Any, number: int) -> tuple[Memory, Any]:
        return memory, gradient


@dataclass(frozen=True)
class Momentum(Optimizer):
    """SGD with momentum: v <- momentum v + gradient, and v is the direction.

    >>> import fedwave as fw
    >>> fw.optimizers.Momentum(0.5).step({"v": 1.0}, 0.25, 2)
    ({'v': 0.75}, 0.75)
    """

    name = "momentum"
    momentum: float = 0.9

    def __post_init__(self) -> None:
        check_number("momentum", self.momentum, ">= 0", "< 1")

    def start(self, w: Any) -> Memory:
        return {"v": w * 0}

    def step(self, memory: Memory, gradient: Any, number: int) -> tuple[Memory, Any]:
        v = self.momentum * memory["v"] + gradient
        return {"v": v}, v


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), with the corrections of its first steps.

    >>> import fedwave as fw
    >>> _, direction = fw.optimizers.Adam().step({"m": 0.0, "v": 0.0}, 0.5, 1)
    >>> round(direction, 6)
    1.0
    """

    name = "adam"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        check_number("adam beta1", self.beta1, ">= 0", "< 1")
        check_number("adam beta2", self.beta2, ">= 0", "< 1")
        check_number("adam epsilon", self.epsilon, "> 0")

    def start(self, w: Any) -> Memory:
        return {"m": w * 0, "v": w * 0}

    def step(self, memory: Memory, gradient: Any, number: int) -> tuple[Memory, Any]:
        m = self.beta1 * memory["m"] + (1 - self.beta1) * gradient
        v = self.beta2 * memory["v"] + (1 - self.beta2) * gradient * gradient
        size = (v / (1 - self.beta2**number)) ** 0.5
        return {"m": m, "v": v}, m / (1 - self.beta1**number) / (size + self.epsilon)
