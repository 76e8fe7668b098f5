"""Numbers at the ends of what a computer can hold: refused in a sentence, or every metric stays finite."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from refusals import refused
from tiny import blobs, linear

import fedwave as fw
from fedwave.parts import registry

VALUES: list[Any] = [1e308, 1e154, 5e-324, -0.0, 2**63, 2**64, 10**400, True, float("nan"), float("inf"), -1e308]
DEVICES = [fw.Device(rate=r, distance_m=90 + 60 * r) for r in range(1, 6)]
NETWORK = fw.Network(DEVICES, slots=2)


def played(make: Callable[[], tuple[fw.Network, Any, list[Any]]]) -> None:
    network, scheduler, metrics = make()
    trace = fw.simulate(network, scheduler, 4, 2, metrics=metrics)
    for name, values in {**trace.series, **trace.totals}.items():
        assert np.isfinite(values).all(), name


def of_network(name: str, value: Any) -> Any:
    return NETWORK.replace(**{name: value}), "balsa", []


def of_part(family: str, part: str, name: str, value: Any) -> Any:
    return fw.Network(DEVICES, slots=2, **{family: {"name": part, name: value}}), "balsa", []


def of_scheduler(part: str, name: str, value: Any) -> Any:
    return fw.Network(DEVICES[:2], slots=1), {"name": part, name: value}, []


def of_prior(part: str, name: str, value: Any) -> Any:
    return NETWORK, {"name": "balsa", "prior": {"name": part, name: value}}, []


def of_rule(part: str, name: str, value: Any) -> Any:
    return NETWORK, "age", [{"name": "mass", "aggregation": {"name": part, name: value}}]


def parameters(family: str) -> Iterator[tuple[str, str]]:
    for part in (one for one in registry.built_in(family) if one != "log"):  # it is read from files
        kind = registry.find(family, part)
        for one in fields(kind) if is_dataclass(kind) else ():
            yield part, one.name


CASES: dict[str, Callable[..., Any]] = {
    **{
        name: partial(of_network, name)
        for name in (
            "gamma",
            "noise_dbm",
            "pathloss_intercept_db",
            "pathloss_slope_db",
            "slots",
            "rate",
            "distance_m",
            "tx_power_dbm",
            "interference_dbm",
            "miss_probability",
            "buffer_limit",
        )
    },
    **{
        f"{family} {part}.{name}": partial(of_part, family, part, name)
        for family in ("fading", "success", "arrivals")
        for part, name in parameters(family)
    },
    **{f"{p}.{n}": partial(of_scheduler, p, n) for p, n in parameters("scheduler")},
    **{f"prior {p}.{n}": partial(of_prior, p, n) for p, n in parameters("prior")},
    **{f"rule {p}.{n}": partial(of_rule, p, n) for p, n in parameters("aggregation")},
}


@pytest.mark.parametrize("case", CASES)
def test_extreme_numbers_of_a_simulation(case: str) -> None:
    for value in VALUES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                played(partial(CASES[case], value))
            except fw.FedwaveError:
                continue  # a sentence


NO_NUMBERS = (".gains", ".counts", ".model", ".snr_db", ".error_rate", ".stage_rule")


@pytest.mark.parametrize("case", [case for case in CASES if not case.endswith(NO_NUMBERS)])
def test_nan_is_refused_with_the_name_of_its_field(case: str) -> None:
    with refused(case.rpartition(".")[2], "nan"):
        played(partial(CASES[case], float("nan")))


@pytest.mark.parametrize("name", ["shard_size", "batch", "epochs", "eta", "prox", "l2"])
def test_extreme_numbers_of_a_task(name: str) -> None:
    data, usual = blobs(), {"shard_size": 4, "batch": 4, "epochs": 1, "eta": 0.1}
    trace = fw.simulate(NETWORK, "age", 2, 1)
    for value in VALUES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                repr(fw.train(trace, fw.Task(data, linear, **{**usual, name: value})))
            except fw.FedwaveError:
                continue  # a sentence


@pytest.mark.parametrize("instances", [[0, 0], [0, 0.0], [1, True], np.array([2, 2])])
def test_an_instance_is_named_once(instances: Any) -> None:
    with refused("instances", "twice"):
        fw.simulate(NETWORK, "age", 2, instances)


# --- what a scheduler's own `decide` may pick -----------------------------------------------------


class Own(fw.Scheduler):
    """Decides by itself."""

    name = "own"
    picks = None

    def priority(self, state: Any, seen: Any, draws: Any) -> Any:
        return seen.delay

    def decide(self, state: Any, seen: Any, draws: Any) -> Any:
        return type(self).picks(seen), state


PICKS: dict[str, tuple[Callable[[Any], Any], tuple[object, ...]]] = {
    "all of them": (lambda seen: fw.Decision(np.ones((2, 5), bool)), ("5 devices", "round 1", 2)),
    "of another shape": (lambda seen: fw.Decision(np.ones(5, bool)), ("Decision", "(5,)")),
    "too few instances": (lambda seen: fw.Decision(np.zeros((1, 5), bool)), ("Decision", "(1, 5)")),
    "numbers": (lambda seen: fw.Decision(np.zeros((2, 5))), ("Decision", "float64")),
    "device numbers": (lambda seen: fw.Decision(np.array([[0, 0], [1, -1]])), ("Decision", "int64")),
    "a list": (lambda seen: fw.Decision([[True] * 5] * 2), ("Decision",)),  # type: ignore[arg-type]
    "no decision": (lambda seen: np.zeros((2, 5), bool), ("Decision",)),
}


@pytest.mark.parametrize("case", PICKS)
def test_what_a_scheduler_may_not_pick(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Own, "picks", staticmethod(PICKS[case][0]))
    with refused(*PICKS[case][1]):
        fw.simulate(NETWORK, Own(), 3, 2)


def test_a_scheduler_may_pick_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    few = np.array([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
    monkeypatch.setattr(Own, "picks", staticmethod(lambda seen: fw.Decision(few)))
    assert fw.simulate(NETWORK, Own(), 3, 2).scheduled.sum() == 3


@pytest.mark.parametrize("kind", [complex, str, object])
def test_priorities_are_numbers(kind: type) -> None:
    class Strange(fw.Scheduler):
        name = "strange"

        def priority(self, state: Any, seen: Any, draws: Any) -> Any:
            return seen.delay.astype(kind)

    with pytest.raises(fw.FedwaveError, match="must be numbers"):
        fw.simulate(NETWORK, Strange(), 2, 2)


def test_the_label_of_a_scheduler_object_has_its_parameters() -> None:
    by_name = fw.simulate(NETWORK, "alpha-fresh:alpha=0.25", 2, 1)
    by_object = fw.simulate(NETWORK, fw.scheduler("alpha-fresh", alpha=0.25), 2, 1)
    assert by_object.label == by_name.label == "alpha-fresh:alpha=0.25"
    inner = fw.scheduler("balsa", prior="gamma:shape=2,rate=1")
    assert fw.simulate(NETWORK, inner, 2, 1).label.startswith("balsa:prior=gamma:shape=2")
