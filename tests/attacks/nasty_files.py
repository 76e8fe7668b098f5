"""Files that no reader likes, for every kind of file that the command line takes."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

Put = Callable[[Path], None]  # makes the file at a path


def _text(content: str) -> Put:
    return lambda path: path.write_bytes(content.encode("utf-8", "surrogateescape")) and None  # type: ignore[func-returns-value]


def _raw(content: bytes) -> Put:
    return lambda path: path.write_bytes(content) and None  # type: ignore[func-returns-value]


def _sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(100 * 2**30)


def _npy(array: np.ndarray) -> Put:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=array.dtype.hasobject)
    return _raw(out.getvalue())


def _header(kind: str, shape: str, data: int = 100) -> Put:
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}"
    return _raw(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(data))


# Wrong whatever the file is for.
ANY: dict[str, Put] = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a FIFO": lambda path: os.mkfifo(path),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "sparse, 100 GiB": _sparse,
    "empty": _raw(b""),
    "noise": _raw(random.Random(0).randbytes(3000)),
    "zeros": _raw(bytes(3000)),
    "UTF-16": _raw("rounds: 5\n".encode("utf-16")),
    "Latin-1": _raw("name: gr\xfc\xdfe\nrate,x".encode("latin-1")),
    "control characters": _text("\x1b[31m\x07: \u202e\n"),
    "only a byte order mark": _raw(b"\xef\xbb\xbf"),
}
_BOMB = "a: &a {x: 1, y: 2}\n" + "".join(
    f"{b}: &{b} {{<<: [{', '.join(f'*{a}' for _ in range(9))}]}}\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
_ALIASES = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [{', '.join(f'*{a}' for _ in range(9))}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML: dict[str, Put] = {
    "deep lists": _text("a: " + "[" * 20_000),
    "deep lists, closed": _text("a: " + "[" * 3_000 + "]" * 3_000),
    "deep mappings": _text("{a: " * 5_000),
    "deep blocks": _text("".join(f"{' ' * k}a:\n" for k in range(1200))),
    "merge-key bomb": _text(_BOMB),
    "alias bomb": _text(_ALIASES),
    "an alias of itself": _text("a: &a [*a]\n"),
    "!!int of nothing": _text('rounds: !!int ""\n'),
    "!!float of a word": _text("rounds: !!float x\n"),
    "!!timestamp": _text("name: !!timestamp x\n"),
    "!!binary": _text("name: !!binary '*'\n"),
    "!!set": _text("name: !!set {a, b}\n"),
    "!!omap": _text("name: !!omap [a: 1]\n"),
    "a Python object": _text("name: !!python/object/apply:os.system ['touch ../canary/pwned']\n"),
    "two documents": _text("rounds: 5\n---\nrounds: 6\n"),
    "the same key twice": _text("rounds: 5\nrounds: 6\n"),
    "a list as a key": _text("? [a, b]\n: 1\n"),
    "a number of a million digits": _text("rounds: " + "9" * 1_000_000),
    "a long sexagesimal": _text("rounds: " + ":".join(["59"] * 2000)),
    "tabs": _text("network:\n\tslots: 1\n"),
    "an open quote": _text("name: 'x\n"),
    "a directive": _text("%YAML 9.9\n---\nrounds: 5\n"),
    "a list": _text("- 1\n- 2\n"),
    "a scalar": _text("hello"),
    "null": _text("null\n"),
    "an unknown anchor": _text("a: *nowhere\n"),
    "a long line": _text("name: " + "x" * 3_000_000),
    "a hundred thousand keys": _text("".join(f"k{n}: 1\n" for n in range(20_000))),
}
JSON: dict[str, Put] = {
    "deep lists": _text("[" * 100_000),
    "deep, closed": _text('{"name": ' + "[" * 3000 + "]" * 3000 + "}"),
    "NaN": _text('{"rounds": NaN}'),
    "Infinity": _text('{"rounds": Infinity}'),
    "a huge number": _text('{"rounds": 1' + "0" * 5000 + "}"),
    "1e400": _text('{"rounds": 1e400}'),
    "a lone surrogate": _text('{"name": "\\ud800"}'),
    "the same key twice": _text('{"rounds": 5, "rounds": 6}'),
    "more behind": _text('{"rounds": 5} x'),
    "a list": _text("[1]"),
    "a key of control characters": _text('{"\\u001b[31m\\u0007": 1}'),
}
CSV: dict[str, Put] = {
    "100,000 columns": _text(",".join(f"c{k}" for k in range(100_000)) + "\n" + ",".join(["1"] * 100_000)),
    "the same column 50,000 times": _text(",".join(["rate"] * 50_000) + "\n1"),
    "counts of billions": _text("rate,distance_m,count\n" + "1,100,9999999\n" * 300),
    "a huge count": _text("rate,distance_m,count\n1,100,1e300\n"),
    "an open quote": _text('rate,distance_m\n"1,100\n' * 5),
    "NUL": _raw(b"rate,distance_m\n1,\x00100\n"),
    "only a heading": _text("rate,distance_m\n"),
    "ragged": _text("rate,distance_m\n1\n1,2,3\n"),
    "markup in a heading": _text("[/],rate,distance_m\n1,1,1\n"),
    "control in a heading": _text("a\x1b[31m,rate,distance_m\n1,1,1\n"),
    "not a number": _text("rate,distance_m\nabc,1\n"),
    "nan": _text("rate,distance_m\nnan,nan\n"),
    "a field of 200 kB": _text("name,rate,distance_m\n" + "x" * 200_000 + ",1,100\n"),
    "formulas": _text("name,rate,distance_m\n=cmd|'/c calc'!A1,x,100\n"),
}
NPY: dict[str, Put] = {
    "objects": _npy(np.array([{"a": 1}], dtype=object)),
    "complex": _npy(np.ones((9, 3), dtype=complex)),
    "dates": _npy(np.zeros((9, 3), dtype="datetime64[s]")),
    "spans": _npy(np.zeros((9, 3), dtype="timedelta64[s]")),
    "records": _npy(np.zeros((9, 3), dtype=[("a", "f8"), ("b", "U3")])),
    "texts": _npy(np.full((9, 3), "x")),
    "bytes": _npy(np.full((9, 3), b"1")),
    "voids": _npy(np.zeros((9, 3), dtype="V4")),
    "one axis": _npy(np.ones(9)),
    "no axis": _npy(np.array(1.0)),
    "five axes": _npy(np.ones((2, 2, 2, 2, 2))),
    "no rows": _npy(np.ones((0, 3))),
    "NaN": _npy(np.full((9, 3), np.nan)),
    "negative": _npy(np.full((9, 3), -1.0)),
    "infinite": _npy(np.full((9, 3), np.inf)),
    "too few rounds": _npy(np.ones((2, 3))),
    "too many devices": _npy(np.ones((9, 4))),
    "a terabyte": _header("'<f8'", "(1000000, 200000)"),
    "2**62 numbers": _header("'<f8'", f"({2**62},)"),
    "a negative shape": _header("'<f8'", "(-3, 3)"),
    "a shape of letters": _header("'<f8'", "'abc'"),
    "a text of a gigabyte": _header("'<U1000000000'", "(1,)"),
    "an object header": _header("'|O'", "(3,)"),
    "an unknown type": _header("'<q99'", "(3,)"),
    "a header of brackets": _header("(" * 5000, "()"),
    "a header that calls": _header("__import__('os').system('touch ../canary/pwned')", "(1,)"),
    "a long header": _header("'<f8'" + " " * 60_000, "(1,)"),
}
PYTHON: dict[str, Put] = {
    "a syntax error": _text("def (:\n"),
    "raises": _text("raise RuntimeError('no\\n[bold]no')\n"),
    "exits": _text("raise SystemExit(3)\n"),
    "a recursion": _text("def f(): f()\nf()\n"),
    "an import of nothing": _text("import nothing_like_this_exists\n"),
    "NUL": _raw(b"x = 1\x00\n"),
    "deep brackets": _text("x = " + "(" * 2000 + ")" * 2000),
    "an unknown coding": _text("# coding: nonsense\nx = 1\n"),
    "registers nonsense": _text("import fedwave as fw\nfw.register(3)\n"),
    "a name of markup": _text(
        "import fedwave as fw\n@fw.register\nclass A(fw.Scheduler):\n    name, needs = '[/]', {'backlog'}\n"
        "    def priority(self, state, seen, draws):\n        return seen.waiting\n"
    ),
}
