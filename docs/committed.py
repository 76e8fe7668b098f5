"""The data that are committed beside the pages (for pages.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import fedwave as fw
from fedwave.paper.results import Results

DOCS = Path(__file__).parent
DATA = Results(DOCS / "results")


def table_block(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table between empty lines of a page."""
    return "\n" + fw.tables.markdown(heading, rows)
