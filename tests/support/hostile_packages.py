"""Packages and servers that mean harm, each with a name: archives for pip and npm, answers to HTTP requests."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import socket
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler

import numpy as np
from local_server import Answer, send
from PIL import Image
from published import archive

Files = Mapping[str, bytes]
HTML = b"<!DOCTYPE html><html><body>Please sign in.</body></html>"
ZEROS = bytes(20_000_000)  # far more than any of the tiny files


# --- wheels ---------------------------------------------------------------------------------------


def wheel(files: Files, folder: str = "some/place/", compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as package:
        for name, content in files.items():
            package.writestr(folder + name, content)
    return out.getvalue()


def _patched(package: bytes, in_local: int, in_central: int, value: bytes) -> bytes:
    """Every header of a zip archive with other bytes at a place."""
    changed = bytearray(package)
    for mark, offset in ((b"PK\x03\x04", in_local), (b"PK\x01\x02", in_central)):
        at = changed.find(mark)
        while at >= 0:
            changed[at + offset : at + offset + len(value)] = value
            at = changed.find(mark, at + 4)
    return bytes(changed)


def _flipped(content: bytes, step: int = 7) -> bytes:
    changed = bytearray(content)
    for at in range(len(changed) // 4, len(changed) * 3 // 4, step):
        changed[at] ^= 0x55
    return bytes(changed)


def _decoyed(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        for name, content in files.items():
            package.writestr(f"true/{name}", content)
            package.writestr(f"false/{name}", content[::-1])
    return out.getvalue()


WHEELS: dict[str, Callable[[Files], bytes]] = {
    "encrypted": lambda f: _patched(wheel(f), 6, 8, b"\x01\x00"),
    "unknown compression": lambda f: _patched(wheel(f), 8, 10, struct.pack("<H", 99)),
    "lzma": lambda f: wheel(f, compression=zipfile.ZIP_LZMA),
    "broken lzma": lambda f: _patched(wheel(f), 8, 10, struct.pack("<H", zipfile.ZIP_LZMA)),
    "bzip2": lambda f: wheel(f, compression=zipfile.ZIP_BZIP2),
    "broken deflate": lambda f: _patched(wheel(f, compression=0), 8, 10, struct.pack("<H", 8)),
    "too small a size": lambda f: _patched(wheel(f), 22, 24, struct.pack("<I", 3)),
    "bomb of 4 GB": lambda f: _patched(wheel(dict.fromkeys(f, ZEROS)), 22, 24, struct.pack("<I", 2**32 - 2)),
    "wrong crc": lambda f: _patched(wheel(f), 14, 16, b"abcd"),
    "bomb": lambda f: wheel(dict.fromkeys(f, ZEROS)),
    "truncated": lambda f: wheel(f)[:-30],
    "bytes flipped": lambda f: _flipped(wheel(f)),
    "offsets beyond the end": lambda f: _patched(wheel(f), 26, 42, struct.pack("<I", 2**31)),
    "no files": lambda f: wheel({}),
    "other case": lambda f: wheel({name.upper(): content for name, content in f.items()}),
    "decoys of the same name": _decoyed,
    "folders instead of files": lambda f: wheel({f"{name}/": b"" for name in f}),
    "a web page": lambda f: HTML,
    "nothing": lambda f: b"",
}


# --- npm packages ---------------------------------------------------------------------------------


def png(pixels: np.ndarray, **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", **options)
    return out.getvalue()


def pictures(batches: Files) -> dict[str, bytes]:
    """The files of the npm package, from the tiny batches."""
    files = {}
    for name, content in batches.items():
        planes = np.frombuffer(content, np.uint8).reshape(-1, 3073)[:, 1:].reshape(-1, 3, 1024)
        files[name.replace(".bin", ".png")] = png(np.ascontiguousarray(planes.transpose(0, 2, 1)))
    files["train_lables.json"] = json.dumps([3, 9] * 5).encode()
    files["test_lables.json"] = json.dumps([3, 9]).encode()
    return files


def _special(files: Files, kind: bytes, target: str) -> bytes:
    """Links, pipes or devices instead of files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as package:
        for name in files:
            member = tarfile.TarInfo(f"package/{name}")
            member.type, member.linkname = kind, target
            package.addfile(member)
    return out.getvalue()


def _with(files: Files, **changes: bytes) -> bytes:
    """The package with some files changed; lables and png stand for all of that kind."""
    changed = {name: changes.get(name.rpartition(".")[2], content) for name, content in files.items()}
    return archive(changed, "package")


def _sized(files: Files, size: bytes) -> bytes:
    """Headers that state another size, with sums that are right."""
    changed = bytearray(gzip.decompress(archive(files, "package")))
    changed[124:136] = size
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:512])
    return gzip.compress(bytes(changed))


def _ihdr(picture: bytes, width: int, height: int) -> bytes:
    changed = bytearray(picture)
    changed[16:24] = struct.pack(">II", width, height)
    changed[29:33] = struct.pack(">I", zlib.crc32(changed[12:29]))
    return bytes(changed)


def _many(files: Files) -> bytes:
    return archive({f"{i}": b"" for i in range(1_001)} | dict(files), "package")


GREY = png(np.zeros((2, 1024), np.uint8))
TINY_GIF = b"GIF89a" + struct.pack("<HH", 1024, 2) + bytes(40)
NPM: dict[str, Callable[[Files], bytes]] = {
    "links": lambda f: _special(f, tarfile.SYMTYPE, "/etc/passwd"),
    "hard links": lambda f: _special(f, tarfile.LNKTYPE, "../../../etc/passwd"),
    "pipes": lambda f: _special(f, tarfile.FIFOTYPE, ""),
    "devices": lambda f: _special(f, tarfile.CHRTYPE, ""),
    "gzip bomb": lambda f: gzip.compress(ZEROS * 3, 1) + archive(f, "package"),
    "bomb in a file": lambda f: _with(f, png=ZEROS * 3),
    "xz": lambda f: lzma.compress(gzip.decompress(archive(f, "package"))),
    "broken gzip": lambda f: _flipped(archive(f, "package")),
    "truncated gzip": lambda f: archive(f, "package")[:900],
    "a web page as tgz": lambda f: HTML,
    "negative size": lambda f: _sized(f, b"\xff" * 12),
    "size beyond the end": lambda f: _sized(f, b"77777777777\0"),
    "many members": _many,
    "huge picture": lambda f: _with(f, png=_ihdr(f["test_batch.png"], 10**9, 10**9)),
    "large picture": lambda f: _with(f, png=_ihdr(f["test_batch.png"], 1024, 40_000_000)),
    "picture of another shape": lambda f: _with(f, png=png(np.zeros((1024, 2, 3), np.uint8))),
    "grey picture": lambda f: _with(f, png=GREY),
    "gif": lambda f: _with(f, png=TINY_GIF),
    "truncated picture": lambda f: _with(f, png=f["test_batch.png"][:200]),
    "broken picture": lambda f: _with(f, png=_flipped(f["test_batch.png"])),
    "labels of text": lambda f: _with(f, json=b'["cat", "dog"]'),
    "labels too large": lambda f: _with(f, json=b"[3, 300]"),
    "labels negative": lambda f: _with(f, json=b"[3, -1]"),
    "labels half": lambda f: _with(f, json=b"[3, 0.5]"),
    "labels true": lambda f: _with(f, json=b"[true, false]"),
    "labels nested": lambda f: _with(f, json=b"[" * 100_000),
    "labels of many digits": lambda f: _with(f, json=b"[" + b"9" * 10_000 + b"]"),
    "too many labels": lambda f: _with(f, json=b"[" + b"1," * 300_000 + b"1]"),
    "a mapping of labels": lambda f: _with(f, json=b'{"3": 9}'),
    "labels that are no text": lambda f: _with(f, json=b"\xff\xfe\x00"),
}


# --- servers --------------------------------------------------------------------------------------


def _endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 16))


def _endless_redirect(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", "file:///etc/passwd")
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 16))


def _trickle(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.1)


def _slow_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.1)


def _silent(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(20)


def _continues(handler: BaseHTTPRequestHandler) -> None:
    while True:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.001)


def _hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def _raw(text: bytes) -> Answer:
    return lambda handler: handler.wfile.write(text) and None


SERVERS: dict[str, Answer] = {
    "endless": _endless,
    "endless redirect": _endless_redirect,
    "header byte by byte": _trickle,
    "body byte by byte": _slow_body,
    "silence": _silent,
    "continues for ever": _continues,
    "hangs up": _hangs_up,
    "redirect to a file": lambda h: send(h, b"", 302, Location="file:///etc/passwd"),
    "redirect to ftp": lambda h: send(h, b"", 301, Location="ftp://127.0.0.1/x"),
    "redirect to itself": lambda h: send(h, b"", 302, Location=h.path),
    "redirect to nonsense": lambda h: send(h, b"", 302, Location="http://[::1"),
    "web page": HTML,
    "not found": lambda h: send(h, HTML, 404),
    "broken inside": lambda h: send(h, HTML, 500),
    "length too long": lambda h: send(h, HTML, Content_Length=10**15),
    "length too short": lambda h: send(h, HTML, Content_Length=3),
    "length negative": lambda h: send(h, HTML, Content_Length=-5),
    "length a word": lambda h: send(h, HTML, Content_Length="many"),
    "broken chunks": _raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc"),
    "no HTTP": _raw(b"\x16\x03\x01 SSH-2.0\r\n" * 1000),
    "status of colours": _raw(b"HTTP/1.1 500 \x1b[31mred\x1b[0m\r\n\r\n"),
    "long header": _raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000),
    "many headers": _raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000),
}
