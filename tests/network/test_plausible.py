"""Wrong units that are allowed numbers: fedwave warns in one sentence, which names the field and the likely cause."""

import warnings

import numpy as np
import pandas as pd
import pytest

import fedwave as fw
from fedwave.experiments.config.read import load_experiment, preset_names
from fedwave.network.plausible import ImplausibleWarning

GAINS = np.random.default_rng(0).exponential(size=(50, 25))


def paper(**changes):
    return lambda: fw.paper_network(**changes)


def log(values, value):
    return lambda: fw.paper_network(fading=fw.read_log(pd.DataFrame(values), 25, value, time=None))


# What was done wrong, the network, and a word of the warning.
WRONG = {
    "kilometres for metres": (paper(distance_m=0.3), "kilometres"),
    "millimetres for metres": (paper(distance_m=300_000.0), "distance_m"),
    "milliwatts for dBm": (paper(tx_power_dbm=200.0), "milliwatts"),
    "dBW for dBm, of a microwatt": (paper(tx_power_dbm=-60.0), "dBW"),
    "noise density for noise": (paper(noise_dbm=-174.0), "per hertz"),
    "noise in milliwatts": (paper(noise_dbm=2.5e-10), "noise_dbm"),
    "noise in dB above thermal": (paper(noise_dbm=7.0), "noise_dbm"),
    "interference in milliwatts": (paper(interference_dbm=1e-9), "interference_dbm"),
    "path loss exponent for slope": (paper(pathloss_slope_db=3.76), "exponent"),
    "path loss at 1 m for 1 km": (paper(pathloss_intercept_db=38.5), "1 m"),
    "samples for shards": (paper(rate=60_000.0), "samples"),
    "megabytes for a buffer of shards": (paper(buffer_limit=0), "buffer_limit"),
    "SNR in dB as gains": (paper(fading=fw.fading.RecordedGains(10 + 10 * np.log10(1 + GAINS))), "dB"),
    "linear SNR as gains": (paper(fading=fw.fading.RecordedGains(700 * GAINS)), "SNR"),
    "path gains as gains": (paper(fading=fw.fading.RecordedGains(1e-11 * GAINS)), "gains"),
    "RSRP logged as SNR": (log(-95 + 5 * GAINS, "snr_db"), "RSRP"),
    "linear SNR logged as dB": (log(90 + GAINS, "snr_db"), "linear"),
    "SNR in dB logged as gain": (log(10 + GAINS, "gain"), "dB"),
    "SNR in dB logged as gain in dB": (log(15 + GAINS, "gain_db"), "SNR"),
    "RSRP as snr_db": (lambda: fw.Network([fw.Device(1, snr_db=-95)], slots=1), "RSRP"),
    "a linear ratio as snr_db": (lambda: fw.Network([fw.Device(1, snr_db=120)], slots=1), "linear"),
}


@pytest.mark.parametrize(("make", "mentioned"), WRONG.values(), ids=WRONG)
def test_a_wrong_unit_is_named(make, mentioned):
    with pytest.warns(ImplausibleWarning, match=mentioned) as found:
        make()
    assert len(found) == 1


def test_several_are_named_in_one_warning():
    with pytest.warns(ImplausibleWarning) as found:
        fw.paper_network(distance_m=0.4, tx_power_dbm=60.0)
    assert len(found) == 1
    assert all(name in str(found[0].message) for name in ("distance_m", "tx_power_dbm"))


def test_the_same_warning_is_shown_once():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            fw.paper_network(distance_m=0.25).replace(slots=4)
    assert len(found) == 1


def test_right_networks_pass_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in preset_names():
            load_experiment(name)
        fw.paper_network(fading=fw.fading.RecordedGains(GAINS))
        fw.random_network(10_000)


# What cannot be meant is refused, with the likely cause.
REFUSED = {
    "dB as gains": (lambda: fw.fading.RecordedGains(10 * np.log10(GAINS)), "dB"),
    "transposed gains": (
        lambda: fw.simulate(fw.paper_network(fading=fw.fading.RecordedGains(GAINS.T)), "age", rounds=20, instances=1),
        "ransposed",
    ),
    "percent as a probability": (paper(miss_probability=5), "percent"),
    "decibels as a K-factor": (lambda: fw.fading.Rician(-3), "dB"),
}


@pytest.mark.parametrize(("make", "mentioned"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_names_the_likely_cause(make, mentioned):
    with pytest.raises(fw.FedwaveError, match=mentioned):
        make()
