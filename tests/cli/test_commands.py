from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from refusals import mentions

import fedwave as fw
from fedwave.cli import output

SMALL = ("--rounds", 12, "--instances", 3)


def test_compare_keeps_the_traces_that_it_prints(fedwave, tmp_path: Path) -> None:
    folder, table = tmp_path / "deep" / "traces", tmp_path / "table.csv"
    words = ("compare", "paper", "-s", "balsa,alpha-fresh:alpha=0.5", *SMALL, "--seed", 6)
    status, text, err = fedwave(*words, "--traces", folder, "--beliefs", "-o", table)
    assert (status, err) == (0, "")
    assert mentions(text, "paper", "U = 25", "W = 5", "12 rounds", "3 instances", "seed 6")
    assert mentions(text, folder)
    assert {path.name for path in folder.iterdir()} == {"balsa.npz", "alpha-fresh-alpha-0.5.npz"}
    trace = fw.Trace.load(folder / "balsa.npz")
    assert trace.same_as(fw.simulate(fw.paper_network(), "balsa", 12, 3, 6, beliefs=True))
    assert f"{trace.score.mean():.1f}±" in text
    assert fw.extend(trace, 15).same_as(fw.simulate(fw.paper_network(), "balsa", 15, 3, 6, beliefs=True))
    # The numbers are the same as without traces.
    plain = fedwave(*words, "--json")[1]
    assert fedwave(*words, "--json", "--traces", folder)[1] == plain


def test_compare_replaces_traces_and_nothing_else(fedwave, tmp_path: Path) -> None:
    words = ("compare", "-s", "age", *SMALL, "--traces", tmp_path)
    assert fedwave(*words)[0] == 0
    assert fedwave(*words)[0] == 0
    np.savez(tmp_path / "age.npz", mine=np.arange(3))
    before = (tmp_path / "age.npz").read_bytes()
    status, _, err = fedwave(*words)
    assert status == 2
    assert mentions(err, tmp_path / "age.npz")
    assert (tmp_path / "age.npz").read_bytes() == before


def test_compare_of_one_scheduler(fedwave) -> None:
    status, text, _ = fedwave("compare", "--json", "-s", "alsa-pi", *SMALL)
    content = json.loads(text)
    trace = fw.simulate(fw.paper_network(), "alsa-pi", 12, 3, 0)
    assert status == 0
    assert content["schedulers"]["alsa-pi"]["score"]["mean"] == pytest.approx(trace.score.mean())
    assert content["seed"] == 0
    assert "Paired differences" not in fedwave("compare", "-s", "alsa-pi", *SMALL)[1]


def test_the_metric_asked_for_comes_first(fedwave) -> None:
    words = ("compare", "quick", "-s", "alsa-pi,age", *SMALL)  # its metric is accuracy
    assert fedwave(*words)[1].splitlines()[1].split()[:3] == ["scheduler", "backlog", "score"]
    for metric, heading in (("score", "score"), ("jain", "Jain"), ("lost_share", "lost_share")):
        status, text, err = fedwave(*words, "--metric", metric)
        assert (status, err) == (0, "")
        headings = [line.split()[:2] for line in text.splitlines() if line.startswith("scheduler")]
        assert headings == [["scheduler", heading]] * 2  # means, differences
    jain = [fw.simulate(fw.paper_network(), s, 12, 3, 0).series["jain"][-1] for s in ("age", "alsa-pi")]
    text = fedwave(*words, "--metric", "jain")[1]
    mean, apart = (line.split()[1] for line in text.splitlines() if line.startswith("age"))
    assert mean.startswith(f"{jain[0].mean():.2f}±")
    assert apart.startswith(f"{(jain[0] - jain[1]).mean():+.3f}"[:5])


def test_the_table_fits_80_columns_with_every_interval(fedwave, monkeypatch, tmp_path: Path) -> None:
    from rich.console import Console

    monkeypatch.setattr(output, "console", lambda: Console(width=80, markup=False, emoji=False))
    text = fedwave("compare", "-t", 60, "-i", 4)[1]
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: line.split() for line in lines[3:9]}
    assert list(rows) == ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max"]
    assert all(len(row) == 7 and sum("±" in cell for cell in row) == 6 for row in rows.values())
    # A long name wraps; a number never does, even where that makes a line longer than the terminal.
    long = "balsa:stage_rule=max1,prior=gamma"
    text = fedwave("compare", "-t", 60, "-i", 4, "-s", f"alsa-pi,{long},age")[1]
    assert max(map(len, text.splitlines())) <= 80
    assert long not in text
    words = ("sweep.network.slots=[2,3]", "sweep.network.gamma=[0.5]", "sweep.seed=[1]", "-s", "age")
    text = fedwave("run", *words, "-t", 4, "-i", 3, "-o", tmp_path)[1]
    assert all(len(line.split()) == 10 for line in text.splitlines() if line.startswith("age"))


def test_names_are_printed_as_they_are(fedwave, tmp_path: Path) -> None:
    """Rich would read [red] as a style and :smile: as an emoji."""
    words = ('name="[red]mine :smile:"', "-s", "age", "-t", 4, "-i", 2, "-o", tmp_path / "[bold]x")
    status, text, err = fedwave("run", *words)
    assert (status, err) == (0, "")
    assert mentions(text, "[red]mine :smile:", "U = 25", "4 rounds")
    assert mentions(text, f"{tmp_path}/[bold]x")


def test_options_reach_the_network(fedwave, tmp_path: Path) -> None:
    status, _, _ = fedwave(
        "compare",
        "random",
        "-s",
        "balsa",
        "--devices",
        8,
        "--slots",
        3,
        "--gamma",
        0.5,
        "--fading",
        "rician:k_factor=6",
        "--success",
        "harq:tries=3,model=turbo:blocks=2;slope=7",
        "--arrivals",
        "negative-binomial:dispersion=2",
        "--set",
        "buffer_limit=9",
        "--set",
        "noise_dbm=-100",
        *SMALL,
        "--traces",
        tmp_path,
    )
    net = fw.Trace.load(tmp_path / "balsa.npz").network
    assert status == 0
    assert (net.size, net.slots, net.gamma, net.noise_dbm) == (8, 3, 0.5, -100)
    assert net.fading == fw.fading.Rician(6)
    assert net.success == fw.success.Harq(fw.success.Turbo(blocks=2, slope=7), tries=3)
    assert net.arrivals == fw.arrivals.NegativeBinomial(2)
    assert (np.asarray(net.table.buffer_limit) == 9).all()


def test_recorded_arrays_and_measured_curves_from_files(fedwave, tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", np.full((12, 2), 0.5))
    (tmp_path / "arrivals.csv").write_text("1,2\n" * 12)
    (tmp_path / "curve.csv").write_text("snr_db,error_rate\n-5,1\n0,0\n")
    (tmp_path / "two.yaml").write_text("- {rate: 1, distance_m: 100}\n- {rate: 2, distance_m: 200}\n")
    status, text, _ = fedwave(
        "compare",
        tmp_path / "two.yaml",
        "-s",
        "alsa-pi",
        "-w",
        1,
        "--json",
        *SMALL,
        "--fading",
        f"recorded:path={tmp_path}/gains.npy",
        "--arrivals",
        f"recorded:path={tmp_path}/arrivals.csv",
        "--success",
        f"table:path={tmp_path}/curve.csv",
    )
    assert status == 0
    assert json.loads(text)["schedulers"]["alsa-pi"]["delivered_share"]["mean"] > 0.5


def test_compare_prints_paired_differences(fedwave, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    names = "alsa-pi,balsa:stage_rule=max1,prior=gamma,round-robin"
    status, text, _ = fedwave("compare", "paper", "-s", names, *SMALL, "--burn-in", 2, "-o", out)
    assert status == 0
    for heading in (
        "from alsa-pi",
        "first 2 rounds",
        "backlog",
        "delivered",
        "Jain",
        "worst",
        "balsa:stage_rule=max1,prior=gamma",
    ):
        assert heading in text
    with open(out, newline="") as file:
        rows = {(r["scheduler"], r["metric"]): float(r["mean"]) for r in csv.DictReader(file)}
    trace = fw.simulate(fw.paper_network(), "round-robin", 12, 3, 0)
    assert rows["round-robin", "backlog"] == pytest.approx(trace.backlog[2:].mean())


def test_compare_json_names_the_settings(fedwave, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "table.json"
    status, text, _ = fedwave("compare", "--json", *SMALL, "--against", "w-max", "--out", out)
    content = json.loads(text)
    assert status == 0
    assert content == json.loads(out.read_text())
    assert list(content["schedulers"]) == ["bench", "alsa-pi", "balsa", "balsa-po", "round-robin", "w-max"]
    assert content["schedulers"]["w-max"]["score_difference"]["mean"] == 0
    assert (content["network"], content["against"]) == ("paper", "w-max")
    assert (content["rounds"], content["instances"], content["seed"]) == (12, 3, 0)


def test_compare_into_a_folder_keeps_everything(fedwave, tmp_path: Path) -> None:
    out = tmp_path / "all"
    words = ("compare", "-s", "alsa-pi,age", *SMALL, "--burn-in", 2, "--json")
    status, text, err = fedwave(*words, "--out", out)
    assert (status, err) == (0, "")
    content = json.loads(text)
    trace = fw.simulate(fw.paper_network(), "age", 12, 3, 0)
    assert content["schedulers"]["age"]["backlog"]["mean"] == pytest.approx(trace.backlog[2:].mean())
    names = {path.name for path in out.iterdir()}
    assert {Path(path).name for path in content["files"]} <= names
    assert {"config.yaml", "rounds", "score.png", "instances.csv", "results.nc"} <= names
    assert np.array_equal(fw.load(out).score.sel(scheduler="age").T, trace.score)
    assert json.loads(fedwave(*words)[1])["schedulers"] == content["schedulers"]


def test_copies_need_no_number_of_instances(fedwave, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "g.npy", rng.exponential(size=(12, 25)))
    np.save(tmp_path / "m.npy", rng.poisson(3, size=(12, 25)))
    recorded = (
        "--fading",
        f"recorded:path={tmp_path / 'g.npy'}",
        "--arrivals",
        f"recorded:path={tmp_path / 'm.npy'}",
        "--success",
        "threshold",
    )
    words = ("compare", "-s", "alsa-pi,max-weight,random", *SMALL, *recorded, "--half-width", 0.1)
    status, text, err = fedwave(*words)
    assert (status, err) == (0, "")
    assert mentions(text, "random")
    assert mentions(text, "max-weight", "copies")
    needed = json.loads(fedwave(*words, "--json")[1])["instances_needed"]
    assert needed["max-weight"] is None
    assert needed["random"] >= 2


def test_compare_plans_how_many_instances_are_wanted(fedwave) -> None:
    words = ("compare", "-s", "age,alsa-pi,w-max", *SMALL, "--half-width", 0.8)
    status, text, err = fedwave(*words)
    assert (status, err) == (0, "")
    age, base = (fw.simulate(fw.paper_network(), n, 12, 3, 0).score for n in ("age", "alsa-pi"))
    needed = json.loads(fedwave(*words, "--json")[1])["instances_needed"]
    assert list(needed) == ["age", "w-max"]  # alsa-pi is the base
    assert mentions(text, 0.8, f"age {needed['age']:,}", "w-max")
    # About 1.96 standard errors reach 0.8 with so many, and not with half of them.
    spread = (age - base).mean(axis=0).std(ddof=1)
    assert 1.96 * spread / needed["age"] ** 0.5 < 0.8 < 1.96 * spread / (needed["age"] / 2) ** 0.5
    assert needed["age"] > 10


def test_compare_tells_the_ratio_of_backlogs(fedwave, tmp_path: Path) -> None:
    words = ("compare", "-s", "age,alsa-pi,bench", *SMALL, "--json", "-o", tmp_path / "t.csv")
    found = json.loads(fedwave(*words)[1])["schedulers"]
    age, base = (fw.simulate(fw.paper_network(), n, 12, 3, 0).backlog for n in ("age", "alsa-pi"))
    ratio = found["age"]["backlog_ratio"]
    assert ratio["value"] == pytest.approx(age.mean() / base.mean())
    assert ratio["low"] < ratio["value"] < ratio["high"]
    assert found["bench"]["backlog_ratio"]["value"] == 0
    # Nobody's backlog has a ratio to that of bench, which never has any.
    none = json.loads(fedwave(*words[:-2], "--against", "bench")[1])["schedulers"]
    assert not any("backlog_ratio" in quantities for quantities in none.values())


def test_schedulers_tells_what_each_may_see(fedwave, tmp_path: Path) -> None:
    status, text, _ = fedwave("schedulers", "--out", tmp_path / "s.csv")
    assert status == 0
    assert all(name in text for name in fw.scheduler_names())
    rows = {row["name"]: row for row in json.loads(fedwave("schedulers", "--json")[1])}
    assert (rows["alsa-pi"]["must know"], rows["alsa-pi"]["sees"]) == ("true rates", "h, n")
    assert (rows["balsa"]["must know"], rows["balsa"]["sees"]) == ("-", "h, n")
    assert (rows["balsa-po"]["must know"], rows["balsa-po"]["sees"]) == ("-", "h")
    assert (rows["update-aware"]["must know"], rows["update-aware"]["sees"]) == ("-", "h, updates")
    assert rows["lagrangian"]["must know"] == "true rates, distributions"
    assert rows["lagrangian-po"]["must know"] == "distributions"
    told = {name for name, row in rows.items() if row["must know"] + row["sees"] != "--"}
    assert {name for name in rows if fw.scheduler(name).needs} <= told
    assert (tmp_path / "s.csv").read_text().startswith("name,must know,sees,priority,about")


def test_reproduce_score(fedwave, tmp_path: Path) -> None:
    status, text, _ = fedwave("reproduce", "score", "rounds=12", "instances=3", "--out", tmp_path / "score")
    assert status == 0
    assert mentions(text, "paper-score", "U = 25", "12 rounds", "3 instances", "seed 0")
    assert text.splitlines()[1].split()[:2] == ["scheduler", "score"]
    assert "score.png, score.svg, score-paper.png" in text
    summary = json.loads((tmp_path / "score" / "summary.json").read_text())
    assert (summary["rounds"], summary["instances"]) == (12, 3)
    assert not [p for p in (tmp_path / "score").rglob("*") if p.name.endswith(".part")]


def test_no_progress_bar_where_there_is_no_terminal(fedwave) -> None:
    assert fedwave("compare", *SMALL)[2] == ""


def test_help_and_version(fedwave) -> None:
    assert fedwave("--version")[1].strip() == f"fedwave {fw.__version__}"
    for command in ("run", "compare", "train", "resume", "presets", "config", "schedulers", "data", "reproduce"):
        status, text, _ = fedwave(command, "--help")
        assert status == 0
        assert "Usage" in text
    assert fedwave()[0] == 2  # prints the help
