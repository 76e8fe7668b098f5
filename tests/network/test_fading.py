"""Path loss and every kind of fading, against hand numbers and known distributions."""

import numpy as np
import pytest
from scipy import integrate, stats

import fedwave as fw

# Mean success probability of the default code under Rayleigh fading, as the model's description states it.
MEAN_SUCCESS = {100: 0.999, 200: 0.987, 300: 0.942, 350: 0.898, 400: 0.837, 450: 0.758, 500: 0.663}
STRONG = 1e12  # a Rician factor so large that only what lies on top of it varies


def decibels(x):
    return 10 * np.log10(x)


def one_device(distance_m=100):
    return fw.Network(devices=[fw.Device(rate=1, distance_m=distance_m)], slots=1)


def covariance_terms(x, y):
    """Products whose mean is the covariance of two gains that both have mean 1."""
    return (x - 1) * (y - 1)


# --- path loss ------------------------------------------------------------------------------------


OTHER = {"noise_dbm": -90.0, "pathloss_intercept_db": 120.0, "pathloss_slope_db": 30.0}
NEAR = 23 - 128.1 + 37.6 + 96  # at 100 m


@pytest.mark.parametrize(
    ("changes", "expected_db"),
    [
        ({"distance_m": 1000}, 23 - 128.1 + 96),  # log10(1 km) = 0
        ({}, NEAR),
        ({"distance_m": 10_000}, 23 - 128.1 - 37.6 + 96),
        ({"distance_m": 500}, 23 - 128.1 + 37.6 * 0.30103 + 96),
        ({"tx_power_dbm": 10}, NEAR - 13),
        (OTHER, 23 - 120 + 30 + 90),
        ({"interference_dbm": -96.0}, NEAR - decibels(2)),  # as strong as the noise
        ({"interference_dbm": -86.0}, NEAR - decibels(11)),  # ten times the noise, on top of it
        ({"interference_dbm": -300.0}, NEAR),
    ],
)
def test_mean_snr_follows_path_loss_noise_and_interference(changes, expected_db):
    assert decibels(one_device().replace(**changes).mean_snr[0]) == pytest.approx(expected_db, abs=1e-4)


@pytest.mark.parametrize("distance", MEAN_SUCCESS)
def test_mean_success_over_rayleigh_at_the_printed_distances(distance):
    net = one_device(distance_m=distance)
    mean_snr = net.mean_snr[0]

    def integrand(log_gain):  # in log(h): the step of p is narrow where h is small
        gain = np.exp(log_gain)
        return net.success.probability(np.array(mean_snr * gain)) * np.exp(-gain) * gain

    step = np.log(10**-0.1647 / mean_snr)
    pieces = [(-40, step - 1), (step - 1, step + 1), (step + 1, 6)]
    mean = sum(integrate.quad(integrand, a, b, limit=200)[0] for a, b in pieces)
    assert f"{mean:.3f}" == f"{MEAN_SUCCESS[distance]:.3f}"


# --- fading ---------------------------------------------------------------------------------------


DISTRIBUTIONS = {
    "rayleigh": (fw.fading.Rayleigh(), stats.expon),
    "rician without a direct path": (fw.fading.Rician(0.0), stats.expon),
    "rician": (fw.fading.Rician(4.0), stats.ncx2(2, 8.0, scale=1 / 10)),
    "shadowing of 0 dB": (fw.fading.Shadowing(0.0), stats.expon),
    "gauss-markov, new in every round": (fw.fading.GaussMarkov(0.0), stats.expon),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_gains_follow_their_distribution(play, crowd, name):
    fading, expected = DISTRIBUTIONS[name]
    gain = play(crowd(400, fading=fading), 64).gain
    assert stats.kstest(gain.ravel(), expected.cdf).pvalue > 1e-3


@pytest.mark.parametrize("round_", [1, 64, 65, 100])
def test_gauss_markov_gains_stay_exponential(play, crowd, round_):
    weather = play(crowd(1000, fading=fw.fading.GaussMarkov(0.9)), round_, 4, first=round_)
    assert stats.kstest(weather.gain.ravel(), "expon").pvalue > 1e-3


def test_a_channel_with_full_memory_is_frozen(play, crowd):
    frozen = play(crowd(50, fading=fw.fading.GaussMarkov(1.0)), 130).gain
    assert np.all(frozen == frozen[0])


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("first", [20, 64])  # blocks are 64 rounds long: 64 to 65 crosses a border
def test_gauss_markov_correlation_is_rho_squared_per_round(play, crowd, agree, lag, first):
    rho = 0.9
    weather = play(crowd(1000, fading=fw.fading.GaussMarkov(rho)), first + lag, 8, first=first)
    agree(covariance_terms(weather.gain[0], weather.gain[lag]), rho ** (2 * lag))


def shadow_only(correlation):
    return fw.fading.Shadowing(sigma_db=8.0, correlation=correlation, fading=fw.fading.Rician(STRONG))


def test_static_shadowing_is_one_obstacle_per_device_for_the_whole_run(play, crowd, agree):
    shadow = decibels(play(crowd(1000, fading=shadow_only(1.0)), 130, 4).gain)
    np.testing.assert_allclose(shadow, np.broadcast_to(shadow[0], shadow.shape), atol=1e-3)
    agree(shadow[0], 0.0)  # the median factor is 1
    agree(shadow[0] ** 2, 8.0**2)
    assert stats.kstest(shadow[0].ravel() / 8.0, "norm").pvalue > 1e-3


@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize("first", [20, 63, 64])  # blocks are 64 rounds long: 64 to 65 crosses a border
def test_shadowing_is_correlated_over_rounds(play, crowd, agree, first, correlation):
    shadow = decibels(play(crowd(1000, fading=shadow_only(correlation)), first + 2, 4, first=first).gain)
    agree(shadow, 0.0)
    agree(shadow**2, 8.0**2)
    agree(shadow[0] * shadow[1], 8.0**2 * correlation)
    agree(shadow[0] * shadow[2], 8.0**2 * correlation**2)


def test_shadowing_multiplies_the_fading_below_it(play, crowd):
    log_gain = np.log(play(crowd(400, fading=fw.fading.Shadowing(6.0, 0.0)), 64).gain)
    # log of an exponential: variance pi^2 / 6; the shadowing's own variance comes on top.
    expected = np.pi**2 / 6 + (0.6 * np.log(10)) ** 2
    squares = (log_gain - log_gain.mean()) ** 2
    error = squares.std() / np.sqrt(squares.size)
    assert abs(squares.mean() - expected) < 4 * error


def test_shadowing_lets_the_fading_below_it_keep_its_memory(play, crowd, agree):
    fading = fw.fading.Shadowing(0.0, 1.0, fw.fading.GaussMarkov(0.9))
    gain = play(crowd(1000, fading=fading), 65, 8, first=64).gain  # over a block's border
    agree(covariance_terms(gain[0], gain[1]), 0.9**2)
