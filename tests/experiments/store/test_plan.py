"""A run folder that was changed by hand: what made each file is known, and results of two origins are never mixed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forged_folders import forge
from killing import half_finished
from refusals import mentions, refused

import fedwave as fw
from fedwave.cli import main
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run import work
from fedwave.experiments.run.checkpoints import SendingCheckpointer
from fedwave.experiments.run.runner import Event, run_experiment
from fedwave.experiments.run.work import run_unit
from fedwave.experiments.store import folder as folder_module
from fedwave.experiments.store import provenance
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.verify import sound, verify
from fedwave.version import NUMERICS

EXPERIMENT = experiment_from(
    {
        "network": {"kind": "random", "devices": 4, "slots": 2},
        "schedulers": ["age", "random"],
        "rounds": 8,
        "instances": 2,
        "block": 1,
        "checkpoint_seconds": 0,
        "targets": [0.5],
    }
)
AGE, RANDOM = ("0000_age_0-0", "0000_age_1-1"), ("0000_random_0-0", "0000_random_1-1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, and one that was stopped in the middle of its last unit."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(work, "_PIECE", 1)
        run_experiment(EXPERIMENT, place / "finished")
        half_finished(EXPERIMENT, place / "half")
    return place


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "finished", tmp_path / "finished"))


@pytest.fixture
def half(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "half", tmp_path / "half"))


@pytest.fixture
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds."""
    for place in ("fedwave.cli.output", "fedwave.experiments.report.outputs"):
        monkeypatch.setattr(f"{place}.write_results", lambda results, folder: [])


def contents(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def tables(folder: Path) -> dict[str, bytes]:
    return {k: v for k, v in contents(folder).items() if k.startswith(("rounds/", "devices/"))}


def wrong(folder: Path) -> str:
    return "\n".join(one.text for one in verify(folder) if one.state == "wrong")


def resumed(folder: Path) -> list[Event]:
    events: list[Event] = []
    run_experiment(RunFolder(folder).experiment(), folder, workers=1, watch=events.append)
    return events


def said(events: list[Event]) -> list[str]:
    return [event["message"] for event in events if "message" in event]


def fedwave(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["fedwave", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
    return int(end.value.code or 0), capsys.readouterr().err


EDITS = {
    ("\nseed: 0", "\nseed: 1"): ("seed", 1, 0),
    ("name: experiment", "name: mine"): ("name", '"mine"', '"experiment"'),
    ("burn_in: 0", "burn_in: 2"): ("burn_in", 2, 0),
    ("[0.5]", "[0.6]"): ("targets", "[0.6]", "[0.5]"),
    ("checkpoint_seconds: 0", "checkpoint_seconds: 1"): ("checkpoint_seconds", "1.0", "0.0"),
    ("seed: 0", "seed:  0"): (),
    ("seed: 0", "seed: 0 # mine"): (),
    ("seed: 0", "seed: ]"): (),
    ("seed: 0", "sead: 0"): (),
}


@pytest.mark.parametrize("edit", EDITS, ids=lambda pair: pair[1])
def test_an_edited_experiment_is_refused_and_nothing_is_written(
    edit: tuple[str, str], half: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (half, finished):
        config = folder / "config.yaml"
        assert edit[0] in config.read_text()
        config.write_text(config.read_text().replace(*edit, 1))
        before = contents(folder)
        tokens = (config, "changed", *EDITS[edit])
        for command in ("resume", "report"):
            status, told = fedwave(capsys, command, folder)
            assert status == 2
            assert mentions(told, *tokens)
            assert told.count("\n") == 1
        for use in (fw.load, lambda folder: run_experiment(EXPERIMENT, folder)):
            with refused(*tokens):
                use(folder)
        assert mentions(wrong(folder), *tokens)
        assert contents(folder) == before


def test_the_lines_in_the_plan_restore_it(finished: Path, made: Path) -> None:
    (finished / "config.yaml").write_text("")
    lines = json.loads((finished / "plan.json").read_bytes())["config"]
    (finished / "config.yaml").write_text("\n".join(lines))
    assert contents(finished) == contents(made / "finished")


def test_an_edited_experiment_is_noticed_without_the_plan_too(half: Path) -> None:
    config = half / "config.yaml"
    config.write_text(config.read_text().replace("burn_in: 0", "burn_in: 2"))
    (half / "plan.json").unlink()
    with refused("config.yaml", "changed"):
        resumed(half)
    # Without both, the units that are finished still know what made them.
    config.write_text(config.read_text().replace("seed: 0", "seed: 1"))
    (half / "provenance.json").unlink()
    before = contents(half)
    with refused("another run"):
        resumed(half)
    assert contents(half) == before


PLANS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a unit less": lambda plan: plan["units"].pop(1),
    "a unit twice": lambda plan: plan["units"].append(plan["units"][0]),
    "an instance less": lambda plan: plan["units"][0]["instances"].pop(),
    "another instance": lambda plan: plan["units"][0].update(instances=[1]),
    "a name that leads out": lambda plan: plan["units"][0].update(name="../../0000_age_0-0"),
    "a point that is not there": lambda plan: plan["units"][0].update(point=7),
    "no list of units": lambda plan: plan.update(units={"a": 1}),
    "numbers for a point": lambda plan: plan.update(points=[{"network.slots": "many"}]),
    "a field for a point": lambda plan: plan.update(points=[{"network.nothing": 1}]),
    "no experiment": lambda plan: plan.update(config=["rounds: 0"]),
}


@pytest.mark.parametrize("change", PLANS)
def test_a_forged_plan_is_refused(change: str, finished: Path, made: Path) -> None:
    forge(finished / "plan.json", PLANS[change])
    before = contents(finished)
    for use in (fw.load, resumed):
        with pytest.raises(fw.FedwaveError, match=r"plan\.json|config\.yaml"):
            use(finished)
    assert not sound(verify(finished))
    assert contents(finished) == before


def test_a_unit_taken_out_by_hand_is_put_back(finished: Path, made: Path) -> None:
    plan = json.loads((finished / "plan.json").read_bytes())
    del plan["units"][1]
    (finished / "plan.json").write_text(json.dumps(plan, indent=2))
    with refused("plan.json", "damaged"):
        fw.load(finished)
    assert mentions(wrong(finished), "plan.json", "damaged")
    (told,) = said(resumed(finished))
    assert mentions(told, "plan.json", "damaged")
    assert mentions(told, "config.yaml")
    after = contents(finished)
    assert after.pop("provenance.json") != contents(made / "finished")["provenance.json"]
    assert after.items() <= contents(made / "finished").items()


def test_folders_of_other_formats_are_refused(finished: Path) -> None:
    forge(finished / "plan.json", lambda plan: plan.update(format=3))
    older = {"numerics": 1, "inputs": {}, "points": [{}], "units": []}
    for text, tokens in (
        (None, ("format", 3, 2)),
        (json.dumps(older), ("older version",)),
        ("[1]", ("older version",)),
    ):
        if text is not None:
            (finished / "plan.json").write_text(text)
        before = contents(finished)
        for use in (fw.load, resumed, lambda folder: run_experiment(EXPERIMENT, folder)):
            with refused(*tokens):
                use(finished)
        assert mentions(wrong(finished), *tokens)
        assert contents(finished) == before


def swap(a: Path, b: Path) -> None:
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)


def test_swapped_records_are_noticed_and_their_units_done_again(finished: Path, made: Path) -> None:
    swap(*(finished / f"units/{name}.json" for name in AGE))
    tokens = (f"units/{AGE[0]}.json", "another unit")
    with refused(*tokens):
        fw.load(finished)
    assert mentions(wrong(finished), *tokens)
    events = resumed(finished)
    assert [e["unit"] for e in events if e["event"] == "unit-begun"] == list(AGE)
    assert tables(finished) == tables(made / "finished")


def test_swapped_results_are_noticed(finished: Path, made: Path) -> None:
    for kind in ("units/{}.json", "rounds/{}.parquet", "devices/{}.parquet"):
        swap(*(finished / kind.format(name) for name in RANDOM))
    with refused("another unit"):
        fw.load(finished)
    # A record with another name in it, and a right seal, still has the fingerprint of its unit.
    for name in RANDOM:
        forge(finished / f"units/{name}.json", lambda record, name=name: record.update(unit=name))
    with refused(f"{RANDOM[0]}.json", "another run"):
        fw.load(finished)


def half_way(folder: Path) -> Path:
    (checkpoint,) = folder.glob("checkpoints/*.npz")
    return checkpoint


@pytest.mark.parametrize("other", ["instance", "scheduler", "run"])
def test_the_checkpoint_of_another_unit_is_named_and_not_used(
    other: str, half: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints of two simulations differ in nothing that the simulation looks at but their numbers."""
    monkeypatch.setattr(work, "_PIECE", 1)
    store = RunFolder(half)
    mine, (first, *_, last) = half_way(half), store.units()
    assert store.checkpoint(last) == mine
    if other == "run":
        changed = experiment_from({**_mapping(), "seed": 5})
        half_finished(changed, half.parent / "other")
        mine.write_bytes(half_way(half.parent / "other").read_bytes())
        unit = last
    else:
        unit = store.units()[2] if other == "instance" else first
        (half / f"units/{unit.name}.json").unlink()
        mine.rename(store.checkpoint(unit))
    assert mentions(wrong(half), store.checkpoint(unit).name)
    (told,) = said(resumed(half))
    assert mentions(told, store.checkpoint(unit), "another unit")
    assert tables(half) == tables(made / "finished")


def _mapping() -> dict[str, Any]:
    from fedwave.experiments.config.read import to_mapping

    return to_mapping(EXPERIMENT)


def test_a_checkpoint_that_is_sent_has_the_same_envelope(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the Ray adapter sends them: from the driver's disk to a worker, and back."""
    monkeypatch.setattr(work, "_PIECE", 1)
    *_, before, unit = RunFolder(half).begin(RunFolder(half).experiment())
    sent: list[bytes] = []
    warnings: list[str] = []
    start = half_way(half).read_bytes()
    played: list[int] = []
    run_unit(unit, SendingCheckpointer(start, sent.append, 0), played.append, warnings.append)
    assert (played[0], warnings) == (4, [])
    run_unit(before, SendingCheckpointer(sent[0], sent.append, 0), played.append, warnings.append)
    assert mentions(warnings[0], "another unit")


def test_a_checkpoint_that_is_a_folder(half: Path, made: Path) -> None:
    path = half_way(half)
    path.unlink()
    path.mkdir()
    resumed(half)
    assert tables(half) == tables(made / "finished")


@pytest.mark.parametrize("thing", ["pipe", "link"])
def test_a_checkpoint_that_is_a_pipe_or_a_link(thing: str, half: Path, made: Path) -> None:
    path = half_way(half)
    path.unlink()
    if thing == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    before = contents(half)
    with refused(".npz"):
        resumed(half)
    assert contents(half) == before
    path.unlink()
    resumed(half)
    assert tables(half) == tables(made / "finished")


@pytest.mark.usefixtures("_no_figures")
def test_other_versions_are_said(
    half: Path, finished: Path, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def older(content: dict[str, Any]) -> None:
        content["runs"][0]["fedwave"] = "0.0.8"
        content["runs"][0]["packages"]["numpy"] = "1.9"

    here = provenance.installed_versions()
    versions = ("fedwave 0.0.8", "numpy 1.9", f"fedwave {here['fedwave']}", f"numpy {here['numpy']}")
    for folder in (half, finished):
        forge(folder / "provenance.json", older)
    (sentence,) = said(resumed(half))
    assert mentions(sentence, half, *versions)
    assert tables(half) == tables(made / "finished")
    status, told = fedwave(capsys, "report", finished, "--out", finished.parent / "shown")
    assert status == 0
    assert mentions(told, finished, *versions)
    with refused("fedwave 0.0.8", "numpy 1.9", error=UserWarning):
        fw.run(EXPERIMENT, finished)
    monkeypatch.setattr(folder_module, "NUMERICS", NUMERICS + 1)
    (half / f"units/{AGE[0]}.json").unlink()
    status, told = fedwave(capsys, "resume", half)
    assert status == 2
    assert mentions(told, f"version {NUMERICS}")


@pytest.mark.parametrize("version", ["\x1b[31m", "[bold]", 5, None, "1" * 99])
def test_a_version_is_printed_only_if_it_is_one(version: Any, half: Path) -> None:
    forge(half / "provenance.json", lambda made: made["runs"][0].update(fedwave=version))
    for text in said(resumed(half)):
        assert mentions(text, "fedwave")
        assert repr(version).strip("'") not in text


@pytest.mark.usefixtures("_no_figures")
@pytest.mark.parametrize("runs", [5, [5], [{}], "x", [{"packages": []}]])
def test_a_forged_provenance_disturbs_nothing(runs: Any, finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge(finished / "provenance.json", lambda content: content.update(runs=runs))
    assert fw.load(finished).sizes["round"] == 8
    status, told = fedwave(capsys, "report", finished, "--out", finished.parent / "shown")
    assert (status, told) == (0, "")
    assert mentions(wrong(finished), "provenance.json", "damaged")
    (text,) = said(resumed(finished))
    assert mentions(text, "provenance.json")
