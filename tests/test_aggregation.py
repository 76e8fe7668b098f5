"""Aggregation rules, worked out by hand on counts alone; training with them is tested in tests/learning."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from rules import RULES, Momentum

from fedwave.aggregation import (
    Aggregation,
    Constant,
    FedAsync,
    FedBuff,
    Lee,
    Sync,
    Uploads,
    after_delivery,
    delivered_mass,
    step_stretch,
    uploads_of_rounds,
)

# Three devices, of which the second has not got through; c = (6, 2, 4) / 12 where delivered.
ROUND = Uploads(
    np.array([True, False, True]),
    np.array([6, 2, 4]),
    np.array([1, 5, 8]),
    np.array([2.0, 7.0, 3.0]),
    np.array([1.0, 5.0, 4.0]),
)
WEIGHTS: list[tuple[Aggregation, list[float]]] = [
    (Lee(), [1 / 2, 0, log(8) / 3]),
    (Constant(), [1 / 2, 0, 1 / 3]),
    (Sync(), [1 / 2, 0, 1 / 3]),
    (FedAsync(0.6, "constant"), [0.3, 0, 0.3]),
    (FedAsync(0.6, "hinge", a=10, b=4), [0.3, 0, 0.3 / 31]),
    (FedAsync(0.6, "hinge", a=10, b=7), [0.3, 0, 0.3]),
    (FedAsync(0.6, "polynomial", a=0.5), [0.3, 0, 0.3 / sqrt(8)]),
    (FedBuff(), [1, 0, 1 / sqrt(8)]),
]


@pytest.mark.parametrize(("rule", "expected"), WEIGHTS, ids=str)
def test_weights_by_hand(rule: Aggregation, expected: list[float]) -> None:
    np.testing.assert_allclose(rule.coefficients(ROUND), expected, rtol=1e-14)
    np.testing.assert_array_equal(rule.coefficients(ROUND), rule.weights(ROUND) * ROUND.delivered)
    capped = replace(rule, cap=0.25)  # type: ignore[type-var]
    mass = 2 * expected[0] + 3 * expected[2]  # more than the cap with every rule
    np.testing.assert_allclose(capped.coefficients(ROUND), np.array(expected) * 0.25 / mass, rtol=1e-14)
    np.testing.assert_array_equal(capped.weights(ROUND), rule.weights(ROUND))
    short = replace(rule, stretch=0.2)  # type: ignore[type-var]
    reach = expected[0] + 4 * expected[2]  # more than .2 with every rule
    np.testing.assert_allclose(short.coefficients(ROUND), np.array(expected) * 0.2 / reach, rtol=1e-14)
    for cap, stretch in ((0.25, 100), (100, 0.2), (0.25, 0.2)):  # the tighter of the two
        both = replace(rule, cap=cap, stretch=stretch)  # type: ignore[type-var]
        np.testing.assert_allclose(
            both.coefficients(ROUND), np.array(expected) * min(cap / mass, stretch / reach), rtol=1e-14
        )


def test_the_rate_is_what_the_delay_alone_makes_of_an_update() -> None:
    delay = np.array([[1, 2, 20]])
    np.testing.assert_array_equal(Lee().rate(delay), [[1, 1, np.log(20)]])
    assert Sync().rate(delay).tolist() == [[1, 1, 1]]
    np.testing.assert_allclose(FedBuff().rate(delay), 1 / np.sqrt(delay))
    np.testing.assert_allclose(FedAsync(0.5, "polynomial", a=1).rate(delay), 0.5 / delay)


# --- the mass of updates --------------------------------------------------------------------------

# Two devices, three rounds; d and N as they follow from the deliveries.
SHARDS = np.array([[4, 1], [2, 0], [0, 3]])
DELIVERED = np.array([[0, 1], [0, 0], [1, 1]], dtype=bool)
DELAY = np.array([[1, 1], [2, 1], [3, 2]])
LEARNED = np.array([[0, 1], [0, 1], [6, 4]])


def schedule(rule: Aggregation) -> Uploads:
    return uploads_of_rounds(rule, DELIVERED, LEARNED, DELAY, SHARDS)


def test_mass_by_hand() -> None:
    np.testing.assert_array_equal(schedule(Lee(0.5)).mass, [[4, 1], [4, 0], [2, 3]])
    np.testing.assert_array_equal(schedule(Lee(0.0)).mass, SHARDS)
    for rule in (FedBuff(), Sync()):  # added up, or waiting: nothing is lost
        np.testing.assert_array_equal(schedule(rule).mass, [[4, 1], [6, 0], [6, 3]])
    np.testing.assert_array_equal(after_delivery(np.array([4.0, 1.0]), DELIVERED[0]), [4, 0])


def test_trainings_by_hand() -> None:
    """Device 0 trains in rounds 1 and 2, device 1 in rounds 1 and 3; delivered: device 1, nobody, both."""
    np.testing.assert_array_equal(schedule(Lee(0.5)).trainings, [[1, 1], [1.5, 0], [0.75, 1]])
    np.testing.assert_array_equal(schedule(FedBuff()).trainings, [[1, 1], [2, 0], [2, 1]])
    # Data that wait are trained on once, however long they have waited.
    np.testing.assert_array_equal(schedule(Sync()).trainings, [[1, 1], [1, 0], [1, 1]])


def test_stretch_by_hand() -> None:
    rule = Constant(1.0)
    np.testing.assert_allclose(step_stretch(rule, schedule(rule)), [1, 0, 0.6 * 2 + 0.4])
    short = Constant(1.0, stretch=1)
    np.testing.assert_allclose(step_stretch(short, schedule(short)), [1, 0, 1])
    np.testing.assert_allclose(delivered_mass(short, schedule(short)), [1, 0, (0.6 * 6 + 0.4 * 3) / 1.6])
    buffer = FedBuff(2)  # the mean of three uploads: 1, 2 / sqrt(3) and 1 / sqrt(2) trainings
    np.testing.assert_allclose(step_stretch(buffer, schedule(buffer)), [0, 0, (1 + 2 / sqrt(3) + 1 / sqrt(2)) / 3])


def test_delivered_mass_by_hand() -> None:
    # c = (0, 1) in round 1, (6, 4) / 10 in round 3, where ln 3 is the rate of the first.
    found = delivered_mass(Lee(0.5), schedule(Lee(0.5)))
    np.testing.assert_allclose(found, [1, 0, 0.6 * log(3) * 2 + 0.4 * 3])
    capped = Lee(0.5, cap=0.75)
    np.testing.assert_allclose(delivered_mass(capped, schedule(capped)), [0.75, 0, 0.75])
    np.testing.assert_allclose(delivered_mass(Sync(), schedule(Sync())), [1, 0, 0.6 * 6 + 0.4 * 3])


@pytest.mark.parametrize("axes", [0, 1])
def test_a_buffer_delivers_its_mass_when_it_is_full(axes: int) -> None:
    """Uploads bring 1; nothing; 6 / sqrt(3) and 3 / sqrt(2)."""
    last = 6 / sqrt(3) + 3 / sqrt(2)
    for size, expected in ((1, [1, 0, last / 2]), (2, [0, 0, (1 + last) / 3]), (4, [0, 0, 0])):
        rule = FedBuff(size)
        uploads = schedule(rule)
        if axes:  # an axis of instances, the second of which delivers nothing
            parts = [getattr(uploads, field.name) for field in fields(uploads)]
            uploads = Uploads(*(np.stack([x, np.zeros_like(x) + (x is parts[2])], axis=1) for x in parts))
        found = delivered_mass(rule, uploads)
        if axes:
            assert not found[:, 1].any()
            found = found[:, 0]
        np.testing.assert_allclose(found, expected)


def test_the_mass_goes_through_the_server_step_of_a_users_own_rule() -> None:
    """Round masses 1, 0, (5.84 + 3) / 2 with beta .8; velocity v <- v / 2 + mass, the step is v (1 + 1 / t)."""
    rule = Momentum()
    uploads = schedule(rule)
    assert uploads.mass[2].tolist() == [0.8 * (0.8 * 4 + 2), 3]
    last = (4.16 + 3) / 2
    np.testing.assert_allclose(delivered_mass(rule, uploads), [2, 0.5 * 1.5, (0.25 + last) * 4 / 3])


def test_only_a_rule_with_a_server_step_of_its_own_has_one() -> None:
    found = {name for name, rule in RULES.items() if rule.has_server_step()}
    assert found == {name for name in RULES if name.startswith("fedbuff")} | {"a user's own"}


# --- whatever the counts --------------------------------------------------------------------------


@st.composite
def counts(draw: Any) -> Uploads:
    """Uploads of a few rounds and devices, ``[T, U]``."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return Uploads(
        rng.random(shape) < draw(st.sampled_from([0.2, 0.8, 1.0])),
        rng.integers(0, 9, shape),
        rng.integers(1, 30, shape),
        rng.exponential(draw(st.sampled_from([0.1, 10.0])), shape),
        rng.exponential(draw(st.sampled_from([0.1, 10.0])), shape),
    )


some_rule = st.sampled_from(list(RULES.values()))


@given(some_rule, counts())
def test_what_was_not_delivered_weighs_nothing(rule: Aggregation, uploads: Uploads) -> None:
    found = rule.coefficients(uploads)
    assert found.shape == uploads.delivered.shape
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert not found[~uploads.delivered].any()


@pytest.mark.parametrize(("name", "amounts"), [("cap", "mass"), ("stretch", "trainings")])
@given(some_rule, counts(), st.floats(0.01, 50))
def test_a_limit_holds_and_changes_nothing_below(
    name: str, amounts: str, rule: Aggregation, uploads: Uploads, limit: float
) -> None:
    if name not in vars(rule):
        return  # a user's own rule without this limit
    rule = replace(rule, **{limit: None for limit in vars(rule).keys() & {"cap", "stretch"}})  # type: ignore[type-var]
    limited = replace(rule, **{name: limit})  # type: ignore[type-var]
    before, after = rule.coefficients(uploads), limited.coefficients(uploads)
    reached = (before * getattr(uploads, amounts)).sum(axis=-1)
    np.testing.assert_allclose((after * getattr(uploads, amounts)).sum(axis=-1), np.minimum(reached, limit), rtol=1e-12)
    np.testing.assert_array_equal(after[reached <= limit], before[reached <= limit])
    above = reached > limit
    np.testing.assert_allclose(after[above], before[above] * limit / reached[above][:, None], rtol=1e-12)


# --- names and bad input --------------------------------------------------------------------------


@dataclass(frozen=True)
class Impatient(Sync):
    beta: float = 0.5


@pytest.mark.parametrize(
    ("make", "tokens"),
    [
        (lambda: Lee(-0.1), ("Lee", "beta", -0.1)),
        (lambda: Constant("much"), ("Constant", "beta", "'much'")),  # type: ignore[arg-type]
        (lambda: Sync(cap=0), ("Sync", "cap", 0)),
        (lambda: FedBuff(0), ("FedBuff", "size", 0)),
        (lambda: FedBuff(2.5), ("FedBuff", "size", 2.5)),  # type: ignore[arg-type]
        (lambda: FedAsync(0), ("FedAsync", "alpha", 0)),
        (lambda: FedAsync(1.5), ("FedAsync", "alpha", 1.5)),
        (lambda: FedAsync(a=-1), ("FedAsync a", -1)),
        (lambda: FedAsync(b=None), ("FedAsync b", None)),  # type: ignore[arg-type]
        (lambda: FedAsync(staleness="hinged"), ("FedAsync", "hinged", "hinge")),
        (lambda: Impatient(), ("Impatient", "beta", 0.5)),
    ],
)
def test_bad_input_is_refused_in_one_sentence(make: Any, tokens: tuple[object, ...]) -> None:
    with refused(*tokens) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("limit", [Fraction(1, 3), True, np.float32(0.5)])
def test_a_limit_is_kept_as_a_plain_number(limit: Any) -> None:
    rule = Constant(1.0, stretch=limit)
    assert type(rule.stretch) is float
    assert rule.stretch == pytest.approx(float(limit))
    assert rule.coefficients(ROUND).dtype == np.float64


def test_an_upload_that_failed_moves_nothing_whatever_its_weight() -> None:
    class Careless(Aggregation):
        name = "careless"

        def weights(self, uploads: Uploads) -> Any:
            return uploads.learned / 10

    assert Careless().coefficients(ROUND).tolist() == [0.6, 0, 0.4]
