"""A figure whose texts are data: drawn letter by letter, never read as formulas, and without complaints about fonts."""

from __future__ import annotations

import warnings

from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, ScalarFormatter

from fedwave.plain_text import visible

_LONGEST = 250  # letters in a line: more are wider than any figure


class LiteralFigure(Figure):
    """Whatever draws it, a file or a notebook, draws the names on it as they are."""

    def draw(self, renderer: RendererBase) -> None:
        """Called by matplotlib for every drawing, also to measure one."""
        _take_literally(self)
        with warnings.catch_warnings():
            # A letter that the font lacks is drawn as a box, a name that is too long hides what is beside it; neither
            # is news for a terminal.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
            warnings.filterwarnings("ignore", message="constrained_layout not applied")
            super().draw(renderer)


def _take_literally(figure: Figure) -> None:
    """Neither $formulas$ nor TeX nor control characters; line breaks are ours, of captions."""
    texts = figure.findobj(Text)  # makes the ticks that are missing
    numbers = _number_labels(figure)
    for text in texts:
        assert isinstance(text, Text)
        if id(text) in numbers:
            continue
        text.set_parse_math(False)
        text.set_usetex(False)
        text.set_text("\n".join(visible(line)[:_LONGEST] for line in text.get_text().split("\n")))


def _number_labels(figure: Figure) -> set[int]:
    """Labels that matplotlib makes from numbers, which it writes as formulas (powers of ten)."""
    found: set[int] = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for formatter, ticks in (
                (axis.get_major_formatter(), axis.majorTicks),
                (axis.get_minor_formatter(), axis.minorTicks),
            ):
                if isinstance(formatter, (LogFormatter, ScalarFormatter)):
                    found.update(id(label) for t in ticks for label in (t.label1, t.label2))
    return found
