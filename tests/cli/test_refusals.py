"""Bad input on the command line: one sentence on standard error, exit status 2, no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

REFUSALS = {
    ("simulate", "papr"): "there is no network 'papr'; did you mean 'paper'?",
    ("simulate", "-s", "blsa"): "there is no scheduler 'blsa'; did you mean 'balsa'?",
    (
        "simulate",
        "-s",
        "balsa:stage_rul=max1",
    ): "has no parameter 'stage_rul'; did you mean 'stage_rule'?",
    ("simulate", "-s", "balsa:stage_rule=max"): "stage_rule is 'max'; did you mean 'max1'?",
    ("simulate", "-s", "balsa,age"): "simulate runs one scheduler",
    ("simulate", "-s", "alpha-fresh:alpha=nan"): "alpha is nan, must be a number",
    ("simulate", "-s", "alpha-fresh:alpha"): "'alpha' must read key=value",
    ("simulate", "--slots", 26): "slots (W) is 26 but there are only 25 devices",
    ("simulate", "--slots", 0): "slots (W) is 0, must be a whole number >= 1",
    ("simulate", "--rounds", 0): "rounds is 0, must be a whole number >= 1",
    ("simulate", "--instances", 0): "instances is 0",
    ("simulate", "--seed", -1): "seed is -1, must be a whole number >= 0",
    ("simulate", "--rounds", "many"): "'--rounds'",
    ("simulate", "--gamma", -1): "gamma is -1.0, must be a number >= 0",
    ("simulate", "--set", "rate=-2"): "rate of device 1 is -2, must be a number >= 0",
    ("simulate", "--set", "slopes=2"): "a network has no field 'slopes'; did you mean 'slots'?",
    ("simulate", "--set", "rate"): "must read field=number",
    ("simulate", "--devices", 4): "--devices goes with the 'random' network",
    ("simulate", "random", "--devices", 0): "the number of devices is 0",
    ("simulate", "--fading", "ricean"): "there is no fading 'ricean'; did you mean 'rician'?",
    ("simulate", "--fading", "rician:k=2"): "fading 'rician' has no parameter 'k'",
    ("simulate", "--fading", "rician:k_factor=much"): "k_factor is much, must be a number >= 0",
    ("simulate", "-s", "alpha-fresh:alpha=much"): "alpha is much, must be a number",
    ("simulate", "-s", "balsa:prior=gamma:shape=0"): "GammaPrior shape is 0, must be a number > 0",
    ("simulate", "-s", "balsa:posterior=3"): "posterior is 3, must be a Posterior object",
    ("simulate", "--per", "harq:tries=0"): "tries is 0, must be a whole number >= 1",
    ("simulate", "--per", "table"): "cannot be built",
    ("simulate", "--arrivals", "poison"): "there is no arrivals 'poison'; did you mean 'poisson'?",
    ("simulate", "--fading", "recorded:path=none.npy"): "none.npy cannot be read: No such file",
    ("simulate", "none.csv"): "device table none.csv cannot be read: No such file",
    ("simulate", "--out", "trace.txt"): "must end in .npz",
    ("compare", "-s", "age,age"): "'age' is named twice",
    ("compare", "-s", ","): "no scheduler is named",
    ("compare", "-s", "age", "--against", "balsa"): "'balsa' is not among the schedulers",
    ("compare", "-s", "age", "-t", 5, "--burn-in", 5): "burn_in is 5, must lie between 0",
    ("compare", "--out", "table.xls"): "must end in .csv or .json",
    ("schedulers", "--out", "table.xls"): "must end in .csv or .json",
    ("reproduce", "scores"): "No such command 'scores'",
    ("simulat",): "No such command 'simulat'",
    ("simulate", "--slot", "3", "--bogus"): "No such option",
}


@pytest.mark.parametrize("words", REFUSALS, ids=lambda words: " ".join(map(str, words)))
def test_one_sentence_and_status_2(
    fedwave, words: tuple[object, ...], monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = fedwave(*words)
    assert status == 2
    assert out == ""
    assert err.startswith("fedwave: ")
    assert err.count("\n") == 1
    assert REFUSALS[words] in err
    assert list(tmp_path.iterdir()) == []


def test_malformed_tables(fedwave, tmp_path: Path) -> None:
    table = tmp_path / "devices.csv"
    for text, sentence in {
        "": "is empty: give it at least one device",
        "rate,distance_m\n": "is empty: give it at least one device",
        "rate,distance_m\n1,2,3\n": "the number of fields differs from the heading's",
        "rate,distance_m\n1,far\n": "distance_m is 'far', must be a number",
        "rate,distanc_m\n1,100\n": "unknown column 'distanc_m'; did you mean 'distance_m'?",
        "rate\n1\n": "distance_m is missing",
        "rate,distance_m\nnan,100\n": "rate of device 1 is nan",
    }.items():
        table.write_text(text)
        status, _, err = fedwave("compare", table)
        assert status == 2
        assert sentence in err


def test_a_record_shorter_than_the_run(fedwave, tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", np.ones((5, 25)))
    status, _, err = fedwave(
        "simulate", "--fading", f"recorded:path={tmp_path}/gains.npy", "--rounds", 6
    )
    assert status == 2
    assert "the recorded gains cover 5 rounds but the run has 6" in err


def test_nan_in_a_record(fedwave, tmp_path: Path) -> None:
    gains = np.ones((5, 25))
    gains[3, 7] = np.nan
    np.save(tmp_path / "gains.npy", gains)
    status, _, err = fedwave(
        "simulate", "--fading", f"recorded:path={tmp_path}/gains.npy", "--rounds", 5
    )
    assert status == 2
    assert "is nan, must be a number >= 0" in err


def test_a_place_that_cannot_be_written_is_found_before_the_run(fedwave, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for words in (
        ("simulate", "--rounds", 10**9, "--out", tmp_path / "file" / "run.npz"),
        ("reproduce", "score", "--rounds", 10**9, "--out", tmp_path / "file"),
    ):
        status, _, err = fedwave(*words)
        assert status == 2
        assert "cannot be written to" in err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    from fedwave.errors import FedwaveError
    from fedwave.files import write_whole

    kept = tmp_path / "kept.txt"
    kept.write_text("old")

    def fill(file) -> None:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    with pytest.raises(FedwaveError, match="No space left on device"):
        write_whole(kept, fill)
    assert kept.read_text() == "old"
    assert list(tmp_path.iterdir()) == [kept]
