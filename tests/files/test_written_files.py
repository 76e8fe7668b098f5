"""Files are written whole, under names that nobody can foresee, and never through a link of somebody else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import fedwave as fw
from fedwave.files.writing import is_unfinished, write_text, write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def written_beside(path: Path) -> str:
    """The name of the unfinished file while ``path`` is written."""
    found: list[str] = []
    before = set(os.listdir(path.parent))
    write_whole(path, lambda file: found.extend(set(os.listdir(path.parent)) - before))
    (name,) = found
    return name


@pytest.mark.parametrize("name", ["table.md", "a" * 251 + ".csv", "🙂" * 62 + ".csv"], ids=len)
def test_the_unfinished_file_cannot_be_foreseen(tmp_path: Path, name: str) -> None:
    first, second = (written_beside(tmp_path / name) for _ in range(2))
    assert first != second
    assert is_unfinished(first)
    assert is_unfinished(second)
    assert names(tmp_path) == [name]
    assert not is_unfinished(".table.md.part")
    assert not is_unfinished(".x.part")


def test_a_planted_link_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one who guesses the name cannot have another file overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    planted = tmp_path / ".0000000000000000.part"
    planted.symlink_to(victim)
    with pytest.raises(fw.FedwaveError, match=r"table\.md cannot be written: File exists"):
        write_text(tmp_path / "table.md", "new")
    assert victim.read_text() == "precious"
    assert planted.is_symlink()  # not ours to remove


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    target, link = tmp_path / "target.npz", tmp_path / "link.npz"
    target.write_text("precious")
    link.symlink_to(target)
    fw.simulate(fw.paper_network(), "age", rounds=3, instances=1).save(link)
    assert target.read_text() == "precious"
    assert not link.is_symlink()
    assert fw.Trace.load(link).rounds == 3
    dangling = tmp_path / "dangling.csv"
    dangling.symlink_to(tmp_path / "nowhere")
    write_text(dangling, "new")
    assert names(tmp_path) == ["dangling.csv", "link.npz", "target.npz"]


def test_devices_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("pipe", "folder", "null"):
        with pytest.raises(fw.FedwaveError, match="cannot be written: it is not a regular file"):
            write_text(tmp_path / name, "new")
    assert names(tmp_path) == ["folder", "null", "pipe"]


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_the_umask_decides_who_may_read(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        mode = write_text(tmp_path / "table.md", "new").stat().st_mode
    finally:
        os.umask(before)
    assert stat.S_IMODE(mode) == 0o666 & ~mask


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken(file: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(fw.FedwaveError, match="cannot be written: No space left on device"):
        write_whole(tmp_path / "table.md", broken)
    assert names(tmp_path) == []
