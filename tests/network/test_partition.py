"""The class shares of the partitions."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refused
from scipy.stats import chisquare, kstest

from fedwave.network.partition import ByClass, Dirichlet


def test_dirichlet_shares_are_dirichlet() -> None:
    """The share of one class of four is Beta(alpha, 3 alpha)."""
    shares = [Dirichlet(0.5).class_shares(0, i, u, 4) for i in range(40) for u in range(25)]
    for c in range(4):
        assert kstest([s[c] for s in shares if s is not None], "beta", (0.5, 1.5)).pvalue > 0.001


def test_by_class_chooses_any_classes() -> None:
    held = 2 * sum(ByClass(2).class_shares(0, i, 0, 4) for i in range(400))
    assert chisquare(held).pvalue > 0.001


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "few", None])
def test_parameters_out_of_range(value: Any) -> None:
    assert ByClass(2.0) == ByClass(2)  # type: ignore[arg-type]
    with refused("alpha", repr(value)):
        Dirichlet(value)
    for held in (value, 1.5):
        with refused("held", repr(held)):
            ByClass(held)
