"""Bad input on the command line: one sentence on standard error, exit status 2, no traceback."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from refusals import mentions

REFUSALS = {
    ("compare", "papr"): ("papr", "paper"),
    ("compare", "-s", "blsa"): ("blsa", "balsa"),
    ("compare", "-s", "balsa:stage_rul=max1"): ("stage_rul", "stage_rule"),
    ("compare", "-s", "balsa:stage_rule=max"): ("stage_rule", "'max'", "max1"),
    ("compare", "-s", "alpha-fresh:alpha=nan"): ("alpha", "nan"),
    ("compare", "-s", "alpha-fresh:alpha"): ("'alpha'", "key=value"),
    ("compare", "--slots", 26): ("network.slots", 26, 25),
    ("compare", "--slots", 0): ("network.slots", 0),
    ("compare", "--rounds", 0): ("rounds", 0),
    ("compare", "--instances", 0): ("instances", 0),
    ("compare", "--seed", -1): ("seed", -1),
    ("compare", "--rounds", "many"): ("--rounds", "'many'"),
    ("compare", "--gamma", -1): ("network.gamma", -1.0),
    ("compare", "--set", "rate=-2"): ("rate", "device 1", -2),
    ("compare", "--set", "slopes=2"): ("slopes", "slots"),
    ("compare", "--set", "rate"): ("--set", "field=number"),
    ("compare", "--devices", 4): ("network.devices", 4),
    ("compare", "random", "--devices", 0): ("network.devices", 0),
    ("compare", "--fading", "ricean"): ("ricean", "rician"),
    ("compare", "--fading", "rician:k=2"): ("rician", "parameter", "'k'"),
    ("compare", "--fading", "rician:k_factor=much"): ("k_factor", "much"),
    ("compare", "-s", "alpha-fresh:alpha=much"): ("alpha", "much"),
    ("compare", "-s", "balsa:prior=gamma:shape=0"): ("Gamma", "shape", 0),
    ("compare", "-s", "balsa:posterior=3"): ("posterior", 3),
    ("compare", "--success", "harq:tries=0"): ("tries", 0),
    ("compare", "--success", "table"): ("success", "table"),
    ("compare", "--arrivals", "poison"): ("poison", "poisson"),
    ("compare", "--fading", "recorded:path=none.npy"): ("none.npy", "No such file"),
    ("compare", "none.csv"): ("none.csv", "No such file"),
    ("compare", "--beliefs"): ("--beliefs", "--traces"),
    ("compare", "--traces", "t", "-o", "new"): ("--traces", "new"),
    ("compare", "--traces", "t", "--engine", "ray"): ("--traces", "--engine"),
    ("compare", "--fading", ""): ("network.fading",),
    ("compare", "quick", "--metric", "loss"): ("metric", "loss"),
    ("compare", "--metric", "backlgo"): ("metric", "backlgo", "backlog"),
    ("compare", "--import", "none.py"): ("none.py", "No such file"),
    ("schedulers", "--import", "none.py"): ("none.py", "No such file"),
    ("config", "--import", "no_such_module"): ("no_such_module",),
    ("compare", "-s", "age,age"): ("schedulers[1]", "age"),
    ("compare", "-s", ","): ("schedulers", "empty"),
    ("compare", "-s", "age", "--against", "balsa"): ("against", "balsa"),
    ("compare", "-s", "age", "-t", 5, "--burn-in", 5): ("burn_in", 5),
    ("compare", "--out", "table.xls"): (".csv", ".json"),
    ("schedulers", "--out", "table.xls"): (".csv", ".json"),
    ("compare", "--out", ""): ("''",),
    ("compare", "--traces", ""): ("''",),
    ("run", "paper", "--out", ""): ("''",),
    ("reproduce", "theory", "--out", ""): ("''",),
    ("compare", "--half-width", 0): ("half_width", 0.0),
    ("compare", "--half-width", "nan"): ("half_width", "nan"),
    ("compare", "--half-width", 3, "-i", 1): ("instances", 1),
    ("compare", "--half-width", 3, "-s", "age"): ("age",),
    ("compare", "--half-width", 3, "-o", "new"): ("new", "--out"),
    ("compare", "--workers", 0): ("workers", 0),
    ("compare", "sweep.network.slots=[2,3]"): ("network.slots", "`fedwave run`"),
    ("compare", "paper", "quick"): ("quick", "paper"),
    ("compare", "quick", "rounds"): ("rounds", "quick"),
    ("compare", "=3"): ("'=3'", "field=value"),
    ("compare", "round=3"): ("field", "'round'", "'rounds'"),
    ("compare", "slots=3"): ("slots", "network.slots"),
    ("compare", "rounds=many"): ("rounds", "many"),
    ("compare", "rounds=[3"): ("'rounds'", "YAML"),
    ("compare", "network.set.slopes=2"): ("slopes", "slots"),
    ("compare", "none.yaml"): ("none.yaml", "No such file"),
    ("compare", "none.json"): ("none.json", "No such file"),
    ("compare", "none.txt"): ("experiment", "none.txt"),
    ("config", "quik"): ("quik", "quick"),
    ("config", "--out", "mine.txt"): ("--out", "mine.txt"),
    ("config", "--schema", "--out", "mine.yaml"): ("--out", "mine.yaml"),
    ("run", "papr"): ("papr", "paper"),
    ("run", "none.yaml"): ("none.yaml", "No such file"),
    ("run", "--rounds", 0): ("rounds", 0),
    ("run", "--gamma", 1): ("--gamma",),
    ("sweep",): ("command", "sweep"),
    ("run", "sweep.network.slots=[]"): ("sweep.network.slots", "empty"),
    ("run", "sweep.network.slots=[2,26]"): ("sweep.network.slots", 26, "network.slots"),
    ("run", "sweep.seed=[1]", "--metric", "luck"): ("metric", "luck"),
    ("run", "sweep.seed=[1]", "--metric", "loss"): ("metric", "loss"),
    ("run", "sweep.seed=[1]", "--engine", "spark"): ("engine", "spark"),
    ("run", "sweep.seed=[1]", "--engine", "locl"): ("locl", "local"),
    ("run", "sweep.seed=[1]", "--address", "auto"): ("--address", "auto", "--engine"),
    ("run", "sweep.seed=[1]", "--workers", -1): ("workers", -1),
    ("run", "sweep.schedulers=[[age],[w-max]]", "-o", "."): ("sweep.schedulers",),
    ("run", "sweep.task.eta=[1,2]", "-o", "."): ("sweep.task.eta", "null"),
    ("resume", "nowhere"): ("nowhere",),
    ("resume", "."): ("config.yaml",),
    ("resume",): ("DIR",),
    ("reproduce", "score", "quick"): ("quick", "paper-score"),
    ("reproduce", "score", "--from", "nowhere", "-o", "."): ("nowhere",),
    ("reproduce", "scores"): ("scores", "score"),
    ("reproduce",): ("score", "theory"),
    ("reproduce", "theory", "--from", "old"): ("--from", "theory"),
    ("simulate",): ("command", "simulate"),
    ("compare", "--slot", "3", "--bogus"): ("option", "--slot"),
}


@pytest.mark.parametrize("words", REFUSALS, ids=lambda words: " ".join(map(str, words)))
def test_one_sentence_and_status_2(refuses, words: tuple[object, ...], monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    refuses(words, *REFUSALS[words])
    assert list(tmp_path.iterdir()) == []


def test_a_word_of_any_length_gives_a_short_sentence(fedwave) -> None:
    status, _, err = fedwave("x" * 5000)
    assert status == 2
    assert "'xxx" in err
    assert len(err) < 300


def test_malformed_tables(refuses, tmp_path: Path) -> None:
    table = tmp_path / "devices.csv"
    for text, tokens in {
        "": ("empty",),
        "rate,distance_m\n": ("empty",),
        "rate,distance_m\n1,2,3\n": ("line 1", "fields"),
        "rate,distance_m\n1,far\n": ("distance_m", "'far'"),
        "rate,distanc_m\n1,100\n": ("column", "distanc_m", "distance_m"),
        "rate\n1\n": ("distance_m", "missing"),
        "rate,distance_m\nnan,100\n": ("rate", "device 1", "nan"),
    }.items():
        table.write_text(text)
        refuses(("compare", table), *tokens)


def test_a_record_shorter_than_the_run(fedwave, tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", np.ones((5, 25)))
    status, _, err = fedwave("compare", "--fading", f"recorded:path={tmp_path}/gains.npy", "--rounds", 6)
    assert status == 2
    assert mentions(err, "5 rounds", 6)


def test_nan_in_a_record(fedwave, tmp_path: Path) -> None:
    gains = np.ones((5, 25))
    gains[3, 7] = np.nan
    np.save(tmp_path / "gains.npy", gains)
    status, _, err = fedwave("compare", "--fading", f"recorded:path={tmp_path}/gains.npy", "--rounds", 5)
    assert status == 2
    assert mentions(err, "nan")


def test_a_place_that_cannot_be_written_is_found_before_the_run(refuses, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for words in (
        ("compare", "--rounds", 10**9, "--traces", tmp_path / "file" / "traces"),
        ("reproduce", "score", f"rounds={10**9}", "--out", tmp_path / "file"),
        ("reproduce", "score", f"rounds={10**9}", "--out", tmp_path / "file" / "deeper"),
        ("compare", "--rounds", 10**9, "--out", tmp_path / "file" / "table.csv"),
        ("compare", "--rounds", 10**9, "--out", tmp_path / "file"),
        ("run", "sweep.seed=[1]", "--rounds", 10**9, "--out", tmp_path / "file"),
        ("config", "quick", "--out", tmp_path / "file" / "mine.yaml"),
        ("run", "sweep.seed=[1]", "-t", 10**9, "-o", tmp_path / "new", "--events", tmp_path / "file" / "e"),
    ):
        refuses(words, tmp_path / "file", "written")
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
