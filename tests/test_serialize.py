"""Parts of a run written as JSON and arrays, and built again from them."""

import json

import numpy as np
import pytest

import fedwave as fw
from fedwave.components import known_classes
from fedwave.serialize import pack, unpack

PARTS = [
    fw.Turbo(blocks=3),
    fw.Threshold(1.5),
    fw.Soft(2.0),
    fw.Uncoded(bits=10, modulation="bpsk"),
    fw.Table((0.0, 1.0, 2.0), (1.0, 0.5, 0.0)),
    fw.Arq(fw.Soft(), 4),
    fw.Harq(fw.Table((0.0, 1.0), (1.0, 0.0)), 3),
    fw.Rayleigh(),
    fw.Rician(7.0),
    fw.Shadowing(3.0, 0.5, fw.GaussMarkov(0.3)),
    fw.Poisson(),
    fw.NegativeBinomial(3.0),
    fw.ZeroInflatedPoisson(0.1),
    fw.Device(rate=1, distance_m=2, buffer_limit=np.inf, interference_dbm=-np.inf),
    fw.scheduler("balsa", prior=fw.TruncatedPrior(0.5, 9.0, fw.GammaPrior(2.0, 3.0))),
    fw.scheduler("balsa-po", posterior=fw.GridPosterior(shapes=(1.0, 2.0)), stage_rule="max1"),
    fw.scheduler("balsa", posterior=fw.ConjugatePosterior(fw.Jeffreys())),
    *(fw.scheduler(name) for name in fw.scheduler_names()),
]


def there_and_back(value):
    arrays = {}
    text = json.dumps(pack(value, arrays, "here"))
    return unpack(json.loads(text), arrays, known_classes() | {type(value).__name__: type(value)})


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_every_part_comes_back_equal(part):
    again = there_and_back(part)
    assert again == part
    assert hash(again) == hash(part)  # tuples come back as tuples


@pytest.mark.parametrize("shape", [(4, 2), (4, 3, 2)])
def test_records_come_back_exactly(shape):
    record = np.random.default_rng(0).random(shape)
    np.testing.assert_array_equal(there_and_back(fw.RecordedGains(record)).gains, record)
    counts = (10 * record).astype(int)
    np.testing.assert_array_equal(there_and_back(fw.RecordedArrivals(counts)).counts, counts)


def test_a_network_comes_back_whole():
    net = fw.paper_network(slots=[1, 2, 3], gamma=0.5, miss_probability=0.25, per=fw.Arq())
    again = there_and_back(net)
    assert again.slots == (1, 2, 3)
    assert (again.gamma, again.per, again.fading) == (net.gamma, net.per, net.fading)
    np.testing.assert_array_equal(again.mean_snr, net.mean_snr)
    np.testing.assert_array_equal(again.table.miss_probability, net.table.miss_probability)


def test_arrays_are_kept_beside_the_text():
    arrays = {}
    content = pack(fw.paper_network(), arrays, "network")
    assert content["fields"]["devices"]["fields"]["rate"] == {"array": "network.devices.rate"}
    assert arrays["network.devices.rate"].sum() == 67


def test_numpy_numbers_become_plain_ones():
    assert type(pack(np.float64(2.5), {}, "x")) is float
    assert type(pack(np.int64(2), {}, "x")) is int
