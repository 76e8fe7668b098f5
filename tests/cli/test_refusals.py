"""Bad input on the command line: one sentence on standard error, exit status 2, no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

REFUSALS = {
    ("compare", "papr"): "there is no experiment 'papr'; did you mean 'paper'? A file must end in",
    ("compare", "-s", "blsa"): "there is no scheduler 'blsa'; did you mean 'balsa'?",
    ("compare", "-s", "balsa:stage_rul=max1"): "has no parameter 'stage_rul'; did you mean 'stage_rule'?",
    ("compare", "-s", "balsa:stage_rule=max"): "stage_rule is 'max'; did you mean 'max1'?",
    ("compare", "-s", "alpha-fresh:alpha=nan"): "alpha is nan, must be a number",
    ("compare", "-s", "alpha-fresh:alpha"): "'alpha' must read key=value",
    ("compare", "--slots", 26): "network.slots: slots (W) is 26 but there are only 25 devices",
    ("compare", "--slots", 0): "network.slots is 0, must be a whole number >= 1",
    ("compare", "--rounds", 0): "rounds is 0, must be a whole number >= 1",
    ("compare", "--instances", 0): "instances is 0",
    ("compare", "--seed", -1): "seed is -1, must be a whole number >= 0",
    ("compare", "--rounds", "many"): "'--rounds'",
    ("compare", "--gamma", -1): "network.gamma is -1.0, must be a number >= 0",
    ("compare", "--set", "rate=-2"): "rate of device 1 is -2, must be a number >= 0",
    ("compare", "--set", "slopes=2"): "a network has no field 'slopes'; did you mean 'slots'?",
    ("compare", "--set", "rate"): "must read field=number",
    ("compare", "--devices", 4): "network.devices is 4, but goes with network.kind random, not paper",
    ("compare", "random", "--devices", 0): "network.devices is 0, must be a whole number >= 1",
    ("compare", "--fading", "ricean"): "there is no fading 'ricean'; did you mean 'rician'?",
    ("compare", "--fading", "rician:k=2"): "fading 'rician' has no parameter 'k'",
    ("compare", "--fading", "rician:k_factor=much"): "k_factor is much, must be a number >= 0",
    ("compare", "-s", "alpha-fresh:alpha=much"): "alpha is much, must be a number",
    ("compare", "-s", "balsa:prior=gamma:shape=0"): "Gamma shape is 0, must be a number > 0",
    ("compare", "-s", "balsa:posterior=3"): "posterior is 3, must be a Posterior object",
    ("compare", "--success", "harq:tries=0"): "tries is 0, must be a whole number >= 1",
    ("compare", "--success", "table"): "cannot be built",
    ("compare", "--arrivals", "poison"): "there is no arrivals 'poison'; did you mean 'poisson'?",
    ("compare", "--fading", "recorded:path=none.npy"): "none.npy cannot be read: No such file",
    ("compare", "none.csv"): "device table none.csv cannot be read: No such file",
    ("compare", "--beliefs"): "--beliefs are kept in traces: name a folder for them with --traces",
    ("compare", "--traces", "t", "-o", "new"): "--traces goes with a table, not with the folder new",
    ("compare", "--traces", "t", "--engine", "ray"): "--traces simulates in this process: leave out",
    ("compare", "--fading", ""): "network.fading",
    ("compare", "quick", "--metric", "loss"): "metric is loss, but task is null",
    ("compare", "--metric", "backlgo"): "must be score, backlog",
    ("compare", "--import", "none.py"): "none.py cannot be read: No such file",
    ("schedulers", "--import", "none.py"): "none.py cannot be read: No such file",
    ("config", "--import", "no_such_module"): "there is no module 'no_such_module' to import",
    ("compare", "-s", "age,age"): "schedulers[1] is 'age' once more: name each once",
    ("compare", "-s", ","): "schedulers is empty: name at least one",
    ("compare", "-s", "age", "--against", "balsa"): "against is 'balsa', which is not among the schedulers",
    ("compare", "-s", "age", "-t", 5, "--burn-in", 5): "burn_in is 5, must lie between 0",
    ("compare", "--out", "table.xls"): "must end in .csv or .json",
    ("schedulers", "--out", "table.xls"): "must end in .csv or .json",
    ("compare", "--out", ""): "'' names no place: give one",
    ("compare", "--traces", ""): "'' names no place: give one",
    ("run", "paper", "--out", ""): "'' names no place: give one",
    ("reproduce", "theory", "--out", ""): "'' names no place: give one",
    ("compare", "--half-width", 0): "half_width is 0.0, must be a number above 0",
    ("compare", "--half-width", "nan"): "half_width is nan, must be a number above 0",
    ("compare", "--half-width", 3, "-i", 1): "instances is 1, must be 2 or more to show the spread",
    ("compare", "--half-width", 3, "-s", "age"): "but only age runs: name another scheduler",
    ("compare", "--half-width", 3, "-o", "new"): "not with the folder new: give --out a .csv or",
    ("compare", "--workers", 0): "workers is 0, must be a whole number >= 1",
    ("compare", "sweep.network.slots=[2,3]"): "compare varies network.slots: use `fedwave run`",
    ("compare", "paper", "quick"): "'quick' comes after 'paper': name one experiment, then fields",
    ("compare", "quick", "rounds"): "'rounds' comes after 'quick': name one experiment, then fields",
    ("compare", "=3"): "override '=3' must read field=value, such as network.slots=10",
    ("compare", "round=3"): "there is no field 'round'; did you mean 'rounds'?",
    ("compare", "slots=3"): "there is no field 'slots'; did you mean 'network.slots'?",
    ("compare", "rounds=many"): "rounds is 'many', must be a whole number",
    ("compare", "rounds=[3"): "override 'rounds': the value is not valid YAML",
    ("compare", "network.set.slopes=2"): "a network has no field 'slopes'; did you mean 'slots'?",
    ("compare", "none.yaml"): "experiment none.yaml cannot be read: No such file",
    ("compare", "none.json"): "experiment none.json cannot be read: No such file",
    ("compare", "none.txt"): "there is no experiment 'none.txt'; known are",
    ("config", "quik"): "there is no experiment 'quik'; did you mean 'quick'?",
    ("config", "--out", "mine.txt"): "--out mine.txt must end in .yaml or .yml",
    ("config", "--schema", "--out", "mine.yaml"): "--out mine.yaml must end in .json",
    ("run", "papr"): "there is no experiment 'papr'; did you mean 'paper'? A file must end in",
    ("run", "none.yaml"): "experiment none.yaml cannot be read: No such file",
    ("run", "--rounds", 0): "rounds is 0, must be a whole number >= 1",
    ("run", "--gamma", 1): "No such option: --gamma",
    ("sweep",): "No such command 'sweep'",
    ("run", "sweep.network.slots=[]"): "sweep.network.slots is empty: give at least one value",
    ("run", "sweep.network.slots=[2,26]"): "sweep.network.slots at 26: network.slots: slots (W) is 26",
    ("run", "sweep.seed=[1]", "--metric", "luck"): "metric is 'luck', must be score, backlog",
    ("run", "sweep.seed=[1]", "--metric", "loss"): "metric is loss, but task is null",
    ("run", "sweep.seed=[1]", "--engine", "spark"): "there is no engine 'spark'; known are local, ray",
    ("run", "sweep.seed=[1]", "--engine", "locl"): "there is no engine 'locl'; did you mean 'local'?",
    ("run", "sweep.seed=[1]", "--address", "auto"): "--address auto goes with --engine ray, not with local",
    ("run", "sweep.seed=[1]", "--workers", -1): "workers is -1, must be a whole number >= 1",
    ("run", "sweep.schedulers=[[age],[w-max]]", "-o", "."): "list all of them in schedulers",
    ("run", "sweep.task.eta=[1,2]", "-o", "."): "sweep.task.eta varies the task, but task is null",
    ("resume", "nowhere"): "there is no run folder at nowhere",
    ("resume", "."): ". is no run folder: it has no config.yaml",
    ("resume",): "Missing argument 'DIR'",
    ("reproduce", "score", "quick"): "'quick' comes after 'paper-score': name one experiment",
    ("reproduce", "score", "--from", "nowhere", "-o", "."): "there is no run folder at nowhere",
    ("reproduce", "scores"): "there is no 'scores' to reproduce; did you mean 'score'?",
    ("reproduce",): "Missing argument",
    ("reproduce", "theory", "--from", "old"): "--from does not go with theory",
    ("simulate",): "No such command 'simulate'",
    ("compare", "--slot", "3", "--bogus"): "No such option",
}


@pytest.mark.parametrize("words", REFUSALS, ids=lambda words: " ".join(map(str, words)))
def test_one_sentence_and_status_2(fedwave, words: tuple[object, ...], monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = fedwave(*words)
    assert status == 2
    assert out == ""
    assert err.startswith("fedwave: ")
    assert err.count("\n") == 1
    assert REFUSALS[words] in err
    assert list(tmp_path.iterdir()) == []


def test_a_word_of_any_length_gives_a_short_sentence(fedwave) -> None:
    status, _, err = fedwave("x" * 5000)
    assert status == 2
    assert err.startswith("fedwave: No such command 'xxx")
    assert len(err) < 300


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
    status, _, err = fedwave("compare", "--fading", f"recorded:path={tmp_path}/gains.npy", "--rounds", 6)
    assert status == 2
    assert "the recorded gains cover 5 rounds but the run has 6" in err


def test_nan_in_a_record(fedwave, tmp_path: Path) -> None:
    gains = np.ones((5, 25))
    gains[3, 7] = np.nan
    np.save(tmp_path / "gains.npy", gains)
    status, _, err = fedwave("compare", "--fading", f"recorded:path={tmp_path}/gains.npy", "--rounds", 5)
    assert status == 2
    assert "is nan, must be a number >= 0" in err


def test_a_place_that_cannot_be_written_is_found_before_the_run(fedwave, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for words in (
        ("compare", "--rounds", 10**9, "--traces", tmp_path / "file" / "traces"),
        ("reproduce", "score", "--rounds", 10**9, "--out", tmp_path / "file"),
        ("reproduce", "score", "--rounds", 10**9, "--out", tmp_path / "file" / "deeper"),
        ("compare", "--rounds", 10**9, "--out", tmp_path / "file" / "table.csv"),
        ("compare", "--rounds", 10**9, "--out", tmp_path / "file"),
        ("run", "sweep.seed=[1]", "--rounds", 10**9, "--out", tmp_path / "file"),
        ("config", "quick", "--out", tmp_path / "file" / "mine.yaml"),
        ("run", "sweep.seed=[1]", "-t", 10**9, "-o", tmp_path / "new", "--events", tmp_path / "file" / "e"),
    ):
        status, out, err = fedwave(*words)
        assert (status, out) == (2, "")
        assert "cannot be written" in err
        assert err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    from fedwave.errors import FedwaveError
    from fedwave.files.writing import write_whole

    kept = tmp_path / "kept.txt"
    kept.write_text("old")

    def fill(file) -> None:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")

    with pytest.raises(FedwaveError, match="No space left on device"):
        write_whole(kept, fill)
    assert kept.read_text() == "old"
    assert list(tmp_path.iterdir()) == [kept]
