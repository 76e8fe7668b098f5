"""Arrival families: means, variances and probabilities, and recorded counts."""

import numpy as np
import pytest
from scipy import stats

import fedwave as fw

RATES = (0.3, 1.0, 5.0, 10.0)
SAMPLES = 400  # devices alike per rate


def silent_poisson_variance(theta, silence):
    return theta + theta**2 * silence / (1 - silence)


FAMILIES = {
    "poisson": (fw.arrivals.Poisson(), lambda theta: theta),
    "negative binomial": (fw.arrivals.NegativeBinomial(2.0), lambda theta: theta + theta**2 / 2.0),
    "bursty negative binomial": (fw.arrivals.NegativeBinomial(0.5), lambda theta: theta + theta**2 / 0.5),
    "zero-inflated": (fw.arrivals.ZeroInflatedPoisson(0.5), lambda t: silent_poisson_variance(t, 0.5)),
    "mostly silent": (fw.arrivals.ZeroInflatedPoisson(0.9), lambda t: silent_poisson_variance(t, 0.9)),
}


@pytest.fixture
def draw(play, crowd):
    def draw(arrivals, rate, rounds=64):
        return play(crowd(SAMPLES, rate=rate, arrivals=arrivals), rounds).arrivals

    return draw


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("family", FAMILIES)
def test_mean_and_variance(draw, agree, family, rate):
    arrivals, variance = FAMILIES[family]
    counts = draw(arrivals, rate)
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    agree(counts, rate)
    agree((counts - rate) ** 2, variance(rate))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rate_is_the_true_mean(crowd, family):
    net = crowd(3, rate=4.0, arrivals=FAMILIES[family][0])
    np.testing.assert_array_equal(net.rates, [4.0, 4.0, 4.0])


@pytest.mark.parametrize(
    ("arrivals", "exact"),
    [
        (fw.arrivals.Poisson(), stats.poisson(2.0).pmf),
        (fw.arrivals.NegativeBinomial(2.0), stats.nbinom(2.0, 0.5).pmf),
        (fw.arrivals.ZeroInflatedPoisson(0.5), lambda k: 0.5 * (k == 0) + 0.5 * stats.poisson(4.0).pmf(k)),
    ],
    ids=["poisson", "negative binomial", "zero-inflated"],
)
def test_every_count_is_as_likely_as_it_should_be(draw, agree, arrivals, exact):
    counts = draw(arrivals, 2.0)
    for k in range(8):
        agree(counts == k, float(exact(np.array(k))))


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_are_independent_over_rounds_and_devices(draw, agree, family):
    centred = draw(FAMILIES[family][0], 5.0) - 5.0
    agree(centred[:-1:2] * centred[1::2], 0.0)
    agree(centred[..., :-1:2] * centred[..., 1::2], 0.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_device_without_data_never_gets_any(draw, family):
    assert draw(FAMILIES[family][0], 0.0, rounds=5).max() == 0


def test_zero_silence_is_plain_poisson(draw, agree):
    counts = draw(fw.arrivals.ZeroInflatedPoisson(0.0), 3.0)
    agree((counts - 3.0) ** 2, 3.0)


def test_recorded_arrivals_for_all_instances(play, crowd):
    record = np.random.default_rng(2).integers(0, 9, (150, 3))
    arrivals = fw.arrivals.RecordedArrivals(record)
    weather = play(crowd(3, arrivals=arrivals), 150, [0, 6])
    for row in range(2):
        np.testing.assert_array_equal(weather.arrivals[:, row], record)


def test_recorded_arrivals_per_instance(play, crowd):
    record = np.random.default_rng(2).integers(0, 9, (150, 4, 3))
    weather = play(crowd(3, arrivals=fw.arrivals.RecordedArrivals(record)), 150, [3, 1])
    np.testing.assert_array_equal(weather.arrivals, record[:, [3, 1]])


def test_the_rates_of_a_record_are_its_means(crowd):
    flat = np.array([[0, 4, 2], [2, 6, 2]])
    assert crowd(3, arrivals=fw.arrivals.RecordedArrivals(flat)).rates.tolist() == [1, 5, 2]
    deep = np.stack([flat, flat + 2], axis=1)  # two instances
    assert crowd(3, arrivals=fw.arrivals.RecordedArrivals(deep)).rates.tolist() == [2, 6, 3]


def test_a_record_may_hold_whole_numbers_written_as_floats():
    counts = fw.arrivals.RecordedArrivals(np.array([[1.0, 2.0]])).counts
    assert counts.dtype == np.int64
    assert counts.tolist() == [[1, 2]]


def test_recorded_arrivals_from_a_file(tmp_path):
    path = tmp_path / "arrivals.csv"
    path.write_text("1,0\n0,7\n")
    assert fw.arrivals.RecordedArrivals.from_file(str(path)).counts.tolist() == [[1, 0], [0, 7]]
