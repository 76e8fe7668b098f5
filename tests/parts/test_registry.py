"""The one registry: what is refused when parts are registered, named and built."""

from dataclasses import dataclass

import pytest
from refusals import refused

import fedwave as fw
from fedwave.parts import registry
from fedwave.schedulers.baselines import Random


def test_two_files_cannot_register_one_name():
    for module in ("one", "other"):
        kind = type("Mine", (Random,), {"name": "mine", "__module__": module})
        if module == "one":
            fw.register(kind)
            fw.register(type("Mine", (Random,), {"name": "mine", "__module__": "one"}))  # read again
        else:
            with pytest.raises(fw.FedwaveError, match="'mine' is already used by Mine of one"):
                fw.register(kind)


def test_parameters_must_be_fields_of_a_dataclass():
    class Plain(fw.Metric):
        name = "plain"
        floor = 0.0  # an attribute of the class is no parameter

        def measure(self, state, played):
            return state, played.score

    class Weighted(Plain):
        name = "weighted"

        def __init__(self, k=1.0):
            self.k = k

    assert registry.build("metric", fw.register(Plain)).floor == 0
    assert registry.build("metric", "plain").floor == 0
    for use in (
        fw.register,
        lambda kind: registry.build("metric", kind),
        lambda kind: registry.build("metric", kind()),
    ):
        with pytest.raises(fw.FedwaveError, match="'k', which must be a field of a dataclass"):
            use(Weighted)


@pytest.mark.parametrize(
    "family, one, other",
    [
        ("success", "turbo", {"name": "turbo", "blocks": 1.0}),
        (
            "success",
            "harq:tries=3,model=turbo:slope=7",
            {"name": "harq", "model": {"name": "turbo", "slope": 7}, "tries": 3},
        ),
        ("scheduler", "balsa", "balsa:prior=jeffreys"),
        ("scheduler", "balsa", fw.scheduler("balsa")),
        ("success", "table:path=a.csv", {"name": "table", "path": "a.csv"}),
        (
            "success",
            fw.success.Table((0.0, 1.0), (1.0, 0.5)),
            {"name": "table", "snr_db": [0, 1], "error_rate": [1, 0.5]},
        ),
        ("model", "logistic", "logistic:inputs=784"),
    ],
)
def test_the_full_text_is_the_same_for_every_way_to_write_a_part(family, one, other):
    assert registry.full_text(family, one) == registry.full_text(family, other)


@pytest.mark.parametrize("part", ["age", "balsa:prior=gamma:shape=2;rate=1.5", "mass:aggregation=sync"])
def test_the_text_of_an_object_makes_it_again(part):
    made = fw.scheduler(part)
    assert registry.text(made) == part
    assert registry.build("scheduler", registry.text(made)) == made or not hasattr(made, "__dataclass_fields__")


def test_a_parameter_of_a_part_within_a_part_is_written_with_a_semicolon():
    with pytest.raises(fw.FedwaveError, match=r"'stretch'.* by ';'"):
        fw.scheduler("mass:aggregation=constant:beta=1,stretch=2")
    assert fw.scheduler("mass:aggregation=constant:beta=1;stretch=2").aggregation.stretch == 2
    with pytest.raises(fw.FedwaveError, match="did you mean 'stage_rule'"):
        fw.scheduler("balsa:prior=gamma:shape=2,stage_rul=max1")


def test_text_for_a_number_of_a_users_own_part():
    @fw.register
    @dataclass(frozen=True)
    class Blend(Random):
        weight: float = 1.0
        name = "blend"

    assert fw.scheduler("blend:weight=2").weight == 2
    with refused("blend", "weight", "'x'"):
        fw.scheduler("blend:weight=x")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("lee:beta=0.1,beta=0.9", ("beta", "twice")),
        ("lee:beta", ("'beta'", "key=value")),
        ("leee", ("'leee'", "'lee'")),
        ("lee:gamma=1", ("parameter", "'gamma'")),
    ],
)
def test_texts_that_say_two_things_or_nothing(text, tokens):
    with refused(*tokens):
        registry.build("aggregation", text)


def test_a_name_has_no_spaces_around_it():
    with refused("'pad '"):
        fw.register(type("Pad", (Random,), {"name": "pad "}))


def test_an_attribute_with_a_type_is_a_parameter_and_so_a_field():
    class Loud(fw.Scheduler):
        name: str = "loud"  # a name that the base class declares
        power: float = 2.0

        def priority(self, state, seen, draws):
            return seen.delay**self.power

    with pytest.raises(fw.FedwaveError, match="'power'"):
        fw.register(Loud)
