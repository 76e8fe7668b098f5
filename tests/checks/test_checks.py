"""The checkers of all families: everything of ours passes, and every way to break a contract is reported."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from broken import LovesTheFirst, Sound
from broken_parts import BROKEN
from published import put, tiny
from refusals import refused
from small_models import chain, images, own_forward, with_batch_norm

import fedwave as fw
from fedwave.aggregation import FedAsync, Lee
from fedwave.checks.shared import SHARED
from fedwave.metrics import Mass
from fedwave.parts import registry

rng = np.random.default_rng(0)
# Parts that cannot be built from their name alone.
GIVEN = {
    ("fading", "recorded"): fw.fading.RecordedGains(rng.exponential(size=(140, 3))),
    ("arrivals", "recorded"): fw.arrivals.RecordedArrivals(rng.poisson(2, size=(140, 3))),
    ("success", "table"): fw.success.Table((-5.0, 0.0, 5.0), (1.0, 0.4, 0.0)),
}
# Checks that do not apply to some of ours.
_DRAWN = {"fresh", "quartiles", "sums", "independence"}
_STEPS = {"stopping", "tensors"}
LACKING = {
    ("fading", "gauss-markov"): {"independence"},
    ("fading", "shadowing"): {"independence", "fresh", "sums"},
    ("fading", "recorded"): _DRAWN,
    ("partition", "iid"): {"instances"},
    ("partition", "owner"): {"instances"},
    ("arrivals", "recorded"): {"silence", "frequencies", "means"},
    **{("aggregation", name): _STEPS for name in ("lee", "constant", "fedasync", "sync")},
    ("scheduler", "round-robin"): {"devices"},
}
SIMPLE = [family for family in registry.FAMILIES if family != "dataset"]
NAMED = [(family, name) for family in SIMPLE for name in registry.names(family)]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def passed(part: Any, **given: Any) -> list[str]:
    return list(fw.check(part, **given).passed)


def every(family: str) -> list[str]:
    """The names of a family's checks."""
    kept = import_module(f"fedwave.checks.{family}").FAMILY
    no_instances = {"instances"} if family in ("success", "prior", "aggregation") else set()
    table = [*kept.during, "inputs", "parameters", "repetition", "instances", *kept.own]
    tried = [name for name in table if name not in no_instances and (name not in SHARED or name in kept.shared)]
    first = [name for name in ("declaration", "equality") if name in kept.shared or name == "declaration"]
    return list(dict.fromkeys([*first, *tried, *["saving"] * ("saving" in kept.shared)]))


def names(family: str, name: str) -> list[str]:
    return [c for c in every(family) if c not in LACKING.get((family, name), ())]


@pytest.mark.parametrize("family, name", NAMED)
def test_every_built_in_part_keeps_its_contract(family: str, name: str) -> None:
    assert passed(GIVEN.get((family, name), name), family=family) == names(family, name)


def test_the_built_in_datasets_keep_their_contract(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On small files in the published formats, with all ten classes."""
    monkeypatch.setenv("FEDWAVE_DATA", str(put(tiny(monkeypatch, range(10)), tmp_path / "data")))
    assert registry.names("dataset") == ("mnist", "cifar10", "synthetic")
    for part in ("mnist", "cifar10", "synthetic:train=300,test=50"):
        assert passed(part) == every("dataset")
    assert passed(images((1, 4, 4))) == every("dataset")


@pytest.mark.parametrize(
    "part",
    [
        "rician:k_factor=0",
        "shadowing:correlation=0",
        "shadowing:correlation=0.5,fading=rician",
        "gauss-markov:correlation=1",
        "harq:tries=3,model=soft",
        "harq:tries=1",
        "harq:model=threshold",
        "harq:tries=4,model=turbo:blocks=3",
        "arq:tries=3,model=uncoded",
        "uncoded:modulation=bpsk",
        "negative-binomial:dispersion=0.3",
        "zero-inflated-poisson:silence=0.9",
        "gamma:shape=3,rate=0.5",
        "truncated:low=1,high=3,prior=gamma",
        "truncated:low=0",
        "dirichlet:alpha=50",
        "by-class:held=1",
        "fedbuff:size=3,beta=0.5",
        "lee:cap=2",
        "fedasync:staleness=hinge",
        "fedasync:staleness=constant",
        "balsa:stage_rule=max1,prior=gamma",
        "balsa:stage_rule=per-device,prior=truncated",
        "balsa-po:stage_rule=max1,prior=truncated",
        "balsa-po:stage_rule=per-device,prior=gamma",
        "logistic",
    ],
)
def test_other_parameters(part: str) -> None:
    family = next(f for f in SIMPLE if part.partition(":")[0] in registry.names(f))
    assert set(passed(part)) >= set(every(family)) - _DRAWN - _STEPS


def test_records_of_other_shapes_are_checked_as_far_as_they_reach() -> None:
    for shape in ((140, 2, 30), (70, 2), (2, 4)):
        gains = fw.fading.RecordedGains(np.ones(shape))
        assert {"values", "saving"} <= set(passed(gains))
        counts = fw.arrivals.RecordedArrivals(np.ones(shape, np.int64))
        assert {"values", "saving"} <= set(passed(counts))


def test_a_metric_with_a_rule_inside() -> None:
    for rule in (FedAsync(), "fedbuff:size=3"):
        metric = Mass(registry.build("aggregation", rule))
        assert passed(metric) == every("metric")


def test_the_mass_goes_through_a_server_step_without_a_memory() -> None:
    @dataclass(frozen=True)
    class Half(Lee):
        name = "half"

        def server_step(self, memory: Any, update: Any, uploads: Any) -> Any:
            return memory, update / 2

    assert passed(Half) == every("aggregation")
    network = fw.paper_network()
    whole, half = (fw.simulate(network, "age", 9, 2, metrics=[Mass(rule)]).series["mass"] for rule in (Lee(), Half()))
    np.testing.assert_array_equal(half, whole / 2)


@pytest.mark.parametrize("make", [chain, with_batch_norm, own_forward])
def test_models_of_a_users_own(make: Any) -> None:
    data = images((1, 3, 4))
    assert passed(make, family="model", dataset=data) == every("model")
    fw.register(make.__name__, family="model")(make)
    assert passed(make, dataset=data) == passed(make.__name__, dataset=data) == every("model")


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
        passed(part, family=family, **more)
    assert "\n" not in str(found.value)
    assert str(found.value).startswith(registry.word(family))


@pytest.mark.parametrize("family", BROKEN)
def test_every_check_has_a_part_that_fails_it(family: str) -> None:
    found = {check for _, check, _ in BROKEN[family]}
    assert found <= set(every(family))
    assert found >= set(every(family)) - set(SHARED)


def test_every_shared_check_has_a_part_that_fails_it() -> None:
    assert {check for cases in BROKEN.values() for _, check, _ in cases} >= set(SHARED)


def test_every_family_has_a_checker() -> None:
    assert set(BROKEN) == set(registry.FAMILIES)


def test_a_model_for_unusual_images_needs_a_dataset() -> None:
    with refused("(1, 28, 28)", "dataset="):
        passed(chain, family="model")


def test_a_registered_part_is_built_from_its_file() -> None:
    @fw.register
    @dataclass(frozen=True)
    class Nakagami(fw.fading.Fading):
        """h is Gamma(m, 1/m)."""

        m: float = 2.0
        name = "nakagami"

        def sample(self, block: Any, carry: Any) -> Any:
            return block.draw(self.fresh), None

        def fresh(self, rng: Any, shape: Any) -> Any:
            return rng.gamma(self.m, 1 / self.m, shape)

    for part in ("nakagami", "nakagami:m=0.7", {"name": "nakagami", "m": 3}, Nakagami, Nakagami(5.0)):
        assert passed(part) == every("fading")


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
        passed(part, **given)


# --- schedulers -----------------------------------------------------------------------------------


def test_the_answer_is_a_sentence() -> None:
    assert passed(Sound) == passed(Sound()) == every("scheduler")
    report = fw.check(Sound)
    assert str(report) == repr(report) == f"scheduler 'sound': {len(report.passed)} checks passed"


def test_a_scheduler_of_ten_lines_is_checked_found_by_name_and_simulated() -> None:
    @fw.register
    @dataclass(frozen=True)
    class Patient(fw.Scheduler):
        """Wait for a good channel, the less the longer it has been."""

        patience: float = 2.0
        name = "patient"
        needs = frozenset({"channel"})

        def priority(self, state: Any, seen: Any, draws: Any) -> Any:
            return seen.gain + seen.delay / self.patience

    assert passed("patient") == every("scheduler")
    assert "patient" in fw.scheduler_names()
    trace = fw.simulate(fw.paper_network(), "patient", rounds=20, instances=2)
    assert (np.count_nonzero(trace.scheduled, axis=2) == 5).all()
    other = fw.simulate(fw.paper_network(), fw.scheduler("patient:patience=9"), rounds=20, instances=2)
    assert not other.same_as(trace)


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
    assert passed(kind) == [name for name in every("scheduler") if name != "devices"]


def test_what_is_only_derived_from_the_parameters_may_be_kept_in_the_object() -> None:
    class Caches(Sound):
        @cached_property
        def table(self) -> Any:
            return np.linspace(0, 1, 5)

        def priority(self, state: Any, seen: Any, draws: Any) -> Any:
            return self.table[-1] * seen.success

    assert passed(Caches()) == every("scheduler")


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


@dataclass(frozen=True)
class OwnMidpoint(fw.success.SuccessModel):
    name = "own-midpoint"
    midpoints: tuple[float, ...]

    def probability(self, snr: Any) -> Any:
        return snr / (snr + np.array(self.midpoints))


@dataclass(frozen=True)
class OwnShare(fw.arrivals.Poisson):
    name = "own-share"
    shares: tuple[float, ...]

    def sample(self, block: Any, rates: Any) -> Any:
        return super().sample(block, rates * np.array(self.shares))

    def mean_rates(self, rates: Any) -> Any:
        return rates * np.array(self.shares)

    def chances(self, rates: Any, most: int) -> Any:
        return super().chances(rates * np.array(self.shares), most)


@pytest.mark.parametrize("kind", [Favours, OwnScale, OwnMidpoint, OwnShare])
def test_a_part_with_a_number_for_each_device(kind: Any) -> None:
    network = fw.random_network(7, 2)
    part = kind(tuple(1.0 + np.arange(7) / 7))
    lacking = {"fading": {"sums"}, "scheduler": {"devices"}}.get(kind.family, set())  # without HARQ, nothing is added
    assert set(passed(part, network=network)) == set(every(kind.family)) - lacking
    with refused("network="):
        passed(part)
    with refused("7"):  # a number too many
        passed(kind((1.0,) * 8), network=network)
    with refused("network", "str"):
        passed(part, network="paper")
