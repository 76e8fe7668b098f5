"""Claims about scores (section V-A), from docs/results/score."""

from __future__ import annotations

import numpy as np

import fedwave as fw
from fedwave.paper.results import Results
from fedwave.paper.verdicts import (
    MUCH,
    NOT,
    OTHERS,
    PAPER,
    PART,
    SIMILAR_SCORE,
    TARGETS,
    Found,
    above,
    listed,
    rank_correlation,
    verdict,
    with_width,
    within,
)


def similar_scores(data: Results) -> Found:
    level = data.score("alsa-pi", "score").mean()
    found = {name: data.score_apart(name, "alsa-pi") for name in ("balsa", "balsa-po")}
    text = listed({name: with_width(value, 3, "+") for name, value in found.items()})
    return f"{text} of {level:.2f}", verdict([within(v, SIMILAR_SCORE * level) for v in found.values()])


def _bands(data: Results, scheduler: str, name: str, round_: int) -> fw.statistics.Estimate:
    line = next(r for r in data.table("score/rounds.csv") if (r["scheduler"], r["round"]) == (scheduler, str(round_)))
    return fw.statistics.Estimate(float(line[f"{name}_mean"]), float(line[f"{name}_half_width"]), 0)


def converging_scores(data: Results) -> Found:
    """The gap in the second half of the rounds, whose interval must include 0."""
    late = {name: _second_half(data, name) for name in ("balsa", "balsa-po")}
    text = listed({name: with_width(value, 2, "+") for name, value in late.items()})
    fits = [abs(value.mean) <= value.half_width for value in late.values()]
    return (
        f"less ALSA-PI's, rounds {data.score_rounds() // 2 + 1} to {data.score_rounds()} (half-widths at most): {text}",
        verdict(fits),
    )


def _second_half(data: Results, name: str) -> fw.statistics.Estimate:
    """From the means over all rounds and over the first half; the half-width is at most this."""
    last = data.score_rounds()
    whole, first = (_bands(data, name, "running_difference", t) for t in (last, last // 2))
    part = last // 2 / (last - last // 2)
    mean = (1 + part) * whole.mean - part * first.mean
    return fw.statistics.Estimate(mean, (1 + part) * whole.half_width + part * first.half_width, 0)


def much_lower_scores(data: Results) -> Found:
    found = {name: data.score_apart(name, "balsa-po") for name in OTHERS}
    level = data.score("balsa-po", "score").mean()
    fits = [above(fw.statistics.Estimate(-v.mean - MUCH * level, v.half_width, 0), 0) for v in found.values()]
    text = listed({n: f"{with_width(v, 2, '+')} ({100 * v.mean / level:+.0f} %)" for n, v in found.items()})
    return f"less BALSA-PO's: {text}", verdict(fits)


def falling_score(data: Results) -> Found:
    last = data.score_rounds()
    early, late = (_bands(data, "w-max", "recent", t) for t in (50, last))
    text = f"mean of 25 rounds: {with_width(early, 0)} up to round 50, {with_width(late, 0)} up to round {last}"
    return text, verdict([late.mean + late.half_width < early.mean - early.half_width])


def score_is_learning(data: Results) -> Found:
    """Among the paper's six; of others the page has a sentence."""
    scores = [float(data.score(name, "score").mean()) for name in PAPER]
    ranks = {
        study: rank_correlation(scores, [float(np.nanmean(data.final(study, n))) for n in PAPER]) for study in TARGETS
    }
    text = (
        "rank correlation of the scores above with accuracy, over the paper's six schedulers: "
        f"MNIST {ranks['mnist']:.2f}, CIFAR-10 {ranks['cifar10']:.2f}; not over others (below)"
    )
    return text, PART if min(ranks.values()) > 0.8 else NOT


def more_stragglers(data: Results) -> Found:
    ages = {name: fw.statistics.estimate(data.score(name, "mean_age")) for name in reversed(OTHERS)}
    more = data.score_apart("w-max", "round-robin", "mean_age")
    text = listed({name: with_width(value, 1) for name, value in ages.items()})
    return f"mean age of a device: {text} rounds", verdict([above(more, 1.0)])
