"""The checksum of fedwave's files and texts."""

from __future__ import annotations

import hashlib


def sha256(content: bytes) -> str:
    """The SHA-256 checksum of bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
