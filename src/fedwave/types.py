"""The records that pass between the parts, and what the axes of their arrays mean.

Axes, named once here and used everywhere:

* ``[U]``       one value per device;
* ``[I, U]``    one value per instance (an independent repetition) and device, in one round;
* ``[I, U, C]`` the same for every class of samples;
* ``[B, I, U]`` the same for a block of rounds; ``[T, I, U]`` for a whole run.

Rounds are counted from 1, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fedwave.errors import FedwaveError, HiddenInformation, did_you_mean

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

State = Mapping[str, Array]
"""The memory of a scheduler or a metric: named arrays, such as ``{"count": counts}``, whose first axis is the instance.

Plain arrays can be saved, compared and cut by instance without knowing the scheduler.
"""

# The arrays of a full record: one number per round, instance and device.
DEVICE_ARRAYS = {
    "gain": "float64",
    "scheduled": "bool",
    "delivered": "bool",
    "arrivals": "int32",
    "waiting": "int32",
    "lost": "int32",
    "heard": "bool",
    "delay": "int32",
    "learned": "int64",
    "available": "bool",  # only of a network whose devices can be away
}

# The names that a scheduler can declare in ``needs``, and the fields of the Observation that become visible.
INFORMATION: dict[str, tuple[str, ...]] = {
    "channel": ("gain", "snr", "success"),
    "backlog": ("waiting",),
    "rates": ("rates",),
    "learner": ("update_norm",),
    "planning": ("planning",),
    "labels": ("label_counts",),
}
ADVICE = ": run fw.check on it"  # at the end of a refusal; fw.check itself leaves it out
_OPENED_BY = {field: need for need, fields in INFORMATION.items() for field in fields}


def freeze(*values: Any) -> None:
    """Make arrays read-only, also those in tuples and mappings.

    Arrays passed to or from a user's part are read-only, because a write would change the simulation.
    """
    for value in values:
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        elif value is not None and isinstance(value, (dict, tuple, Mapping)):  # in the order of speed
            freeze(*(value if isinstance(value, tuple) else value.values()))


def checked(
    part: Any,
    what: str,
    found: Any,
    shape: tuple[int, ...],
    *,
    least: float = 0.0,
    most: float = np.inf,
    whole: bool = False,
) -> Array:
    """The numbers that a user's part returned, as float64, or as int64 if they must be ``whole``.

    Raises FedwaveError with the name of the part if their shape or type is wrong, or one is below ``least``, above
    ``most`` or NaN.
    """
    array: Array = np.asarray(found)
    if array.shape != shape or array.dtype.kind not in ("biu" if whole else "biuf"):
        wrong = f"of type {array.dtype} and shape {array.shape}"
    else:
        # For a few devices argmin takes a fifth of the time of min; it finds NaN too.
        low = array.item(array.argmin()) if array.size else least
        high = array.item(array.argmax()) if most < np.inf else 0
        if low >= least and high <= most:
            return array.astype(np.int64 if whole else np.float64, copy=False)
        wrong = f"with the value {high if low >= least else low:g}"
    word = getattr(part, "family", "object")
    name = getattr(part, "name", type(part).__name__)
    rule = "whole numbers" if whole else "numbers"
    if most < np.inf:
        rule = f"{rule} from {least:g} to {most:g}"
    elif least > -np.inf:
        rule = f"{rule} >= {least:g}"
    raise FedwaveError(f"{word} {name!r} returned {what} {wrong}, must be {rule} of shape {shape}{ADVICE}.")


def checked_state(what: str, state: Any, instances: int) -> State:
    """The state of a scheduler or a metric; raises FedwaveError unless it maps names to arrays ``[I, ...]``."""
    rule = f"must be a dict of names and arrays of numbers or bools whose first axis is the instance ({instances})"
    if not isinstance(state, Mapping):
        raise FedwaveError(f"{what} is of type {type(state).__name__}, {rule}.")
    for name, array in state.items():
        numeric = isinstance(array, np.ndarray) and array.dtype.kind in "biufc"
        if not (numeric and array.shape[:1] == (instances,) and isinstance(name, str)):
            kind = getattr(array, "dtype", type(array).__name__)
            raise FedwaveError(f"{what}[{name!r}] is of type {kind} and shape {np.shape(array)}, {rule}.")
    return state


@dataclass(frozen=True, slots=True)
class Problem:
    """The sizes of a run, and what every scheduler knows of the network before the first round.

    >>> import fedwave as fw
    >>> problem = fw.paper_network().problem(instances=3)
    >>> problem.instances, problem.devices, problem.arrival_distribution
    (3, 25, 'poisson')
    """

    instances: int
    devices: int
    arrival_distribution: str  # which distribution the arrivals follow; not its parameters
    gain_quartiles: tuple[float, float, float]  # used to count channel levels, see stages.py
    arrivals_while_away: str = ""  # "lost" or "kept"; "": all devices are always there
    columns: tuple[tuple[str, FloatArray], ...] = field(default=(), repr=False)

    def column(self, name: str) -> FloatArray:
        """A column of the user's own in the device table, ``[U]``; others, such as the rates, stay hidden."""
        own = dict(self.columns)
        if name not in own:
            raise FedwaveError(f"the device table has no column of its own {name!r}; {did_you_mean(name, own)}")
        return own[name]


class Planning(Protocol):
    """The probabilities of channels and arrivals in the coming rounds, for schedulers that plan ahead.

    It does not contain the rates: a scheduler declares "rates", or learns them. It never changes, so results
    computed from it can be cached by object.
    """

    def __hash__(self) -> int: ...

    @property
    def independent(self) -> bool:
        """Are the channels independent from round to round? If not, these probabilities do not describe them."""

    @property
    def mean_snr(self) -> FloatArray:
        """Mean SNR of each device, linear, ``[U]``."""

    def success_levels(self, mean_snr: FloatArray, count: int) -> FloatArray:
        """p at ``count`` equally likely gains, rising, for devices of these mean SNRs: ``[..., count]``."""

    def arrival_chances(self, rates: FloatArray, most: int) -> FloatArray:
        """P[m = 0], ..., P[m = most] for devices of these rates: ``[..., most + 1]``."""


class Observation:
    """The knowledge of the access point when it decides in round ``round``; the methods of a Scheduler are given one.

    Always visible: ``problem``, ``round``, ``slots`` and, each ``[I, U]``, ``delay`` (d: rounds since
    the last upload that arrived, this round included), ``delivered`` (whose upload arrived in the
    round before), ``reported`` (the n + m that came with it, 0 for the others) and ``available`` (the devices that
    are there and can be picked).

    Only for a scheduler that needs them: ``gain`` (h), ``snr`` and ``success`` (p) with "channel",
    ``waiting`` (n) with "backlog", each ``[I, U]``; ``rates`` (theta, ``[U]``) with "rates";
    ``update_norm`` (of the update each device would send now, ``[I, U]``) with "learner"; ``planning`` (the
    probabilities of the coming rounds) with "planning"; ``label_counts`` (samples of each class in all uploads that
    have arrived so far, as devices report them, ``[I, U, C]``) with "labels".
    Other fields are not stored: reading one raises FedwaveError.

    >>> import fedwave as fw
    >>> class Curious(fw.Scheduler):
    ...     name = "curious"
    ...     needs = frozenset({"channel"})  # gain, snr and success
    ...
    ...     def priority(self, state, seen, draws):
    ...         assert seen.success.shape == seen.delay.shape == (seen.problem.instances, seen.problem.devices)
    ...         return seen.success * seen.waiting
    >>> fw.simulate(fw.paper_network(), Curious(), rounds=5, instances=2)
    Traceback (most recent call last):
    fedwave.errors.HiddenInformation: the scheduler reads 'waiting' but does not declare it: ...
    """

    problem: Problem
    round: int
    slots: int
    delay: IntArray
    delivered: BoolArray
    reported: IntArray
    available: BoolArray
    gain: FloatArray
    snr: FloatArray
    success: FloatArray
    waiting: IntArray
    rates: FloatArray
    update_norm: FloatArray
    planning: Planning
    label_counts: IntArray

    def __init__(self, **visible: Any) -> None:
        for name, value in visible.items():
            if isinstance(value, np.ndarray) and value.flags.writeable:
                value = value.view()  # a learner may go on writing into its own array
                freeze(value)
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Called only if the field is not stored, or does not exist.
        if name == "available":  # all devices are there
            return np.broadcast_to(True, self.delay.shape)
        need = _OPENED_BY.get(name)
        if need is None:
            raise AttributeError(f"an Observation has no field {name!r}; {did_you_mean(name, vars(self))}")
        raise HiddenInformation(
            f"the scheduler reads {name!r} but does not declare it: add {need!r} to its `needs`, or decide without it."
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """The devices that transmit in a round: at most W of each instance, and none that is away.

    Only schedulers with a ``decide`` make one.

    >>> import fedwave as fw
    >>> import numpy as np
    >>> class FirstOnes(fw.Scheduler):
    ...     name = "first-ones"
    ...
    ...     def priority(self, state, seen, draws):
    ...         raise NotImplementedError  # decide does not ask for it
    ...
    ...     def decide(self, state, seen, draws):
    ...         transmits = np.zeros(seen.delay.shape, dtype=bool)
    ...         transmits[:, : seen.slots] = True
    ...         return fw.Decision(transmits), state
    >>> fw.simulate(fw.paper_network(), FirstOnes(), rounds=10, instances=2).scheduled[0, 0].nonzero()[0]
    array([0, 1, 2, 3, 4])
    """

    transmits: BoolArray  # a, [I, U]

    def __post_init__(self) -> None:
        freeze(self.transmits)


@dataclass(frozen=True, slots=True)
class WorldRound:
    """One round of the world: what no decision can change. Each array is ``[I, U]``."""

    round: int
    gain: FloatArray  # h
    snr: FloatArray
    success: FloatArray  # p as the access point knows it: given this round's gain
    luck: FloatArray  # uniform: an upload arrives if its luck lies below its p
    later_snr: FloatArray | None  # what HARQ's later tries add to the SNR; None without later tries
    arrivals: IntArray  # m
    heard: BoolArray | None  # who heard the broadcast; None: all devices always do
    available: BoolArray | None = None  # the devices that are there; None: always all of them


@dataclass(frozen=True, slots=True)
class NetworkState:
    """The counts that the dynamics move from round to round, each ``[I, U]``."""

    waiting: IntArray  # n: shards trained on but not delivered
    learned: IntArray  # N: shards delivered so far
    lost: IntArray  # shards that found the buffer full
    delay: IntArray  # d: rounds since the last delivery, the coming round included
    delivered: BoolArray  # whose upload arrived in the round just played
    reported: IntArray  # the n + m delivered with it

    def __post_init__(self) -> None:
        freeze(self.waiting, self.learned, self.lost, self.delay, self.delivered, self.reported)

    @classmethod
    def initial(cls, instances: int, devices: int) -> NetworkState:
        shape = (instances, devices)
        zero = np.zeros(shape, dtype=np.int64)
        return cls(zero, zero, zero, np.ones(shape, np.int64), np.zeros(shape, np.bool_), zero)


@dataclass(frozen=True, slots=True)
class LabelState:
    """Samples by class, each ``[I, U, C]``: the counts of NetworkState, of which schedulers see only ``learned``."""

    waiting: IntArray  # of the shards trained on but not delivered
    learned: IntArray  # of the shards delivered so far

    @classmethod
    def initial(cls, instances: int, devices: int, classes: int) -> LabelState:
        zero = np.zeros((instances, devices, classes), dtype=np.int64)
        return cls(zero, zero)


class Sums(NamedTuple):
    """Shards of all devices together, ``[I]`` each."""

    arrived: IntArray  # in the round, lost ones included
    lost: IntArray  # of those
    waiting: IntArray  # after the round
    learned: IntArray  # N: delivered so far
    ever_lost: IntArray  # lost so far

    @property
    def ever_arrived(self) -> IntArray:
        return self.learned + self.waiting + self.ever_lost


@dataclass(frozen=True)
class PlayedRound:
    """A round that was played: everything that a metric may use. Arrays are ``[I, U]`` and read-only.

    * ``world``: ``gain`` (h), ``snr``, ``success`` (p), ``luck``, ``arrivals`` (m), ``heard`` and
      ``available`` (None: all devices heard, or are there)
    * ``decision``: ``transmits``
    * ``before``, ``after``: the counts at the round's start and end: ``waiting`` (n), ``learned`` (N), ``lost`` (so
      far), ``delay`` (d); ``after`` also has the uploads of this round: ``delivered`` and ``reported`` (n + m)
    * ``accepted``: the arrivals that found room in the buffer, ``[I, U]``
    * ``score``: F, ``[I]``
    * ``network``: the Network

    A Metric is given one:

    >>> import fedwave as fw
    >>> class Wasted(fw.Metric):
    ...     name, label = "wasted", "uploads that failed"
    ...
    ...     def measure(self, state, played):
    ...         return state, (played.decision.transmits & ~played.after.delivered).sum(axis=1)
    >>> fw.simulate(fw.paper_network(), "age", rounds=20, instances=3, metrics=[Wasted()]).series["wasted"].shape
    (20, 3)
    """

    world: WorldRound
    decision: Decision
    before: NetworkState
    after: NetworkState
    accepted: IntArray
    score: FloatArray
    network: Any = None

    @cached_property
    def sums(self) -> Sums:
        """Added up once for all metrics: with a million devices memory traffic dominates."""
        arrived, after = self.world.arrivals.sum(axis=1), self.after
        all_fit = self.accepted is self.world.arrivals
        lost = arrived - (arrived if all_fit else self.accepted.sum(axis=1))
        each = arrived, lost, *(n.sum(axis=1) for n in (after.waiting, after.learned, after.lost))
        freeze(*each)
        return Sums(*each)


class Learner(Protocol):
    """Trains in lock step with a simulation, for schedulers that use the models."""

    def train(
        self, round_: int, shards: IntArray, heard: BoolArray | None, delay: IntArray
    ) -> Mapping[str, FloatArray]:
        """Local training of the round; what the Observation shows of it under "learner", each ``[I, U]``."""

    def deliver(self, decision: Decision, after: NetworkState) -> None:
        """The round's uploads have arrived (``after.delivered``): update the central models."""
