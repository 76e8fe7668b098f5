"""Escapes untrusted text for display: characters that steer a terminal or mislead a reader."""

from __future__ import annotations

from unicodedata import category

# Control characters, marks that change the direction of text or hide in it, lone surrogates, line ends.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # within an emoji, and in Persian and Indic words
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


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


def _escaped(character: str) -> str:
    number = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if 0xDC80 <= number <= 0xDCFF:  # how Python holds a byte of a file name that is not UTF-8
        number -= 0xDC00
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
