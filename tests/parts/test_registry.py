"""The one registry: what is refused when parts are registered, named and built."""

from dataclasses import dataclass
from types import ModuleType

import pytest

import fedwave as fw
from fedwave.parts import registry
from fedwave.schedulers.baselines import Random


def test_a_class_of_the_same_name_elsewhere_does_not_replace_a_built_in():
    kind = type("AlsaPi", (Random,), {"name": "alsa-pi", "__module__": "elsewhere"})
    with pytest.raises(fw.FedwaveError, match="'alsa-pi' is already used by AlsaPi of fedwave"):
        fw.register(kind)


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
    @fw.register
    class Plain(fw.Metric):
        name = "plain"

        def __init__(self, k=1.0):
            self.k = k

        def measure(self, state, played):
            return state, played.score

    with pytest.raises(fw.FedwaveError, match="is no dataclass, so a file could not keep them"):
        registry.build("metric", "plain:k=5")
    assert registry.build("metric", "plain").k == 1.0


def test_a_parameter_of_a_part_within_a_part_is_written_with_a_semicolon():
    meant = "has no parameter 'stretch', but 'constant' has: write aggregation=constant:beta=1;stretch=2, with ';'"
    with pytest.raises(fw.FedwaveError, match=meant):
        fw.scheduler("mass:aggregation=constant:beta=1,stretch=2")
    assert fw.scheduler("mass:aggregation=constant:beta=1;stretch=2").aggregation.stretch == 2
    for other in ("balsa:prior=gamma:shape=2,stage_rul=max1", "mass:aggregation=a:b=1,foo=2"):
        with pytest.raises(fw.FedwaveError, match=r"did you mean 'stage_rule'|known are aggregation"):
            fw.scheduler(other)


def test_text_for_a_number_of_a_users_own_part():
    @fw.register
    @dataclass(frozen=True)
    class Blend(Random):
        weight: float = 1.0
        name = "blend"

    assert fw.scheduler("blend:weight=2").weight == 2
    with pytest.raises(fw.FedwaveError, match="scheduler 'blend': weight is 'x', must be a number"):
        fw.scheduler("blend:weight=x")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("lee:name=sync", "gives 'name' twice"),
        ("lee:beta=0.1,beta=0.9", "gives 'beta' twice"),
        ("lee:beta", "must read key=value"),
        ("leee", "there is no aggregation rule 'leee'; did you mean 'lee'?"),
        ("lee:gamma=1", "has no parameter 'gamma'"),
    ],
)
def test_texts_that_say_two_things_or_nothing(text, complaint):
    with pytest.raises(fw.FedwaveError, match=complaint.replace("?", r"\?")):
        registry.build("aggregation", text)


def test_a_name_has_no_spaces_around_it():
    with pytest.raises(fw.FedwaveError, match="begins or ends with a space"):
        fw.register(type("Pad", (Random,), {"name": "pad "}))


def test_every_family_has_names_and_words():
    for family in registry.FAMILIES:
        assert registry.names(family)
        assert registry.word(family)
    assert isinstance(registry, ModuleType)
