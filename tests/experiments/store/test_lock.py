"""What fedwave overwrites and removes in a folder: its own files, under the lock, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from locking import figures_that_try_to_lock
from refusals import mentions, refused

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report import theory
from fedwave.experiments.report.figures import common as figures
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.lock import locked
from fedwave.experiments.store.own_files import RUN_FILES, files_of_run, output_files
from fedwave.experiments.store.verify import sound, verify
from fedwave.files.writing import write_text

TOKEN = "0123456789abcdef"
AXES = ("sweep.network.slots=[1,2]", "sweep.network.gamma=[0,1]")


def asked(place: Path, *overrides: str) -> Experiment:
    """A small experiment with an input."""
    table = place / "devices.csv"
    table.write_text("name,rate,distance_m\na,1,100\nb,2,200\nc,3,300\n")
    network = {"kind": "table", "file": str(table), "slots": 2}
    small = {"network": network, "schedulers": ["age", "random"], "rounds": 6, "instances": 2}
    return experiment_from(small, overrides)


@pytest.fixture(autouse=True)
def _small_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take the longest to draw; their names are what matters here."""

    def saved(figure: object, stem: Path) -> list[Path]:
        made = [stem.with_suffix(ending) for ending in (".png", ".svg")]
        for path in made:
            path.write_text("a figure")
        return made

    monkeypatch.setattr(figures, "save_figure", saved)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stored")
    run_experiment(asked(place), place / "run", workers=1)
    return place


@pytest.fixture
def place(stored: Path, tmp_path: Path) -> Path:
    """Where run/ is a folder of a finished run."""
    return Path(shutil.copytree(stored, tmp_path / "place"))


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder, hidden files and links too."""
    found = {}
    for parent, below, files in os.walk(folder):
        for name in (*below, *files):
            path = Path(parent, name)
            plain = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(folder))] = path.read_bytes() if plain else None
    return found


def test_only_what_a_killed_run_left_is_removed(place: Path) -> None:
    run, unit = place / "run", "0000_age_0-1"
    checkpoint = next(RunFolder(run).checkpoint(u).name for u in RunFolder(run).units())
    kept = {
        "table.md",
        "config.yaml",
        "lock.json",
        "score.png",
        f"rounds/{unit}.parquet",
        f"devices/{unit}.parquet",
        f"units/{unit}.json",
        f"timings/{unit}.json",
        f"checkpoints/{checkpoint}",
        "inputs/devices.csv",
        "inputs/inputs.json",
    }
    own = {str(Path(name).with_name(f".{Path(name).name}.{TOKEN}.part")) for name in kept}
    others = {
        ".x.part",
        f".notes.txt.{TOKEN}.part",
        ".table.md.1234.part",
        f"table.md.{TOKEN}.part",
        f".rounds.{TOKEN}.part",
        f"rounds/.mine.parquet.{TOKEN}.part",
        f"rounds/deeper/.{unit}.parquet.{TOKEN}.part",
        f"mine/.table.md.{TOKEN}.part",
        f"inputs/.mine.csv.{TOKEN}.part",
        f"rounds/.{unit}.json.{TOKEN}.part",
    }
    shutil.copytree(run, run / "nested")  # a run folder in it, whose run may be at work
    others |= {f"nested/rounds/.{unit}.parquet.{TOKEN}.part", f"nested/.table.md.{TOKEN}.part"}
    for name in own | others:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(b"half")
    (run / f".table.tex.{TOKEN}.part").mkdir()
    run_experiment(asked(place), run, workers=1)
    left = {name for name in tree(run) if name.endswith(".part")}
    assert left == others | {f".table.tex.{TOKEN}.part"}


@pytest.mark.parametrize(
    "name",
    [
        "rounds",
        "devices",
        "units",
        "timings",
        "checkpoints",
        "inputs",
        ".lock",
        ".fedwave",
        "lock.json",
        "config.yaml",
        "plan.json",
        "provenance.json",
        "table.md",
        "SHA256SUMS",
        "score.png",
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_links_are_refused_before_anything_is_written(name: str, begun: bool, place: Path, tmp_path: Path) -> None:
    run, outside = place / "run" if begun else tmp_path / "new", tmp_path / "outside"
    run.mkdir(exist_ok=True)
    if (run / name).exists():
        (run / name).rename(outside)
    elif "." in name or name.isupper():
        outside.write_bytes(b"precious")
    else:
        outside.mkdir()
        (outside / f".x.{TOKEN}.part").write_bytes(b"precious")
    (run / name).symlink_to(outside)
    before = tree(tmp_path)
    with refused(run / name, "link"):
        run_experiment(asked(place), run, workers=1)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["lock.json", ".lock", "config.yaml", "rounds", "rounds/pipe"])
def test_pipes_are_refused_before_anything_is_written(name: str, place: Path, tmp_path: Path) -> None:
    run = tmp_path / "new"
    (run / name).parent.mkdir(parents=True)
    os.mkfifo(run / name)
    before = tree(run)
    with refused("plain"):
        run_experiment(asked(place), run, workers=1)
    assert tree(run) == before


def test_a_link_to_a_folder_may_be_named(place: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    run_experiment(asked(place), tmp_path / "out", workers=1)
    assert (tmp_path / "disk" / "config.yaml").is_file()


@pytest.mark.parametrize(
    "name",
    [
        "table.md",
        "table.tex",
        "summary.csv",
        "summary.json",
        "SHA256SUMS",
        "score.png",
        "score.svg",
        "results.nc",
        "learning-curves.png",
        "targets.csv",
        "devices.csv",
        "metrics.svg",
        "config.yaml",
        "plan.json",
        "lock.json",
        ".lock",
        ".fedwave",
        "provenance.json",
        "rounds/mine",
        "devices/mine",
        "units/mine",
        "inputs/mine",
        "checkpoints/mine",
        "backlog-network-slots-2.png",
    ],
)
def test_files_of_other_people_are_not_overwritten(name: str, place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    (folder / "notes.txt").write_text("mine")
    before, top = tree(folder), folder / name.partition("/")[0]
    with refused(top, "overwritten"):
        fw.run(asked(place, *AXES), folder, workers=1)
    assert tree(folder) == before


def test_other_files_may_be_there_and_stay_out_of_the_sums(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    mine = {"notes.txt": b"mine", "photo-1.png": b"mine", "data/table.md": b"mine"}
    for name, content in mine.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    fw.run(asked(place), folder, workers=1)
    (folder / "rounds" / "mine.parquet").write_bytes(b"mine")
    fw.run(asked(place), folder, workers=1)
    assert mine.items() <= tree(folder).items()
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert {"config.yaml", "table.md", "inputs/devices.csv", "rounds/0000_age_0-1.parquet"} <= listed
    assert not listed & {*mine, "rounds/mine.parquet"}
    # It stays, but whoever reads all tables of the folder would mix it in.
    (wrong,) = [f.text for f in verify(folder) if f.state == "wrong"]
    assert mentions(wrong, "rounds/mine.parquet", "no unit")
    (folder / "rounds" / "mine.parquet").unlink()
    assert sound(verify(folder))


@pytest.mark.parametrize("overrides", [(), AXES, AXES[:1], ("metrics=[jain]", "metric=jain")])
def test_every_file_is_in_the_list(overrides: tuple[str, ...], place: Path, tmp_path: Path) -> None:
    folder, experiment = tmp_path / "run", asked(place, *overrides)
    fw.run(experiment, folder, workers=1)
    store = RunFolder(folder)
    known = files_of_run(store, store.units()) | output_files(experiment)
    written = {name for name, content in tree(folder).items() if content is not None}
    assert written - {".lock"} <= known


def test_every_file_of_the_theory_is_in_the_list() -> None:
    named = re.findall(r'folder / "([^"]+)"', Path(theory.__file__).read_text())
    assert len(named) > 10
    for name in named:
        assert {name, f"{name}/", f"{name}.png"} & theory.FILES, name


def test_the_lock_is_held_until_the_sums_are_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = figures_that_try_to_lock(monkeypatch)
    fw.run(asked(place), tmp_path / "run", workers=1)
    assert "score" in tried
    with locked(tmp_path / "run", RUN_FILES):
        pass
    assert {".lock"} == {name for name in tree(tmp_path / "run") if name.startswith((".", "lock"))}


DYING = """
import os, sys
from pathlib import Path
from fedwave.experiments.config.read import load_experiment
from fedwave.experiments.run.runner import run_experiment

experiment, place = load_experiment(sys.argv[1]), Path(sys.argv[2])
replace = os.replace
for last in range(1, 9):
    if (child := os.fork()) == 0:  # dies at its last-th file, without any clean-up
        done = 0

        def counted(old, new):
            global done
            done += 1
            if done == last:
                os._exit(9)
            replace(old, new)

        os.replace = counted
        run_experiment(experiment, place / str(last), workers=1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_run_that_died_at_any_of_its_first_files_goes_on(place: Path, tmp_path: Path) -> None:
    """Before config.yaml was there, too: what it left is not taken for somebody else's."""
    from fedwave.experiments.config.read import to_yaml

    experiment, dead = asked(place), tmp_path / "dead"
    (tmp_path / "experiment.yaml").write_text(to_yaml(experiment))
    words = [sys.executable, "-c", DYING, str(tmp_path / "experiment.yaml"), str(dead)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert told.stdout.split() == ["9"] * 8, told.stderr
    assert not (dead / "6" / "config.yaml").exists()
    assert (dead / "6" / "inputs" / "devices.csv").exists()
    wanted = sorted((place / "run").glob("rounds/*"))
    for folder in dead.iterdir():
        run_experiment(experiment, folder, workers=1)
        for path in wanted:
            assert (folder / "rounds" / path.name).read_bytes() == path.read_bytes()
        assert not [name for name in tree(folder) if name.endswith((".part", ".fedwave", "lock.json"))]


def test_marks_that_are_none(place: Path, tmp_path: Path) -> None:
    for content in (b"[" * 100_000, b"\xff", b"[1]", b"null", b'{"SHA256SUMS": 3}'):
        (tmp_path / ".fedwave").write_bytes(content)
        with refused(".fedwave", "overwritten"):
            run_experiment(asked(place), tmp_path, workers=1)


def test_damaged_sums_are_written_anew(place: Path) -> None:
    for damage in (b"\xff", b"no sums", f"{'0' * 64}  ../devices.csv\n".encode()):
        (place / "run" / "SHA256SUMS").write_bytes(damage)
        fw.run(asked(place), place / "run", workers=1)
        assert sound(verify(place / "run"))
    (place / "run" / "SHA256SUMS").write_text(f"{'0' * 64}  /etc/passwd\n")
    wrong = [one.text for one in verify(place / "run") if one.state == "wrong"]
    assert any(mentions(text, "/etc/passwd") for text in wrong)


def test_write_results_alone(place: Path, tmp_path: Path) -> None:
    made = run_experiment(asked(place), workers=1)
    (tmp_path / "figures").mkdir()
    write_results(made, tmp_path / "figures")
    assert set(tree(tmp_path / "figures")) <= output_files(made.experiment)


# --- while fedwave is at work ---------------------------------------------------------------------


def refusal_at_work(folder: Path, meanwhile: Callable[[], object], name: str) -> str:
    """What is said if something happens to a folder while it is locked, and then a file is written there."""

    def work() -> None:
        with locked(folder, RUN_FILES):
            meanwhile()
            write_text(folder / name, "mine")

    with pytest.raises(fw.FedwaveError) as caught:
        work()
    return str(caught.value)


def test_nothing_is_written_into_a_folder_that_was_replaced(tmp_path: Path) -> None:
    """The other run's lock might even get the number of the old one, were that not kept open."""
    folder = tmp_path / "run"

    def replaced() -> None:
        shutil.rmtree(folder)
        with locked(folder, RUN_FILES):
            write_text(folder / "theirs", "theirs")

    said = refusal_at_work(folder, replaced, "table.md")
    assert mentions(said, "table.md", "folder")
    assert {p.name for p in folder.iterdir()} == {".lock", "theirs"}


def test_nothing_is_made_again_in_a_folder_that_was_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    said = refusal_at_work(folder, lambda: shutil.rmtree(folder), "rounds/one.parquet")
    assert mentions(said, "one.parquet", "folder")
    assert not folder.exists()


def test_a_link_that_is_put_there_during_the_run(tmp_path: Path) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    rounds = folder / "rounds"
    said = refusal_at_work(folder, lambda: rounds.symlink_to(outside), "rounds/one.parquet")
    assert mentions(said, "rounds", "link")
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ["lock.json", ".fedwave"])
def test_small_files_of_others_in_what_looks_like_a_run_folder(name: str, tmp_path: Path) -> None:
    for mine in ("config.yaml", "plan.json", name):
        (tmp_path / mine).write_text(f"mine: {mine}")
    before = tree(tmp_path)
    with pytest.raises(fw.FedwaveError, match="would be overwritten"), locked(tmp_path, RUN_FILES):
        pass
    assert tree(tmp_path) == before
