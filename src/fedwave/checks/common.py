"""What the checkers of all families share: running checks, comparing objects, saving and loading."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fedwave.errors import FedwaveError, plural, writes_into_input
from fedwave.metrics import Metric
from fedwave.network.devices import Device
from fedwave.network.network import Network
from fedwave.network.success import Soft
from fedwave.parts import registry
from fedwave.parts.serialize import Unbuilt, pack, unpack
from fedwave.rng import Block, stream
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.base import scheduler as find_scheduler
from fedwave.simulation import extend, simulate
from fedwave.trace import Trace
from fedwave.types import Array

# A check raises a FedwaveError, or returns False where it does not apply.
Check = Callable[..., bool | None]


@dataclass(frozen=True, repr=False)
class CheckReport:
    """What ``fw.check`` returns; it prints as a sentence.

    >>> import fedwave as fw
    >>> report = fw.check("age")
    >>> report
    scheduler 'age': 13 checks passed
    >>> "slots" in report.passed
    True
    """

    part: str  # its family and name
    passed: tuple[str, ...]  # the checks, by name

    def __repr__(self) -> str:
        return f"{self.part}: {plural(len(self.passed), 'check')} passed"


def report(what: str, checks: Mapping[str, Check], *given: Any, declaration: bool = False) -> CheckReport:
    """Run the checks in order; ``declaration``: that check has passed already."""
    return CheckReport(what, (*["declaration"] * declaration, *_passed(what, checks, *given)))


def _passed(what: str, checks: Mapping[str, Check], *given: Any) -> list[str]:
    """The names of the checks that apply."""
    names = []
    for name, check in checks.items():
        try:
            applies = check(*given)
        except FedwaveError as error:
            raise failure(what, name, str(error)) from None
        except Exception as error:
            if writes_into_input(error):
                why = "it writes into an array that it was given: change a copy instead."
                raise failure(what, "inputs", why) from error
            raise failure(what, name, raised(error)) from error
        if applies is not False:
            names.append(name)
    return names


def failure(what: str, check: str, why: str) -> FedwaveError:
    """The error of a failed check; ``what`` is the family's word and the part's name."""
    return FedwaveError(f"{what} fails the check {check!r}: {why}")


def raised(error: Exception) -> str:
    """An exception as the end of a sentence."""
    first = (str(error).splitlines() or [""])[0].rstrip(".")
    return f"it raised {type(error).__name__}: {first}."


def declared(family: str, part: Any) -> Any:
    """The part as an object; a class that cannot be built fails the check 'declaration'."""
    kind = part if isinstance(part, type) else type(part)
    if getattr(kind, "family", None) != family:  # a name or a mapping, or nothing of this family
        return registry.build(family, part)
    try:
        return registry.build(family, part)
    except FedwaveError as error:
        name = getattr(kind, "name", None) or kind.__qualname__
        raise failure(f"{registry.word(family)} {name!r}", "declaration", str(error)) from None


def contents(value: Any, depth: int = 8) -> Any:
    """What an object holds, copied into something that can be compared later."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.random.Generator):
        return contents(value.bit_generator.state, depth)
    if isinstance(value, (type, FunctionType, ModuleType)):
        return value.__name__
    if depth == 0:
        return repr(value)
    if isinstance(value, Mapping):
        return {name: contents(item, depth - 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [contents(item, depth - 1) for item in value]
    if hasattr(value, "__dict__") or is_dataclass(value):
        return type(value), attributes(value, depth - 1)
    return repr(value)


def attributes(value: Any, depth: int = 8) -> dict[str, Any]:
    """What an object's attributes hold; a cached property is derived from the others."""
    if not hasattr(value, "__dict__"):  # a dataclass with slots
        return {f.name: contents(getattr(value, f.name), depth) for f in fields(value)}
    own = {
        name: item
        for name, item in vars(value).items()
        if not isinstance(getattr(type(value), name, None), cached_property)
    }
    return {name: contents(item, depth) for name, item in own.items()}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names under which two copies of contents differ."""
    return [n for n in sorted(before.keys() | after.keys()) if before.get(n) != after.get(n)]


@contextmanager
def unaltered(**inputs: Any) -> Iterator[None]:
    """The check 'inputs': a call must leave what it is given as it was."""
    before = {name: contents(value) for name, value in inputs.items()}
    yield
    for name in differences(before, {name: contents(value) for name, value in inputs.items()}):
        raise FedwaveError(f"it alters `{name}` in place: return a new array instead.")


@contextmanager
def unchanged(part: Any, where: str) -> Iterator[None]:
    """The check 'parameters': an object holds parameters only, so that using it changes nothing."""
    before = attributes(part)
    yield
    for name in differences(before, attributes(part)):
        raise FedwaveError(f"a run changes its attribute {name!r}: {where}.")


def kept_in_files(part: Any) -> None:
    """The first half of the check 'saving': rebuilt from what a file keeps of it, the part is the same."""
    for name in differences(attributes(part), attributes(_rebuilt(part))):
        raise FedwaveError(
            f"its attribute {name!r} differs after saving and loading: keep parameters in the fields of a dataclass."
        )


def saving(
    part: Any,
    network: Network,
    scheduler: str | Scheduler,
    rounds: int,
    stop: int,
    *,
    instances: int = 2,
    metrics: Sequence[Metric] = (),
) -> None:
    """The check 'saving': the part is the same after a file, and so is a run that was stopped, saved and continued."""
    kept_in_files(part)
    chosen = find_scheduler(scheduler)

    def play(until: int) -> Trace:
        return simulate(network, chosen, until, instances, metrics=metrics)

    own = {"scheduler": chosen, "network": network, "metrics": metrics}
    if not continued(play(stop), rounds, **own).same_as(play(rounds)):
        raise FedwaveError(
            f"a run that was saved after round {stop}, loaded and continued differs from one that never stopped: "
            "keep what evolves out of the object, and parameters in the fields of a dataclass."
        )


def equality(part: Any) -> None:
    """Equal parameters make equal, hashable objects, as caches need; a part that holds arrays may equal itself only."""
    try:
        hash(part)
    except TypeError as error:
        raise FedwaveError(
            f"it cannot be hashed ({error}): use @dataclass(frozen=True), and tuples instead of lists."
        ) from None
    arrays: dict[str, Array] = {}
    pack(part, arrays, "part")
    if not is_dataclass(part) or arrays:
        return
    try:
        again = _rebuilt(part)
    except FedwaveError:  # which the check 'saving' reports
        return
    if again != part or hash(again) != hash(part):
        raise FedwaveError(
            "two objects with the same parameters are not equal: leave == and hash to @dataclass(frozen=True)."
        )


def _rebuilt(part: Any) -> Any:
    """A part from what a file keeps of it, whether it is registered or not."""
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


def continued(begun: Trace, rounds: int, learner: Any = None, **own: Any) -> Trace:
    """A run that is saved, loaded and continued; registered parts are built from the file, as for a user."""
    with TemporaryDirectory() as folder:
        loaded = Trace.load(begun.save(Path(folder) / "begun.npz"))
    missing = {name: part for name, part in own.items() if isinstance(getattr(loaded.setup, name), Unbuilt)}
    return extend(loaded, rounds, learner=learner, **missing)


def named_arrays(state: Any, instances: int, what: str) -> None:
    """What evolves can be saved and cut by instance: named arrays of numbers, the instance axis first."""
    if not isinstance(state, Mapping):
        raise FedwaveError(f"the {what} is a {type(state).__name__}, must be a mapping of names to arrays.")
    for name, value in state.items():
        numeric = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        if not numeric or value.shape[:1] != (instances,):
            kind = getattr(value, "dtype", type(value).__name__)
            raise FedwaveError(
                f"{what}[{name!r}] is of type {kind} and shape {np.shape(value)}, must be an array of numbers or bools "
                f"whose first axis has the {instances} instances."
            )


def network_with(devices: int = 3, **parts: Any) -> Network:
    """A small network around the parts under test; its first device never gets data."""
    rates, distances = (0.0, 2.5, 1.0, 4.0), (100.0, 420.0, 250.0, 300.0)
    chosen = [Device(rate=rates[u % 4], distance_m=distances[u % 4]) for u in range(devices)]
    return Network(devices=chosen, slots=1, **({"success": Soft()} | parts))


def block(ids: Sequence[int], devices: int = 3, rounds: int = 8, number: int = 0, purpose: str = "gain") -> Block:
    """A block of rounds as the World makes it."""
    generators = tuple(stream(0, purpose, i, number) for i in ids)
    return Block(1 + number * rounds, rounds, devices, np.array(ids), generators)


def extent(part: Any) -> tuple[int, int, int]:
    """Rounds, devices and instances of a run that the part can cover: a record may be short."""
    for devices in (3, *range(1, 101)):
        for instances in (3, 1):
            for rounds in (130, 70, 12, 2):
                try:
                    part.check_run(rounds, devices, instances - 1)
                except FedwaveError:
                    continue
                return rounds, devices, instances
    raise FedwaveError("check_run refuses every run of 2 rounds with up to 100 devices.")


def repeats(draw: Callable[[list[int]], Array], instances: int, what: str) -> None:
    """The check 'repetition' of what is drawn for some instances, ``[B, I, U]``."""
    ids = list(range(instances))
    if not np.array_equal(draw(ids), draw(ids)):
        raise FedwaveError(
            f"two runs with one seed have different {what}: draw random numbers only from the generators of the block."
        )


def alone(draw: Callable[[list[int]], Array], instances: int, what: str) -> bool:
    """The check 'instances' of what is drawn for some instances, ``[B, I, U]``."""
    last = instances - 1
    if not np.array_equal(draw(list(range(instances)))[:, last], draw([last])[:, 0]):
        raise FedwaveError(
            f"instance {last} has different {what} when it runs alone: draw for each instance from its own "
            "generator, as block.draw does."
        )
    return instances > 1


def is_record(part: Any, base: Any) -> bool:
    """Does it replay a record (it overrides check_run)? Then nothing is drawn from a distribution."""
    return type(part).check_run is not base.check_run


def same(one: Any, other: Any) -> bool:
    """Are two arrays equal, or None both, or two mappings of equal arrays?"""
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
