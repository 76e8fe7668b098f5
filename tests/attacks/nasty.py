"""Values that programs stumble over: numbers, texts, JSON."""

from __future__ import annotations

import random
from typing import Any

NUMBERS = (
    *("0", "-1", "-0", "1", "2.5", "1e308", "-1e308", "5e-324", "nan", "inf", "-inf", "18446744073709551616", "1e12"),
    *("1000000000000", "4294967296", "-9223372036854775809", "", " ", "1e400", "0x10", "1_000", "٣", "1,5", "9" * 400),
    *("true", "null", "1" + "0" * 5000),
)
TEXTS = (
    *("", " ", ".", "..", "/", "-", "--", "=", ":", ",", ";", "~", "*", "%s", "{}", "[", "{", "\\", "'", '"'),
    *("null", "true", "[/]", "[bold]x", "[link=https://a.example]y[/link]", "[red]"),
    *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x07", "a\nb", "a\rb", "a\tb"),
    *("\u202eabc", "\u2066x", "\u200b", "\u2028", "\x85", "\x7f", "emoji \U0001f600"),
    *("ü" * 200, "x" * 300, "y" * 5000, "../..", "../../../../etc/passwd", "/dev/full", "/proc/self/mem", "a" * 255),
    *("a=b=c", "$\\frac{a}{", "$x_{$", "^_$\\", "!!python/object:os.system", "con.txt", "a/b", "-rf"),
    *("\udcff\udcfe", "\ufeffa", "x:y=1,y=2", "x:y=", "x:=1", "a:b:c", "__class__", "0", "-1", "1e308", "nan"),
)
# As names of places to write to: none leads out of the current folder, where an attack would do harm itself.
PLACES = tuple(t for t in TEXTS if t in ("/dev/full", "/proc/self/mem") or not t.startswith(("/", ".")))
HUGE = 10**400


def values(luck: random.Random) -> Any:
    """Any JSON value, most of them wrong wherever they stand."""
    whole = (0, -1, 2**31, 2**63, 2**64, -(2**70), HUGE)
    fractions = (1e308, 5e-324, float("nan"), float("inf"), -0.0, 0.5)
    texts = ("", "x", "nan", luck.choice(TEXTS))
    lists = ([], [[]], [None], [0, 0], [-1], [1e308, "a"])
    mappings: tuple[Any, ...] = ({}, {"": ""}, {"name": None}, {"array": "nowhere"}, {"array": "../x"})
    mappings += ({"family": "scheduler", "name": "balsa"}, {"record": "Network"}, {"record": "os.system", "fields": {}})
    large = (deep(luck.choice((5, 90, 800))), "a" * 100_000, list(range(2000)))
    return luck.choice((None, True, False, *whole, *fractions, *texts, *lists, *mappings, *large))


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    out: Any = []
    for _ in range(levels):
        out = [out]
    return out


def a_place(content: Any, luck: random.Random) -> tuple[Any, Any]:
    """A random place in nested JSON: a container and a key of it."""
    found: list[tuple[Any, Any]] = []

    def walk(inner: Any) -> None:
        pairs = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for key, value in list(pairs):
            found.append((inner, key))
            walk(value)

    walk(content)
    return luck.choice(found)


def spoil(content: Any, luck: random.Random) -> str:
    """Change one place in nested JSON; says what was done."""
    inner, key = a_place(content, luck)
    how = luck.choice(("set", "set", "set", "remove", "add", "rename"))
    if how == "remove":
        del inner[key]
    elif how == "rename" and isinstance(inner, dict):
        inner[str(luck.choice(TEXTS))] = inner.pop(key)
    elif how == "add" and isinstance(inner, dict):
        inner[luck.choice(TEXTS)] = values(luck)
    else:
        how, inner[key] = "set", values(luck)
    return f"{how} {key!r}"
