"""The contract that all families share: a part is tried, and a table of checks looks at the results.

A family is a ``Family``: its trial calls every method of a part through ``Trial.call`` and keeps what they return with
``Trial.keep``. The table ``SHARED`` then has its checks for free.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, error_text, plural, writes_into_input
from fedwave.network.devices import Device
from fedwave.network.network import Network
from fedwave.network.random_part import RandomPart
from fedwave.network.success import Soft
from fedwave.parts.serialize import Unbuilt, pack, unpack
from fedwave.rng import Block, stream
from fedwave.schedulers.base import Scheduler
from fedwave.simulation import extend, simulate
from fedwave.trace import Trace
from fedwave.types import ADVICE, Array, checked, freeze

INSTANCES = 3  # in the trial of a part


@dataclass(frozen=True, repr=False)
class CheckReport:
    """The result of ``fw.check``; it prints as a sentence.

    >>> import fedwave as fw
    >>> report = fw.check("age")
    >>> report
    scheduler 'age': 7 checks passed
    >>> "repetition" in report.passed
    True
    """

    part: str  # its family and name
    passed: tuple[str, ...]  # the checks, by name

    def __repr__(self) -> str:
        return f"{self.part}: {plural(len(self.passed), 'check')} passed"


@dataclass
class Trial:
    """Calls the methods of a part, and keeps what they return."""

    part: Any
    family: Family
    network: Network | None = None  # that the caller of fw.check gave
    dataset: Any = None  # likewise
    ids: list[int] = field(default_factory=list)  # the instances; empty: all
    kept: list[tuple[str, Any, int | None]] = field(default_factory=list)  # what was returned, and its instance axis
    changed: list[str] = field(default_factory=list)  # attributes of the part
    notes: list[Any] = field(default_factory=list)  # that a family takes for its own checks
    # The size of a run that the part can cover.
    rounds: int = field(init=False, default=0)
    devices: int = field(init=False, default=0)
    instances: int = field(init=False, default=0)

    def play(self) -> None:
        """Try the part."""
        self.rounds, self.devices, self.instances = _extent(self.part, self.network)
        self.ids = self.ids or list(range(self.instances))
        before = attributes(self.part)
        self.family.try_part(self)
        self.changed = differences(before, attributes(self.part))

    def again(self, ids: list[int] | None = None) -> Trial:
        """The same part tried once more, with these instances or the same ones."""
        other = Trial(self.part, self.family, self.network, self.dataset, ids or self.ids)
        other.play()
        return other

    def call(self, method: Callable[..., Any], *given: Any) -> Any:
        """Calls a method with read-only arrays, as a run does, and returns its result."""
        freeze(*given)
        return method(*given)

    def keep(
        self,
        what: str,
        found: Any,
        shape: tuple[int, ...],
        *,
        low: float = 0.0,
        high: float = np.inf,
        whole: bool = False,
        axis: int | None = None,
    ) -> None:
        """Keep what a method returned; raises FedwaveError if a run would refuse it.

        ``axis`` is that of the instances; None: it does not depend on them.
        """
        array = checked(self.part, what, found, shape, least=low, most=high, whole=whole)
        self.kept.append((what, array, axis))

    def around(self, devices: int | None = None, **parts: Any) -> Network:
        """The caller's network, or a small one, with these parts; its first device never gets data."""
        if self.network is not None:
            rates = np.array(self.network.rates)
            rates[0] = 0.0
            return self.network.replace(rate=rates, slots=1, **parts)
        pairs = [(0.0, 100.0), (2.5, 420.0), (1.0, 250.0), (4.0, 300.0)]  # rates and distances
        chosen = [Device(rate=pairs[u % 4][0], distance_m=pairs[u % 4][1]) for u in range(devices or self.devices)]
        return Network(devices=chosen, slots=1, **({"success": Soft()} | parts))


Check = Callable[[Trial], bool | None]  # raises a FedwaveError, or returns False where it does not apply


@dataclass(frozen=True)
class Run:
    """A simulation with the part, and the round after which it is saved, loaded and continued."""

    network: Network
    scheduler: str | Scheduler = "age"
    rounds: int = 12
    stop: int = 5  # odd, so that what alternates from round to round shows
    instances: int | list[int] = INSTANCES
    more: Mapping[str, Any] = field(default_factory=dict)  # other arguments of simulate

    def play(self, rounds: int | None = None) -> Trace:
        return simulate(self.network, self.scheduler, rounds or self.rounds, self.instances, **self.more)


SHARED = ("equality", "parameters", "repetition", "instances", "saving")


@dataclass(frozen=True)
class Family:
    """How the parts of a family are tried, and the checks that the family adds to the shared ones."""

    try_part: Callable[[Trial], None]
    checks: Mapping[str, Check] = field(default_factory=dict)  # of this family alone, by name
    state_is_in: str = ""  # where a part keeps its state; empty: it has none
    random_numbers_rule: str = "it must not be random"
    runs: Callable[[Trial], Iterable[Run]] = lambda trial: ()  # saved, loaded and continued
    trial_name: str = "values"  # the name of the check that tries the part
    shared_checks: tuple[str, ...] = SHARED


def run_checks(what: str, trial: Trial) -> CheckReport:
    """Run the checks in order on the part, which ``what`` names."""
    family = trial.family
    table: dict[str, Check] = {
        "equality": _equality,
        family.trial_name: Trial.play,
        "parameters": _parameters,
        "repetition": _repetition,
        "instances": _instances,
        **family.checks,
        "saving": _saving,
    }
    chosen = {name: check for name, check in table.items() if name in family.shared_checks or name not in SHARED}
    passed = [name for name, check in chosen.items() if _applies(what, name, check, trial)]
    return CheckReport(what, tuple(dict.fromkeys(["declaration", *passed])))


def _applies(what: str, name: str, check: Check, trial: Trial) -> bool:
    """Whether the check applies; raises a FedwaveError if it fails."""
    try:
        return check(trial) is not False
    except FedwaveError as error:
        raise failure(what, name, str(error).replace(ADVICE, "")) from None
    except Exception as error:
        if writes_into_input(error):
            why = "it writes into an array that it was given: change a copy instead."
        else:
            hint = "; pass network= to fw.check if the part has a number for each device"
            why = f"it raised {error_text(error)}{hint if 'broadcast' in str(error) else ''}."
        raise failure(what, name, why) from error


def failure(what: str, check: str, why: str) -> FedwaveError:
    """The error of a failed check; ``what`` is the family's word and the part's name."""
    return FedwaveError(f"{what} fails the check {check!r}: {why}")


# --- the shared checks ------------------------------------------------------------------------------


def _equality(trial: Trial) -> bool | None:
    """Equal parameters make equal, hashable objects, as caches need; a part that holds arrays may equal itself only."""
    part = trial.part
    try:
        hash(part)
    except TypeError as error:
        raise FedwaveError(
            f"it cannot be hashed ({error}): use @dataclass(frozen=True), and tuples instead of lists."
        ) from None
    arrays: dict[str, Array] = {}
    pack(part, arrays, "part")
    if not is_dataclass(part) or arrays:
        return None
    try:
        again = _rebuilt(part)
    except FedwaveError:  # which the check 'saving' reports
        return None
    if again != part or hash(again) != hash(part):
        raise FedwaveError(
            "two objects with the same parameters are not equal: leave == and hash to @dataclass(frozen=True)."
        )
    return None


def _parameters(trial: Trial) -> None:
    """An object holds parameters only, so that using it changes nothing."""
    where = trial.family.state_is_in
    for name in trial.changed:
        fix = f"keep its state in {where}" if where else "it must hold parameters only"
        raise FedwaveError(f"a run changes its attribute {name!r}: {fix}.")


def _repetition(trial: Trial) -> None:
    for (what, one, _), (_, other, _) in zip(trial.kept, trial.again().kept, strict=True):
        if not _same(one, other):
            raise FedwaveError(
                f"called again with the same seed, it gives other {what}: {trial.family.random_numbers_rule}."
            )


def _instances(trial: Trial) -> bool:
    """An instance has the same numbers whichever others run."""
    last = trial.ids[-1]
    if len(trial.ids) == 1 or all(axis is None for _, _, axis in trial.kept):
        return False
    for (what, one, axis), (_, other, _) in zip(trial.kept, trial.again([last]).kept, strict=True):
        if not _same(one if axis is None else np.take(one, [len(trial.ids) - 1], axis), other):
            raise FedwaveError(
                f"instance {last} has other {what} when it runs alone: keep the rows of every array apart, and draw "
                "for each instance from its own generator."
            )
    return True


def _saving(trial: Trial) -> None:
    """The part is the same after a file, and so is a run that was stopped, saved, loaded and continued."""
    for name in differences(attributes(trial.part), attributes(_rebuilt(trial.part))):
        raise FedwaveError(
            f"its attribute {name!r} differs after saving and loading: keep parameters in the fields of a dataclass."
        )
    for run in trial.family.runs(trial):
        begun = run.play(run.stop)
        whole = run.play()  # in between, so that a memory in a module shows
        if not _continued(begun, run).same_as(whole):
            raise FedwaveError(
                f"a run that was saved after round {run.stop}, loaded and continued differs from one that never "
                "stopped: keep its state out of the object, and parameters in the fields of a dataclass."
            )


def _continued(begun: Trace, run: Run) -> Trace:
    """Registered parts are built from the file, as for a user."""
    with TemporaryDirectory() as folder:
        loaded = Trace.load(begun.save(Path(folder) / "begun.npz"))
    own = {"scheduler": begun.scheduler, "network": run.network, "metrics": run.more.get("metrics", ())}
    missing = {name: part for name, part in own.items() if isinstance(getattr(loaded.setup, name), Unbuilt)}
    return extend(loaded, run.rounds, learner=run.more.get("learner"), **missing)


def _rebuilt(part: Any) -> Any:
    """Builds a part again from the content that a file keeps, whether it is registered or not."""
    arrays: dict[str, Array] = {}
    try:
        content = json.loads(json.dumps(pack(part, arrays, "part")))
        values = {name: unpack(value, arrays) for name, value in content["fields"].items()}
        return type(part)(**values)
    except (FedwaveError, TypeError) as error:
        raise FedwaveError(
            f"it cannot be rebuilt from what a file keeps of it ({str(error).rstrip('.')}): make it a dataclass whose "
            "fields are numbers, text, tuples, arrays or registered parts."
        ) from None


# --- comparing, and what trials need ----------------------------------------------------------------


def contents(value: Any, depth: int = 8) -> Any:
    """Copies the content of an object into plain values, to compare it later."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        value = value.item()  # a file keeps it as a plain number
    if isinstance(value, np.random.Generator):
        value = value.bit_generator.state
    if isinstance(value, Mapping):
        return {name: contents(item, depth - 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [contents(item, depth - 1) for item in value]
    if depth and hasattr(value, "__dict__") and not isinstance(value, (type, FunctionType, ModuleType)):
        return type(value), attributes(value, depth - 1)
    return repr(value)


def attributes(value: Any, depth: int = 8) -> dict[str, Any]:
    """Copies the attributes of an object, without cached properties and fields that take no part in comparisons."""
    derived = {n for n in dir(type(value)) if isinstance(getattr(type(value), n, None), cached_property)}
    derived |= {f.name for f in fields(value) if not (f.init or f.compare)} if is_dataclass(value) else set()
    return {n: contents(item, depth) for n, item in getattr(value, "__dict__", {}).items() if n not in derived}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names under which two copies of contents differ."""
    return [n for n in sorted(before.keys() | after.keys()) if before.get(n) != after.get(n)]


def _same(one: Any, other: Any) -> bool:
    """Whether two arrays or texts are equal; in a state NaN may stand for what is not known."""
    return np.array_equal(one, other, equal_nan=getattr(one, "dtype", np.dtype(bool)).kind == "f")


def block(ids: Iterable[int], devices: int, rounds: int, number: int = 0, purpose: str = "gain") -> Block:
    """A block of rounds as the World makes it."""
    generators = tuple(stream(0, purpose, i, number) for i in ids)
    numbers = np.array(list(ids))
    freeze(numbers)
    return Block(1 + number * rounds, rounds, devices, numbers, generators)


def _extent(part: Any, network: Network | None) -> tuple[int, int, int]:
    """Rounds, devices and instances of a run that the part can cover: a record may be short."""
    sizes = (3, *range(1, 101)) if network is None else (network.size,)
    if not hasattr(part, "check_run"):
        return 12, sizes[0], INSTANCES
    for devices, instances, rounds in product(sizes, (INSTANCES, 1), (130, 70, 12, 2)):
        with suppress(FedwaveError):
            part.check_run(rounds, devices, instances - 1)
            return rounds, devices, instances
    raise FedwaveError("check_run refuses every run of 2 rounds with up to 100 devices.")


def is_record(part: RandomPart) -> bool:
    """Does it replay a record (it overrides check_run)? Then nothing is drawn from a distribution."""
    return type(part).check_run is not RandomPart.check_run
