"""Aggregation rules: how much each upload moves the central model, and how an undelivered update ages.

Every rule has one form (D: the devices whose upload arrived in the round, g_u: local gradient):

    psi_u <- g_u + beta * psi_u,        w <- w - eta * sum over u in D of a_u * psi_u,        psi_u <- 0 for u in D.

The weights a_u depend on counts alone, so they are known before any training. A rule can have a server step with a
memory in between, which turns sum a_u psi_u into the step that w takes.

The *mass* x_u of an update is the number of shards' worth of local steps in it: x_u <- m_u + beta * x_u, 0 after a
delivery. The delivered mass of a round is M_t = sum over D of a_u * x_u.

An update that waited sums y_u trainings that started from nearly the same model: y_u <- [m_u > 0] + beta * y_u, 0
after a delivery. The *stretch* of a round's step is E_t = sum over D of a_u * y_u. With 1 the central model goes to the
weighted mean of local models, as in federated averaging, with 3 it jumps three times as far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, ClassVar

import numpy as np

from fedwave.errors import FedwaveError, check_number, did_you_mean, set_int
from fedwave.types import Array, BoolArray, FloatArray, IntArray, checked, freeze

# The memory of a server step: named arrays, or tensors in training.
Memory = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Uploads:
    """The counts behind the uploads of one round, each ``[..., U]``, or of many rounds, ``[T, ..., U]``.

    * ``delivered``: whose upload arrived, the set D
    * ``learned``: N after the round, the shards that a device has delivered so far
    * ``delay``: d of the round, 1 right after a delivery
    * ``mass``: x of the update that a device would send, 0 before any training
    * ``trainings``: y of that update, the number of trainings in it
    * ``shares``: c = N / sum of N of a delivered upload, else 0

    Two of three devices deliver; the third one waited three rounds:

    >>> import fedwave as fw
    >>> import numpy as np
    >>> uploads = fw.aggregation.Uploads(
    ...     delivered=np.array([True, False, True]),
    ...     learned=np.array([30, 20, 50]),
    ...     delay=np.array([1, 4, 3]),
    ...     mass=np.array([2.0, 4.0, 6.0]),
    ...     trainings=np.array([1.0, 2.0, 3.0]),
    ... )
    >>> uploads.shares, fw.aggregation.Lee().coefficients(uploads).round(2)
    (array([0.3, 0. , 0.5]), array([0.3 , 0.  , 0.55]))
    """

    delivered: BoolArray
    learned: IntArray
    delay: IntArray
    mass: FloatArray
    trainings: FloatArray

    @property
    def shares(self) -> FloatArray:
        """c = N / sum of N for a delivered upload, else 0; all 0 where the sum is 0."""
        total = self.learned.sum(axis=-1, keepdims=True)
        out: FloatArray = self.delivered * (self.learned / np.maximum(total, 1))
        return out

    def at(self, index: int | tuple[int, ...] | EllipsisType) -> Uploads:
        """Returns the uploads of one round, of one round and instance, or all (``...``), as read-only views."""
        views = [array[index] for array in vars(self).values()]
        freeze(*views)
        return Uploads(*views)


class Aggregation(ABC):
    """Base class of aggregation rules: derive a frozen dataclass and give it ``name`` and ``weights``.

    A rule may also set ``waits``, ``beta``, ``cap`` and ``stretch``. A rule whose server has a memory adds ``start``
    and ``server_step``; see ``FedBuff``.

    >>> import fedwave as fw
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Inverse(fw.aggregation.Aggregation):
    ...     name = "inverse"
    ...     beta: float = 0.5
    ...
    ...     def weights(self, uploads):
    ...         return uploads.shares / uploads.delay
    >>> Inverse().rate([1, 2, 4]).tolist()  # the weight of an upload that waited 1, 2 and 4 rounds
    [1.0, 0.5, 0.25]
    """

    family: ClassVar[str] = "aggregation"
    name: ClassVar[str]
    waits: ClassVar[bool] = False
    """Data wait at the device, which trains on all of them when it is scheduled."""

    beta: float = 1.0
    """The factor by which an undelivered update shrinks in a round."""
    cap: float | None = None
    """Largest delivered mass of a round; None: no limit."""
    stretch: float | None = None
    """Largest stretch of a round's step; None: no limit."""

    def __post_init__(self) -> None:
        # Above 1 an update that waits would grow without bound.
        _check(self, "beta", ">= 0", "<= 1")
        for name in ("cap", "stretch"):
            if getattr(self, name) is not None:
                _check(self, name, "> 0", note=", or None")
        if self.waits and self.beta:
            raise FedwaveError(
                f"{type(self).__name__} beta is {self.beta}, must be 0: data that wait are trained on again."
            )

    @abstractmethod
    def weights(self, uploads: Uploads) -> FloatArray:
        """a of every upload, ``[..., U]``, before any limit; values of uploads that failed are ignored."""

    def coefficients(self, uploads: Uploads) -> FloatArray:
        """a after the limits: scaled down in a round whose M_t exceeds the cap, or E_t the stretch.

        An upload that failed has the coefficient 0.
        """
        weights = checked(self, "weights", self.weights(uploads), uploads.delivered.shape)
        weights = weights * uploads.delivered
        if self.cap is None and self.stretch is None:
            return weights
        scale: FloatArray | float = 1.0
        for limit, amounts in ((self.cap, uploads.mass), (self.stretch, uploads.trainings)):
            if limit is not None:
                reached = (weights * amounts).sum(axis=-1, keepdims=True)
                scale = np.minimum(scale, limit / np.maximum(reached, limit))
        return weights * scale

    def rate(self, delay: IntArray) -> FloatArray:
        """The weight of an upload with this delay if the network had no other device."""
        alone = np.ones((*np.shape(delay), 1), dtype=np.int64)
        nothing = np.zeros(alone.shape)
        upload = Uploads(alone > 0, alone, np.asarray(delay)[..., None], nothing, nothing)
        return self.weights(upload)[..., 0]

    @property
    def decay(self) -> float:
        """The factor by which x shrinks in a round without a delivery."""
        return 1.0 if self.waits else float(self.beta)

    def age(self, mass: FloatArray, shards: Array) -> FloatArray:
        """x after the arrivals of a round: m + decay * x."""
        out: FloatArray = shards + self.decay * mass
        return out

    def age_trainings(self, trainings: FloatArray, shards: IntArray) -> FloatArray:
        """y after the arrivals of a round."""
        aged = self.age(trainings, (shards > 0).astype(np.int64))
        return np.minimum(aged, 1.0) if self.waits else aged  # data that wait are trained on once

    def start(self, zero: Any) -> Memory:
        """The memory of the server step before the first round, made from ``zero``, an update ``[P]`` of zeros."""
        return {}

    def server_step(self, memory: Memory, update: Any, uploads: Uploads) -> tuple[Memory, Any]:
        """The memory after a round, and the step ``[P]`` that w takes (times eta).

        ``update`` is sum a_u psi_u of one run, ``[P]``, and ``uploads`` are those of its round, ``[U]``. The same
        code sees NumPy arrays (for the mass) and torch tensors (in training): use plain arithmetic only.
        """
        return memory, update

    @classmethod
    def has_server_step(cls) -> bool:
        """Does the rule put a step of its own between the uploads and w?"""
        return cls.server_step is not Aggregation.server_step


@dataclass(frozen=True)
class Lee(Aggregation):
    """The paper's rule: a = c max(1, ln d), so that an upload that waited for long counts more.

    Lee & Lee, "Adaptive Transmission Scheduling in Wireless Networks for Asynchronous Federated Learning".

    >>> import fedwave as fw
    >>> fw.aggregation.Lee().rate([1, 4, 16]).round(2).tolist()
    [1.0, 1.39, 2.77]
    """

    name = "lee"

    beta: float = 0.001
    cap: float | None = None
    stretch: float | None = None

    def weights(self, uploads: Uploads) -> FloatArray:
        rate = np.log(uploads.delay)
        return uploads.shares * np.maximum(1.0, rate, out=rate)


@dataclass(frozen=True)
class Constant(Aggregation):
    """The paper's rule with a constant rate: a = c.

    >>> import fedwave as fw
    >>> fw.aggregation.Constant(beta=1, stretch=2).rate([1, 4, 16]).tolist()
    [1.0, 1.0, 1.0]
    """

    name = "constant"

    beta: float = 0.001
    cap: float | None = None
    stretch: float | None = None

    def weights(self, uploads: Uploads) -> FloatArray:
        return uploads.shares


Staleness = Callable[[FloatArray, float, float], FloatArray]  # (staleness, a, b)
STALENESS: dict[str, Staleness] = {
    "constant": lambda stale, a, b: np.ones_like(stale),
    "hinge": lambda stale, a, b: 1 / (1 + a * np.maximum(0.0, stale - b)),
    "polynomial": lambda stale, a, b: (stale + 1) ** -a,
}


@dataclass(frozen=True)
class FedAsync(Aggregation):
    """FedAsync: a = alpha s(d - 1) / |D|.

    s(k) is 1 (``constant``), 1 up to b and 1 / (a (k - b) + 1) beyond (``hinge``; the paper takes a = 10, b = 4), or
    (k + 1)^-a (``polynomial``). Xie, Koyejo and Gupta, "Asynchronous Federated Optimization", 2019 (arXiv:1903.03934).

    There the server mixes in a whole model, w <- (1 - alpha s) w + alpha s w_u, and w_u was trained from the model
    that device u fetched some server updates ago. Here a device starts from every broadcast that it hears, and d - 1
    counts the rounds that its update has waited: an update of this round has staleness 0. A device sends the sum of
    its gradients since its last delivery; eta times that is w - w_u for d = 1 and a broadcast that was heard. The
    uploads of a round arrive together and are averaged (1 / |D|; one without shards counts in |D|). alpha does not
    decay.

    >>> import fedwave as fw
    >>> fw.aggregation.FedAsync(alpha=0.6, a=0.5).rate([1, 4, 16]).tolist()
    [0.6, 0.3, 0.15]
    """

    name = "fedasync"

    alpha: float = 0.6
    staleness: str = "polynomial"
    a: float = 0.5
    b: float = 4.0
    beta: float = 1.0
    cap: float | None = None
    stretch: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.staleness not in STALENESS:
            hint = did_you_mean(str(self.staleness), STALENESS)
            raise FedwaveError(f"FedAsync has no staleness {self.staleness!r}; {hint}")
        _check(self, "alpha", "> 0", "<= 1")
        for name in ("a", "b"):
            _check(self, name, ">= 0")

    def weights(self, uploads: Uploads) -> FloatArray:
        count = uploads.delivered.sum(axis=-1, keepdims=True)
        stale = uploads.delay.astype(np.float64) - 1
        fresh = STALENESS[self.staleness](stale, self.a, self.b)
        weights: FloatArray = self.alpha * fresh / np.maximum(count, 1)
        return weights


@dataclass(frozen=True)
class FedBuff(Aggregation):
    """FedBuff: uploads are collected, each weighted by 1 / sqrt(d), until ``size`` are there; w moves by their mean.

    Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022 (arXiv:2106.06639).

    There w moves as soon as the buffer holds ``size`` updates, and the weight is 1 / sqrt(1 + k) for an update whose
    start is k server steps old. Here a device starts from every broadcast that it hears, an upload is the sum of its
    gradients since its last delivery, and d - 1 counts the rounds that its update has waited. The uploads of a round
    arrive together, so the buffer is checked once a round: it can hold more than ``size``, and the mean is over all
    that it holds. An upload without shards counts. The server's own rate is 1, without momentum. A cap and a stretch
    hold for what a round adds to the buffer, before the mean is taken: with five uploads a round, a stretch of 5 allows
    single trainings.

    >>> import fedwave as fw
    >>> fw.aggregation.FedBuff(size=10).rate([1, 4, 16]).tolist()
    [1.0, 0.5, 0.25]
    """

    name = "fedbuff"

    size: int = 10
    beta: float = 1.0
    cap: float | None = None
    stretch: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        set_int(self, "size", 1)

    def weights(self, uploads: Uploads) -> FloatArray:
        return np.where(uploads.delivered, 1 / np.sqrt(uploads.delay), 0.0)

    def start(self, zero: Any) -> Memory:
        return {"sum": zero, "count": zero[:1]}

    def server_step(self, memory: Memory, update: Any, uploads: Uploads) -> tuple[Memory, Any]:
        total = memory["sum"] + update
        count = memory["count"] + int(np.count_nonzero(uploads.delivered))
        if count < self.size:
            return {"sum": total, "count": count}, 0 * update
        return {"sum": 0 * total, "count": 0 * count}, total / count


@dataclass(frozen=True)
class Sync(Aggregation):
    """Plain synchronous averaging, a = c: data wait, and a scheduled device trains on all since its last delivery.

    >>> import fedwave as fw
    >>> fw.aggregation.Sync().waits, fw.aggregation.Sync().rate([1, 4]).tolist()
    (True, [1.0, 1.0])
    """

    name = "sync"
    waits = True
    beta = 0.0

    cap: float | None = None
    stretch: float | None = None

    def weights(self, uploads: Uploads) -> FloatArray:
        return uploads.shares


def after_delivery(mass: FloatArray, delivered: BoolArray) -> FloatArray:
    """x once the uploads of a round have arrived: what was delivered starts again from 0."""
    return mass * ~delivered


def uploads_of_rounds(
    rule: Aggregation, delivered: BoolArray, learned: IntArray, delay: IntArray, shards: IntArray
) -> Uploads:
    """The uploads of a whole schedule, with what is in them; every array is ``[T, ..., U]``."""
    mass, trainings = np.zeros(shards.shape), np.zeros(shards.shape)
    x, y = np.zeros(shards.shape[1:]), np.zeros(shards.shape[1:])
    for t in range(len(shards)):
        mass[t], trainings[t] = rule.age(x, shards[t]), rule.age_trainings(y, shards[t])
        x, y = (after_delivery(now[t], delivered[t]) for now in (mass, trainings))
    return Uploads(delivered, learned, delay, mass, trainings)


def delivered_mass(rule: Aggregation, uploads: Uploads) -> FloatArray:
    """M of every round of a schedule, ``[T, ...]``: what enters w, in shards' worth of local steps.

    It goes through the rule's own server step, so with a buffer it is 0 until the buffer is full.
    """
    return through_server(rule, uploads, uploads.mass)


def step_stretch(rule: Aggregation, uploads: Uploads) -> FloatArray:
    """E of every round of a schedule, ``[T, ...]``, through the server step as the mass; 0 where w does not move."""
    return through_server(rule, uploads, uploads.trainings)


def through_server(rule: Aggregation, uploads: Uploads, amounts: FloatArray) -> FloatArray:
    """The amount that enters w in every round, ``[T, ...]``, from the amount in every upload, ``[T, ..., U]``."""
    brought: FloatArray = (rule.coefficients(uploads.at(...)) * amounts).sum(axis=-1)
    if not rule.has_server_step():
        return brought
    found = np.zeros(brought.shape)
    for run in np.ndindex(brought.shape[1:]):
        memory = rule.start(np.zeros(1))
        for t in range(len(brought)):
            at = (t, *run)
            freeze(memory)
            memory, step = rule.server_step(memory, brought[at].reshape(1), uploads.at(at))
            found[at] = step[0]
    return found


def _check(rule: Aggregation, name: str, *bounds: str, note: str = "") -> None:
    """Raises FedwaveError for a parameter that is not a number within the bounds."""
    value = getattr(rule, name)
    check_number(f"{type(rule).__name__} {name}", value, *bounds, note=note)
    if type(value) not in (int, float):  # NumPy cannot compute with fractions.Fraction; True would be shown as a word
        object.__setattr__(rule, name, float(value))
