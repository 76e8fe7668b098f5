"""A run folder: damage is found and named, nothing else is lost, and only one process works on it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from killing import command, leftovers, results
from refusals import mentions, refused

import fedwave as fw
from fedwave.experiments.config.read import experiment_from, to_yaml
from fedwave.experiments.report.outputs import write_results
from fedwave.experiments.run.runner import Event, run_experiment, stored_results

EXPERIMENT = experiment_from(
    {
        "network": {"kind": "random", "devices": 5, "slots": 2},
        "schedulers": ["alsa-pi", "random"],
        "rounds": 10,
        "instances": 4,
        "block": 2,
    }
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with its figures; not to be changed."""
    made = tmp_path_factory.mktemp("finished") / "run"
    write_results(run_experiment(EXPERIMENT, made), made)
    return made


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "flipped": _flip,
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["rounds/0000_random_0-1.parquet", "devices/0000_alsa-pi_2-3.parquet"])
def test_a_damaged_result_is_named_and_only_it_is_done_again(damage: str, name: str, folder: Path) -> None:
    before = results(folder)
    DAMAGES[damage](folder / name)
    with pytest.raises(fw.FedwaveError, match=name):
        fw.load(folder)
    events: list[Event] = []
    write_results(run_experiment(EXPERIMENT, folder, watch=events.append), folder)
    assert [e["unit"] for e in events if e["event"] == "unit-begun"] == [Path(name).stem]
    assert [name in e["message"] for e in events if e["event"] == "damaged"] == [True]
    assert results(folder) == before


def test_a_damaged_record_is_named(folder: Path) -> None:
    (folder / "units/0000_random_0-1.json").write_text("{")
    with refused("0000_random_0-1.json", "damaged"):
        fw.load(folder)
    before = results(folder)
    run_experiment(EXPERIMENT, folder)
    assert results(folder) == before


def test_no_flipped_bit_of_a_result_goes_unnoticed(folder: Path) -> None:
    path = folder / "rounds/0000_random_0-1.parquet"
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with refused("checksum"):
            stored_results(folder)


def test_checksums_as_sha256sum_checks_them(folder: Path) -> None:
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=folder).returncode == 0
    assert len((folder / "SHA256SUMS").read_text().splitlines()) > 15
    _flip(folder / "results.nc")
    assert subprocess.run(check, cwd=folder, capture_output=True).returncode == 1


def test_what_is_no_run_folder(tmp_path: Path) -> None:
    with refused("config.yaml"):
        fw.load(tmp_path)
    with refused("run folder"):
        fw.load(tmp_path / "nowhere")


def test_another_experiment_is_refused_and_nothing_lost(folder: Path) -> None:
    before = results(folder)
    other = experiment_from({**_mapping(), "seed": 3})
    with refused("seed", 0, 3, "--out"):
        run_experiment(other, folder)
    assert results(folder) == before


def _mapping() -> dict[str, object]:
    from fedwave.experiments.config.read import to_mapping

    return to_mapping(EXPERIMENT)


HOLD = """
import sys, time
from pathlib import Path
from fedwave.experiments.store.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_process_is_told_and_a_dead_one_does_not_matter(folder: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        before = results(folder)
        with refused(folder, holder.pid):
            run_experiment(EXPERIMENT, folder)
        told = subprocess.run(command("resume", str(folder)), capture_output=True, text=True)
        assert told.returncode == 2
        assert mentions(told.stderr, folder, holder.pid)
        assert told.stderr.count("\n") == 1
        assert results(folder) == before
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert (folder / "lock.json").exists()  # nobody was left to remove it
    run_experiment(EXPERIMENT, folder)
    assert leftovers(folder) == []


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("limit", [600, 4000, 12_000])
def test_a_full_disk(limit: int, folder: Path, tmp_path: Path) -> None:
    """Files larger than the limit cannot be written, as on a disk that has run full."""
    full = tmp_path / "full"
    full.mkdir()
    (tmp_path / "experiment.yaml").write_text(to_yaml(EXPERIMENT))
    words = command("compare", str(tmp_path / "experiment.yaml"), "--out", str(full))

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    told = subprocess.run(words, capture_output=True, text=True, preexec_fn=limited)
    assert told.returncode == 1, told.stderr
    assert mentions(told.stderr, "File too large")
    assert told.stderr.startswith("fedwave: ")
    assert told.stderr.count("\n") == 1
    assert leftovers(full) == []
    # With room again it goes on, and nothing that was finished is done again.
    kept = {path.name: path.stat().st_mtime_ns for path in full.glob("units/*")}
    write_results(run_experiment(EXPERIMENT, full), full)
    assert kept.items() <= {p.name: p.stat().st_mtime_ns for p in full.glob("units/*")}.items()
    assert results(full) == results(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to(folder: Path) -> None:
    before = results(folder)
    (folder / "rounds").chmod(0o500)
    folder.chmod(0o500)
    try:
        with refused("written"):
            run_experiment(EXPERIMENT, folder)
        assert results(folder) == before
    finally:
        folder.chmod(0o700)
        (folder / "rounds").chmod(0o700)


def test_a_folder_on_a_read_only_file_system() -> None:
    """/proc is one on every Linux, for root too."""
    with refused("written"):
        run_experiment(EXPERIMENT, Path("/proc/fedwave"))


@pytest.mark.usefixtures("no_figures")
def test_time_is_not_part_of_the_results(folder: Path, tmp_path: Path) -> None:
    time.sleep(1.1)
    write_results(run_experiment(EXPERIMENT, tmp_path / "again"), tmp_path / "again")
    assert results(tmp_path / "again") == results(folder)
