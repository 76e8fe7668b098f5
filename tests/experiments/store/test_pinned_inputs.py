"""Whatever a run takes from outside is kept or pinned: a changed input is refused by name, and nothing is mixed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_folders import forge
from killing import results
from user_file import forgotten, text

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, load_experiment
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.pool import run_here
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store import folder as folder_module
from fedwave.experiments.store import inputs
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.provenance import other_versions, runs_of
from fedwave.version import NUMERICS

TABLE = "count,rate,distance_m\n5,2,300\n"
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


def stopped(experiment: Experiment, folder: Path, then: Callable[[], object] | None = None) -> None:
    """A run with its first unit done; ``then`` happens after that, and the run goes on if it is given."""

    def first(units: Any, checkpoint: Any, report: Any, stop: Any) -> Iterator[Any]:
        for one in run_here(units, checkpoint, report):
            yield one
            if then is None:
                raise Stop
            then()

    if then is not None:
        run_experiment(experiment, folder, engine=first)
        return
    with pytest.raises(Stop):
        run_experiment(experiment, folder, engine=first)


def resume(folder: Path) -> None:
    results = run_experiment(RunFolder(folder).experiment(), folder, workers=1)
    write_results(results, folder)


def tables(folder: Path) -> dict[str, bytes]:
    found = [*folder.glob("rounds/*"), *folder.glob("devices/*"), *folder.glob("units/*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def larger_table(tmp_path: Path) -> None:
    (tmp_path / "devices.csv").write_text("count,rate,distance_m\n7,2,300\n")


def other_rates(tmp_path: Path) -> None:
    (tmp_path / "devices.csv").write_text("count,rate,distance_m\n5,9,300\n")


def other_gains(tmp_path: Path) -> None:
    np.save(tmp_path / "gains.npy", np.ones((8, 4, 5)))


@pytest.mark.parametrize("edit", [larger_table, other_rates, other_gains])
def test_a_changed_file_is_refused_by_name_and_nothing_is_lost(edit: Any, tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    write_results(run_experiment(asked(), whole, workers=1), whole)
    stopped(asked(), folder)
    before = tables(folder)
    assert len(before) == 3
    kept = {name: (tmp_path / name).read_bytes() for name in ("devices.csv", "gains.npy")}
    edit(tmp_path)
    name = next(name for name, was in kept.items() if (tmp_path / name).read_bytes() != was)
    sentence = rf"{name} has changed since the run in .*run was started: restore it \(a copy is .*inputs/{name}\)"
    with pytest.raises(fw.FedwaveError, match=sentence):
        resume(folder)
    if edit is not larger_table:  # which does not fit the recorded gains
        with pytest.raises(fw.FedwaveError, match=sentence):
            run_experiment(asked(), folder, workers=1)
    assert tables(folder) == before
    (tmp_path / name).write_bytes((folder / "inputs" / name).read_bytes())
    resume(folder)
    assert results(folder) == results(whole)


def test_missing_data_files_are_taken_from_the_copies_in_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    write_results(run_experiment(asked(), whole, workers=1), whole)
    stopped(asked(), folder)
    for name in ("devices.csv", "gains.npy"):
        (tmp_path / name).unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    moved = folder.rename(tmp_path / "elsewhere" / "moved")
    resume(moved)
    assert results(moved) == results(whole)


def test_an_edit_during_the_run_changes_nothing(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    run_experiment(asked(), whole, workers=1)
    stopped(asked(), folder, then=lambda: (other_rates(tmp_path), other_gains(tmp_path)))
    assert tables(folder) == tables(whole)


def test_a_large_file_is_pinned_and_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_BYTES", 500)
    folder = tmp_path / "run"
    stopped(asked(), folder)
    assert {path.name for path in (folder / "inputs").iterdir()} == {"devices.csv", "inputs.json", "places.json"}
    gains = (tmp_path / "gains.npy").read_bytes()
    other_gains(tmp_path)
    with pytest.raises(fw.FedwaveError, match=r"gains\.npy has changed since .*: restore it, or"):
        resume(folder)
    (tmp_path / "gains.npy").unlink()
    with pytest.raises(fw.FedwaveError, match=r"gains\.npy, which .* reads, is missing, and it"):
        resume(folder)
    (tmp_path / "gains.npy").write_bytes(gains)
    resume(folder)
    assert fw.load(folder).sizes["scheduler"] == 2


def test_modules_beside_the_users_file_and_datasets_are_pinned(tmp_path: Path) -> None:
    experiment, folder = learning(tmp_path, "helper_a"), tmp_path / "run"
    stopped(experiment, folder)
    names = ["inputs/mine.py", "module helper_a", "dataset few-test"]
    assert list(json.loads((folder / "plan.json").read_text())["inputs"]) == names
    assert (folder / "inputs/helper_a.py").read_text() == "SHIFT = 0.25\n"
    (tmp_path / "helper_a.py").write_text("SHIFT = 0.5\n")
    with pytest.raises(fw.FedwaveError, match=r"helper_a\.py has changed since the run in"):
        resume(folder)
    (tmp_path / "helper_a.py").write_text("SHIFT = 0.25\n")
    (tmp_path / "seed.txt").write_text("4")  # a file that fedwave does not know of
    with pytest.raises(fw.FedwaveError, match="dataset few-test has changed since the run in"):
        resume(folder)
    (tmp_path / "seed.txt").write_text("3")
    resume(folder)
    assert fw.load(folder).sizes["scheduler"] == 2


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
    asked = {"imports": ["packaged_parts_test"], "schedulers": ["heavy-test", "age"], "rounds": 2, "instances": 1}
    run_experiment(experiment_from(asked), tmp_path / "run", workers=1)
    assert inputs.known_inputs(tmp_path / "run") == {}
    (made,) = runs_of(tmp_path / "run")
    assert made["packages"]["parts-test"] == "1.2"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parts-test\nVersion: 1.3\n")
    said = other_versions(tmp_path / "run", "goes on with")
    assert said is not None
    assert "parts-test 1.3" in said


def test_a_dataset_that_is_never_the_same_is_refused(tmp_path: Path) -> None:
    experiment = learning(tmp_path, "helper_b", seed=False)
    with pytest.raises(fw.FedwaveError, match=r"few-test has other arrays .* draw without a seed"):
        run_experiment(experiment, tmp_path / "run", workers=1)


def test_units_of_another_run_are_refused_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_experiment(asked(), folder, workers=1)
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("seed: 0", "seed: 1"))
    before = tables(folder)
    forge(folder / "plan.json", lambda plan: _replace(plan["config"], "seed: 0", "seed: 1"))
    sentence = r"units/0000_alsa-pi_0-1\.json belongs to another run: another experiment, other"
    for read in (fw.load, resume):
        with pytest.raises(fw.FedwaveError, match=sentence):
            read(folder)
    assert tables(folder) == before
    # What only says how results are shown makes no other run.
    (folder / "config.yaml").write_text(config.replace("burn_in: 0", "burn_in: 2"))
    forge(folder / "plan.json", lambda plan: _replace(plan["config"], "seed: 1", "seed: 0"))
    forge(folder / "plan.json", lambda plan: _replace(plan["config"], "burn_in: 0", "burn_in: 2"))
    assert fw.load(folder).sizes["round"] == 8


def _replace(lines: list[str], old: str, new: str) -> None:
    lines[lines.index(old)] = new


def test_a_checkpoint_of_another_run_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    units = (RunFolder(folder).begin(asked_resolved()), RunFolder(folder).units())
    mine, again = (RunFolder(folder).checkpoint(some[0]).name for some in units)
    assert mine == again
    other_gains(tmp_path)
    (theirs, *_) = RunFolder(tmp_path / "other").begin(asked_resolved())
    assert RunFolder(folder).checkpoint(theirs).name != mine
    assert theirs.name == units[0][0].name


def asked_resolved() -> Experiment:
    from fedwave.experiments.config.units import resolved

    return resolved(asked())


def test_another_version_of_the_numerics_does_not_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, done = tmp_path / "run", tmp_path / "done"
    stopped(asked(), folder)
    run_experiment(asked(), done, workers=1)
    monkeypatch.setattr(folder_module, "NUMERICS", NUMERICS + 1)
    with pytest.raises(fw.FedwaveError, match=f"begun with version {NUMERICS} of the numerics, but fedwave"):
        resume(folder)
    assert fw.load(done).sizes["round"] == 8  # reading is another thing


def test_files_are_seen_from_the_folder_of_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text(
        "network: {kind: table, file: devices.csv, slots: 2, fading: 'recorded:path=gains.npy'}\n"
        "sweep: {network.fading.path: [gains.npy]}\nschedulers: [age]\nrounds: 8\ninstances: 2\n"
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made = load_experiment("../mine.yaml")
    assert made.network.file == str(tmp_path / "devices.csv")
    assert made.network.fading is not None
    assert made.network.fading["path"] == str(tmp_path / "gains.npy")
    assert made.sweep == {"network.fading.path": (str(tmp_path / "gains.npy"),)}
    run_experiment(made, tmp_path / "run", workers=1)
    text = (tmp_path / "run/config.yaml").read_text()
    assert str(tmp_path) not in text
    assert text.count("inputs/gains.npy") == 2
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


def test_files_in_lists_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(LISTED)
    for name in ("w1.json", "w2.json", "w3.json"):
        (tmp_path / name).write_text("1")
    part = {"name": "listed-test", "files": ["w1.json", "w2.json"], "tables": ["w3.json"]}
    asked = {"imports": ["mine.py"], "schedulers": [part, "age"], "rounds": 3, "instances": 2}
    folder = tmp_path / "run"
    stopped(experiment_from(asked), folder)
    assert {path.name for path in (folder / "inputs").glob("*.json")} >= {"w1.json", "w2.json", "w3.json"}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "w2.json").write_text("-1")
    with pytest.raises(fw.FedwaveError, match=r"w2\.json has changed since the run in"):
        resume(folder)
    (tmp_path / "w2.json").unlink()  # there is the copy
    resume(folder)
    assert fw.load(folder).sizes["scheduler"] == 2
