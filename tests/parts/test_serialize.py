"""Parts of a run written as JSON and arrays, and built again from them."""

import json

import numpy as np
import pytest

import fedwave as fw
from fedwave.parts import registry
from fedwave.parts.serialize import pack, unpack

# Parts within parts, and records; those of each family are in tests/checks (the check "saving").
PARTS = [
    fw.success.Harq(fw.success.Table((0.0, 1.0), (1.0, 0.0)), 3),
    fw.fading.Shadowing(3.0, 0.5, fw.fading.GaussMarkov(0.3)),
    fw.Device(rate=1, distance_m=2, buffer_limit=np.inf, interference_dbm=-np.inf),
    fw.scheduler("balsa", prior=fw.priors.Truncated(0.5, 9.0, fw.priors.Gamma(2.0, 3.0))),
    fw.scheduler("balsa-po", posterior=fw.posterior.GridPosterior(shapes=(1.0, 2.0)), stage_rule="max1"),
    fw.scheduler("balsa", posterior=fw.posterior.ConjugatePosterior(fw.priors.Jeffreys())),
]


def there_and_back(value):
    arrays = {}
    text = json.dumps(pack(value, arrays, "here"))
    return unpack(json.loads(text), arrays)


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_every_part_comes_back_equal(part):
    again = there_and_back(part)
    assert again == part
    assert hash(again) == hash(part)  # tuples come back as tuples


def test_numpy_numbers_become_plain_ones():
    assert type(pack(np.float64(2.5), {}, "x")) is float
    assert type(pack(np.int64(2), {}, "x")) is int


def test_a_plain_class_without_parameters_comes_back_by_name(monkeypatch):
    class Plain(fw.Scheduler):
        name = "plain-here"
        weight = 2.0

        def priority(self, state, seen, draws):
            return self.weight * seen.delay

    with pytest.raises(fw.FedwaveError, match="Plain"):  # it is not registered
        there_and_back(Plain())
    monkeypatch.setitem(registry.own()["scheduler"], Plain.name, Plain)
    assert isinstance(there_and_back(Plain()), Plain)


def test_a_parameter_that_is_no_field_is_refused_before_a_run():
    """No file could keep it, so that two runs which differ in it would look alike."""

    class Weighted(fw.Scheduler):
        name = "weighted-here"

        def __init__(self, weight):
            self.weight = weight

        def priority(self, state, seen, draws):
            return self.weight * seen.delay

    class Scaled(fw.fading.Rayleigh):  # a dataclass, but this parameter is no field of it
        def __init__(self, scale):
            object.__setattr__(self, "scale", scale)

    with pytest.raises(fw.FedwaveError, match="weight"):
        fw.simulate(fw.paper_network(), Weighted(1.0), rounds=3, instances=1)
    with pytest.raises(fw.FedwaveError, match="scale"):  # also within another part
        fw.simulate(fw.paper_network(fading=fw.fading.Shadowing(fading=Scaled(2.0))), "age", rounds=3, instances=1)
    with pytest.raises(fw.FedwaveError, match="weight"):
        pack(Weighted(1.0), {}, "x")
