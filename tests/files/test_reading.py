"""Files of others: pipes, folders, sizes, encodings, JSON, CSV tables and recorded arrays."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_files import enormous
from refusals import mentions
from time_limit import time_limit

import fedwave as fw
from fedwave.errors import FedwaveError
from fedwave.files import tables
from fedwave.files.reading import read_json, read_text
from fedwave.files.tables import read_array


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    with time_limit(20):  # a table of 100,000 columns once took minutes
        yield


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(FedwaveError) as caught:
        read()
    sentence = str(caught.value)
    assert len(sentence.splitlines()) == 1
    assert len(sentence) < 1600
    return sentence


# --- any file -------------------------------------------------------------------------------------


def test_sizes_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "devices.csv"
    enormous(path)
    assert mentions(refusal(lambda: fw.read_devices(path)), path, "1,000,000,000,000 bytes")
    path.unlink()
    path.mkdir()
    assert mentions(refusal(lambda: fw.read_devices(path)), path)


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffä".encode())
    assert read_text(path, "it") == "ä"
    for encoding in ("utf-16", "utf-16-le", "latin-1"):
        path.write_bytes("\ufeffä"[encoding == "latin-1" :].encode(encoding))
        assert "it cannot be read: it is " in refusal(lambda: read_text(path, "it"))


# --- JSON -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "too deeply"),
        ("1" * 100_000, "too many digits"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"\\udfff": 1}', "must be text"),
        ("[1,\n2", "line 2"),
    ],
    ids=lambda text: text[:20],
)
def test_json_that_is_refused(text: str, sentence: str) -> None:
    assert sentence in refusal(lambda: read_json(text, "it"))


def test_json_that_is_read() -> None:
    assert read_json('{"a": [1, -2.5e3, "ä", null, true, {}], "b": 18446744073709551615}', "it") == {
        "a": [1, -2500.0, "ä", None, True, {}],
        "b": 2**64 - 1,
    }


# --- tables ---------------------------------------------------------------------------------------

HEADING = "rate,distance_m\n"


def test_too_many_lines(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "_MOST_LINES", 10)
    (tmp_path / "devices.csv").write_text(HEADING + "1,100\n" * 10)
    assert len(fw.read_devices(tmp_path / "devices.csv")) == 10
    (tmp_path / "devices.csv").write_text(HEADING + "1,100\n" * 11)
    assert "12 lines" in refusal(lambda: fw.read_devices(tmp_path / "devices.csv"))


# --- records --------------------------------------------------------------------------------------


ONES = np.ones((4, 3))


def npy(array: np.ndarray, **options: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        ONES,
        np.asfortranarray(ONES * 2),
        ONES.astype(">f8"),
        ONES.astype("<f2"),
        ONES.astype(">i4"),
        ONES.astype(bool),
        np.arange(24.0).reshape(2, 3, 4),
        np.asfortranarray(np.arange(24, dtype="u1").reshape(2, 3, 4)),
    ],
    ids=lambda array: f"{array.dtype.str}{array.ndim}",
)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_records_are_read_as_numpy_reads_them(array, version, tmp_path: Path) -> None:
    path = tmp_path / "gains.npy"
    path.write_bytes(npy(array, version=version))
    np.testing.assert_array_equal(read_array(path, "it"), np.load(path))
    np.testing.assert_array_equal(fw.fading.RecordedGains.from_file(str(path)).gains, array)


NUMBERS = {"1;2\n3;4\n": "semicolons", "1,2\n3\n": "columns", "1e999,1\n": "[0, 0] is inf", "\udcff,1\n": "not text"}


@pytest.mark.parametrize("text", NUMBERS, ids=lambda text: ascii(text[:12]))
def test_csv_records_that_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "gains.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert NUMBERS[text] in refusal(lambda: fw.fading.RecordedGains.from_file(str(path)))


@pytest.mark.parametrize("kind", [complex, "M8[s]", str])
def test_arrays_that_numpy_would_convert_without_a_word(kind: Any) -> None:
    for record in (fw.fading.RecordedGains, fw.arrivals.RecordedArrivals):
        sentence = refusal(lambda record=record: record(ONES.astype("i8").astype(kind)))
        assert "not a number" in sentence
