"""Files that are damaged at random, from a seed: bytes flipped, cut out, doubled, and put in to break readers."""

from __future__ import annotations

import random

NASTY = [
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\x1b[31m", b"\t", b"\r", b"\x85", b"\xe2\x80\xa8"),
    *(b"\n", b"\n\n---\n", b"[", b"]", b"{", b"}", b"[" * 500, b"{a: " * 200, b"- " * 300, b"&a ", b"*a"),
    *(b"&a [*a, *a]", b"<<: *a", b"<<: [*a, *a]", b"!!int ", b'!!int ""', b"!!float ", b"!!timestamp x"),
    *(b"!!binary x", b"!!set {a}", b"!!python/object/apply:os.system [x]", b"!<x> ", b"%YAML 9.9\n---\n"),
    *(b"%TAG ! x\n---\n", b"? ", b": ", b"|", b">", b"'", b'"', b"\\", b'"\\U00110000"', b'"\\ud800"', b"#"),
    *(b"~", b"null", b"true", b".inf", b"-.inf", b".nan", b"NaN", b"Infinity", b"0x", b"0o9", b"1e999", b"-1"),
    *(b"-0.0", b"1e-320", b"9" * 30, b"9" * 5000, b"0x" + b"f" * 5000, b"1_000", b"\xef\xbc\x91\xef\xbc\x92"),
    *(b"1:30:40", b"2024-13-45", b",", b";", b",,", b'""', b"a" * 140_000, b"count", b"rate,rate", b"../../x"),
    *(b"/dev/zero", b"/dev/stdin", b"$(x)", b"[bold]", b"\\\n", b"..", b"="),
]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with one to four damages."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((1, 1, 2, 5, 20, 100)))
        kind = rng.randrange(6)
        if kind == 0 and content:
            at = rng.randrange(len(content))
            flipped = bytes([content[at] ^ 1 << rng.randrange(8)])
            content = content[:at] + flipped + content[at + 1 :]
        elif kind == 1:
            content = content[:at] + content[end:]
        elif kind == 2:
            content = content[:end] + content[at:]
        elif kind == 3:
            content = content[:at] + rng.choice(NASTY) + content[end:]
        else:
            content = content[:at] + rng.choice(NASTY) + content[at:]
    return content
