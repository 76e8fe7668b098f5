"""Messages are tested for the value and the field that they name, not for their wording."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fedwave.errors import FedwaveError


def mentions(text: object, *tokens: object) -> bool:
    """Whether the text names every token; a word or a number must stand alone: 1 is not in ``10`` or ``1.5``."""
    return all(_mentions(str(text), str(token)) for token in tokens)


def _mentions(text: str, token: str) -> bool:
    before = r"(?<![\w.-])" if token[:1].isdigit() else r"(?<!\w)" if token[:1].isalnum() else ""
    after = r"(?!\w|[.,]\d)" if token[-1:].isalnum() else ""
    return re.search(before + re.escape(token) + after, text) is not None


@contextmanager
def refused(*tokens: object, error: type[Exception] = FedwaveError) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block must raise ``error``, whose message names every token."""
    with pytest.raises(error) as caught:
        yield caught
    assert mentions(caught.value, *tokens), f"{tokens} are not all in: {caught.value}"
