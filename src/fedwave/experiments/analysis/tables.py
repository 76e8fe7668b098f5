"""Tables as text: Markdown for a page, LaTeX for a paper. Both line up, to be read as they are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from fedwave.errors import FedwaveError
from fedwave.plain_text import visible

_LATEX = str.maketrans(
    {
        **{mark: f"\\{mark}" for mark in "{}_%&#$"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "γ": r"$\gamma$",
        "η": r"$\eta$",
        "`": r"\textasciigrave{}",
    }
)
# Characters that Markdown, or a site that shows it, takes for emphasis, code, links, HTML, entities or emoji. An
# underscore within a word is none of these, nor is a colon before a space.
_MARKDOWN = re.compile(r"[\\`*\[\]<>|&~$]|(?<![^\W_])_|_(?![^\W_])|:(?=\w+:)")


def with_interval(mean: float, half_width: float, sign: str = "", most: int = 3) -> str:
    """Mean and half-width, to the two digits of the half-width that mean anything, at ``most`` decimals.

    A half-width that would round to zero is rounded up: ±0.00 means that there is no spread at all. A mean that would
    round to zero gets more decimals if its interval does not reach zero, and no sign if it does. A mean of nothing
    (NaN) is a dash.

    >>> import fedwave as fw
    >>> fw.tables.with_interval(12.3456, 0.1234), fw.tables.with_interval(0.5, float("nan"), sign="+")
    ('12.35±0.12', '+0.50')
    >>> fw.tables.with_interval(-0.027, 0.011, sign="+", most=1)
    '-0.03±0.01'
    >>> fw.tables.with_interval(-0.01, 0.2, sign="+", most=1)
    '0.0±0.2'
    """
    if math.isnan(mean):
        return "-"
    digits = min(2, most)
    if math.isfinite(half_width) and half_width != 0:
        digits = min(most, max(0, 1 - math.floor(math.log10(half_width))))
        if round(mean, digits) == 0 and abs(mean) > half_width:
            digits = math.ceil(-math.log10(abs(mean)))
        half_width = math.ceil(half_width * 10**digits) / 10**digits if half_width < 10.0**-digits else half_width
    shown = round(mean, digits)
    text = f"{shown + 0.0:{sign if shown else ''},.{digits}f}"  # + 0.0: no minus before a zero
    return text if not math.isfinite(half_width) else f"{text}±{half_width:,.{digits}f}"


def markdown(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table in Markdown: names on the left, numbers flush right.

    >>> import fedwave as fw
    >>> print(fw.tables.markdown(["scheduler", "score"], [["balsa", "9.1±0.2"], ["w-max", "-12±3"]]), end="")
    | scheduler |   score |
    |:----------|--------:|
    | balsa     | 9.1±0.2 |
    | w-max     |   -12±3 |
    """
    table = _cells(heading, rows, escape_markdown)
    widths = _widths(table, least=3)
    rule = [f":{'-' * (widths[0] + 1)}", *(f"{'-' * (width + 1)}:" for width in widths[1:])]
    head, *body = (f"| {' | '.join(_aligned(row, widths))} |" for row in table)
    return "\n".join([head, f"|{'|'.join(rule)}|", *body]) + "\n"


def latex(heading: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    r"""A table in LaTeX, which needs ``\usepackage{booktabs}``."""
    table = _cells(heading, rows, escape_latex)
    widths = _widths(table)
    head, *body = (f"    {' & '.join(_aligned(row, widths))} \\\\" for row in table)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(one_line(caption))}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(widths) - 1)}}}",
        r"    \toprule",
        head,
        r"    \midrule",
        *body,
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escape_markdown(text: str) -> str:
    r"""Text that a page shows as it stands.

    >>> import fedwave as fw
    >>> print(fw.tables.escape_markdown("alpha_fresh: **-3±1** [x](y)|<b>"))
    alpha_fresh: \*\*-3±1\*\* \[x\](y)\|\<b\>
    """
    return _MARKDOWN.sub(r"\\\g<0>", text)


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it stands.

    >>> import fedwave as fw
    >>> print(fw.tables.escape_latex("alpha_fresh: -3±1 %"))
    alpha\_fresh: $-$3$\pm$1 \%
    """
    # After the end of a row LaTeX takes [ for an option and * for a command.
    escaped = re.sub(r"^[\[*]", r"{\g<0>}", text.translate(_LATEX))
    # A hyphen before a number is a minus; the one in alsa-pi, 1e-05 or 10-20 is not.
    escaped = re.sub(r"(?<![\w.\-])-(?=[\d.])|−", "$-$", escaped)  # noqa: RUF001
    return re.sub(r"-(?=-)", "-{}", escaped)  # two hyphens would become a dash


def _cells(heading: Sequence[str], rows: Sequence[Sequence[str]], escape: Callable[[str], str]) -> list[list[str]]:
    if not heading:
        raise FedwaveError("a table without columns cannot be written: name at least one.")
    for row in rows:
        if len(row) != len(heading):
            raise FedwaveError(f"the row {list(row)} has {len(row)} cells, must have {len(heading)} as the heading.")
    return [[escape(one_line(cell)) for cell in row] for row in (heading, *rows)]


def one_line(text: str) -> str:
    """Text without line breaks; invisible characters become escapes."""
    return visible(" ".join(text.split()))


def _widths(table: Sequence[Sequence[str]], least: int = 0) -> list[int]:
    return [max(least, *map(len, column)) for column in zip(*table, strict=True)]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The first cell flush left, the others right."""
    first, *others = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
