from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedwave as fw
from fedwave.paper.convergence import (
    Constants,
    convergence,
    gradient_descent,
    power_bound,
    product_bound,
    with_different_data,
)
from fedwave.paper.convergence_problem import ConvergenceSetting, LogisticLoss, SettledRounds, settled_rounds
from fedwave.paper.theory_figures import convergence_figure

SHORT = ConvergenceSetting(rounds=120, instances=6)


@pytest.fixture(scope="module")
def loss() -> LogisticLoss:
    return ConvergenceSetting(seed=3).loss()


def test_gradients_are_those_of_the_loss(loss: LogisticLoss) -> None:
    w, tiny = np.array([0.3, -1.0, 0.5, 2.0]), 1e-6 * np.eye(4)
    slopes = (loss.value(w + tiny) - loss.value(w - tiny)) / 2e-6
    np.testing.assert_allclose(loss.gradients(w).mean(axis=0), slopes, rtol=1e-7)
    bends = (loss.gradients(w + tiny) - loss.gradients(w - tiny)).mean(axis=1) / 2e-6
    np.testing.assert_allclose(loss.hessian(w), bends, rtol=1e-6, atol=1e-9)
    one = LogisticLoss(loss.features[:1], loss.labels[:1], loss.l2)
    np.testing.assert_allclose(loss.gradients(w)[0], one.gradients(w)[0])


def test_smoothness_and_convexity_are_the_extreme_eigenvalues(loss: LogisticLoss) -> None:
    every = loss.features.reshape(-1, 4)
    singular = np.linalg.svd(every, compute_uv=False)[0]
    assert loss.smoothness == pytest.approx(singular**2 / (4 * len(every)) + 0.1, rel=1e-12)
    for w in np.random.default_rng(0).normal(scale=3, size=(200, 4)):
        least, *_, most = np.linalg.eigvalsh(loss.hessian(w))
        assert loss.convexity <= least
        assert most <= loss.smoothness
    far = np.linalg.eigvalsh(loss.hessian(np.full(4, 1e4)))
    assert far[0] == pytest.approx(loss.convexity, rel=1e-2)  # so no larger xi would do


@pytest.mark.parametrize("seed", range(5))
def test_devices_share_their_minimiser(seed: int) -> None:
    loss = ConvergenceSetting(seed=seed).loss()
    assert loss.labels.min() >= 0
    assert loss.labels.max() <= 1
    assert np.abs(loss.gradients(loss.minimiser)).max() < 1e-14
    own = ConvergenceSetting(seed=seed, common=False).loss()
    assert np.abs(own.gradients(own.minimiser).mean(axis=0)).max() < 1e-14
    assert np.abs(own.gradients(own.minimiser)).max() > 0.01


SETTINGS = [
    {},
    {"seed": 1},
    {"seed": 2, "beta": 0.5},
    {"slots": 1},
    {"slots": 4, "scheduler": "random"},
    {"devices": 3, "slots": 2, "seed": 4},
    {"scheduler": "w-max", "seed": 5},
    {"eta": 6.0},
    {"settle": 1},
    {"common": False, "eta": 0.5},
    {"common": False, "eta": 2.0, "beta": 0.5, "seed": 6},
]


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_no_loss_exceeds_the_corrected_bounds_and_the_printed_rate_is_never_positive(
    changes: dict[str, object],
) -> None:
    tried = convergence(replace(SHORT, **changes))  # type: ignore[arg-type]
    assert (tried.gap <= tried.product * (1 + 1e-12)).all()
    assert (tried.gap.mean(axis=1) <= tried.power * (1 + 1e-12)).all()
    known = tried.constants
    by_hand = known.alignment * known.uploads * (1 - 1 / known.largest_share)
    assert known.printed_rate == pytest.approx(by_hand, abs=1e-12)
    if known.alignment > 0:  # the theorem assumes it
        assert known.printed_rate <= 1e-12
        assert known.limit < known.printed_limit


@pytest.mark.parametrize("seed", range(4))
def test_the_corrected_bounds_fall_and_the_printed_ones_fail(seed: int) -> None:
    tried = convergence(replace(SHORT, seed=seed))
    assert (np.diff(tried.power) < 0).all()
    assert tried.product[-1].max() < tried.product[0, 0] / 10
    # The first printed bound is no bound, the second one never falls.
    assert (tried.printed_product[-1] < tried.gap[-1] / 1000).all()
    assert (np.diff(tried.printed_power) > 0).all()


@pytest.mark.parametrize("eps", [-0.5, 0.5, 1.0])
@pytest.mark.parametrize("step", [0.01, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.1, 0.8), (0.6, 0.7)])
def test_one_round_where_the_bound_is_tight(eps: float, step: float, shares: tuple[float, float]) -> None:
    """l = a w^2 / 2 with a = xi or a = L and psi = eps g: the new gap is (1 - a eps sum of q)^2 of the old one."""
    both = np.ones((1, 1, 2), np.bool_)
    share, rate = np.array([[shares]]), np.array([[[1.0, 1.5]]])
    settled = SettledRounds(both, both, share, rate, share, share, chance=np.ones(2))
    low, high = 0.5, 2.0
    known = Constants(high, low, eps, abs(eps), 2.0, 2, min(shares), max(shares), max(shares), eta=step)
    moved = eps * step * float((share * rate).sum())
    left = float(product_bound(known, settled)[1, 0])
    for a in (low, high):
        assert (1 - a * moved) ** 2 <= left * (1 + 1e-12)
    # With one curvature and equal steps nothing is given away.
    flat = replace(settled, rate=np.ones_like(rate), share=np.full_like(share, 0.5))
    alike = replace(known, convexity=high)
    assert product_bound(alike, flat)[1, 0] == pytest.approx((1 - high * eps * step) ** 2)


def test_the_limit_is_where_the_corrected_power_stops_falling() -> None:
    known, settled = convergence(SHORT).constants, settled_rounds(SHORT)
    falls = [
        float(power_bound(replace(known, eta=share * known.limit), settled)[-1])
        for share in (0.25, 0.5, 0.75, 0.999, 1.001)
    ]
    assert falls[1] == min(falls)
    assert falls[3] < 1 < falls[4]


def test_training_follows_the_paper_round_by_round() -> None:
    """The same from the counts, one device after another."""
    setting = ConvergenceSetting(rounds=40, instances=2, beta=0.3, settle=5)
    loss, eta = setting.loss(), 0.7
    path, _, _ = gradient_descent(loss, settled_rounds(setting), eta, setting.beta)
    trace = fw.simulate(setting.network(), "alsa-pi", 45, 2, setting.seed)
    assert trace.arrivals.min() >= 1
    for i in range(2):
        w, learned, d = np.zeros(4), np.zeros(6), np.ones(6)
        psi = np.zeros((6, 4))
        for t in range(45):
            delivered = trace.delivered[t, i]
            learned += np.where(delivered, trace.waiting[t, i] + trace.arrivals[t, i], 0)
            if t >= 5:  # training starts after the network has settled
                own, update = loss.gradients(w), np.zeros(4)
                for u in range(6):
                    psi[u] = own[u] + 0.3 * psi[u]
                    if delivered[u]:
                        update += eta * max(1, np.log(d[u])) * learned[u] / learned.sum() * psi[u]
                        psi[u] = 0
                w = w - update
                np.testing.assert_allclose(path[t - 4, i], w, rtol=1e-12, atol=1e-15)
            d = np.where(delivered, 1, d + 1)


def test_shares_lie_between_those_of_all_outcomes() -> None:
    settled = settled_rounds(replace(SHORT, slots=3))
    assert (settled.delivered <= settled.scheduled).all()
    assert settled.delivered.sum() < settled.scheduled.sum()  # some uploads did fail
    sent = settled.delivered
    assert (settled.least[sent] <= settled.share[sent] + 1e-15).all()
    assert (settled.share[sent] <= settled.most[sent] + 1e-15).all()
    assert (settled.least[sent] < settled.share[sent]).any()


def test_without_a_common_minimiser_the_assumptions_fail() -> None:
    tried = convergence(SHORT)
    other = with_different_data(tried)
    assert other.constants.eta == tried.constants.eta
    assert tried.alignment.min() > 0.5
    assert tried.dissimilarity.max() < 1.5
    assert other.alignment[-20:].max() < -5
    assert other.dissimilarity[-20:].min() > 10
    # And the loss stops above its minimum.
    assert other.gap[-1].min() > 10 * tried.gap[-1].max()
    assert other.gap[-1].mean() > other.gap[-40].mean() / 2


def test_table_and_figure() -> None:
    tried = convergence(SHORT)
    heading, rows = tried.table()
    assert len(rows) == 121
    assert {len(row) for row in rows} == {len(heading)}
    assert rows[7][heading.index("gap_most")] == tried.gap[7].max()
    left, right = convergence_figure(tried, with_different_data(tried)).axes
    assert len(left.get_legend_handles_labels()[1]) == 6
    assert len(right.get_legend_handles_labels()[1]) == 4
