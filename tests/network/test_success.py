"""Success models: hand-computed points, the measured code, retransmission, measured curves."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import fedwave as fw

BPSK = fw.success.Turbo(midpoint_db=-4.657)

# Block errors of the code behind `Turbo`: Es/N0 in dB with BPSK -> (blocks in error, blocks sent).
MEASURED = {
    -5.6: (500, 500),
    -5.2: (989, 1000),
    -5.0: (918, 1000),
    -4.8: (731, 1000),
    -4.6: (593, 1500),
    -4.4: (227, 1500),
    -4.2: (49, 2000),
    -4.0: (12, 2500),
}


def linear(decibels):
    return 10 ** (np.asarray(decibels, dtype=np.float64) / 10)


def chance(model, snr_db):
    return float(model.probability(linear(snr_db)))


def tail(x):
    """Q(x), by the error function."""
    return math.erfc(x / math.sqrt(2)) / 2


# --- turbo ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "snr_db", "expected"),
    [
        (fw.success.Turbo(), -1.647, 0.5),
        (fw.success.Turbo(blocks=683), -1.647, 0.5**683),
        (fw.success.Turbo(), -1.0, 0.992091),  # 1 / (1 + exp(-7.468 * 0.647))
        (fw.success.Turbo(), -2.0, 0.066844),  # 1 / (1 + exp(7.468 * 0.353))
        (BPSK, -4.657, 0.5),
        (BPSK, -4.0, 0.992656),
        (fw.success.Turbo(midpoint_db=2.0, slope=1.0), 4.0, 0.880797),  # 1 / (1 + e^-2)
    ],
)
def test_turbo_is_logistic_in_decibels(model, snr_db, expected):
    assert chance(model, snr_db) == pytest.approx(expected, rel=1e-5)


def test_turbo_is_exactly_1_above_about_3_3_decibels():
    """Schedulers rank by p, so where it ties exactly is part of the model."""
    assert chance(fw.success.Turbo(), 3.1) < chance(fw.success.Turbo(), 3.3) == 1.0


def test_turbo_is_the_likeliest_logistic_curve_through_the_measured_blocks():
    snr = linear(list(MEASURED))
    errors, sent = np.array(list(MEASURED.values())).T

    def surprise(parameters):
        p = fw.success.Turbo(*parameters).probability(snr)
        return -(special.xlogy(errors, 1 - p) + special.xlogy(sent - errors, p)).sum()

    best = optimize.minimize(surprise, (-4.0, 5.0), method="Nelder-Mead", options={"xatol": 1e-6})
    assert best.x.round(3).tolist() == [BPSK.midpoint_db, BPSK.slope]


# --- the other models -----------------------------------------------------------------------------


def test_edges_are_those_of_the_formula():
    assert fw.success.Threshold(w0=2.0).probability(np.array([0.0, 1.99, 2.0])).tolist() == [0, 0, 1]
    assert fw.success.Soft(w0=2.0).probability(np.array([0.0, 1.0])).tolist() == [0, math.exp(-2)]
    p = fw.success.Soft().probability(np.array([0.5]))
    assert fw.success.Arq(fw.success.Soft(), 4).probability(np.array([0.5])) == pytest.approx(1 - (1 - p) ** 4)


@pytest.mark.parametrize("snr", [0.5, 2.0, 4.0, 9.0])
@pytest.mark.parametrize("bits", [1, 100, 1024])
def test_uncoded_needs_every_bit(snr, bits):
    bpsk = fw.success.Uncoded(bits=bits, modulation="bpsk").probability(np.array([snr]))[0]
    qpsk = fw.success.Uncoded(bits=bits, modulation="qpsk").probability(np.array([snr]))[0]
    assert bpsk == pytest.approx((1 - tail(math.sqrt(2 * snr))) ** bits, rel=1e-9)
    assert qpsk == pytest.approx((1 - tail(math.sqrt(snr))) ** bits, rel=1e-9)


def test_table_from_a_file_interpolates_and_is_flat_beyond_its_ends(tmp_path):
    path = tmp_path / "curve.csv"
    path.write_bytes(b"\xef\xbb\xbfsnr_db,error_rate,note\r\n0,0.2,a\r\n-4,1.0,b\r\n-2,0.6,\r\n")  # in any order
    table = fw.success.Table.from_file(path)
    assert table.snr_db == (-4.0, -2.0, 0.0)
    expected = {-9: 0.0, -4: 0.0, -3: 0.2, -2: 0.4, -1: 0.6, -0.5: 0.7, 0: 0.8, 20: 0.8}
    for snr_db, p in expected.items():
        assert chance(table, snr_db) == pytest.approx(p, abs=1e-12)
    assert table.probability(np.array([0.0]))[0] == 0.0  # no signal at all


SIMULATOR = """SNR [dB],MCS 0,MCS 1,mcs,BLER
0,0.1,0.9,5,0.4
1,0.0,0.5,5,0.2
0,0.3,0.3,6,0.8
1,0.2,0.2,6,0.7
"""


@pytest.mark.parametrize(
    ("text", "how", "rates"),
    [
        ("Es/N0,BLER\n1,0.1\n0,0.4\n", {}, (0.4, 0.1)),
        ("SINR_dB,PER\n0,0.4\n1,0.1\n", {}, (0.4, 0.1)),
        ("\n".join(SIMULATOR.splitlines()[:3]), {"column": "MCS 1"}, (0.9, 0.5)),
        ("\n".join(SIMULATOR.splitlines()[:3]), {"column": "mcs0"}, (0.1, 0.0)),
        (SIMULATOR, {"mcs": 6}, (0.8, 0.7)),
    ],
)
def test_tables_of_link_simulators(tmp_path, text, how, rates):
    (tmp_path / "bler.csv").write_text(text)
    assert fw.success.Table.from_file(tmp_path / "bler.csv", **how).error_rate == rates
    part = {"name": "table", "path": str(tmp_path / "bler.csv"), **how}
    assert fw.paper_network(success=part).success.error_rate == rates


@pytest.mark.parametrize("how", [{"column": "MCS 7"}, {"mcs": 7}, {"mcs": "x"}, {}])
def test_what_a_table_of_a_link_simulator_lacks(tmp_path, how):
    (tmp_path / "bler.csv").write_text(SIMULATOR)
    with pytest.raises(fw.FedwaveError) as error:
        fw.success.Table.from_file(tmp_path / "bler.csv", **how)
    assert all(str(value) in str(error.value) for value in how.values())


@pytest.mark.parametrize("mean_snr", [0.2, 0.685, 3.0])
@pytest.mark.parametrize("tries", [1, 2, 3, 5])
def test_harq_threshold_over_rayleigh_is_the_upper_gamma_function(tries, mean_snr):
    """The sum of L exponential gains is Gamma(L): P[mean SNR * sum >= w0] = Q(L, w0 / mean SNR)."""
    model = fw.success.Harq(fw.success.Threshold(), tries)

    def integrand(gain):
        snr = np.array(mean_snr * gain)
        return float(model.expected(snr, np.array(mean_snr), fw.fading.Rayleigh())) * math.exp(-gain)

    step = 0.685 / mean_snr  # from here on the first try suffices
    mean = integrate.quad(integrand, 0, step * (1 - 1e-12))[0] + math.exp(-step)
    assert mean == pytest.approx(special.gammaincc(tries, 0.685 / mean_snr), rel=1e-9)


@pytest.mark.parametrize(
    "model, close",
    [(fw.success.Turbo(), 2e-4), (fw.success.Turbo(blocks=683), 2e-4), (fw.success.Soft(), 1e-3)],
    ids=repr,
)
@pytest.mark.parametrize("distance", [300, 500, 800])
@pytest.mark.parametrize("tries", [2, 3, 4])
def test_harq_averages_over_later_gains(model, close, tries, distance):
    mean_snr = fw.paper_network(distance_m=distance).mean_snr[0]
    later = stats.gamma(tries - 1).ppf((np.arange(100_000) + 0.5) / 100_000)
    for first in np.linspace(0, 1.2, 9):
        exact = model.probability(first + mean_snr * later).mean()
        p = fw.success.Harq(model, tries).expected(np.array(first), np.array(mean_snr), fw.fading.Rayleigh())
        assert float(p) == pytest.approx(exact, abs=close)
