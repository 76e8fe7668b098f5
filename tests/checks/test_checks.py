"""The checkers of all families: everything of ours passes, and every way to break a contract is reported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from broken import LovesTheFirst, Sound
from broken_parts import BROKEN
from published import put, tiny
from refusals import refused
from small_models import chain, images, own_forward, with_batch_norm

import fedwave as fw
from fedwave.aggregation import Lee
from fedwave.checks.shared import SHARED
from fedwave.metrics import Mass
from fedwave.parts import registry

rng = np.random.default_rng(0)
# Parts that cannot be built from their name alone.
GIVEN = {
    ("fading", "recorded"): fw.fading.RecordedGains(rng.exponential(size=(140, 3))),
    ("arrivals", "recorded"): fw.arrivals.RecordedArrivals(rng.poisson(2, size=(140, 3))),
    ("availability", "recorded"): fw.availability.RecordedAvailability(rng.random((140, 3)) < 0.7),
    ("fading", "log"): fw.read_log(pd.DataFrame(rng.normal(size=(50, 3))), 3, time=None, offset="random"),
    ("arrivals", "log"): fw.read_log(pd.DataFrame(rng.poisson(2, size=(50, 3))), 3, "count", time=None),
    ("success", "table"): fw.success.Table((-5.0, 0.0, 5.0), (1.0, 0.4, 0.0)),
}
NAMED = [(family, name) for family in registry.FAMILIES if family != "dataset" for name in registry.names(family)]
WITH_PARAMETERS = [
    ("fading", "shadowing:correlation=0.5,fading=rician"),
    ("fading", "gauss-markov:correlation=1"),
    ("success", "harq:tries=4,model=turbo:blocks=3"),
    ("success", "arq:tries=3,model=uncoded"),
    ("arrivals", "zero-inflated-poisson:silence=0.9"),
    ("prior", "truncated:low=1,high=3,prior=gamma"),
    ("partition", "dirichlet:alpha=50"),
    ("aggregation", "fedasync:staleness=hinge"),
    ("scheduler", "balsa:stage_rule=per-device,prior=truncated"),
    ("scheduler", "balsa-po:stage_rule=max1,prior=truncated"),
    ("metric", Mass(registry.build("aggregation", "fedbuff:size=3"))),
]
# One part of each family to which all its checks apply.
WHOLE = {
    **{"scheduler": "age", "fading": "rayleigh", "success": "turbo", "arrivals": "poisson", "prior": "gamma"},
    **{
        "partition": "dirichlet",
        "availability": "timetable",
        "aggregation": "fedbuff",
        "metric": "jain",
        "model": "logistic",
        "criterion": "mse",
        "optimizer": "momentum",
    },
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def own(family: str) -> set[str]:
    """The checks that a family adds to the shared ones."""
    return set(import_module(f"fedwave.checks.{family}").FAMILY.checks)


@pytest.mark.parametrize("family, part", NAMED + WITH_PARAMETERS, ids=str)
def test_every_built_in_part_keeps_its_contract(family: str, part: Any) -> None:
    passed = fw.check(GIVEN.get((family, part), part), family=family).passed
    assert passed[0] == "declaration"
    if WHOLE[family] == part:
        assert own(family) < set(passed)


def test_the_built_in_datasets_keep_their_contract(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On small files in the published formats, with all ten classes."""
    monkeypatch.setenv("FEDWAVE_DATA", str(put(tiny(monkeypatch, range(10)), tmp_path / "data")))
    for part in ("mnist", "cifar10", "synthetic:train=300,test=50", images((1, 4, 4))):
        assert fw.check(part).passed == ("declaration", "repetition", "labels")


def test_records_of_other_shapes_are_checked_as_far_as_they_reach() -> None:
    for shape in ((140, 2, 30), (70, 2), (2, 4)):
        for part in (fw.fading.RecordedGains(np.ones(shape)), fw.arrivals.RecordedArrivals(np.ones(shape, np.int64))):
            assert {"values", "saving"} <= set(fw.check(part).passed)


def test_the_mass_goes_through_a_server_step_without_a_memory() -> None:
    @dataclass(frozen=True)
    class Half(Lee):
        name = "half"

        def server_step(self, memory: Any, update: Any, uploads: Any) -> Any:
            return memory, update / 2

    fw.check(Half)
    network = fw.paper_network()
    whole, half = (fw.simulate(network, "age", 9, 2, metrics=[Mass(rule)]).series["mass"] for rule in (Lee(), Half()))
    np.testing.assert_array_equal(half, whole / 2)


@pytest.mark.parametrize("make", [chain, with_batch_norm, own_forward])
def test_models_of_a_users_own(make: Any) -> None:
    data = images((1, 3, 4))
    passed = fw.check(make, family="model", dataset=data).passed
    fw.register(make.__name__, family="model")(make)
    assert fw.check(make, dataset=data).passed == fw.check(make.__name__, dataset=data).passed == passed


CASES = [
    pytest.param(family, *case, id=f"{family}-{i}-{case[1]}")
    for family, cases in BROKEN.items()
    for i, case in enumerate(cases)
]


@pytest.mark.parametrize("family, part, failing, tokens", CASES)
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_a_broken_part_is_reported(family: str, part: Any, failing: str, tokens: tuple[object, ...]) -> None:
    more = {"dataset": images((1, 3, 4))} if family == "model" else {}
    with refused(f"'{failing}'", *tokens) as found:
        fw.check(part, family=family, **more)
    assert "\n" not in str(found.value)
    assert str(found.value).startswith(registry.word(family))


@pytest.mark.parametrize("family", BROKEN)
def test_every_check_has_a_part_that_fails_it(family: str) -> None:
    assert {check for _, check, _ in BROKEN[family]} >= own(family)


def test_every_shared_check_has_a_part_that_fails_it() -> None:
    assert {check for cases in BROKEN.values() for _, check, _ in cases} >= set(SHARED)


def test_every_family_has_a_checker() -> None:
    assert set(BROKEN) == set(registry.FAMILIES)


def test_a_model_for_unusual_images_needs_a_dataset() -> None:
    with refused("(1, 28, 28)", "dataset="):
        fw.check(chain, family="model")


@pytest.mark.parametrize(
    "part, given, tokens",
    [
        ("ricean", {}, ("ricean", "rician")),
        ("recorded", {}, ("fading", "arrivals", "family='fading'")),
        ("recorded", {"family": "arrivals"}, ("recorded", "counts")),
        ("rician:k=6", {}, ("parameter", "'k'")),
        ("rician", {"family": "succes"}, ("succes", "success")),
        ("rician", {"family": "success"}, ("success", "rician")),
        ("cnn:width=3", {}, ("parameter", "width")),
        (3, {}, ("family", 3, "Scheduler")),
        ("balsa_po", {}, ("balsa_po", "balsa-po")),
        (chain, {}, ("family", "chain")),
        (fw.fading.Rayleigh, {"family": "success"}, ("success", "Rayleigh")),
    ],
)
def test_what_is_not_a_part_is_refused(part: Any, given: dict[str, Any], tokens: tuple[object, ...]) -> None:
    with refused(*tokens):
        fw.check(part, **given)


# --- schedulers -----------------------------------------------------------------------------------


def test_the_answer_is_a_sentence() -> None:
    report = fw.check(Sound)
    assert report == fw.check(Sound())
    assert str(report) == repr(report) == f"scheduler 'sound': {len(report.passed)} checks passed"


class Shuffles(fw.Scheduler):
    """Numbers of its own kind, from a generator, cannot follow the devices."""

    name = "shuffles"

    def priority(self, state: Any, seen: Any, draws: Any) -> Any:
        rows, devices = seen.delay.shape
        return np.stack([draws.generator(i).permutation(devices) for i in range(rows)])


class OnPurpose(LovesTheFirst):
    """Declared to care about device numbers."""

    symmetric = False


@pytest.mark.parametrize("kind", [Shuffles, OnPurpose])
def test_a_scheduler_may_care_about_device_numbers(kind: Any) -> None:
    assert "devices" not in fw.check(kind).passed


def test_what_is_only_derived_from_the_parameters_may_be_kept_in_the_object() -> None:
    class Caches(Sound):
        @cached_property
        def table(self) -> Any:
            return np.linspace(0, 1, 5)

        def priority(self, state: Any, seen: Any, draws: Any) -> Any:
            return self.table[-1] * seen.success

    fw.check(Caches())


# --- parts with a number for each device of a network ----------------------------------------------


@dataclass(frozen=True)
class Favours(fw.Scheduler):
    name, needs, symmetric = "favours", frozenset({"channel"}), False
    weights: tuple[float, ...]

    def priority(self, state: Any, seen: Any, draws: Any) -> Any:
        return seen.success * np.array(self.weights)


@dataclass(frozen=True)
class OwnScale(fw.fading.Fading):
    name = "own-scale"
    scales: tuple[float, ...]

    def sample(self, block: Any, carry: Any) -> Any:
        return block.draw(self.fresh), None

    def fresh(self, rng: Any, shape: Any) -> Any:
        return rng.standard_exponential(shape) * np.array(self.scales)

    def quartiles(self) -> Any:
        draws = self.fresh(np.random.default_rng(0), (20_000, len(self.scales)))
        return tuple(np.quantile(draws, (0.25, 0.5, 0.75)))


@pytest.mark.parametrize("kind", [Favours, OwnScale])
def test_a_part_with_a_number_for_each_device(kind: Any) -> None:
    network = fw.random_network(7, 2)
    part = kind(tuple(1.0 + np.arange(7) / 7))
    fw.check(part, network=network)
    with refused("network="):
        fw.check(part)
    with refused("7"):  # a number too many
        fw.check(kind((1.0,) * 8), network=network)
    with refused("network", "str"):
        fw.check(part, network="paper")
