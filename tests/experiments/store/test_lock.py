"""What fedwave overwrites and removes in a folder: its own files, under the lock, and nothing else."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from locking import figures_that_try_to_lock
from refusals import mentions, refused

import fedwave as fw
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.figures import common as figures
from fedwave.experiments.report.outputs import output_files, write_results
from fedwave.experiments.run.runner import run_experiment
from fedwave.experiments.store.checksums import write_sums
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.lock import locked, writing_outputs
from fedwave.experiments.store.verify import sound, verify

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
    run, unfinished = place / "run", f".{TOKEN}.part"
    own = {unfinished, f"rounds/{unfinished}", f"inputs/{unfinished}"}
    others = {".x.part", ".1234.part", f"table.md.{TOKEN}.part", f"rounds/deeper/{unfinished}"}
    shutil.copytree(run, run / "nested")  # a run folder in it, whose run may be at work
    others |= {f"mine/{unfinished}", f"nested/rounds/{unfinished}", f"nested/{unfinished}"}
    for name in own | others:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(b"half")
    (run / f"devices/{unfinished}").mkdir()
    run_experiment(asked(place), run, workers=1)
    left = {name for name in tree(run) if name.endswith(".part")}
    assert left == others | {f"devices/{unfinished}"}


@pytest.mark.parametrize("name", ["rounds", "devices", "checkpoints", "inputs", ".lock"])
@pytest.mark.parametrize("how", ["link", "link in a run", "pipe"])
def test_links_and_pipes_are_refused_before_anything_is_written(
    name: str, how: str, place: Path, tmp_path: Path
) -> None:
    run, outside = place / "run" if how == "link in a run" else tmp_path / "new", tmp_path / "outside"
    run.mkdir(exist_ok=True)
    if (run / name).exists():
        (run / name).rename(outside)
    elif name == ".lock":
        outside.write_bytes(b"precious")
    else:
        outside.mkdir()
        (outside / f".{TOKEN}.part").write_bytes(b"precious")
    if how == "pipe":
        os.mkfifo(run / name)
    else:
        (run / name).symlink_to(outside)
    before = tree(tmp_path)
    with refused(run):
        run_experiment(asked(place), run, workers=1)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["config.yaml", "run.json", "done.jsonl", "table.md", "SHA256SUMS"])
def test_nothing_is_written_through_a_link(name: str, place: Path, tmp_path: Path) -> None:
    run, outside = place / "run", tmp_path / "outside"
    fw.run(asked(place), run, workers=1)
    (run / name).rename(outside)
    (run / name).symlink_to(outside)
    before = outside.read_bytes()
    (run / "rounds/0000_age_0-1.parquet").unlink()
    with suppress(fw.FedwaveError):
        fw.run(asked(place), run, workers=1)
    assert outside.read_bytes() == before


def test_a_link_that_is_put_there_during_the_run(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    store = RunFolder(tmp_path / "run")
    with store.locked():
        unit, *_ = store.begin(asked(place))
        (tmp_path / "run/rounds").symlink_to(outside)
        with refused(tmp_path / "run/rounds"):
            store.keep(unit, RunFolder(place / "run").data(RunFolder(place / "run").units()[0]), 1.0)
    assert not list(outside.iterdir())


def test_a_link_to_a_folder_may_be_named(place: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    run_experiment(asked(place), tmp_path / "out", workers=1)
    assert (tmp_path / "disk" / "run.json").is_file()


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("name", ["notes.txt", "table.md", "SHA256SUMS", "rounds/x", "done.jsonl"])
def test_a_run_begins_in_an_empty_folder_only(name: str, marked: bool, place: Path, tmp_path: Path) -> None:
    """Also if the lock of a run that was killed lies there."""
    folder = tmp_path / "mine"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    if marked:
        (folder / ".lock").touch()
    before = tree(folder)
    with refused(folder, "empty"):
        fw.run(asked(place, *AXES), folder, workers=1)
    assert tree(folder) == before


def test_the_lock_of_somebody_else(place: Path, tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("process 7")
    with refused(tmp_path / ".lock"):
        run_experiment(asked(place), tmp_path, workers=1)
    assert (tmp_path / ".lock").read_text() == "process 7"


def test_other_files_in_a_run_folder_stay_out_of_the_sums(place: Path, tmp_path: Path) -> None:
    folder = place / "run"
    mine = {"notes.txt": b"mine", "photo-1.png": b"mine", "data/table.md": b"mine", "rounds/mine.parquet": b"mine"}
    for name, content in mine.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    fw.run(asked(place), folder, workers=1)
    assert mine.items() <= tree(folder).items()
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert {"run.json", "config.yaml", "table.md", "inputs/devices.csv", "rounds/0000_age_0-1.parquet"} <= listed
    assert not listed & {*mine, ".lock", "done.jsonl"}
    # It stays, but whoever reads all tables of the folder would mix it in.
    (wrong,) = [f.text for f in verify(folder) if f.state == "wrong"]
    assert mentions(wrong, "rounds/mine.parquet", "no unit")
    (folder / "rounds" / "mine.parquet").unlink()
    assert sound(verify(folder))


@pytest.mark.parametrize("overrides", [(), AXES, AXES[:1], ("metrics=[jain]", "metric=jain")])
def test_every_table_and_figure_is_in_the_list(overrides: tuple[str, ...], place: Path, tmp_path: Path) -> None:
    made = run_experiment(asked(place, *overrides), workers=1)
    (tmp_path / "figures").mkdir()
    write_results(made, tmp_path / "figures")
    assert set(tree(tmp_path / "figures")) <= output_files(made.experiment)


def test_figures_alone_overwrite_only_what_fedwave_wrote(tmp_path: Path) -> None:
    folder, names = tmp_path / "figures", {"a.png", "b.png", "SHA256SUMS"}
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")

    def write(**contents: str) -> None:
        with writing_outputs(folder, names):
            for name, content in contents.items():
                (folder / f"{name}.png").write_text(content)
            write_sums(folder, [f"{name}.png" for name in contents])

    write(a="1", b="1")
    write(a="2")
    (folder / "SHA256SUMS").write_text("")  # killed before it was written
    write(a="3", b="3")
    (folder / "SHA256SUMS").unlink()
    with refused("overwritten"):  # the lock may be that of another program
        write(a="4")
    write_sums(folder, ["a.png", "b.png"])
    (folder / "a.png").write_text("edited")
    with refused(folder / "a.png", "overwritten"):
        write(a="4")
    assert (folder / "a.png").read_text() == "edited"
    (folder / ".lock").unlink()
    with refused("overwritten"):
        write(b="4")
    assert (folder / "notes.txt").read_text() == "mine"


def test_the_lock_is_held_until_the_sums_are_written(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = figures_that_try_to_lock(monkeypatch)
    fw.run(asked(place), tmp_path / "run", workers=1)
    assert "score" in tried
    with locked(tmp_path / "run"):
        pass
    assert {".lock"} == {name for name in tree(tmp_path / "run") if name.startswith(".")}


def test_damaged_sums_are_written_anew(place: Path) -> None:
    for damage in (b"\xff", b"no sums", f"{'0' * 64}  ../devices.csv\n".encode()):
        (place / "run" / "SHA256SUMS").write_bytes(damage)
        fw.run(asked(place), place / "run", workers=1)
        assert sound(verify(place / "run"))
    (place / "run" / "SHA256SUMS").write_text(f"{'0' * 64}  /etc/passwd\n")
    wrong = [one.text for one in verify(place / "run") if one.state == "wrong"]
    assert any(mentions(text, "/etc/passwd") for text in wrong)
