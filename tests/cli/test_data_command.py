"""`fedwave data`, run as a shell would."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from published import Contents, held, put, tiny

from fedwave.cli import main
from fedwave.learning.datasets import sources
from fedwave.learning.datasets.original_files import MD5


class Shell:
    """A cache folder of its own, sources that have everything, and the command."""

    def __init__(self, monkeypatch, capsys, folder: Path) -> None:
        self.contents: Contents = tiny(monkeypatch)
        self.cache = folder / "cache"
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("FEDWAVE_DATA", str(self.cache))
        for name in MD5:
            monkeypatch.setitem(sources.SOURCES, name, {"a friend": self._all_of(name)})

    def _all_of(self, name: str) -> sources.Source:
        def source(wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
            yield from ((file, self.contents[name][file]) for file in wanted)

        return source

    def __call__(self, *words: object) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["fedwave", "data", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = self._capsys.readouterr()
        return int(stopped.value.code or 0), printed.out, printed.err


@pytest.fixture
def shell(monkeypatch, capsys, tmp_path: Path) -> Shell:
    return Shell(monkeypatch, capsys, tmp_path)


def test_both_are_fetched_and_checked(shell: Shell) -> None:
    status, out, err = shell()
    assert (status, err) == (0, "")  # no spinner where there is no terminal
    assert f"mnist in {shell.cache / 'mnist'}: the md5 checksums are the published ones" in out
    assert f"cifar10 in {shell.cache / 'cifar10'}: " in out
    for file, content in (shell.contents["mnist"] | shell.contents["cifar10"]).items():
        line = next(line for line in out.splitlines() if line.strip().startswith(file))
        assert f"{len(content):,} bytes" in line
        assert line.endswith("fetched")
    assert "was there" in shell("mnist")[1]


def test_one_into_a_chosen_folder(shell: Shell, tmp_path: Path) -> None:
    status, out, _ = shell("mnist", "--out", tmp_path / "mine")
    assert status == 0
    assert held(tmp_path / "mine") == shell.contents["mnist"]
    assert f"set FEDWAVE_DATA={tmp_path / 'mine'}" in out
    assert not shell.cache.exists()


def test_json_is_only_json(shell: Shell) -> None:
    status, out, err = shell("cifar10", "--json")
    content = json.loads(out)
    assert (status, err, content["folder"]) == (0, "", str(shell.cache))
    batch = content["datasets"]["cifar10"]["files"]["test_batch.bin"]
    assert batch == {"bytes": 6146, "md5": MD5["cifar10"]["test_batch.bin"], "fetched": True}


def refusal(answer: tuple[int, str, str]) -> str:
    status, out, err = answer
    assert (status, out) == (2, "")
    assert err.startswith("fedwave: ")
    assert err.count("\n") == 1
    return err


def test_an_unknown_dataset(shell: Shell) -> None:
    assert "no dataset 'cifar' to get; did you mean 'cifar10'?" in refusal(shell("cifar"))


def test_no_network(shell: Shell, monkeypatch) -> None:
    monkeypatch.setitem(sources.SOURCES, "mnist", {})
    assert "where there is a network, or put train-images" in refusal(shell("mnist"))


def test_a_damaged_file_is_left_to_its_owner(shell: Shell) -> None:
    damaged = put(shell.contents, shell.cache) / "cifar10" / "test_batch.bin"
    damaged.write_bytes(b"mine")
    assert "delete it and run `fedwave data cifar10`" in refusal(shell("cifar10", "--json"))
    assert damaged.read_bytes() == b"mine"


def test_a_folder_that_cannot_be_written_to(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "cannot be written to" in refusal(shell("mnist", "--out", tmp_path / "file"))
