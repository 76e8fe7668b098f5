"""Claims of the theorems and lemmas, from docs/results/theory and docs/results/score."""

from __future__ import annotations

import numpy as np

import fedwave as fw
from fedwave.paper.results import Results, column
from fedwave.paper.verdicts import (
    HOLDS,
    NOT,
    OPEN,
    PART,
    UNTESTED,
    Found,
    above,
    below,
    finite_estimate,
    listed,
    pair,
    verdict,
    with_width,
)


def theorem_1_product(data: Results) -> Found:
    lines = data.table("theory/convergence.csv")
    below = column(lines, "printed_product") < column(lines, "gap")
    first = int(below.argmax()) if below.any() else None
    text = (
        "the printed bound never lies below the measured loss"
        if first is None
        else (f"the printed bound lies below the measured loss from round {first} on")
    )
    return text, HOLDS if first is None else NOT


def theorem_1_power(data: Results) -> Found:
    bound = column(data.table("theory/convergence.csv"), "printed_power")
    falls = bool((np.diff(bound) < 0).any())
    text = (
        "with the printed step size ε' = εζ (1 - 1 / max c) is never above 0; the bound "
        f"{'falls' if falls else 'never falls'}"
    )
    return text, HOLDS if falls else NOT


def theorem_1_more_uploads(data: Results) -> Found:
    """W-max delivers at least as many uploads as ALSA-PI."""
    found = {n: fw.statistics.estimate(data.score(n, "uploads")) for n in ("w-max", "alsa-pi", "round-robin")}
    more = data.score_apart("w-max", "alsa-pi", "uploads")
    worse = finite_estimate(data.final("mnist", "w-max") - data.final("mnist", "alsa-pi"))
    text = listed({n: with_width(value, 2) for n, value in found.items()})
    text = f"uploads a round: {text}; W-max learns worst ({pair(worse, 3, '+')} on MNIST)"
    return text, NOT if above(more, 0) and below(worse, 0) else OPEN


def theorem_1_converges(data: Results) -> Found:
    lines = data.table("theory/convergence.csv")
    gap = column(lines, "gap")
    falls = gap[-1] < 0.1 * gap[0]
    text = (
        f"loss above its minimum falls by a factor of {gap[0] / gap[-1]:,.0f} in {len(gap) - 1} rounds where devices "
        "share one minimiser; with different data at each device it stops above it (no data here)"
    )
    return text, PART if falls else NOT


def theorem_2(data: Results) -> Found:
    better = {n: data.score_apart(n, "alsa-pi") for n in ("max-weight", "lagrangian")}
    most = max(float(row["gap"]) for row in data.table("theory/gap.csv"))
    text = ", ".join(f"`{n}` {with_width(value, 3, '+')}" for n, value in better.items())
    text = (
        f"score less ALSA-PI's: {text}; two devices, solved exactly: greedy's backlog is up to {100 * most:.0f} % "
        "above the optimum"
    )
    return text, NOT if any(above(value, 0) for value in better.values()) else OPEN


def theorem_2_all_delivered(data: Results) -> Found:
    found = {n: fw.statistics.estimate(100 * data.score(n, "delivered_share")) for n in ("alsa-pi", "w-max")}
    text = listed({n: f"{with_width(v, 1)} %" for n, v in found.items()})
    return f"delivered after {data.score_rounds()} rounds: {text}, which takes much longer", HOLDS


def _regret(data: Results, label: str) -> fw.statistics.Estimate:
    value = data.content("theory/regret.json")["regret a round"][label]
    return fw.statistics.Estimate(1e6 * value["mean"], 1e6 * value["half_width"], 0)


def theorem_3(data: Results) -> Found:
    balsa, greedy, solved = (_regret(data, n) for n in ("balsa", "J* - J of greedy", "dp-ts"))
    text = (
        f"regret a round in the second half, in millionths: BALSA {with_width(balsa, 0)}, greedy with known rates "
        f"{with_width(greedy, 0)}, `dp-ts` {with_width(solved, 2)}: it grows linearly"
    )
    return text, NOT if above(balsa, 0) else OPEN


def theorem_3_number(data: Results) -> Found:
    empty = data.content("theory/regret.json")["the printed bound exceeds T up to round"]
    power = int(np.floor(np.log10(empty)))
    return (f"larger than T, which no regret exceeds, up to round {empty / 10**power:.0f} x 10^{power}", UNTESTED)


def balsa_learns(data: Results) -> Found:
    less = _regret(data, "balsa less J* - J of greedy")
    return f"BALSA less greedy with known rates: {with_width(less, 1, '+')}", verdict(
        [abs(less.mean) <= less.half_width]
    )


def stages(data: Results) -> Found:
    last = data.table("theory/regret.csv")[-1]
    found, allowed = float(last["stages literal"]), float(last["lemma 4"])
    text = f"{found:,.0f} in {float(last['round']):,.0f} rounds; allowed are {allowed:,.0f}"
    return text, verdict([found <= allowed])


def complexity(data: Results) -> Found:
    times = {(r["scheduler"], r["devices"]): r for r in data.table("theory/times.csv")}
    grow = {
        n: float(times[n, "1000"]["later_seconds"]) / float(times[n, "100"]["later_seconds"])
        for n in ("alsa-pi", "balsa")
    }
    solve = float(times["dp", "3"]["first_seconds"]) / float(times["dp", "2"]["first_seconds"])
    text = listed({n: f"{value:.1f}" for n, value in grow.items()})
    text = (
        f"time of a decision, 1000 devices over 100: {text} (U log U: 15); "
        f"solving the DP, 3 devices over 2: {solve:.0f}"
    )
    return text, verdict([*(value <= 15 for value in grow.values()), solve > 10])
