"""Environments of the peers are made once, from pins in the package; a half is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refused

from fedwave.bench import environments
from fedwave.bench.environments import PLAYERS, NoEnvironment, Peer, python_of
from fedwave.bench.ways import Way, ways


def quiet(text: str) -> None:
    """Nobody looks at progress here."""


def test_an_environment_is_kept_or_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer("other", "nothing-of-this-name==1.0", "pfl.txt")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with refused("--peers", error=NoEnvironment):
        python_of(peer, tmp_path, make=False, message=quiet)
    with refused("torch==", error=NoEnvironment):
        python_of(peer, tmp_path, make=True, message=quiet)
    with pytest.raises(NoEnvironment, match="no environment here"):  # a half is none
        python_of(peer, tmp_path, make=False, message=quiet)
    monkeypatch.setattr(environments, "_make", lambda peer, folder, *more: _finish(folder))
    made = python_of(peer, tmp_path, make=True, message=quiet)
    assert python_of(peer, tmp_path, make=False, message=quiet) == made
    other = Peer("other", peer.requirement, "flower.txt")  # other pins
    assert other.folder(tmp_path) != peer.folder(tmp_path)


def _finish(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "finished.txt").touch()


def test_a_place_without_room_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused(tmp_path / "file", error=NoEnvironment):
        python_of(Peer("other", "x", "pfl.txt"), tmp_path / "file", make=True, message=quiet)


@pytest.mark.parametrize("way", ways("cpu", peers=True), ids=lambda way: way.name)
def test_what_a_way_needs_is_in_the_package(way: Way) -> None:
    assert (PLAYERS / way.script).is_file()
    if way.peer is not None:
        pins = way.peer.pins.read_text().splitlines()[1:]
        assert all(line.count("==") == 1 for line in pins)
        assert way.peer.torch() in pins
        assert way.peer.requirement.replace("[simulation]", "") in pins
