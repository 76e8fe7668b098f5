"""`fedwave list`, `describe` and `config`, help and version: what there is, and what is in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from refusals import mentions
from user_file import forgotten, text

import fedwave as fw
from fedwave.cli import app as cli
from fedwave.experiments.config.read import experiment_from, load_experiment, preset_names
from fedwave.parts import registry

COMMANDS: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_screen(command: str, fedwave, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    status, shown, _ = fedwave(*command.split(), "--help")
    assert status == 0
    assert len(shown.splitlines()) <= 40


def test_version_and_no_command(fedwave) -> None:
    assert fedwave("--version")[1].strip() == f"fedwave {fw.__version__}"
    status, shown, _ = fedwave()
    assert (status, "Usage" in shown) == (2, True)


def test_completion_is_offered(fedwave, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_FEDWAVE_COMPLETE": "complete_bash", "COMP_WORDS": "fedwave repo", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    assert fedwave()[1].split() == ["report"]


def test_all_families_and_presets(fedwave) -> None:
    status, shown, err = fedwave("list")
    assert (status, err) == (0, "")
    found = json.loads(fedwave("list", "--json")[1])
    assert found["schedulers"] == list(fw.scheduler_names())
    assert found["presets"] == list(preset_names())
    assert all(name in shown for name in found["fading"])


def test_schedulers_and_what_each_may_see(fedwave) -> None:
    assert all(name in fedwave("list", "schedulers")[1] for name in fw.scheduler_names())
    rows = {row["name"]: row for row in json.loads(fedwave("list", "schedulers", "--json")[1])}
    needs = {"alsa-pi": ("true rates", "h, n"), "balsa": ("", "h, n"), "balsa-po": ("", "h")}
    needs |= {"update-aware": ("", "h, updates"), "lagrangian-po": ("distributions", "h")}
    for name, (knows, sees) in needs.items():
        assert (rows[name]["knows"], rows[name]["sees"]) == (knows, sees)
    assert rows["lagrangian"]["knows"] == "true rates, distributions"
    known = {name for name, row in rows.items() if row["knows"] + row["sees"]}
    assert {name for name in rows if fw.scheduler(name).needs} == known


@pytest.mark.parametrize(("family", "word"), [("fading", "fading"), ("prior", "priors"), ("prior", "prior")])
def test_parts_with_their_parameters(fedwave, family: str, word: str) -> None:
    status, shown, err = fedwave("list", word)
    assert (status, err) == (0, "")
    rows = {row["name"]: row for row in json.loads(fedwave("list", word, "--json")[1])}
    assert list(rows) == list(registry.names(family))
    assert all(row["about"] for row in rows.values())
    assert all(name in shown for row in rows.values() for name in row["parameters"])
    if family == "fading":
        assert rows["rician"]["parameters"] == {"k_factor": fw.fading.Rician().k_factor}
        assert rows["recorded"]["parameters"]["path"] is None


def test_parts_of_your_own_and_unknown_families(fedwave, refuses, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text())
    with forgotten():
        assert "heavy-test" in fedwave("list", "schedulers", "--import", tmp_path / "mine.py")[1]
    refuses(("list", "fadings"), "fadings", "fading")
    refuses(("list", "--import", "none.py"), "none.py", "No such file")


def test_presets_are_listed_and_can_be_printed(fedwave) -> None:
    rows = json.loads(fedwave("list", "presets", "--json")[1])
    assert tuple(row["name"] for row in rows) == preset_names()
    for row in rows:
        assert row["about"]
        assert fedwave("config", row["name"])[::2] == (0, "")


def test_config_prints_what_loads_to_the_same_experiment(fedwave, tmp_path: Path) -> None:
    changes = ("rounds=7", "network.slots=3", "sweep.task.partition=[iid,dirichlet:alpha=0.5]")
    status, printed, err = fedwave("config", "quick", *changes)
    assert (status, err) == (0, "")
    file = tmp_path / "mine.yaml"
    file.write_text(printed)
    assert load_experiment(file) == load_experiment("quick", changes)
    assert fedwave("config", file)[1] == printed
    # Without a name it is an experiment with nothing but defaults.
    file.write_text(fedwave("config")[1])
    assert load_experiment(file) == experiment_from({})


def test_the_schema_is_json_and_knows_every_field(fedwave) -> None:
    schema = json.loads(fedwave("config", "--schema")[1])
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["properties"]) == set(vars(load_experiment("quick")))


def described(fedwave, what: object) -> dict[str, Any]:
    """The description as JSON; that for people has the same values."""
    status, shown, err = fedwave("describe", what)
    assert (status, err) == (0, "")
    assert len(shown.splitlines()) <= 40
    content: dict[str, Any] = json.loads(fedwave("describe", what, "--json")[1])
    assert all(mentions(shown, name) for name in content)
    return content


def test_an_experiment_is_described(fedwave, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "{rounds: 5, instances: 4, schedulers: [age], task: {}, sweep: {network.slots: [2, 3]}}"
    )
    found = described(fedwave, tmp_path / "mine.yaml")
    assert (found["kind"], found["points"], found["total rounds"]) == ("experiment", 2, 40)
    assert (found["schedulers"], found["task"]["dataset"]) == (["age"], "mnist")
    assert described(fedwave, "paper-score")["devices"] == 25
    assert described(fedwave, "random")["network"] == "random"


def test_a_run_folder_is_described(fedwave, small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small_run.parent)
    found = described(fedwave, "run")
    assert (found["kind"], found["units"], found["total rounds"]) == ("run folder", "2 of 2 finished", 24)
    assert found["made by"]["fedwave"] == fw.__version__
    assert fedwave("verify", "run")[0] == 0


def test_a_run_folder_with_a_device_table_is_described_and_checked_from_anywhere(fedwave, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("count,rate,distance_m\n4,3,200\n")
    how: dict[str, Any] = {
        "network": {"kind": "table", "file": str(tmp_path / "d.csv"), "slots": 2},
        "schedulers": ["fresh", "mass", "age"],
    }
    how |= {"rounds": 7, "instances": 2, "task": {"dataset": "synthetic:train=400,test=100", "model": "logistic"}}
    fw.run(how, tmp_path / "run", workers=1)
    (tmp_path / "d.csv").unlink()  # its copy is read
    assert described(fedwave, tmp_path / "run")["devices"] == 4
    assert fedwave("predict", "--check", tmp_path / "run")[0] == 0


def test_a_trace_and_a_device_table_are_described(fedwave, refuses, tmp_path: Path) -> None:
    trace = fw.simulate(fw.paper_network(), "balsa", 6, [3, 4], seed=2, beliefs=True)
    trace.save(tmp_path / "t.npz")
    found = described(fedwave, tmp_path / "t.npz")
    assert (found["scheduler"], found["rounds"], found["seed"]) == ("balsa", 6, 2)
    assert found["means"]["score"] == pytest.approx(trace.score.mean())
    assert found["beliefs"]
    (tmp_path / "d.csv").write_text("name,count,rate,distance_m\na,3,1,100\nb,1,5,300\n")
    found = described(fedwave, tmp_path / "d.csv")
    assert (found["devices"], found["rate"]) == (4, {"smallest": 1, "mean": 2, "largest": 5})
    for name in ("none.npz", "none.csv", "none.yaml", "papr"):
        refuses(("describe", name), name)
    (tmp_path / "bad.npz").write_bytes(b"x")
    refuses(("describe", tmp_path / "bad.npz"), tmp_path / "bad.npz")
    refuses(("describe", tmp_path), tmp_path)


def test_logs_are_described(fedwave, refuses, tmp_path: Path) -> None:
    (tmp_path / "drives").mkdir()
    (tmp_path / "drives" / "a.csv").write_text("Timestamp,RSRP,SNR\n0,-115,10\n2,-105,20\n")
    (tmp_path / "drives" / "b.csv").write_text("Timestamp,RSRP,SNR\n0,-95,-\n1,-,\n")
    status, shown, err = fedwave("describe", tmp_path / "drives")
    assert (status, err) == (0, "")
    assert "without any value in the log: b" in shown
    found = json.loads(fedwave("describe", tmp_path / "drives", "--json")[1])
    assert (found["value"], found["column"], found["without"], found["used"]) == ("snr_db", "SNR", ["b"], ["a"])
    assert found["devices"][0] == {
        "device": "a",
        "values": 2,
        "rounds": 3,
        "filled": 1 / 3,
        "longest_gap": 1,
        "mean": 15,
    }
    found = json.loads(fedwave("describe", tmp_path / "drives", "value=rsrp_dbm", "every=2s", "--json")[1])
    assert (found["value"], found["every"], [one["mean"] for one in found["devices"]]) == ("rsrp_dbm", 2, [-110, -95])
    (tmp_path / "rsrp.csv").write_text("t,x,RSRP\n0,1,-100\n")
    found = json.loads(fedwave("describe", tmp_path / "rsrp.csv", "--json")[1])
    assert (found["value"], found["devices"][0]["device"]) == ("rsrp_dbm", "rsrp")  # not three devices
    np.savez(tmp_path / "log.npz", time=[0, 1], gate=[1.0, 2.0])
    assert json.loads(fedwave("describe", tmp_path / "log.npz", "--json")[1])["used"] == ["gate"]
    assert "2 devices" in fedwave("describe", f"{tmp_path}/drives/*.csv")[1]
    refuses(("describe", tmp_path / "drives", "value=snr"), "value", "snr")
    refuses(("describe", "quick", "value=snr_db"), "value=snr_db", "quick")
    (tmp_path / "e.yaml").write_text(
        "network: {kind: random, devices: 1, fading: {name: log, path: drives, without: drop}}\nrounds: 5\n"
    )
    assert "LogFading(1 device" in fedwave("describe", tmp_path / "e.yaml")[1]


def test_the_setup_of_a_paper_is_printed(fedwave, small_run: Path) -> None:
    for what in ("paper-score", small_run):
        found, (status, shown, err) = fw.describe(what), fedwave("describe", what, "--paragraph")
        assert (status, err) == (0, "")
        assert shown.splitlines() == [found.prose, "", found.latex]
        assert json.loads(fedwave("describe", what, "--paragraph", "--json")[1]) == vars(found)


def test_config_prints_no_null(fedwave) -> None:
    for name in preset_names():
        assert "null" not in fedwave("config", name)[1]
