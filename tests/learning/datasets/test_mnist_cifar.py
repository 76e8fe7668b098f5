"""MNIST and CIFAR-10 from files: their folder, their pixels, files that are refused."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
from odd_files import device, enormous, pipe
from published import Contents, put, tiny

from fedwave.errors import FedwaveError
from fedwave.files import cache
from fedwave.learning.datasets.mnist_cifar import load_dataset
from fedwave.learning.datasets.original_files import NoData, data_folder, md5_hex

FILE = "t10k-labels-idx1-ubyte.gz"


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> Contents:
    return tiny(monkeypatch)


def test_published_files_become_normalised_arrays(contents: Contents, tmp_path: Path) -> None:
    put(contents, tmp_path)
    mnist = load_dataset("mnist", tmp_path, fetch=False)
    pixels = gzip.decompress(contents["mnist"]["train-images-idx3-ubyte.gz"])[16:]
    expected = (np.frombuffer(pixels, np.uint8).reshape(2, 1, 28, 28) / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(mnist.train_inputs, expected, atol=1e-6)
    assert mnist.train_targets.tolist() == mnist.test_targets.tolist() == [3, 9]

    cifar10 = load_dataset("cifar10", tmp_path, fetch=False)
    assert cifar10.train_inputs.shape == (10, 3, 32, 32)
    assert cifar10.test_inputs.shape == (2, 3, 32, 32)
    assert cifar10.train_targets.tolist() == [3, 9] * 5
    sample = np.frombuffer(contents["cifar10"]["data_batch_2.bin"], np.uint8)[:3073]
    blue = sample[1 + 2048 :].reshape(32, 32)
    np.testing.assert_allclose(cifar10.train_inputs[2, 2], (blue / 255 - 0.4465) / 0.2616, atol=1e-6)


def test_a_folder_that_cannot_be_written_to_is_read(contents: Contents, tmp_path: Path) -> None:
    folder = put(contents, tmp_path / "data")
    for place in (folder / "mnist", folder):
        place.chmod(0o555)
    try:
        assert load_dataset("mnist", folder).classes == 10
    finally:
        for place in (folder, folder / "mnist"):
            place.chmod(0o755)


def test_a_corrupt_file_is_named_with_both_checksums(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDWAVE_DATA", str(put(contents, tmp_path)))
    corrupt = tmp_path / "mnist" / FILE
    published = corrupt.read_bytes()
    corrupt.write_bytes(published[:-5])
    with pytest.raises(FedwaveError) as caught:
        load_dataset("mnist")
    for part in (str(corrupt), md5_hex(published[:-5]), md5_hex(published), "run `fedwave data mnist`."):
        assert part in str(caught.value)
    assert corrupt.read_bytes() == published[:-5]  # it is the user's: never replaced


@pytest.mark.parametrize(
    ("thing", "reason"),
    [(pipe, "regular file"), (device, "regular file"), (Path.mkdir, "directory"), (enormous, "1,000,000,000,000")],
    ids=["pipe", "device", "folder", "too large"],
)
def test_what_is_not_the_file_is_named(thing, reason: str, contents: Contents, tmp_path: Path) -> None:
    put(contents, tmp_path)
    (tmp_path / "mnist" / FILE).unlink()
    thing(tmp_path / "mnist" / FILE)
    with pytest.raises(FedwaveError) as caught:
        load_dataset("mnist", tmp_path)
    for part in (FILE, reason, "delete it and run `fedwave data mnist --out"):
        assert part in str(caught.value)


def test_what_is_not_there_is_not_fetched_against_the_callers_will(tmp_path: Path) -> None:
    with pytest.raises(NoData, match=r"data_batch_1.bin, .*run `fedwave data cifar10 --out"):
        load_dataset("cifar10", tmp_path, fetch=False)
    assert list(tmp_path.iterdir()) == []


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FEDWAVE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    if sys.platform == "linux":
        assert data_folder() == tmp_path / "caches" / "fedwave"
    monkeypatch.setenv("FEDWAVE_DATA", str(tmp_path / "mine"))
    assert data_folder() == tmp_path / "mine"
    monkeypatch.setenv("FEDWAVE_DATA", "~no-such-user/data")
    with pytest.raises(FedwaveError, match="FEDWAVE_DATA is '~no-such-user/data'"):
        data_folder()


def test_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDWAVE_DATA", raising=False)
    monkeypatch.setattr(cache, "user_cache_path", lambda *_, **__: Path("~/.cache/fedwave"))
    with pytest.raises(FedwaveError, match=r"no home folder .* FEDWAVE_DATA"):
        data_folder()
