"""Arrival families: means, variances and probabilities, and recorded counts."""

import numpy as np
import pytest

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
    assert draw(arrivals, 0.0, rounds=5).max() == 0
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    agree(counts, rate)
    agree((counts - rate) ** 2, variance(rate))


def test_recorded_arrivals_are_used_exactly(play, crowd):
    """Per instance and, from whole numbers written as floats, for all instances."""
    record = np.random.default_rng(2).integers(0, 9, (150, 4, 3))
    weather = play(crowd(3, arrivals=fw.arrivals.RecordedArrivals(record)), 150, [3, 1])
    np.testing.assert_array_equal(weather.arrivals, record[:, [3, 1]])
    alike = fw.arrivals.RecordedArrivals(record[:, 0].astype(float))
    assert alike.counts.dtype == np.int64
    weather = play(crowd(3, arrivals=alike), 150, [0, 6])
    for row in range(2):
        np.testing.assert_array_equal(weather.arrivals[:, row], record[:, 0])


def test_the_rates_of_a_record_are_its_means(crowd):
    flat = np.array([[0, 4, 2], [2, 6, 2]])
    assert crowd(3, arrivals=fw.arrivals.RecordedArrivals(flat)).rates.tolist() == [1, 5, 2]
    deep = np.stack([flat, flat + 2], axis=1)  # two instances
    assert crowd(3, arrivals=fw.arrivals.RecordedArrivals(deep)).rates.tolist() == [2, 6, 3]


def test_recorded_arrivals_from_a_file(tmp_path):
    path = tmp_path / "arrivals.csv"
    path.write_text("1,0\n0,7\n")
    assert fw.arrivals.RecordedArrivals.from_file(str(path)).counts.tolist() == [[1, 0], [0, 7]]
