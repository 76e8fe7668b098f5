"""`fedwave bench`, run as a shell would: no network and no peers, and whoever fails is named."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import mentions

from fedwave.bench import measure, run
from fedwave.bench.environments import NoEnvironment, Peer
from fedwave.bench.measure import Plan
from fedwave.bench.player import PlayerFailed
from fedwave.bench.work import Setting


def quiet(text: str) -> None:
    """Nobody looks at progress here."""


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A whole benchmark. Flower's environment cannot be made, and pfl-research's lacks the library."""

    def python(peer: Peer, folder: Path, make: bool, message: Callable[[str], None]) -> Path:
        if peer.name == "flower":
            raise NoEnvironment("its environment cannot be made: there is no network")
        return Path(sys.executable)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "python_of", python)
        patch.setattr(run, "available_device", lambda wanted: "cpu")
        folder = tmp_path_factory.mktemp("environments")
        yield run.benchmark(Setting("synthetic"), Plan(1, 1, True, True, folder), [1], "auto", quiet)


def by_name(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {way["name"]: way for way in content["sections"][0]["ways"]}


def test_all_play_the_same_rounds(content: dict[str, Any]) -> None:
    found = by_name(content)
    assert list(found) == ["plain", "pfl", "flower", "fedwave-all", "fedwave"]
    plain, everything, skipping = (found[name] for name in ("plain", "fedwave-all", "fedwave"))
    assert plain["samples"] == everything["samples"]
    assert 0 < skipping["samples"][0] < plain["samples"][0]
    assert plain["difference_after_one_round"] == 0
    for way in (everything, skipping):
        assert way["difference_after_one_round"] < 3e-2
        assert len(way["seconds"]) == 1
        assert way["times_plain"]["median"] == pytest.approx(plain["seconds"][0] / way["seconds"][0])
        pace = way["samples"][0] / way["seconds"][0]
        assert way["samples_per_second"]["median"] == pytest.approx(pace)
    if sys.platform == "linux":
        assert plain["memory_bytes"] > 2**20


def test_who_fails_is_named_and_the_others_go_on(content: dict[str, Any]) -> None:
    found = by_name(content)
    assert not found["pfl"]["available"]
    assert found["pfl"]["why"].endswith("No module named 'pfl'")
    assert found["flower"]["why"] == "its environment cannot be made: there is no network"


def test_the_work_and_the_machine_are_described(content: dict[str, Any]) -> None:
    work = content["work"]
    assert (work["clients"], work["scheduled_per_round"]) == (25, 5)
    assert (work["batch"], work["epochs"], work["shard_size"]) == (10, 10, 10)
    assert content["machine"].keys() >= {"processor", "cores", "memory_bytes", "gpu"}
    assert content["versions"]["torch"]
    for way in content["sections"][0]["ways"]:
        assert "float32" in way["given"]


@pytest.fixture
def measured(content: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "benchmark", lambda *asked: content)


@pytest.mark.usefixtures("measured")
def test_the_table_names_all_ways(fedwave: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = fedwave("bench", "--quick")
    assert status == 0
    for label in ("plain PyTorch", "fedwave, skipping off", "fedwave, skipping on"):
        assert label in out
    assert "unavailable" in out
    assert mentions(err, "Flower", "no network")


@pytest.mark.usefixtures("measured")
def test_json_and_files(fedwave: Callable[..., tuple[int, str, str]], tmp_path: Path, content: dict[str, Any]) -> None:
    for ending in ("png", "svg", "pdf"):
        written, figure = tmp_path / "bench.json", tmp_path / f"bench.{ending}"
        status, out, _ = fedwave("bench", "--json", "--out", written, "--figure", figure)
        assert status == 0
        assert json.loads(out) == json.loads(written.read_text()) == content
        assert figure.stat().st_size > 1000
    drawn = (tmp_path / "bench.svg").read_text()
    again = tmp_path / "again.svg"
    fedwave("bench", "--figure", again)
    assert again.read_text() == drawn


@pytest.mark.parametrize(
    "words, tokens",
    [
        (["--rounds", 0], ("--rounds", 0)),
        (["--repeats", -1], ("--repeats", -1)),
        (["--threads", 0], ("--threads", 0)),
        (["--threads", 10**6], ("--threads", 1000000)),
        (["--device", "tpu"], ("device", "tpu")),
        (["--dataset", "cifar10"], ("--dataset", "cifar10")),
        (["--out", "table.csv"], ("--out", "table.csv")),
        (["--figure", "a.bmp"], ("--figure", "a.bmp")),
        (["--environments", ""], ("''",)),
    ],
)
@pytest.mark.usefixtures("measured")
def test_refusals(refuses: Callable[..., str], words: list[Any], tokens: tuple[object, ...]) -> None:
    refuses(("bench", *words), *tokens)


HOSTILE = [
    (option, value)
    for option in ("--rounds", "--repeats", "--threads", "--device", "--dataset", "--out", "--figure")
    for value in (
        "",
        "-1",
        "nan",
        "1e400",
        "9" * 400,
        "1e9",
        "10**9",
        "1000000000",
        "[/]",
        "\x1b[31m",
        "a\nb",
        "../..",
        "x" * 5000,
    )
]


@pytest.mark.parametrize(("option", "value"), HOSTILE)
def test_hostile_values_end_in_a_sentence(
    fedwave: Callable[..., tuple[int, str, str]],
    option: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def failing(*asked: Any) -> dict[str, Any]:
        raise PlayerFailed("it was not asked to")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "measure", failing)
    status, out, err = fedwave("bench", "--quick", "--no-peers", "--dataset", "synthetic", option, value)
    assert (status, out) == (2, "")
    assert len(err) < 1500
    assert not set("\x1b\r") & set(err)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_base_ends_the_command(
    fedwave: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*asked: Any) -> dict[str, Any]:
        raise PlayerFailed("it fell over")

    monkeypatch.setattr(run, "measure", failing)
    status, _, err = fedwave("bench", "--quick", "--no-peers", "--dataset", "synthetic")
    assert status == 2
    assert mentions(err, "PyTorch", "it fell over")
