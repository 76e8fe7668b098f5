"""Forged traces: archives whose arrays and header no simulation has written. Every method of a trace is called.

Their checksum is valid, so what they say may be believed. But nothing may end in a traceback, hang or run code.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from fedwave.files.archive import CHECKSUM, HEADER, _add

from . import nasty
from .attack import Attack, Verdict, worst
from .judge import ACCEPT, EITHER, REFUSE, judge_call

_BASES = ("full", "summary", "plain")
Arrays = dict[str, np.ndarray]


def make(number: int, luck: random.Random, base: Path) -> Attack:
    name = luck.choice(_BASES)
    source, path = base / "traces" / f"{name}.npz", Path("trace.npz")
    while True:
        with np.load(source) as file:
            arrays: Arrays = {key: file[key] for key in file.files if key != CHECKSUM}
        about = json.loads(str(arrays.pop(HEADER)))
        kind, forge = luck.choice(_FORGERIES)
        try:
            what, expect = forge(path, arrays, about, luck)
            break
        except (ValueError, TypeError, OverflowError, RecursionError):
            continue  # NumPy or JSON cannot write it either
    return Attack(f"{name} trace, {kind}: {what}"[:200], lambda: _use(path, expect, source))


def _use(path: Path, expect: str, base: Path) -> Verdict:
    """Load it and call all that a trace can do."""
    import fedwave as fw

    kept: list[Any] = []
    loaded = judge_call(lambda: kept.append(fw.Trace.load(path)), expect)
    if not kept or loaded.outcome not in ("right", "silent"):
        return loaded
    trace, original = kept[0], fw.Trace.load(base)
    calls: dict[str, Callable[[], Any]] = {
        "repr": lambda: repr(trace) + trace._repr_html_(),
        "properties": lambda: [
            trace.rounds,
            trace.instances,
            trace.instance_numbers,
            trace.record,
            trace.label,
            trace.device_names,
            trace.metrics,
            trace.totals,
            trace.score.mean(),
            trace.backlog.sum(),
        ],
        "arrays": lambda: [trace.gain, trace.accepted, trace.delay, trace.learned, trace.heard],
        "to_xarray": lambda: trace.to_xarray().mean(),
        "same_as": lambda: trace.same_as(original),
        "network": lambda: repr(trace.network) + repr(trace.scheduler),
        "extend": lambda: repr(fw.extend(trace, 7)),
        "remake": lambda: repr(fw.remake(trace)),
        "save": lambda: _again(trace),
    }
    verdicts = []
    for name, call in calls.items():
        found = judge_call(call, proof=lambda value: value if isinstance(value, str) and value[:1] == "!" else "")
        verdicts.append(Verdict(found.outcome, f"{name}: {found.detail}"))
    # What must be refused may be refused by the call that needs it, if no call gives a wrong answer instead.
    bad = worst(*verdicts)
    if bad.outcome in ("refused", "right") and expect == REFUSE:
        return Verdict("silent", "loaded") if bad.outcome == "right" else bad
    return bad


def _again(trace: Any) -> str:
    """Saved and loaded it must be the same."""
    import fedwave as fw

    path = trace.save("out/again.npz")
    return "" if fw.Trace.load(path).same_as(trace) else "! saved and loaded it is another"


def _write(path: Path, arrays: Arrays, about: Any) -> None:
    text = about if isinstance(about, str) else json.dumps(about)
    members = {HEADER: np.array(text), **arrays}
    total = hashlib.sha256()
    with suppress(TypeError, ValueError):  # objects have no bytes
        for name, member in members.items():
            _add(total, name, np.asanyarray(member))
        members[CHECKSUM] = np.array(total.hexdigest())
    np.savez(path, **members)


def _of_text(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """Something in the header."""
    done = [nasty.spoil(about, luck) for _ in range(luck.choice((1, 1, 2)))]
    _write(path, arrays, about)
    return ", ".join(done), EITHER


def _of_network(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """Something in the network, the scheduler or the metrics."""
    where = luck.choice(("network", "scheduler", "metrics", "measured"))
    if not about[where]:
        where = "network"
    done = nasty.spoil(about[where], luck)
    _write(path, arrays, about)
    return f"{where}: {done}", EITHER


def _of_shape(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """An array with other axes than the rest."""
    name = luck.choice([key for key in arrays if arrays[key].ndim])
    array, axis = arrays[name], luck.randrange(arrays[name].ndim)
    how = luck.choice(("shorter", "longer", "empty", "flat", "deeper", "scalar", "turned", "wider"))
    made = {
        "shorter": lambda: np.take(array, range(max(0, array.shape[axis] - 1)), axis),
        "longer": lambda: np.repeat(array, 2, axis),
        "empty": lambda: np.take(array, [], axis),
        "flat": lambda: array.ravel(),
        "deeper": lambda: array[None],
        "scalar": lambda: array.ravel()[:1].reshape(()),
        "turned": lambda: array.T,
        "wider": lambda: np.broadcast_to(array[..., None], (*array.shape, 3)),
    }[how]()
    arrays[name] = made
    _write(path, arrays, about)
    same = made.shape == array.shape
    return f"{name} is {how}", EITHER if same or name.startswith(("constants/", "state/", "memories/")) else REFUSE


def _of_type(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """An array of another type: dates, texts, records, complex numbers."""
    name = luck.choice(list(arrays))
    kind = luck.choice(
        (
            "U5",
            "S3",
            "datetime64[s]",
            "timedelta64[s]",
            "complex128",
            "float16",
            "bool",
            "int8",
            "uint64",
            "V8",
            "record",
            ">f8",
            "longdouble",
        )
    )
    array = arrays[name]
    if kind == "record":
        made = np.zeros(array.shape, dtype=[("a", "f8"), ("b", "U3")])
    elif kind == "V8":
        made = np.zeros(array.shape, dtype="V8")
    else:
        with np.errstate(all="ignore"):
            source = array if array.dtype.kind not in "US" else np.zeros(array.shape)
            made = source.astype("int64").astype(kind) if kind[0] in "dt" else source.astype(kind)
    arrays[name] = made
    _write(path, arrays, about)
    strange = kind in ("U5", "S3", "V8", "record") or kind.startswith(("datetime", "timedelta"))
    # A column of devices may be text: it is read as numbers.
    return f"{name} as {kind}", REFUSE if strange and not name.startswith("constants/") else EITHER


def _of_value(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """A number out of range: NaN, a negative count, one that overflows. It may be believed."""
    name = luck.choice([key for key in arrays if arrays[key].size])
    array = arrays[name] = arrays[name].copy()
    kind = array.dtype.kind
    if kind == "f":
        value: Any = luck.choice((np.nan, np.inf, -np.inf, -1e308, 1e308))
    elif kind in "iu":
        value = luck.choice((-1, -(2**62), 2**62, 2**31))
    elif kind == "b":
        value = not array.flat[0]
    else:
        value = luck.choice(nasty.TEXTS)
    with np.errstate(all="ignore"):
        array.flat[luck.randrange(array.size)] = value
    _write(path, arrays, about)
    return f"{name} holds {value}", EITHER


def _of_names(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """An array is missing, has another name, or is there too much."""
    name = luck.choice(list(arrays))
    how = luck.choice(("missing", "renamed", "more", "two swapped"))
    if how == "missing":
        del arrays[name]
    elif how == "renamed":
        arrays[name.replace("/", luck.choice(("//", "/../", ".", "")))] = arrays.pop(name)
    elif how == "more":
        arrays[luck.choice(("series/x", "final/x", "devices/x", "new/x", "x", "beliefs/x", "state/x"))] = np.zeros(
            luck.choice(((), (5, 2), (3,)))
        )
    else:
        other = luck.choice(list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    _write(path, arrays, about)
    return f"{name} {how}", EITHER


def _of_archive(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """Damage to the archive itself."""
    _write(path, arrays, about)
    content = bytearray(path.read_bytes())
    how = luck.choice(("cut", "bit", "bits", "tail", "members", "empty", "text", "zeros"))
    if how == "cut":
        content = content[: luck.randrange(len(content))]
    elif how in ("bit", "bits"):
        for _ in range(1 if how == "bit" else 30):
            content[luck.randrange(len(content))] ^= 1 << luck.randrange(8)
    elif how == "tail":
        content += luck.randbytes(500)
    elif how == "empty":
        content = bytearray()
    elif how == "text":
        content = bytearray(b"hello\n" * 50)
    elif how == "zeros":
        at = luck.randrange(len(content))
        content[at : at + 200] = bytes(min(200, len(content) - at))
    path.write_bytes(content)
    if how == "members":
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(luck.choice(("../evil.npy", "series/score.npy", f"{HEADER}.npy", "a.txt")), b"x" * 100)
    return how, REFUSE if how in ("empty", "text") else EITHER


def _of_header(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """A member whose header lies about the size, the type or the version."""
    name = luck.choice(list(arrays))
    shape = luck.choice(("(1000000000000,)", "(-1,)", "(2, 10000000000)", "(True,)", "'x'", "(1e3,)", "()", "(" * 300))
    kind = luck.choice(("'<f8'", "'|O'", "'<U1000000000'", "'<i8'", "[('a', '<f8')]", "'<M8[ns]'", "None", "'|V0'"))
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}"
    version = luck.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    size = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    _write(path, arrays, about)
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            content = old.read(member)
            if member == f"{name}.npy":
                content = b"\x93NUMPY" + version + size + header.encode() + bytes(luck.choice((0, 8, 100_000)))
            new.writestr(member, content)
    path.write_bytes(out.getvalue())
    return (f"{name} says {kind} {shape[:20]} in version {version[0]}", REFUSE if shape != "()" else EITHER)


def _of_nothing(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """An honest trace, which must be accepted."""
    _write(path, arrays, about)
    return "as it was", ACCEPT


def _of_bomb(path: Path, arrays: Arrays, about: Any, luck: random.Random) -> tuple[str, str]:
    """A few kilobytes that unpack to gigabytes: an array, or the text."""
    _write(path, arrays, about)
    name = luck.choice(("extra/bomb", "series/score", "constants/bomb", HEADER))
    size = luck.choice((200_000_000, 500_000_000))
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({size},), }}"
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for member in old.namelist():
            if member != f"{name}.npy":
                new.writestr(member, old.read(member))
        with new.open(f"{name}.npy", "w", force_zip64=True) as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            for _ in range(50):  # 50 MB of the gigabytes that it claims: to make it must not take long
                file.write(bytes(1_000_000))
    path.write_bytes(out.getvalue())
    return f"{name} of {size:,} numbers", REFUSE


_FORGERIES: list[tuple[str, Callable[[Path, Arrays, Any, random.Random], tuple[str, str]]]] = [
    ("text", _of_text),
    ("text", _of_text),
    ("text", _of_text),
    ("network", _of_network),
    ("network", _of_network),
    ("network", _of_network),
    ("shape", _of_shape),
    ("shape", _of_shape),
    ("type", _of_type),
    ("type", _of_type),
    ("value", _of_value),
    ("value", _of_value),
    ("names", _of_names),
    ("archive", _of_archive),
    ("header", _of_header),
]
_FORGERIES = [*_FORGERIES * 3, ("bomb", _of_bomb), ("nothing", _of_nothing)]
