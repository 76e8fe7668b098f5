"""`fedwave compare`, run as a shell would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from refusals import mentions
from user_file import forgotten

import fedwave as fw
from fedwave.cli import output

SMALL = ("--rounds", 12, "--instances", 3)


def table(text: str) -> dict[str, list[str]]:
    """The cells of the first table, by scheduler."""
    lines = text.splitlines()[3:]
    return {line.split()[0]: line.split()[1:] for line in lines[: lines.index("") if "" in lines else None]}


def test_json_has_the_numbers_and_the_settings(fedwave) -> None:
    status, text, err = fedwave("compare", "--json", *SMALL, "against=w-max", "burn_in=2", "--seed", 6)
    content = json.loads(text)
    assert (status, err) == (0, "")
    assert list(content["schedulers"]) == ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max"]
    assert content["schedulers"]["w-max"]["score_difference"]["mean"] == 0
    assert [content[name] for name in ("rounds", "instances", "seed", "against")] == [12, 3, 6, "w-max"]
    assert (content["experiment"]["network"]["kind"], content["experiment"]["burn_in"]) == ("paper", 2)
    trace = fw.simulate(fw.paper_network(), "age", 12, 3, 6)
    alone = json.loads(fedwave("compare", "--json", "-s", "age", *SMALL, "burn_in=2", "--seed", 6)[1])
    assert alone["schedulers"]["age"]["backlog"]["mean"] == pytest.approx(trace.backlog[2:].mean())


def test_the_table_has_paired_differences(fedwave) -> None:
    names = "alsa-pi,balsa:stage_rule=max1,prior=gamma,round-robin"
    status, text, err = fedwave("compare", "paper", "-s", names, *SMALL, "burn_in=2")
    assert (status, err) == (0, "")  # no progress bar where there is no terminal
    assert mentions(text, "paper", "U = 25", "W = 5", "12 rounds", "3 instances", "seed 0")
    for heading in ("from alsa-pi", "first 2 rounds", "backlog", "delivered", "Jain", "worst"):
        assert heading in text
    assert "balsa:stage_rule=max1,prior=gamma" in text
    assert "differences" not in fedwave("compare", "-s", "alsa-pi", *SMALL)[1]


def test_a_column_that_is_equal_for_all_is_named_below(fedwave) -> None:
    # Everybody transmits: nothing depends on the scheduler.
    status, text, _ = fedwave("compare", "-s", "age,random", "--slots", 25, *SMALL)
    assert status == 0
    assert text.splitlines()[1].split() == ["scheduler", "backlog"]
    equal = next(line for line in text.splitlines() if line.startswith("Equal for all: "))
    assert mentions(equal, "score", "delivered", "Jain")
    assert r"\n" not in text  # no line break is shown as an escape
    alone = fedwave("compare", "-s", "age", *SMALL)[1]
    assert "Equal" not in alone


def test_the_metric_asked_for_comes_first(fedwave) -> None:
    words = ("compare", "quick", "-s", "alsa-pi,age", *SMALL)  # its metric is accuracy
    assert fedwave(*words)[1].splitlines()[1].split()[:5] == ["scheduler", "backlog", "99", "%", "score"]
    for metric, heading in (("score", "score"), ("jain", "Jain"), ("lost_share", "lost_share")):
        status, text, err = fedwave(*words, f"metric={metric}")
        assert (status, err) == (0, "")
        headings = [line.split()[:2] for line in text.splitlines() if line.startswith("scheduler")]
        assert headings == [["scheduler", heading]] * 2  # means, differences


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_the_terminal_with_every_interval(fedwave, monkeypatch, width: int, tmp_path: Path) -> None:
    from rich.console import Console

    monkeypatch.setattr(output, "console", lambda: Console(width=width, markup=False, emoji=False))
    text = fedwave("compare", "-r", 60, "-i", 4)[1]
    assert max(map(len, text.splitlines())) <= width
    rows = table(text)
    assert list(rows) == ["bench", "balsa", "alsa-pi", "balsa-po", "round-robin", "w-max", "bound"]
    assert len(rows.pop("bound")) == 2  # of the backlog and the score
    assert all(len(row) == 7 and all("±" in cell for cell in row) for row in rows.values())
    # A long name wraps; a number never does, even where that makes a line longer than the terminal.
    long = "balsa:stage_rule=max1,prior=gamma:shape=2.5;rate=1.25"
    text = fedwave("compare", "-r", 60, "-i", 4, "-s", f"alsa-pi,{long},age")[1]
    assert max(map(len, text.splitlines())) <= width
    assert long not in text.partition("\n\n")[0]


def test_a_folder_keeps_everything(fedwave, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"  # whatever its name, it is a folder
    words = ("compare", "-s", "alsa-pi,age", *SMALL, "burn_in=2")
    status, text, err = fedwave(*words, "--out", out, "--json")
    assert (status, err) == (0, "")
    content = json.loads(text)
    names = {path.name for path in out.iterdir()}
    assert {Path(path).name for path in content["files"]} <= names
    assert {"config.yaml", "rounds", "score.png", "instances.csv", "results.nc"} <= names
    trace = fw.simulate(fw.paper_network(), "age", 12, 3, 0)
    assert np.array_equal(fw.load(out).score.sel(scheduler="age").T, trace.score)
    assert json.loads(fedwave(*words, "--json")[1])["schedulers"] == content["schedulers"]
    assert fedwave(*words, "--out", out, "--quiet") == (0, "", "")


def test_fields_and_options_reach_the_network(fedwave, tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", np.full((12, 2), 0.5))
    (tmp_path / "arrivals.csv").write_text("1,2\n" * 12)
    (tmp_path / "curve.csv").write_text("snr_db,error_rate\n-5,1\n0,0\n")
    (tmp_path / "two.yaml").write_text("- {rate: 1, distance_m: 100}\n- {rate: 2, distance_m: 200}\n")
    recorded = {"fading": "recorded:path=gains.npy", "arrivals": "recorded:path=arrivals.csv"}
    files = [f"network.{k}={v.replace('path=', f'path={tmp_path}/')}" for k, v in recorded.items()]
    files.append(f"network.success=table:path={tmp_path}/curve.csv")
    words = ("-s", "alsa-pi", "--slots", 1, "--json", *SMALL, *files)
    found = json.loads(fedwave("compare", tmp_path / "two.yaml", *words)[1])
    assert found["experiment"]["network"]["file"] == str(tmp_path / "two.yaml")
    assert found["schedulers"]["alsa-pi"]["delivered_share"]["mean"] > 0.5
    made = ("network.devices=8", "network.gamma=0.5", "network.fading=rician:k_factor=6", "network.set.buffer_limit=9")
    found = json.loads(fedwave("compare", "random", "-s", "age", "--slots", 3, *made, *SMALL, "--json")[1])
    network = fw.random_network(8, slots=3, gamma=0.5, fading="rician:k_factor=6", buffer_limit=9)
    wanted = fw.simulate(network, "age", 12, 3, 0)
    assert found["schedulers"]["age"]["score"]["mean"] == pytest.approx(wanted.score.mean())


def test_options_count_more_than_words_and_words_more_than_the_file(fedwave, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\nnetwork: {slots: 2, gamma: 2}\nschedulers: [age, w-max]\nrounds: 5\ninstances: 4\nseed: 1\n"
        "against: w-max\n"
    )
    words = ("compare", file, "rounds=6", "seed=2", "network.slots=3", "--seed", 3, "--slots", 2, "network.gamma=0.5")
    status, text, err = fedwave(*words, "--json")
    assert (status, err) == (0, "")
    found = json.loads(text)
    assert (found["rounds"], found["instances"], found["seed"], found["against"]) == (6, 4, 3, "w-max")
    trace = fw.simulate(fw.paper_network(slots=2, gamma=0.5), "age", 6, 4, 3)
    assert found["schedulers"]["age"]["score"]["mean"] == pytest.approx(trace.score.mean())
    # The order of words and options does not matter.
    mixed = ("compare", "--seed", 3, "rounds=6", "--slots", 2, file, "network.gamma=0.5")
    assert fedwave(*mixed, "--json")[1] == text
    # Of two words about the same field the last counts.
    assert json.loads(fedwave(*words, "rounds=7", "--json")[1])["rounds"] == 7


def test_the_best_comes_first_and_the_bound_last(fedwave) -> None:
    words = ("compare", "paper", "-s", "alsa-pi,balsa,max-weight,age", "-r", 60, "-i", 4)
    status, text, err = fedwave(*words)
    assert (status, err) == (0, "")
    found = fw.compare(fw.paper_network(), ["alsa-pi", "balsa", "max-weight", "age"], 60, 4)
    assert list(table(text)) == [*found.ranking, "bound"]
    flat = " ".join(text.split())
    assert found.verdict in flat
    assert found.remark in flat
    assert max(map(len, text.splitlines())) <= 100
    content = json.loads(fedwave(*words, "--json")[1])
    assert (content["verdict"], content["bounds"]) == (found.verdict, dict(found.bounds))
    assert content["schedulers"]["age"]["backlog_difference_percent"]["mean"] == found.percent("age", "backlog").mean
    late = json.loads(fedwave(*words, "--json", "--burn-in", 20)[1])
    wanted = fw.compare(fw.paper_network(), ["alsa-pi", "balsa", "max-weight", "age"], 60, 4, burn_in=20)
    assert late["schedulers"]["age"]["backlog_p99"]["mean"] == wanted.estimate("age", "backlog_p99").mean
    assert late["verdict"] == wanted.verdict
    named = json.loads(fedwave(*words, "--json", "against=age")[1])
    assert "age" in named["verdict"]


def test_instances_are_added_until_intervals_are_narrow(fedwave, refuses, tmp_path: Path) -> None:
    words = ("compare", "paper", "-s", "alsa-pi,max-weight", "-r", 40, "-i", 3, "--seed", 2, "--half-width", 1.5)
    status, text, err = fedwave(*words, "--json")
    assert (status, err) == (0, "")
    content = json.loads(text)
    assert content["instances"] > 3
    assert content["schedulers"]["max-weight"]["backlog_difference"]["half_width"] <= 1.5
    network, names = fw.paper_network(), ["alsa-pi", "max-weight"]
    whole = fw.compare(network, names, 40, content["instances"], seed=2)
    for name in names:
        assert content["schedulers"][name]["backlog"]["mean"] == whole.estimate(name, "backlog").mean
    assert f"{content['instances']} instances" in fedwave(*words)[1]
    refuses((*words, "--out", tmp_path / "out"), "--half-width", "--out")
    refuses((*words[:-1], 0), "half_width", 0)


def test_the_title_names_the_experiment_with_and_without_a_folder(fedwave, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("rate,distance_m\n1,100\n2,200\n")
    words = ("compare", tmp_path / "mine.csv", "-s", "age", "--slots", 1, *SMALL)
    assert fedwave(*words)[1].startswith("mine: U = 2")
    assert fedwave(*words, "--out", tmp_path / "out")[1].startswith("mine: U = 2")


def test_a_method_with_a_wrong_signature_ends_in_one_sentence(fedwave, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import fedwave as fw\n\n@fw.register\nclass Wrong(fw.Scheduler):\n    name = 'wrong-signature'\n"
        "    needs = frozenset({'backlog'})\n\n    def priority(self, seen, draws):\n        return seen.waiting\n"
    )
    with forgotten():
        words = ("compare", "-s", "wrong-signature,age", *SMALL, "--import", tmp_path / "wrong.py")
        for more in ((), ("--out", tmp_path / "out", "--workers", 1)):
            status, out, err = fedwave(*words, *more)
            assert (status, out) == (1, "")
            assert "Traceback" not in err
            assert mentions(err, "Wrong.priority", "fw.check", "wrong-signature")


def test_a_sweep_that_is_refused_says_what_to_write(refuses, tmp_path: Path) -> None:
    words = ("run", "paper", "-s", "alpha-fresh,age", *SMALL, "--out", tmp_path / "out")
    refuses((*words, "sweep.alpha-fresh.alpha=[0.1,0.2]"), "sweep.schedulers.alpha-fresh.alpha")
    refuses((*words, "sweep.schedulers=[age,fresh]"), "sweep.schedulers.NAME.PARAMETER")
