"""Whatever is written into a configuration: it loads, or one sentence names the field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment, TaskConfig
from fedwave.experiments.config.read import experiment_from, load_experiment, to_yaml
from fedwave.experiments.config.schema import field_names
from fedwave.experiments.config.sweep import points, to_mapping
from fedwave.files.yaml_text import read_yaml

# Whatever is written may also look implausible.
pytestmark = pytest.mark.filterwarnings("ignore::fedwave.network.plausible.ImplausibleWarning")

PROFILE = settings(
    max_examples=500, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
BASES = {
    "default": to_mapping(Experiment(task=TaskConfig())),
    "cifar": to_mapping(load_experiment("paper-cifar10")),
    "million": to_mapping(load_experiment("million-devices")),
    "sweep": to_mapping(load_experiment("quick", ["sweep.network.slots=[2, 5]", "sweep.seed=[1, 2]"])),
}

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 30)
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.binary(max_size=4)
)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=8,
)
numbers = st.sampled_from(["0", "1", "-1", "0.5", "nan", "inf", "1e308", "1e-308", "9" * 30, "x", ""])
PARTS = [
    "rician:k_factor",
    "gauss-markov:correlation",
    "shadowing:sigma_db",
    "recorded:path",
    "turbo:slope",
    "turbo:blocks",
    "threshold:w0",
    "uncoded:bits",
    "arq:tries",
    "harq:tries",
    "harq:model",
    "negative-binomial:dispersion",
    "zero-inflated-poisson:silence",
    "balsa:prior",
    "balsa:stage_rule",
    "alpha-fresh:alpha",
    "update-aware:breadth",
    "balsa-po:prior=gamma:shape",
    "harq:tries=2,model=turbo:slope",
]
# Texts that come near to what a field takes.
texts = st.builds("{}={}".format, st.sampled_from(PARTS), numbers) | st.sampled_from(
    ["paper", "random", "table", "mnist", "cifar10", "vgg19", "sync", "bfloat16", "accuracy", "balsa", "age"]
)
# A part as a mapping, with any value for a parameter, or for its name.
mappings = st.builds(
    lambda part, value: {"name": part.split(":")[0], part.rpartition(":")[2]: value}, st.sampled_from(PARTS), junk
)
mappings |= st.builds(lambda name, value: {"name": name, "x": value}, junk, junk)
values = junk | texts | mappings | st.lists(mappings, max_size=2) | st.lists(texts | st.integers(0, 9), max_size=3)
columns = ["rate", "distance_m", "tx_power_dbm", "buffer_limit", "noise_dbm", "slots", "seed", "x"]
words = st.text("abcdefgh_", min_size=1, max_size=8)
fields = (
    st.sampled_from(field_names())
    | st.sampled_from(columns).map("network.set.{}".format)
    | st.sampled_from(field_names()).map("sweep.{}".format)
    | st.builds("{}{}".format, st.sampled_from(["", "network.", "task.", "training."]), words)
)


def broken(base: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    """A copy with the value written at the field, by hand rather than by the code under test."""
    first, _, rest = field.partition(".")
    inside = base.get(first)
    if not rest:
        return {**base, first: value}
    inside = inside if isinstance(inside, dict) else {}
    return {**base, first: {**inside, rest: value} if first == "sweep" else broken(inside, rest, value)}


def answer(mapping: Any, overrides: list[str]) -> Experiment | str:
    """The experiment, or the sentence."""
    try:
        made = experiment_from(mapping, overrides)
    except FedwaveError as error:
        return str(error)
    assert experiment_from(read_yaml(to_yaml(made), "it")) == made
    assert points(made)
    return made


def assert_named(field: str, told: Experiment | str) -> None:
    if isinstance(told, str):
        assert len(told.splitlines()) == 1
        assert field.rpartition(".")[2] in told


@PROFILE
@given(base=st.sampled_from(sorted(BASES)), field=fields, value=values)
def test_a_broken_field_is_named(base: str, field: str, value: Any) -> None:
    assert_named(field, answer(broken(BASES[base], field, value), []))


@PROFILE
@given(base=st.sampled_from(sorted(BASES)), field=fields, value=st.text(max_size=12) | texts | numbers)
def test_a_broken_override_is_named(base: str, field: str, value: str) -> None:
    assert_named(field, answer(BASES[base], [f"{field}={value}"]))


@PROFILE
@given(overrides=st.lists(st.text(max_size=30), max_size=3), junk=junk)
def test_anything_at_all(overrides: list[str], junk: Any) -> None:
    assert_named("", answer({}, overrides))
    assert_named("", answer(junk, []))
