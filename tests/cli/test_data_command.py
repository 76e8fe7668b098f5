"""`fedwave data`, run as a shell would."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from published import Contents, held, put, tiny

from fedwave.learning.datasets import sources
from fedwave.learning.datasets.original_files import MD5


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def contents(cache: Path, monkeypatch) -> Contents:
    """What the only source has: everything, in a few bytes; the cache is a new folder."""
    contents: Contents = tiny(monkeypatch)
    monkeypatch.setenv("FEDWAVE_DATA", str(cache))

    def source_of(name: str) -> sources.Source:
        def source(wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
            yield from ((file, contents[name][file]) for file in wanted)

        return source

    for name in MD5:
        monkeypatch.setitem(sources.SOURCES, name, {"a friend": source_of(name)})
    return contents


def test_both_are_fetched_and_checked(fedwave, cache: Path, contents: Contents) -> None:
    status, out, err = fedwave("data")
    assert (status, err) == (0, "")  # no spinner where there is no terminal
    assert f"mnist in {cache / 'mnist'}: the md5 checksums are the published ones" in out
    assert f"cifar10 in {cache / 'cifar10'}: " in out
    for file, content in (contents["mnist"] | contents["cifar10"]).items():
        line = next(line for line in out.splitlines() if line.strip().startswith(file))
        assert f"{len(content):,} bytes" in line
        assert line.endswith("fetched")
    assert "was there" in fedwave("data", "mnist")[1]


def test_one_into_a_chosen_folder(fedwave, cache: Path, contents: Contents, tmp_path: Path) -> None:
    status, out, _ = fedwave("data", "mnist", "--out", tmp_path / "mine")
    assert status == 0
    assert held(tmp_path / "mine") == contents["mnist"]
    assert f"set FEDWAVE_DATA={tmp_path / 'mine'}" in out
    assert not cache.exists()


def test_json_is_only_json(fedwave, cache: Path) -> None:
    status, out, err = fedwave("data", "cifar10", "--json")
    content = json.loads(out)
    assert (status, err, content["folder"]) == (0, "", str(cache))
    batch = content["datasets"]["cifar10"]["files"]["test_batch.bin"]
    assert batch == {"bytes": 6146, "md5": MD5["cifar10"]["test_batch.bin"], "fetched": True}


def test_refusals(refuses, monkeypatch, tmp_path: Path) -> None:
    refuses(("data", "cifar"), "'cifar'", "'cifar10'")
    (tmp_path / "file").write_text("mine")
    refuses(("data", "mnist", "--out", tmp_path / "file"), "file", "written")
    monkeypatch.setitem(sources.SOURCES, "mnist", {})
    refuses(("data", "mnist"), "network", "train-images")


def test_a_damaged_file_is_left_to_its_owner(refuses, cache: Path, contents: Contents) -> None:
    damaged = put(contents, cache) / "cifar10" / "test_batch.bin"
    damaged.write_bytes(b"mine")
    refuses(("data", "cifar10", "--json"), damaged, "`fedwave data cifar10`")
    assert damaged.read_bytes() == b"mine"
