"""A bit of a run folder flips: verify notices it in any file; load, report and resume in every file that they read."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from killing import half_finished

import fedwave as fw
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run import work
from fedwave.experiments.run.runner import Event, run_experiment
from fedwave.experiments.store.folder import RunFolder
from fedwave.experiments.store.load import results_of
from fedwave.experiments.store.verify import sound, verify

READ = ("config.yaml", "run.json", "done.jsonl", "rounds/", "devices/")  # by load and report
RESUMED = (*READ, "inputs/", "checkpoints/")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, and one with a finished unit and a checkpoint of the other."""
    place = tmp_path_factory.mktemp("flips")
    (place / "devices.csv").write_text("count,rate,distance_m\n4,2,300\n")
    experiment = experiment_from(
        {
            "network": {"kind": "table", "file": str(place / "devices.csv"), "slots": 2},
            "schedulers": ["alsa-pi", "random"],
            "rounds": 6,
            "instances": 2,
            "checkpoint_seconds": 0,
        }
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(work, "_PIECE", 1)
        write_results(run_experiment(experiment, place / "finished"), place / "finished")
        half_finished(experiment, place / "half")
    # Only then is the copy in the folder needed: without it the run cannot go on.
    (place / "devices.csv").unlink()
    assert len(list(place.glob("half/checkpoints/*.npz"))) == 1
    assert not any(one.state == "wrong" for one in verify(place / "half"))
    assert sound(verify(place / "finished"))
    return place


def flips(folder: Path, per_file: int) -> Iterator[tuple[str, bytes]]:
    """Names of files, and their contents with one bit flipped, the same ones every time."""
    luck = random.Random(11)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        # The last byte is special in many formats. The lock has no content.
        places = [len(content) - 1, *(luck.randrange(len(content)) for _ in content[1:per_file])]
        for place in places if content else []:
            damaged = bytearray(content)
            damaged[place] ^= 1 << luck.randrange(8)
            yield path.relative_to(folder).as_posix(), bytes(damaged)


def resume(folder: Path) -> list[Event]:
    """What `fedwave resume` does, but for its tables and figures."""
    store, events = RunFolder(folder), list[Event]()
    store.check_begun()
    if not store.is_finished():
        run_experiment(store.experiment(), folder, workers=1, watch=events.append)
    results_of(RunFolder(folder))
    return events


def tables(folder: Path) -> dict[str, bytes]:
    found = [*folder.glob("rounds/*"), *folder.glob("devices/*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def load(folder: Path) -> list[Event]:
    fw.load(folder)
    return []


def refused(do: Callable[[Path], Any], folder: Path) -> Any:
    """What ``do`` returns; None if it refuses the folder."""
    try:
        return do(folder)
    except fw.FedwaveError as error:
        if str(folder) not in str(error):
            pytest.fail(f"the folder is not named: {error}")
        return None


def check_flips(place: Path, which: str, per_file: int, tmp_path: Path) -> None:
    whole, wanted = fw.load(place / "finished"), tables(place / "finished")
    names = []
    for name, damaged in flips(place / which, per_file):
        names.append(name)
        folder = tmp_path / f"{len(names)}"
        shutil.copytree(place / which, folder)
        (folder / name).write_bytes(damaged)
        told = [one.text for one in verify(folder) if one.state in ("wrong", "open")]
        # A damaged list of sums names the files that it has other sums of.
        assert told if name == "SHA256SUMS" else name == "done.jsonl" or Path(name).name in " ".join(told), name
        assert not sound(verify(folder))
        if which == "finished" and refused(load, folder) is not None:
            assert not name.startswith(READ), name
            assert fw.load(folder).identical(whole)
        if name.startswith(RESUMED) and (events := refused(resume, folder)) is not None:
            if name.startswith(("rounds/", "devices/", "checkpoints/")) and which == "half":
                assert any(Path(name).name in str(event.get("message", "")) for event in events), name
            assert tables(folder) == wanted, name
        shutil.rmtree(folder)
    assert len(names) > 30
    assert {name.partition("/")[0] + "/" * ("/" in name) for name in names} >= {*READ, "inputs/"}


@pytest.mark.parametrize(("which", "per_file"), [("finished", 3), ("half", 6)])
def test_no_flipped_bit_goes_unnoticed(which: str, per_file: int, place: Path, tmp_path: Path) -> None:
    check_flips(place, which, per_file, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("which", "per_file"), [("finished", 60), ("half", 130)])
def test_no_flipped_bit_goes_unnoticed_among_thousands(which: str, per_file: int, place: Path, tmp_path: Path) -> None:
    check_flips(place, which, per_file, tmp_path)
