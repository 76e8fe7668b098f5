"""Whatever a run takes from outside is kept or pinned, and code is executed only if the user names it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killing import command, results
from refusals import mentions, refused
from small_run import cut, rewritten
from user_file import forgotten, text

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, load_experiment
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.pool import Job, run_here
from fedwave.experiments.run.runner import Event, run_experiment
from fedwave.experiments.store import inputs
from fedwave.experiments.store.done import read_done
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.provenance import other_versions, versions_of
from fedwave.experiments.store.verify import verify

TABLE = "count,rate,distance_m\n5,2,300\n"
EVIL = "open('pwned', 'w').close()\n"
DATASET = """
from pathlib import Path
import numpy as np
import fedwave as fw
from {helper} import SHIFT

@fw.register("few-test", family="dataset")
def few():
    rng = np.random.default_rng(int(Path({seed!r}).read_text()) if {seed!r} else None)
    labels = np.arange(40) % 10
    images = rng.random((40, 1, 28, 28)) + labels[:, None, None, None] + SHIFT
    return fw.Dataset("few-test", images, labels, images, labels)
"""


class Stop(Exception):
    pass


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "devices.csv").write_text(TABLE)
    np.save(tmp_path / "gains.npy", np.random.default_rng(0).exponential(size=(8, 4, 5)))
    (tmp_path / "mine.py").write_text(text())
    with forgotten():
        yield


def asked() -> Experiment:
    return experiment_from(
        {
            "network": {"kind": "table", "file": "devices.csv", "slots": 2, "fading": "recorded:path=gains.npy"},
            "schedulers": ["alsa-pi", "random"],
            "rounds": 8,
            "instances": 4,
            "block": 2,
        }
    )


def own(*imports: str) -> Experiment:
    fields = {"schedulers": ["heavy-test", "age"], "rounds": 3, "instances": 2, "block": 1}
    return experiment_from({"imports": list(imports or ("mine.py",)), **fields})


def learning(tmp_path: Path, helper: str, seed: bool = True) -> Experiment:
    (tmp_path / f"{helper}.py").write_text("SHIFT = 0.25\n")
    (tmp_path / "seed.txt").write_text("3")
    place = str(tmp_path / "seed.txt") if seed else ""
    (tmp_path / "mine.py").write_text(DATASET.format(helper=helper, seed=place))
    return experiment_from(
        {
            "imports": ["mine.py"],
            "network": {"kind": "random", "devices": 3, "slots": 1},
            "schedulers": ["age", "random"],
            "task": {"dataset": "few-test", "model": "logistic", "shard_size": 4, "batch": 4, "epochs": 1},
            "training": {"loss_images": 20, "test_images": 20},
            "rounds": 3,
            "instances": 1,
        }
    )


def stopped(experiment: Experiment, folder: Path, then: Callable[[], object] | None = None) -> Path:
    """A run with its first unit done; ``then`` happens after that, and the run goes on if it is given."""

    def first(job: Job) -> Iterator[Any]:
        for one in run_here(job):
            yield one
            if then is None:
                raise Stop
            then()

    if then is not None:
        run_experiment(experiment, folder, engine=first)
    else:
        with pytest.raises(Stop):
            run_experiment(experiment, folder, engine=first)
    return folder


def resume(folder: Path, *given: str) -> None:
    write_results(run_experiment(RunFolder(folder).experiment(given), folder, workers=1), folder)


def tables(folder: Path) -> dict[str, bytes]:
    found = [*folder.glob("rounds/*"), *folder.glob("devices/*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def other_rates() -> None:
    Path("devices.csv").write_text("count,rate,distance_m\n5,9,300\n")


def other_gains() -> None:
    np.save("gains.npy", np.ones((8, 4, 5)))


def fedwave(*words: object, **more: Any) -> tuple[int, str]:
    """A process that has imported nothing."""
    run = subprocess.run(command(*map(str, words)), capture_output=True, text=True, **more)
    assert "Traceback" not in run.stderr
    assert run.stderr.count("\n") <= 1
    return run.returncode, run.stderr


# --- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("edit", [other_rates, other_gains])
def test_a_changed_file_is_refused_by_name_and_nothing_is_lost(edit: Callable[[], None], tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    write_results(run_experiment(asked(), whole, workers=1), whole)
    stopped(asked(), folder)
    before = tables(folder)
    name = "devices.csv" if edit is other_rates else "gains.npy"
    edit()
    with refused(name, "changed", folder / "inputs" / name):
        run_experiment(asked(), folder, workers=1)
    assert tables(folder) == before
    resume(folder)  # from the copies
    assert results(folder) == results(whole)


def test_copies_are_read_from_any_folder_and_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    write_results(run_experiment(asked(), whole, workers=1), whole)
    stopped(asked(), folder)
    (folder / "inputs/devices.csv").write_text("damaged")
    events: list[Event] = []
    run_experiment(RunFolder(folder).experiment(), folder, workers=1, watch=events.append)  # the original is there
    assert [mentions(event["message"], folder / "inputs/devices.csv") for event in events if "message" in event] == [
        True
    ]
    resume(folder)
    assert (folder / "inputs/devices.csv").read_text() == TABLE
    cut(folder / "done.jsonl")
    for name in ("devices.csv", "gains.npy"):
        (tmp_path / name).unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    moved = folder.rename(tmp_path / "elsewhere" / "moved")
    resume(moved)
    assert results(moved) == results(whole)
    cut(moved / "done.jsonl")
    (moved / "inputs/devices.csv").write_text("damaged")
    with refused("inputs/devices.csv"):
        resume(moved)


def test_an_edit_during_the_run_changes_nothing(tmp_path: Path) -> None:
    run_experiment(asked(), tmp_path / "whole", workers=1)
    stopped(asked(), tmp_path / "run", then=lambda: (other_rates(), other_gains()))
    assert tables(tmp_path / "run") == tables(tmp_path / "whole")


LEARNED = """
from dataclasses import dataclass
import numpy as np
import fedwave as fw

@fw.register
@dataclass(frozen=True, eq=False)
class Learned(fw.Scheduler):
    name, needs = "learned-test", frozenset({"channel", "backlog"})
    weights: np.ndarray

    @classmethod
    def from_file(cls, path):
        return cls(np.load(path))

    def priority(self, state, seen, draws):
        return self.weights[0] * seen.success + self.weights[1] * seen.waiting
"""


def test_the_weights_of_a_scheduler_are_an_input(tmp_path: Path) -> None:
    """A scheduler reads them in ``from_file``; the run has a copy, and refuses to go on with other ones."""
    (tmp_path / "mine.py").write_text(LEARNED)
    np.save("weights.npy", [1.0, 0.5])
    fields = {"schedulers": ["learned-test:path=weights.npy", "age"], "rounds": 8, "instances": 4, "block": 2}
    learned = experiment_from({"imports": ["mine.py"], **fields})
    whole, folder = tmp_path / "whole", tmp_path / "run"
    run_experiment(learned, whole, workers=1)
    stopped(learned, folder)
    pinned = json.loads((folder / "run.json").read_text())["inputs"]["inputs/weights.npy"]
    assert pinned["sha256"] == inputs.file_sha256("weights.npy")
    assert (folder / "inputs/weights.npy").read_bytes() == Path("weights.npy").read_bytes()
    np.save("weights.npy", [1.0, 0.0])
    with refused("weights.npy", "changed", folder / "inputs/weights.npy"):
        run_experiment(learned, folder, workers=1)
    run_experiment(learned, tmp_path / "other", workers=1)
    other, first = (fw.load(place).backlog.values for place in (tmp_path / "other", whole))
    assert not np.array_equal(other[0], first[0])  # the weights decide
    assert np.array_equal(other[1], first[1])
    resume(folder, "mine.py")  # with the copy
    assert tables(folder) == tables(whole)


def test_a_large_file_is_pinned_and_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_BYTES", 500)
    folder = stopped(asked(), tmp_path / "run")
    assert {path.name for path in (folder / "inputs").iterdir()} == {"devices.csv"}
    gains = (tmp_path / "gains.npy").read_bytes()
    other_gains()
    with refused("gains.npy", "changed"):
        resume(folder)
    (tmp_path / "gains.npy").unlink()
    with refused("gains.npy", "missing"):
        resume(folder)
    (tmp_path / "gains.npy").write_bytes(gains)
    resume(folder)
    assert fw.load(folder).sizes["scheduler"] == 2


def test_files_are_seen_from_the_folder_of_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(
        "network: {kind: table, file: devices.csv, slots: 2, fading: 'recorded:path=gains.npy'}\n"
        "sweep: {network.fading.path: [gains.npy]}\nschedulers: [age]\nrounds: 8\ninstances: 2\n"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made = load_experiment("../mine.yaml")
    assert made.network.file == str(tmp_path / "devices.csv")
    assert made.sweep == {"network.fading.path": (str(tmp_path / "gains.npy"),)}
    run_experiment(made, tmp_path / "run", workers=1)
    for name in ("config.yaml", "run.json"):
        content = (tmp_path / "run" / name).read_text()
        assert str(tmp_path) not in content
        assert content.count("inputs/gains.npy") >= 2
    assert list(fw.load(tmp_path / "run")["network.fading.path"].values) == ["inputs/gains.npy"]


LISTED = """
import json
from dataclasses import dataclass
from pathlib import Path
import fedwave as fw

@fw.register
@dataclass(frozen=True)
class Listed(fw.Scheduler):
    name = "listed-test"
    files: list = ()
    tables: tuple = ()

    def priority(self, state, seen, draws):
        return seen.delay * sum(json.loads(Path(f).read_text()) for f in [*self.files, *self.tables])
"""


def test_files_in_lists_are_kept(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LISTED)
    for name in ("w1.json", "w2.json", "w3.json"):
        (tmp_path / name).write_text("1")
    part = {"name": "listed-test", "files": ["w1.json", "w2.json"], "tables": ["w3.json"]}
    asked = {"imports": ["mine.py"], "schedulers": [part, "age"], "rounds": 3, "instances": 2}
    folder = stopped(experiment_from(asked), tmp_path / "run")
    assert {path.name for path in (folder / "inputs").glob("*.json")} == {"w1.json", "w2.json", "w3.json"}
    (tmp_path / "w2.json").unlink()  # there is the copy
    resume(folder)
    assert fw.load(folder).sizes["scheduler"] == 2


# --- code -----------------------------------------------------------------------------------------


def test_modules_beside_the_users_file_and_datasets_are_pinned(tmp_path: Path) -> None:
    folder = stopped(learning(tmp_path, "helper_a"), tmp_path / "run")
    names = ["inputs/mine.py", "module helper_a", "dataset few-test"]
    assert list(RunFolder(folder).manifest.inputs) == names
    assert (folder / "inputs/helper_a.py").read_text() == "SHIFT = 0.25\n"
    for name, other, named in (
        ("helper_a.py", "SHIFT = 0.5\n", "helper_a.py"),
        ("seed.txt", "4", "dataset few-test"),  # a file that fedwave does not know of
    ):
        kept = (tmp_path / name).read_text()
        (tmp_path / name).write_text(other)
        with refused(named, "changed"):
            resume(folder)
        (tmp_path / name).write_text(kept)
    resume(folder)
    assert fw.load(folder).sizes["scheduler"] == 2


def test_a_dataset_that_is_never_the_same_is_refused(tmp_path: Path) -> None:
    with refused("few-test", "seed"):
        run_experiment(learning(tmp_path, "helper_b", seed=False), tmp_path / "run", workers=1)


def test_the_version_of_a_package_that_a_part_is_from_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "lib" / "site-packages"
    about = place / "parts_test-1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-test\nVersion: 1.2\n")
    (about / "top_level.txt").write_text("packaged_parts_test\n")
    (place / "packaged_parts_test.py").write_text(text())
    monkeypatch.syspath_prepend(str(place))
    run_experiment(own("packaged_parts_test"), tmp_path / "run", workers=1)
    assert RunFolder(tmp_path / "run").manifest.inputs == {}
    lines = list(read_done(tmp_path / "run").units.values())
    assert versions_of(lines[0])["parts-test"] == "1.2"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-test\nVersion: 1.3\n")
    assert mentions(other_versions(tmp_path / "run", lines), "parts-test 1.2", "1.3")


def test_workers_import_the_text_and_not_the_file(tmp_path: Path) -> None:
    experiment = own()
    Path("mine.py").unlink()
    run_experiment(experiment, tmp_path / "here", workers=1)
    run_experiment(experiment, tmp_path / "pool", workers=2)
    assert len(tables(tmp_path / "here")) == 8
    assert tables(tmp_path / "here") == tables(tmp_path / "pool")


def test_files_of_one_name_have_a_copy_each(tmp_path: Path) -> None:
    Path("other").mkdir()
    Path("other/mine.py").write_text("# nothing\n")
    run_experiment(own("mine.py", "other/mine.py"), tmp_path / "run", workers=1)
    copies = {path.name: path.read_text() for path in (tmp_path / "run/inputs").glob("*.py")}
    assert copies == {"mine.py": text(), "1_mine.py": "# nothing\n"}
    cut(tmp_path / "run/done.jsonl")
    assert fedwave("resume", "run", "--import", "other/mine.py", "--import", "mine.py") == (0, "")


def test_resume_takes_the_files_from_where_they_are_named(tmp_path: Path) -> None:
    mine = Path("mine.py").rename(tmp_path / "my parts.py")
    Path("other.py").write_text("# nothing\n")
    folder = stopped(own(str(mine), "other.py"), tmp_path / "run")
    status, told = fedwave("resume", folder, "--import", "other.py")
    command = told.split("`")[1]
    assert (status, command) == (2, f"fedwave resume {folder} --import '{mine}' --import {tmp_path / 'other.py'}")
    mine.rename("moved.py")
    status, told = fedwave("resume", folder, "--import", "other.py")
    assert (status, mentions(told, "--import 'my parts.py'", folder / "inputs/my parts.py")) == (2, True)
    mine.write_text(text(4))
    status, told = fedwave("resume", folder, "--import", mine, "--import", "other.py")
    assert (status, mentions(told, mine, "SHA-256")) == (2, True)
    assert fedwave("resume", folder, "--import", "moved.py", "--import", "other.py") == (0, "")
    cut(folder / "done.jsonl")
    mine.write_text(text())
    assert fedwave(*shlex.split(command)[1:]) == (0, "")


def test_changed_code_is_refused(tmp_path: Path) -> None:
    folder = stopped(own(), tmp_path / "run")
    Path("mine.py").write_text(text(3))
    with forgotten(), refused("mine.py", "changed"):
        run_experiment(own(), folder, workers=1)


@pytest.mark.parametrize("words", [("resume", "run"), ("run", "run/config.yaml", "--out", "run")])
def test_code_that_a_folder_names_is_not_executed(words: tuple[str, ...], tmp_path: Path) -> None:
    """Its author can have made every checksum anew, and guess where the user has files."""
    Path("unpacked").mkdir()
    Path("mine.py").write_text(text() + EVIL)
    with forgotten():
        folder = stopped(own(), tmp_path / "unpacked" / "run")
    for pwned in tmp_path.rglob("pwned"):
        pwned.unlink()
    for place in ("mine.py", "unpacked/mine.py"):
        Path(place).write_text(text() + EVIL)
    rewritten(folder, lambda line: "paths" in line and line.update(paths={"inputs/mine.py": "mine.py"}))
    status, told = fedwave(*words, cwd=folder.parent)
    assert (status, mentions(told, "--import")) == (2, True)
    config = folder / "config.yaml"  # whatever it names
    config.write_text(config.read_text().replace("inputs/mine.py", "../mine.py"))
    assert fedwave(*words, cwd=folder.parent)[0] == 2
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.usefixtures("no_figures")
def test_code_that_this_process_has_imported_is_named(tmp_path: Path) -> None:
    with forgotten():
        folder = stopped(own(), tmp_path / "run")
    with refused("--import mine.py"):
        fw.run(folder / "config.yaml", folder)
    fw.run(folder / "config.yaml", folder, imports="mine.py")
    cut(folder / "done.jsonl")
    assert RunFolder(folder).experiment().imports == (str(tmp_path / "mine.py"),)
    fw.run(folder / "config.yaml", folder)  # again: it is imported here


def test_modules_are_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "heavy_module.py").write_text(text())
    monkeypatch.syspath_prepend(str(lib))
    folder = stopped(own("heavy_module"), tmp_path / "run")
    there = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(lib)])}
    status, told = fedwave("resume", folder, env=there)
    assert (status, mentions(told, f"`fedwave resume {folder} --import heavy_module`")) == (2, True)
    (lib / "heavy_module.py").write_text(text(2))
    status, told = fedwave("resume", folder, "--import", "heavy_module", env=there)
    assert (status, mentions(told, "heavy_module.py", "changed")) == (2, True)
    (lib / "heavy_module.py").write_text(text())
    assert fedwave("resume", folder, "--import", "heavy_module", env=there) == (0, "")


def test_parts_of_a_script_are_named_in_the_record_and_not_pinned(tmp_path: Path) -> None:
    script = text() + (
        'if __name__ == "__main__":\n'
        '    fw.run({"schedulers": ["heavy-test", "age"], "rounds": 2, "instances": 1}, "run", workers=2)\n'
    )
    Path("script.py").write_text(script)
    python = command()[0]
    subprocess.run([python, "script.py"], check=True)
    known = json.loads(Path("run/run.json").read_text())["inputs"]
    assert known == {"scheduler heavy-test": {"kind": "part", "sha256": "", "copy": None}}
    assert any("scheduler heavy-test was defined by a script" in one.text for one in verify(Path("run")))
    cut(Path("run/done.jsonl"))
    status, told = fedwave("resume", "run")
    assert (status, "scheduler heavy-test" in told) == (2, True)
    subprocess.run([python, "script.py"], check=True)
    assert fedwave("resume", "run") == (0, "")
