"""Text from outside, as it may be shown: what would steer a terminal or mislead a reader is written as an escape."""

from __future__ import annotations

from unicodedata import category

# Control characters, marks that change the direction of text or hide in it, lone surrogates, line ends.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # within an emoji, and in Persian and Indic words
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
# What fedwave's own sentences hold beyond ASCII, for terminals that have no more.
_IN_ASCII = {"±": "+-", "γ": "gamma", "η": "eta", "θ": "theta", "−": "-", "–": "-", "→": "->", "×": "x", "…": "..."}  # noqa: RUF001


def visible(text: str) -> str:
    r"""The text in one line, with everything that cannot be seen written as an escape.

    >>> print(visible("a\x1b[2Jb\u202ec\nd"), visible("caf\udce9"), visible("😀"))
    a\x1b[2Jb\u202ec\nd caf\xe9 😀
    """
    if text.isprintable():
        return text
    return "".join(_escaped(character) if is_unseen(character) else character for character in text)


def brief(text: object, most: int = 240) -> str:
    """The text for a sentence, visible and not too long: an error may quote all that a file holds."""
    short = visible(str(text)[: most + 1])
    return short if len(short) <= most else f"{short[:most]}..."


def is_unseen(character: str) -> bool:
    """Is it a character that steers or hides, rather than one to be read?"""
    return category(character) in _UNSEEN and character not in _JOINERS


def in_encoding(text: str, encoding: str | None) -> str:
    r"""The text in characters that a terminal of this encoding has.

    >>> print(in_encoding("12±3 😀", "ascii"), in_encoding("12±3 😀", "utf-8"))
    12+-3 \U0001f600 12±3 😀
    """
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for ours, ascii_text in _IN_ASCII.items():
            text = text.replace(ours, ascii_text)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _escaped(character: str) -> str:
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if 0xDC80 <= number <= 0xDCFF:  # how Python holds a byte of a file name that is not UTF-8
        number -= 0xDC00
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def ratio_text(ratio: float) -> str:
    """A ratio with three digits or so.

    >>> ratio_text(0.968), ratio_text(65.52), ratio_text(2164.6)
    ('0.97', '65.5', '2,165')
    """
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"
