"""Files of others: pipes, folders, sizes, encodings, JSON, CSV tables and recorded arrays."""

from __future__ import annotations

import ast
import io
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odd_files import device, enormous, pipe
from time_limit import time_limit

import fedwave as fw
from fedwave.errors import FedwaveError
from fedwave.experiments.config.read import requested_experiment
from fedwave.files import tables
from fedwave.files.arrays import read_array
from fedwave.files.reading import read_bytes, read_json, read_json_file, read_text


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


READERS: dict[str, Callable[[str], object]] = {
    "experiment.yaml": requested_experiment,
    "experiment.json": requested_experiment,
    "devices.csv": fw.read_devices,
    "devices.yaml": fw.read_devices,
    "curve.csv": fw.success.Table.from_file,
    "gains.npy": fw.fading.RecordedGains.from_file,
    "gains.csv": fw.fading.RecordedGains.from_file,
    "arrivals.npy": fw.arrivals.RecordedArrivals.from_file,
}
THINGS = {
    pipe: "not a regular file",
    device: "not a regular file",
    Path.mkdir: "Is a directory",
    enormous: "1,000,000,000,000 bytes",
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("thing", THINGS)
def test_what_is_no_file(thing: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    thing(tmp_path / name)
    sentence = refusal(lambda: READERS[name](str(tmp_path / name)))
    assert str(tmp_path / name) in sentence
    assert THINGS[thing] in sentence


def test_a_file_that_grows_while_it_is_read(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "growing"
    path.write_bytes(b"x" * 100)
    true = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((*true(fd)[:6], 7, *true(fd)[7:])))
    assert "it grew" in refusal(lambda: read_bytes(path, "it", 50))


def test_memory_is_taken_for_what_is_there(tmp_path: Path) -> None:
    """Not for what the limit would allow."""
    (tmp_path / "small").write_bytes(b"x" * 100)
    assert read_bytes(tmp_path / "small", "it", 2**55) == b"x" * 100


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
        ('{"a":' * 100_000, "too deeply"),
        ("1" * 100_000, "too many digits"),
        ("[1" + "0" * 30 + "]", "too many digits"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"' + "a" * 9999 + '": 1, "' + "a" * 9999 + '": 2}', "aaa' is given twice"),
        ('{"a": ["\\ud800"]}', "must be text"),
        ('{"\\udfff": 1}', "must be text"),
        ("\0", "line 1"),
        ("[1,\n2", "line 2"),
    ],
    ids=lambda text: text[:20],
)
def test_json_that_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    assert sentence in refusal(lambda: read_json(text, "it"))
    (tmp_path / "it.json").write_text(text)
    assert sentence in refusal(lambda: read_json_file(tmp_path / "it.json", "it"))


def test_json_that_is_read() -> None:
    assert read_json('{"a": [1, -2.5e3, "ä", null, true, {}], "b": 18446744073709551615}', "it") == {
        "a": [1, -2500.0, "ä", None, True, {}],
        "b": 2**64 - 1,
    }


# --- tables ---------------------------------------------------------------------------------------

HEADING = "rate,distance_m\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rate;distance_m\n1;100\n", "semicolons"),
        (HEADING + '1,"100\n', "unexpected end of data"),
        (HEADING + '1,"100\n' * 100_000, "not a valid CSV file"),
        (HEADING + "1_000,100\n", "line 1: rate is '1_000'"),
        (HEADING + "\uff11,100\n", "line 1: rate is '\uff11'"),
        (HEADING + "0x10,100\n", "line 1: rate is '0x10'"),
        (HEADING + "1\0,100\n", "line 1: rate is '1\\x00'"),
        (HEADING + "9" * 100_000 + ",1\n", "rate of device 1 is inf"),
        (HEADING + "x" * 100_000 + ",1\n", "xxx', must be a number."),
        ("x" * 100_000 + ",rate\n1,2\n", "xxx'; choose from"),
        (HEADING.replace("\n", ",count\n") + "1,1,10000000\n" * 200, "2,000,000,000 devices, must"),
        (HEADING.replace("\n", ",count\n") + "1,1,1e9\n", "count is 1,000,000,000"),
        (",".join(f"c{i}" for i in range(100_000)) + "\n" + "," * 99_999, "rate is missing"),
        (",".join(f"c{i}" for i in range(100_000)) + "\n1" + "," * 99_999, "unknown column 'c0'"),
        (",".join(["rate"] * 100_000) + "\n", "two columns 'rate'"),
    ],
    ids=lambda text: text[:20],
)
def test_device_tables_that_are_refused(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "devices.csv").write_text(text, encoding="utf-8")
    said = refusal(lambda: fw.read_devices(tmp_path / "devices.csv"))
    assert sentence in said


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


def zipped() -> bytes:
    out = io.BytesIO()
    np.savez(out, ONES)
    return out.getvalue()


def with_header(text: str, content: bytes = b"", length: int | None = None) -> bytes:
    head = text.encode()
    size = len(head) if length is None else length
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + head + content


def shaped(shape: str, kind: str = "'<f8'", content: bytes = b"") -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n"
    return with_header(text, content)


DAMAGED = "or is damaged"
HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", DAMAGED),
    "text": (b"1,2,3\n", DAMAGED),
    "npz": (zipped(), DAMAGED),
    "magic only": (b"\x93NUMPY", DAMAGED),
    "version 9": (b"\x93NUMPY\x09\x00" + bytes(100), DAMAGED),
    "header of 4 GB": (with_header("{}", length=2**32 - 1), DAMAGED),
    "header of spaces": (with_header(" " * 60_000), DAMAGED),
    "deep header": (with_header("(" * 9000), DAMAGED),
    "deep unary": (with_header("-" * 9000 + "1"), DAMAGED),
    "code": (with_header("__import__('os').system('touch /tmp/x')"), DAMAGED),
    "code as type": (shaped("(2,)", "__import__('os')"), DAMAGED),
    "no dictionary": (with_header("[1, 2]"), DAMAGED),
    "other keys": (with_header("{'a': 1}"), DAMAGED),
    "negative": (shaped("(-1, 3)", content=bytes(24)), DAMAGED),
    "two negatives": (shaped("(-2, -3)", content=bytes(48)), DAMAGED),
    "true": (shaped("(True, 3)", content=bytes(24)), DAMAGED),
    "halves": (shaped("(0.5, 3)"), DAMAGED),
    "1e18 numbers": (shaped("(1000000000, 1000000000)"), DAMAGED),
    "overflow": (shaped("(4294967296, 4294967296)", "'|u1'"), DAMAGED),
    "thousands of digits": (shaped("(0x" + "f" * 9000 + ",)"), DAMAGED),
    "digits": (shaped("(1" + "0" * 4000 + ",)"), DAMAGED),
    "many axes": (shaped("(1, 1, 1, 1)", content=bytes(8)), "has 4 axes"),
    "64 axes": (shaped("(" + "1," * 64 + ")", content=bytes(8)), "axes"),
    "beyond the file": (shaped("(100, 3)", content=bytes(24)), DAMAGED),
    "truncated": (npy(ONES)[:-1], DAMAGED),
    "objects": (npy(np.array([[{}, 1]], dtype=object)), DAMAGED),
    "complex": (npy(ONES * 1j), "'complex128', must hold numbers"),
    "dates": (npy(ONES.astype("M8[s]")), "'datetime64[s]', must hold numbers"),
    "durations": (npy(ONES.astype("m8[s]")), "'timedelta64[s]', must hold numbers"),
    "texts": (npy(ONES.astype(str)), "must hold numbers"),
    "bytes": (npy(ONES.astype("S3")), "must hold numbers"),
    "records": (npy(np.zeros((2, 2), [("a", "f8"), ("b", "O")])), DAMAGED),
    "nothing of type": (npy(np.zeros((2, 2), "V8")), "must hold numbers"),
    "arrays of arrays": (shaped("(2,)", "('<f8', (1000000, 1000000))"), DAMAGED),
    "no numbers": (npy(np.ones((0, 3))), "shape (0, 3)"),
    "nan": (npy(ONES * np.nan), "[0, 0] is nan"),
    "infinity": (npy(ONES * np.inf), "[0, 0] is inf"),
    "one axis": (npy(np.ones(3)), "have 1 axes"),
    "no axis": (npy(np.float64(1)), "have 0 axes"),
}


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.filterwarnings("ignore:Reading .npy")
@pytest.mark.filterwarnings("ignore:Custom")
def test_hostile_records(attack: str, tmp_path: Path) -> None:
    content, sentence = HOSTILE[attack]
    path = tmp_path / "gains.npy"
    path.write_bytes(content)
    assert sentence in refusal(lambda: fw.fading.RecordedGains.from_file(str(path)))


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


NUMBERS = {
    "": "no data",
    "1;2\n3;4\n": "semicolons",
    "1,2\n3\n": "the number of columns changed from 2 to 1",
    "1_000,2\n": "could not convert string '1_000'",
    "\uff11,2\n": "could not convert string",
    "1\0,2\n": "could not convert string",
    "a,b\n1,2\n": "could not convert string 'a'",
    "x" * 100_000: "could not convert string 'xxx",
    "nan,1\n": "[0, 0] is nan",
    "1e999,1\n": "[0, 0] is inf",
    "\udcff,1\n": "not text",
}


@pytest.mark.parametrize("text", NUMBERS, ids=lambda text: ascii(text[:12]))
def test_csv_records_that_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "gains.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert NUMBERS[text] in refusal(lambda: fw.fading.RecordedGains.from_file(str(path)))


def test_csv_records_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "gains.csv"
    path.write_bytes(b"\xef\xbb\xbf1, 2.5\r\n3,4e-1\r\n")
    assert read_array(path, "it").tolist() == [[1, 2.5], [3, 0.4]]
    path.write_text(",".join(["1"] * 100_000) + "\n")
    assert read_array(path, "it").shape == (1, 100_000)


@pytest.mark.parametrize("kind", [complex, "M8[s]", str])
def test_arrays_that_numpy_would_convert_without_a_word(kind: Any) -> None:
    for record in (fw.fading.RecordedGains, fw.arrivals.RecordedArrivals):
        sentence = refusal(lambda record=record: record(ONES.astype("i8").astype(kind)))
        assert "not a number" in sentence


# --- everywhere -----------------------------------------------------------------------------------

SOURCE = Path(fw.__file__).parent
UNBOUNDED = {
    "read_text",
    "read_bytes",
    "loads",
    "loadtxt",
    "genfromtxt",
    "fromfile",
    "DictReader",
    "reader",
    "literal_eval",
}
ALLOWED = {("experiments/config/read.py", "read_text")}  # presets, which come with fedwave


def test_input_files_are_read_by_the_careful_readers_only() -> None:
    """Rooms that read what users name. Functions of the readers are called by their own names, not as attributes."""
    found = set()
    for room in ("network", "experiments/config", "cli"):
        for path in [SOURCE / room] if room.endswith(".py") else (SOURCE / room).rglob("*.py"):
            place = path.relative_to(SOURCE).as_posix()
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    found |= {(place, node.func.attr)} if node.func.attr in UNBOUNDED else set()
    assert found <= ALLOWED
