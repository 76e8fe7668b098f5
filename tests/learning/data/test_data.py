"""The files of a dataset: where they are kept, what is read from them; the real ones where they are at hand."""

from __future__ import annotations

import gzip
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from published import Contents, put, tiny

from fedwave.errors import FedwaveError
from fedwave.learning.data.dataset import NoData, data_folder, load_dataset
from fedwave.learning.data.originals import MD5, md5_of, missing

REAL = Path(os.environ.get("FEDWAVE_DATA") or os.devnull)  # as it was before any test changed it
NEEDED = {name: missing(name, REAL) for name in MD5}


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> Contents:
    return tiny(monkeypatch)


def test_published_files_become_normalised_arrays(contents: Contents, tmp_path: Path) -> None:
    put(contents, tmp_path)
    mnist = load_dataset("mnist", tmp_path, fetch=False)
    pixels = gzip.decompress(contents["mnist"]["train-images-idx3-ubyte.gz"])[16:]
    expected = (np.frombuffer(pixels, np.uint8).reshape(2, 1, 28, 28) / 255 - 0.1307) / 0.3081
    np.testing.assert_allclose(mnist.train_images, expected, atol=1e-6)
    assert mnist.train_labels.tolist() == mnist.test_labels.tolist() == [3, 9]

    cifar10 = load_dataset("cifar10", tmp_path, fetch=False)
    assert cifar10.train_images.shape == (10, 3, 32, 32)
    assert cifar10.test_images.shape == (2, 3, 32, 32)
    assert cifar10.train_labels.tolist() == [3, 9] * 5
    sample = np.frombuffer(contents["cifar10"]["data_batch_2.bin"], np.uint8)[:3073]
    blue = sample[1 + 2048 :].reshape(32, 32)
    np.testing.assert_allclose(cifar10.train_images[2, 2], (blue / 255 - 0.4465) / 0.2616, atol=1e-6)


def test_a_folder_that_cannot_be_written_to_is_read(contents: Contents, tmp_path: Path) -> None:
    folder = put(contents, tmp_path / "data")
    for place in (folder / "mnist", folder):
        place.chmod(0o555)
    try:
        assert load_dataset("mnist", folder).classes == 10
    finally:
        for place in (folder, folder / "mnist"):
            place.chmod(0o755)


def test_a_damaged_file_is_named_with_both_sums(
    contents: Contents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDWAVE_DATA", str(put(contents, tmp_path)))
    damaged = tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-5])
    sentence = (
        f"{damaged} is damaged: its md5 sum is {md5_of(whole[:-5])}, must be {md5_of(whole)}; "
        "delete it and run `fedwave data mnist`."
    )
    with pytest.raises(FedwaveError, match=re.escape(sentence)):
        load_dataset("mnist")
    damaged.unlink()
    damaged.mkdir()
    with pytest.raises(FedwaveError, match=r"t10k-images-idx3-ubyte.gz cannot be read: "):
        load_dataset("mnist")


def test_missing_files_are_not_fetched_against_the_callers_will(tmp_path: Path) -> None:
    with pytest.raises(NoData, match=r"lacks data_batch_1.bin, .*run `fedwave data cifar10 --out"):
        load_dataset("cifar10", tmp_path, fetch=False)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_dataset() -> None:
    with pytest.raises(FedwaveError, match=r"no dataset 'minst'; did you mean 'mnist'\?"):
        load_dataset("minst")


def test_where_files_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FEDWAVE_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    places = {"linux": ".cache/fedwave", "darwin": "Library/Caches/fedwave", "win32": "AppData/Local/fedwave/cache"}
    for platform, place in places.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert data_folder() == tmp_path / place
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_folder() == tmp_path / "local/fedwave/cache"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert data_folder() == tmp_path / ".cache/fedwave"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert data_folder() == tmp_path / "caches/fedwave"
    monkeypatch.setenv("FEDWAVE_DATA", str(tmp_path / "mine"))
    assert data_folder() == tmp_path / "mine"


@pytest.mark.skipif(bool(NEEDED["mnist"]), reason="FEDWAVE_DATA names no folder with mnist/*.gz")
def test_the_real_mnist() -> None:
    data = load_dataset("mnist", REAL, fetch=False)
    assert data.train_images.shape == (60000, 1, 28, 28)
    assert data.test_images.shape == (10000, 1, 28, 28)
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.train_labels).tolist() == counts
    assert abs(data.train_images.mean(dtype=float)) < 1e-3
    assert abs(data.train_images.std(dtype=float) - 1) < 1e-3


@pytest.mark.skipif(bool(NEEDED["cifar10"]), reason="FEDWAVE_DATA has no folder with cifar10/*.bin")
def test_the_real_cifar10() -> None:
    data = load_dataset("cifar10", REAL, fetch=False)
    assert data.train_images.shape == (50000, 3, 32, 32)
    assert np.bincount(data.train_labels).tolist() == [5000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10
    for channel in range(3):
        assert abs(data.train_images[:, channel].mean(dtype=float)) < 1e-3
        assert abs(data.train_images[:, channel].std(dtype=float) - 1) < 1e-3
