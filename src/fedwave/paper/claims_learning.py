"""Claims about trained models (sections V-B to V-D), from docs/results/mnist and docs/results/cifar10."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

import fedwave as fw
from fedwave.paper.array_types import Floats
from fedwave.paper.results import Results
from fedwave.paper.verdicts import (
    HOLDS,
    NOT,
    OPEN,
    OTHERS,
    OURS,
    PAPER,
    PART,
    SIMILAR_ACCURACY,
    SIMILAR_LOSS,
    SIMILAR_SHARE,
    SIMILAR_SPIKES,
    TARGETS,
    Found,
    Truth,
    above,
    at_most,
    below,
    finite_estimate,
    listed,
    pair,
    plain,
    rank_correlation,
    verdict,
    with_width,
    within,
)

# V-B: loss and accuracy


def _differences(
    data: Results, study: str, ones: Sequence[str], others: Sequence[str], metric: str
) -> dict[tuple[str, str], fw.statistics.Estimate]:
    return {
        (one, other): finite_estimate(data.final(study, one, metric) - data.final(study, other, metric))
        for one in ones
        for other in others
    }


def _close_to_bench(data: Results, study: str, metric: str, reach: float) -> Found:
    """Similar, or at least nearer to Bench than to RR."""
    apart = _differences(data, study, OURS, ["bench"], metric)
    to_rr = finite_estimate(data.final(study, "round-robin", metric) - data.final(study, "bench", metric))
    fits = [within(value, reach) for value in apart.values()]
    nearer = all(abs(value.mean) < abs(to_rr.mean) / 2 for value in apart.values())
    text = listed({one: pair(value, 4, "+") for (one, _), value in apart.items()})
    text += f"; RR {pair(to_rr, 4, '+')}"
    found = verdict(fits)
    return f"less Bench's: {text}", PART if nearer and False in fits else found


def similar_loss(data: Results, study: str) -> Found:
    level = float(np.nanmean(data.final(study, "bench", "loss")))
    text, found = _close_to_bench(data, study, "loss", SIMILAR_LOSS * level)
    return f"Bench {plain(level, 3)}; {text}", found


def similar_accuracy(data: Results, study: str) -> Found:
    level = float(np.nanmean(data.final(study, "bench")))
    text, found = _close_to_bench(data, study, "accuracy", SIMILAR_ACCURACY)
    return f"Bench {plain(level, 3)}; {text}", found


def larger_loss(data: Results, study: str) -> Found:
    apart = _differences(data, study, OTHERS, OURS, "loss")
    reach = SIMILAR_LOSS * float(np.nanmean(data.final(study, "bench", "loss")))
    return _least(apart, "+"), verdict([above(value, reach) for value in apart.values()])


def lower_accuracy(data: Results, study: str) -> Found:
    apart = _differences(data, study, OTHERS, OURS, "accuracy")
    return _least(apart, "+"), verdict([below(value, SIMILAR_ACCURACY) for value in apart.values()])


def _least(apart: dict[tuple[str, str], fw.statistics.Estimate], sign: str) -> str:
    """Of each of the others, the smallest of its three differences."""
    found = {}
    for name in OTHERS:
        mine = {pair_: value for pair_, value in apart.items() if pair_[0] == name}
        (_, other), value = min(mine.items(), key=lambda item: abs(item[1].mean))
        found[name] = f"{pair(value, 4, sign)} (from {fw.figures.name_of(other)})"
    return f"the smallest difference: {listed(found)}"


def larger_variance(data: Results, study: str) -> Found:
    """By the F interval of the ratio of two variances; compared with each of the three."""
    count = data.instances(study)
    reach = float(special.fdtri(count - 1, count - 1, 0.975))
    spread = {name: float(np.nanvar(data.final(study, name), ddof=1)) for name in PAPER}
    fits, found = [], {}
    for name in OTHERS:
        ratios = [spread[name] / spread[other] for other in OURS]
        fits.append(True if min(ratios) > reach else False if max(ratios) * reach < 1 else None)
        ratio = min(ratios)
        found[name] = f"{_short(ratio)} ({_short(ratio / reach)} to {_short(ratio * reach)})"
    return f"times the largest variance of the three: {listed(found)}", verdict(fits)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def loss_and_accuracy(data: Results, study: str) -> Found:
    loss, accuracy = ([float(np.nanmean(data.final(study, n, m))) for n in PAPER] for m in ("loss", "accuracy"))
    rank = rank_correlation(loss, accuracy)
    return (f"rank correlation over the six: {rank:.2f}", HOLDS if rank <= -0.8 else PART if rank < 0 else NOT)


def without_knowledge(data: Results, study: str) -> Found:
    apart = _differences(data, study, OURS[1:], ["alsa-pi"], "accuracy")
    text = listed({one: pair(value, 4, "+") for (one, _), value in apart.items()})
    return f"accuracy less ALSA-PI's: {text}", verdict([within(v, SIMILAR_ACCURACY) for v in apart.values()])


# V-C: robustness


def _spikes(data: Results, study: str, name: str) -> Floats:
    return data.curves(study)[name].spikes()


def bench_most_stable(data: Results, study: str) -> Found:
    least = {name: finite_estimate(_spikes(data, study, name)) for name in PAPER}
    text = ", ".join(f"{fw.figures.name_of(n)} {with_width(v, 1)}" for n, v in least.items())
    apart = [finite_estimate(_spikes(data, study, n) - _spikes(data, study, "bench")) for n in PAPER[1:]]
    fewer = [below(value, SIMILAR_SPIKES) for value in apart]
    # One that has fewer is enough to refute it.
    return (f"spikes per instance: {text}", NOT if True in fewer else OPEN if None in fewer else HOLDS)


def stable_as_bench(data: Results, study: str) -> Found:
    apart = {n: finite_estimate(_spikes(data, study, n) - _spikes(data, study, "bench")) for n in OURS}
    text = listed({n: with_width(v, 1, "+") for n, v in apart.items()})
    return f"spikes less Bench's: {text}", verdict([at_most(v, SIMILAR_SPIKES) for v in apart.values()])


def many_spikes(data: Results, study: str) -> Found:
    """More than the paper's own three."""
    apart = {
        n: finite_estimate(_spikes(data, study, n) - np.nanmean([_spikes(data, study, o) for o in OURS], axis=0))
        for n in OTHERS
    }
    text = listed({n: with_width(v, 1, "+") for n, v in apart.items()})
    return f"spikes less the mean of the three's: {text}", verdict([above(v, SIMILAR_SPIKES) for v in apart.values()])


def w_max_less_stable(data: Results, study: str) -> Found:
    apart = finite_estimate(_spikes(data, study, "w-max") - _spikes(data, study, "round-robin"))
    return f"spikes less RR's: {with_width(apart, 1, '+')}", verdict([above(apart, SIMILAR_SPIKES)])


# V-D: targets


def similar_satisfaction(data: Results, study: str) -> Found:
    fits: list[Truth] = []
    worst, place = fw.statistics.Estimate(0.0, 0.0, 0.0), ("alsa-pi", TARGETS[study][0])
    for target in TARGETS[study]:
        reached = {n: data.curves(study)[n].reaches(target).astype(float) for n in PAPER}
        if not any(reached[n].any() for n in ("bench", *OURS)):
            continue  # nobody misses what nobody has
        apart = {n: fw.statistics.estimate(reached[n] - reached["bench"]) for n in OURS}
        alike = [within(value, SIMILAR_SHARE) for value in apart.values()]
        fits.append(True if all(alike) else False if False in alike else None)
        name = max(apart, key=lambda n: abs(apart[n].mean))
        if abs(apart[name].mean) > abs(worst.mean):
            worst, place = apart[name], (name, target)
    same = f"within {plain(SIMILAR_SHARE, 1)} at {fits.count(True)} of {len(fits)} targets reached"
    if not worst.mean:
        return f"{same}, no gap anywhere", verdict(fits)
    gap = f"{fw.figures.name_of(place[0])} {pair(worst, 2, '+')} at {plain(place[1], 2)}"
    return f"{same}; the largest gap: {gap}", verdict(fits)


def falling_satisfaction(data: Results, study: str) -> Found:
    first, last = TARGETS[study][0], TARGETS[study][-1]
    found, fits = {}, list[Truth]()
    for name in OTHERS:
        low, high = (data.curves(study)[name].reaches(t).astype(float) for t in (first, last))
        # Whoever never beats the lowest target cannot fall.
        fits.append(below(fw.statistics.estimate(high - low), SIMILAR_SHARE) if low.any() else None)
        found[name] = f"{low.mean():.2f} to {high.mean():.2f}"
    text = f"share from target {plain(first, 2)} to {plain(last, 2)}: {listed(found)}"
    low, high = (data.curves(study)["bench"].reaches(target).mean() for target in (first, last))
    return f"{text} (Bench {low:.2f} to {high:.2f})", verdict(fits)


def fewer_rounds(data: Results, study: str) -> Found:
    text, fits = with_fewer_rounds(data, study)
    count = f"{fits.count(True)} of {len(fits)} targets reached"
    return f"{text}; fewer than both at {count}", verdict(fits)


def with_fewer_rounds(data: Results, study: str) -> tuple[str, list[Truth]]:
    """Of every target that one of the three reaches: do they all need fewer rounds than both others?

    Whoever never gets there counts with the last round.
    """
    fits: list[Truth] = []
    text = "nobody reaches a target"
    for target in TARGETS[study]:
        reached = {n: data.curves(study)[n].rounds_to(target) for n in PAPER}
        if not any(np.isfinite(reached[n]).any() for n in OURS):
            continue
        needed = {n: np.minimum(values, data.last_round(study)) for n, values in reached.items()}
        fewer = [below(fw.statistics.estimate(needed[n] - needed[o]), 1.0) for n in OURS for o in OTHERS]
        fits.append(True if all(fewer) else False if False in fewer else None)
        if np.isfinite(reached["balsa"]).mean() >= 0.5:
            shown = {n: with_width(fw.statistics.estimate(needed[n]), 0) for n in ("bench", "balsa", *OTHERS)}
            text = f"rounds to {plain(target, 2)}: {listed(shown)}"
    return text, fits
