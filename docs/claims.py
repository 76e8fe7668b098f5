"""The paper's claims with our numbers and verdicts, as the tables of docs/reproduction.md.

Each function tests the claim above it and returns our number and the verdict, from the results in docs/results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from committed import Results, column, estimate_in
from scipy import special
from verdicts import (
    HOLDS,
    NOT,
    OPEN,
    OTHERS,
    OURS,
    PAPER,
    PART,
    TARGETS,
    UNTESTED,
    Claims,
    Estimate,
    Found,
    Rule,
    Truth,
    above,
    at_most,
    below,
    finite_estimate,
    judged,
    listed,
    pair,
    plain,
    rank_correlation,
    together,
    verdict,
    with_width,
    within,
)

import fedwave as fw
from fedwave.paper import Floats
from fedwave.paper.compact import Row, read_rows

SCORE, LEARNING, THEOREMS = Claims(), Claims(), Claims()
PARTS = {"score": SCORE, "learning": LEARNING, "theorems": THEOREMS}
# What counts as similar, and what as much: see the page.
SIMILAR_SCORE, SIMILAR_LOSS, MUCH = 0.01, 0.1, 0.1  # shares
SIMILAR_ACCURACY, SIMILAR_SHARE, SIMILAR_SPIKES = 0.01, 0.1, 1.0

# Scores (V-A), from docs/results/score


@SCORE.add("V-A", "BALSA and BALSA-PO achieve a score similar to ALSA-PI's")
def similar_scores(data: Results) -> Found:
    level = data.score("alsa-pi", "score").mean()
    apart = {name: data.score_apart(name, "alsa-pi") for name in ("balsa", "balsa-po")}
    return f"{listed(apart, with_width, 3, '+')} of {level:.2f}", judged(apart, within, SIMILAR_SCORE * level)


@SCORE.add("V-A", "their scores converge to ALSA-PI's")
def converging_scores(data: Results) -> Found:
    """The gap in the second half of the rounds, whose interval must include 0."""
    last = data.score_rounds()
    late = {name: _second_half(data, name) for name in ("balsa", "balsa-po")}
    text = f"less ALSA-PI's, rounds {last // 2 + 1} to {last} (half-widths at most): {listed(late, with_width, 2, '+')}"
    return text, verdict([abs(value.mean) <= value.half_width for value in late.values()])


def _band(data: Results, scheduler: str, name: str, round_: int) -> Estimate:
    row = next(r for r in data.table("score/rounds.csv") if (r["scheduler"], r["round"]) == (scheduler, str(round_)))
    return estimate_in(row, f"{name}_mean", f"{name}_half_width")


def _second_half(data: Results, name: str) -> Estimate:
    """Mean difference from alsa-pi after the first half, and the largest half-width that it may have."""
    last = data.score_rounds()
    first, whole = (_band(data, name, "running_difference", t) for t in (last // 2, last))
    part = last // 2 / (last - last // 2)
    mean = (1 + part) * whole.mean - part * first.mean
    return Estimate(mean, (1 + part) * whole.half_width + part * first.half_width, 0)


@SCORE.add("V-A", "RR and W-max achieve much lower scores")
def much_lower_scores(data: Results) -> Found:
    apart = {name: data.score_apart(name, "balsa-po") for name in OTHERS}
    level = data.score("balsa-po", "score").mean()
    text = listed({n: f"{with_width(v, 2, '+')} ({100 * v.mean / level:+.0f} %)" for n, v in apart.items()})
    beyond = {n: Estimate(v.mean + MUCH * level, v.half_width, 0) for n, v in apart.items()}
    return f"less BALSA-PO's: {text}", judged(beyond, below, 0)


@SCORE.add("V-A", "the score of W-max decreases over the rounds")
def falling_score(data: Results) -> Found:
    last = data.score_rounds()
    early, late = (_band(data, "w-max", "recent", t) for t in (50, last))
    text = f"mean of 25 rounds: {with_width(early, 0)} up to round 50, {with_width(late, 0)} up to round {last}"
    return text, verdict([late.mean + late.half_width < early.mean - early.half_width])


@SCORE.add("V-C", "W-max raises many more stragglers than RR")
def more_stragglers(data: Results) -> Found:
    ages = {name: fw.statistics.estimate(data.score(name, "mean_age")) for name in reversed(OTHERS)}
    more = data.score_apart("w-max", "round-robin", "mean_age")
    return f"mean age of a device: {listed(ages, with_width, 1)} rounds", verdict([above(more, 1.0)])


@SCORE.add("III, V-A", "a higher score means a better trained model")
def score_is_learning(data: Results) -> Found:
    """Among the paper's six; of others the page has a sentence."""
    scores = [float(data.score(name, "score").mean()) for name in PAPER]
    ranks = {study: rank_correlation(scores, _final_means(data, study, "accuracy")) for study in TARGETS}
    text = (
        "rank correlation of the scores above with accuracy, over the paper's six schedulers: "
        f"MNIST {ranks['mnist']:.2f}, CIFAR-10 {ranks['cifar10']:.2f}; not over others (below)"
    )
    return text, PART if min(ranks.values()) > 0.8 else NOT


def _final_means(data: Results, study: str, metric: str) -> list[float]:
    """Of the paper's six."""
    return [float(np.nanmean(data.final(study, name, metric))) for name in PAPER]


# Trained models, from docs/results/mnist and docs/results/cifar10. V-B: loss and accuracy


def _apart(data: Results, study: str, one: str, other: str, metric: str) -> Estimate:
    """The paired difference after the last round."""
    return finite_estimate(data.final(study, one, metric) - data.final(study, other, metric))


def _close_to_bench(data: Results, study: str, metric: str, level: float, reach: float) -> Found:
    """Similar, or at least nearer to Bench than to RR."""
    apart = {name: _apart(data, study, name, "bench", metric) for name in OURS}
    to_rr = _apart(data, study, "round-robin", "bench", metric)
    fits = [within(value, reach) for value in apart.values()]
    nearer = all(abs(value.mean) < abs(to_rr.mean) / 2 for value in apart.values())
    text = f"Bench {plain(level, 3)}; less Bench's: {listed(apart, pair, 4, '+')}; RR {pair(to_rr, 4, '+')}"
    return text, PART if nearer and False in fits else verdict(fits)


@LEARNING.add("V-B", "ALSA-PI, BALSA, BALSA-PO: training loss similar to Bench's")
def similar_loss(data: Results, study: str) -> Found:
    level = _final_means(data, study, "loss")[0]
    return _close_to_bench(data, study, "loss", level, SIMILAR_LOSS * level)


@LEARNING.add("V-B, VI", "the same three: accuracy close to Bench's")
def similar_accuracy(data: Results, study: str) -> Found:
    level = _final_means(data, study, "accuracy")[0]
    return _close_to_bench(data, study, "accuracy", level, SIMILAR_ACCURACY)


def _others_from_ours(data: Results, study: str, metric: str, rule: Rule, reach: float) -> Found:
    """Each of the two others against each of the three; shown is the smallest difference."""
    apart = {(name, other): _apart(data, study, name, other, metric) for name in OTHERS for other in OURS}
    least = {}
    for name in OTHERS:
        value, other = min(((apart[name, other], other) for other in OURS), key=lambda found: abs(found[0].mean))
        least[name] = f"{pair(value, 4, '+')} (from {fw.figures.name_of(other)})"
    return f"the smallest difference: {listed(least)}", judged(apart, rule, reach)


@LEARNING.add("V-B", "RR and W-max have a larger loss")
def larger_loss(data: Results, study: str) -> Found:
    return _others_from_ours(data, study, "loss", above, SIMILAR_LOSS * _final_means(data, study, "loss")[0])


@LEARNING.add("V-B", "RR and W-max have a significantly lower accuracy")
def lower_accuracy(data: Results, study: str) -> Found:
    return _others_from_ours(data, study, "accuracy", below, SIMILAR_ACCURACY)


@LEARNING.add("V-B", "and much larger variances")
def larger_variance(data: Results, study: str) -> Found:
    """By the F interval of the ratio of two variances; compared with each of the three."""
    count = data.instances(study)
    reach = float(special.fdtri(count - 1, count - 1, 0.975))
    spread = {name: float(np.nanvar(data.final(study, name), ddof=1)) for name in PAPER}
    ratios = {name: [spread[name] / spread[other] for other in OURS] for name in OTHERS}
    fits = [True if min(r) > reach else False if max(r) * reach < 1 else None for r in ratios.values()]
    text = {k: f"{_short(min(r))} ({_short(min(r) / reach)} to {_short(min(r) * reach)})" for k, r in ratios.items()}
    return f"times the largest variance of the three: {listed(text)}", verdict(fits)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


@LEARNING.add("V-B", "a larger loss goes with a lower accuracy")
def loss_and_accuracy(data: Results, study: str) -> Found:
    rank = rank_correlation(_final_means(data, study, "loss"), _final_means(data, study, "accuracy"))
    return f"rank correlation over the six: {rank:.2f}", HOLDS if rank <= -0.8 else PART if rank < 0 else NOT


@LEARNING.add("VI", "BALSAs need no knowledge of the rates")
def without_knowledge(data: Results, study: str) -> Found:
    apart = {name: _apart(data, study, name, "alsa-pi", "accuracy") for name in OURS[1:]}
    return f"accuracy less ALSA-PI's: {listed(apart, pair, 4, '+')}", judged(apart, within, SIMILAR_ACCURACY)


# V-C: robustness


def spikes(data: Results, study: str, name: str) -> Floats:
    return data.curves(study)[name].spikes()


def _more_spikes(data: Results, study: str, ones: Sequence[str], *others: str) -> dict[str, Estimate]:
    """Than the mean of the others."""
    base = np.nanmean([spikes(data, study, other) for other in others], axis=0)
    return {name: finite_estimate(spikes(data, study, name) - base) for name in ones}


@LEARNING.add("V-C", "Bench is the most stable")
def bench_most_stable(data: Results, study: str) -> Found:
    found = {name: finite_estimate(spikes(data, study, name)) for name in PAPER}
    fewer = [below(value, SIMILAR_SPIKES) for value in _more_spikes(data, study, PAPER[1:], "bench").values()]
    # One that has fewer is enough to refute it.
    fits = NOT if True in fewer else OPEN if None in fewer else HOLDS
    return f"spikes per instance: {listed(found, with_width, 1)}", fits


@LEARNING.add("V-C", "the three are as stable as Bench")
def stable_as_bench(data: Results, study: str) -> Found:
    more = _more_spikes(data, study, OURS, "bench")
    return f"spikes less Bench's: {listed(more, with_width, 1, '+')}", judged(more, at_most, SIMILAR_SPIKES)


@LEARNING.add("V-C", "RR and W-max have many spikes")
def many_spikes(data: Results, study: str) -> Found:
    """More than the paper's own three."""
    more = _more_spikes(data, study, OTHERS, *OURS)
    text = f"spikes less the mean of the three's: {listed(more, with_width, 1, '+')}"
    return text, judged(more, above, SIMILAR_SPIKES)


@LEARNING.add("V-C", "W-max is much less stable than RR")
def w_max_less_stable(data: Results, study: str) -> Found:
    more = _more_spikes(data, study, ["w-max"], "round-robin")
    return f"spikes less RR's: {with_width(more['w-max'], 1, '+')}", judged(more, above, SIMILAR_SPIKES)


# V-D: targets


@LEARNING.add("V-D", "the three satisfy targets as often as Bench")
def similar_satisfaction(data: Results, study: str) -> Found:
    fits: list[Truth] = []
    gaps: dict[tuple[str, float], Estimate] = {}
    for target in TARGETS[study]:
        reached = {name: data.curves(study)[name].reaches(target).astype(float) for name in ("bench", *OURS)}
        if not any(shares.any() for shares in reached.values()):
            continue  # nobody misses what nobody has
        apart = {name: fw.statistics.estimate(reached[name] - reached["bench"]) for name in OURS}
        fits.append(together([within(value, SIMILAR_SHARE) for value in apart.values()]))
        gaps |= {(name, target): value for name, value in apart.items()}
    same = f"within {plain(SIMILAR_SHARE, 1)} at {fits.count(True)} of {len(fits)} targets reached"
    if not any(gap.mean for gap in gaps.values()):
        return f"{same}, no gap anywhere", verdict(fits)
    (name, target), gap = max(gaps.items(), key=lambda item: abs(item[1].mean))
    where = f"{fw.figures.name_of(name)} {pair(gap, 2, '+')} at {plain(target, 2)}"
    return f"{same}; the largest gap: {where}", verdict(fits)


@LEARNING.add("V-D", "RR and W-max: less often as the target rises")
def falling_satisfaction(data: Results, study: str) -> Found:
    first, last = TARGETS[study][0], TARGETS[study][-1]
    names = ("bench", *OTHERS)
    low, high = ({n: data.curves(study)[n].reaches(t).astype(float) for n in names} for t in (first, last))
    found = {n: f"{low[n].mean():.2f} to {high[n].mean():.2f}" for n in names}
    # Whoever never beats the lowest target cannot fall.
    fits = [below(fw.statistics.estimate(high[n] - low[n]), SIMILAR_SHARE) if low[n].any() else None for n in OTHERS]
    bench = found.pop("bench")
    text = f"share from target {plain(first, 2)} to {plain(last, 2)}: {listed(found)} (Bench {bench})"
    return text, verdict(fits)


@LEARNING.add("V-D", "the three need fewer rounds than RR and W-max")
def fewer_rounds(data: Results, study: str) -> Found:
    text, fits = with_fewer_rounds(data, study)
    return f"{text}; fewer than both at {fits.count(True)} of {len(fits)} targets reached", verdict(fits)


def with_fewer_rounds(data: Results, study: str) -> tuple[str, list[Truth]]:
    """Of every target that one of the three reaches: do they all need fewer rounds than both others?

    Whoever never gets there counts with the last round.
    """
    fits: list[Truth] = []
    text = "nobody reaches a target"
    for target in TARGETS[study]:
        reached = {name: data.curves(study)[name].rounds_to(target) for name in PAPER}
        if not any(np.isfinite(reached[name]).any() for name in OURS):
            continue
        needed = {name: np.minimum(rounds, data.last_round(study)) for name, rounds in reached.items()}
        fits.append(together([below(fw.statistics.estimate(needed[n] - needed[o]), 1.0) for n in OURS for o in OTHERS]))
        if np.isfinite(reached["balsa"]).mean() >= 0.5:
            shown = {name: fw.statistics.estimate(needed[name]) for name in ("bench", "balsa", *OTHERS)}
            text = f"rounds to {plain(target, 2)}: {listed(shown, with_width, 0)}"
    return text, fits


# Theorems and lemmas, from docs/results/theory and docs/results/score


@THEOREMS.add("Theorem 1", "the first bound on the loss")
def theorem_1_product(data: Results) -> Found:
    rows = data.table("theory/convergence.csv")
    fails = column(rows, "printed_product") < column(rows, "gap")
    if not fails.any():
        return "the printed bound never lies below the measured loss", HOLDS
    return f"the printed bound lies below the measured loss from round {fails.argmax()} on", NOT


@THEOREMS.add("Theorem 1", "the second bound contracts in every round")
def theorem_1_power(data: Results) -> Found:
    falls = (np.diff(column(data.table("theory/convergence.csv"), "printed_power")) < 0).any()
    text = "with the printed step size ε' = εζ (1 - 1 / max c) is never above 0; the bound "
    return text + ("falls" if falls else "never falls"), HOLDS if falls else NOT


@THEOREMS.add("II-C", "the procedure converges")
def theorem_1_converges(data: Results) -> Found:
    gap = column(data.table("theory/convergence.csv"), "gap")
    text = (
        f"loss above its minimum falls by a factor of {gap[0] / gap[-1]:,.0f} in {len(gap) - 1} rounds where devices "
        "share one minimiser; with different data at each device it stops above it (no data here)"
    )
    return text, PART if gap[-1] < 0.1 * gap[0] else NOT


@THEOREMS.add("II-C", "more successful uploads, faster convergence")
def theorem_1_more_uploads(data: Results) -> Found:
    """W-max delivers at least as many uploads as ALSA-PI."""
    found = {name: fw.statistics.estimate(data.score(name, "uploads")) for name in ("w-max", "alsa-pi", "round-robin")}
    more, worse = data.score_apart("w-max", "alsa-pi", "uploads"), _apart(data, "mnist", "w-max", "alsa-pi", "accuracy")
    text = f"uploads a round: {listed(found, with_width, 2)}; W-max learns worst ({pair(worse, 3, '+')} on MNIST)"
    return text, NOT if above(more, 0) and below(worse, 0) else OPEN


THEOREMS.state("Lemma 1", "2ξ (l - l*) ≤ squared norm of the gradient", "known of strongly convex functions", HOLDS)


@THEOREMS.add("Theorem 2, V-A", "greedy, and so ALSA-PI, is optimal")
def theorem_2(data: Results) -> Found:
    better = {name: data.score_apart(name, "alsa-pi") for name in ("max-weight", "lagrangian")}
    most = max(float(row["gap"]) for row in data.table("theory/gap.csv"))
    scores = ", ".join(f"`{name}` {with_width(value, 3, '+')}" for name, value in better.items())
    text = (
        f"score less ALSA-PI's: {scores}; two devices, solved exactly: greedy's backlog is up to {100 * most:.0f} % "
        "above the optimum"
    )
    return text, NOT if any(above(value, 0) for value in better.values()) else OPEN


@THEOREMS.add("App. B", "whoever picks all devices now and then delivers everything")
def theorem_2_all_delivered(data: Results) -> Found:
    found = {n: fw.statistics.estimate(100 * data.score(n, "delivered_share")) for n in ("alsa-pi", "w-max")}
    text = listed({name: f"{with_width(value, 1)} %" for name, value in found.items()})
    return f"delivered after {data.score_rounds()} rounds: {text}, which takes much longer", HOLDS


def regret(data: Results, label: str) -> Estimate:
    """Regret a round in the second half, in millionths."""
    value = data.content("theory/regret.json")["regret a round"][label]
    return Estimate(1e6 * value["mean"], 1e6 * value["half_width"], 0)


@THEOREMS.add("Theorem 3", "BALSA's regret is sublinear: it is optimal in the long run")
def theorem_3(data: Results) -> Found:
    balsa, greedy, solved = (regret(data, label) for label in ("balsa", "J* - J of greedy", "dp-ts"))
    text = (
        f"regret a round in the second half, in millionths: BALSA {with_width(balsa, 0)}, greedy with known rates "
        f"{with_width(greedy, 0)}, `dp-ts` {with_width(solved, 2)}: it grows linearly"
    )
    return text, NOT if above(balsa, 0) else OPEN


@THEOREMS.add("Theorem 3", "the number that bounds the regret")
def theorem_3_number(data: Results) -> Found:
    empty = data.content("theory/regret.json")["the printed bound exceeds T up to round"]
    power = int(np.floor(np.log10(empty)))
    return f"larger than T, which no regret exceeds, up to round {empty / 10**power:.0f} x 10^{power}", UNTESTED


THEOREMS.state(
    "Lemma 2",
    "bounds on the three parts of the regret",
    "they are about the optimal policy of the drawn rates; BALSA plays another",
    UNTESTED,
)


@THEOREMS.add("Lemma 3", "stages of BALSA: at most sqrt(2 S A T log T)")
def stages(data: Results) -> Found:
    last = data.table("theory/regret.csv")[-1]
    found, allowed = float(last["stages literal"]), float(last["lemma 4"])
    text = f"{found:,.0f} in {float(last['round']):,.0f} rounds; allowed are {allowed:,.0f}"
    return text, verdict([found <= allowed])


@THEOREMS.add("IV-C", "BALSA learns the rates")
def balsa_learns(data: Results) -> Found:
    less = regret(data, "balsa less J* - J of greedy")
    text = f"BALSA less greedy with known rates: {with_width(less, 1, '+')}"
    return text, verdict([abs(less.mean) <= less.half_width])


THEOREMS.state(
    "IV-D",
    "sums of arrivals are enough for BALSA-PO's posterior",
    "with the rounds that a sum covers, yes; with the printed t - 1 the score falls to -42 (no data here)",
    PART,
)
THEOREMS.state(
    "II-B",
    "other i.i.d. arrivals than Poisson by sampling",
    "for negative binomial and zero-inflated Poisson arrivals: 50 % and 90 % intervals of the sampled posterior "
    "cover .50 and .90 (no data here)",
    HOLDS,
)
THEOREMS.state(
    "Remark 2",
    "all three extend to a W that changes by round",
    "`network.slots` may be a list with one W for each round",
    HOLDS,
)


@THEOREMS.add("IV-E", "a decision takes O(U log U), dynamic programming grows exponentially")
def complexity(data: Results) -> Found:
    rows = {(row["scheduler"], row["devices"]): row for row in data.table("theory/times.csv")}

    def ratio(scheduler: str, more: str, fewer: str, field: str) -> float:
        return float(rows[scheduler, more][field]) / float(rows[scheduler, fewer][field])

    grow = {name: ratio(name, "1000", "100", "later_seconds") for name in ("alsa-pi", "balsa")}
    solve = ratio("dp", "3", "2", "first_seconds")
    text = (
        f"time of a decision, 1000 devices over 100: {listed(grow, format, '.1f')} (U log U: 15); "
        f"solving the DP, 3 devices over 2: {solve:.0f}"
    )
    return text, verdict([*(value <= 15 for value in grow.values()), solve > 10])


# The tables of the page


def claims(data: Results, part: str) -> str:
    """The table of a part; of the trained runs with a column for each."""
    studies: list[list[str]] = [[]]
    heading = ["ours", "verdict"]
    if part == "learning":
        studies, heading = [[study] for study in TARGETS], ["MNIST", "verdict", "CIFAR-10", "verdict"]
    lines = [["in the paper", "claim", *heading]]
    for claim in PARTS[part]:
        found = [claim.found(data, *study) for study in studies]
        lines.append([claim.where, claim.says, *(cell for text, fits in found for cell in (text, f"**{fits}**"))])
    # Texts, so nothing is flush right and nothing is escaped.
    head, *body = (f"| {' | '.join(line)} |\n" for line in lines)
    return f"\n{head}|{'---|' * len(lines[0])}\n{''.join(body)}"


def claims_held(data: Results, part: str) -> str:
    """How many of a part (or of one trained run) have each verdict."""
    study, part = ([part], "learning") if part in TARGETS else ([], part)
    found = [claim.found(data, *study)[1] for claim in PARTS[part]]
    counts = {name: found.count(name) for name in (HOLDS, PART, NOT, OPEN, UNTESTED)}
    return ", ".join(f"{name}: {number}" for name, number in counts.items() if number)


def choices(data: Results) -> str:
    """How much our choices matter: accuracies of sweeps over them, a table for each that is committed."""
    found = [_choice(read_rows(path)) for path in sorted((data.folder / "choices").rglob("summary.csv"))]
    return "".join(found) or "The study of these choices is not committed yet."


def _choice(rows: list[Row]) -> str:
    rows = [row for row in rows if row["metric"] == "accuracy"]
    keys = list(rows[0])
    axes = keys[: keys.index("scheduler")]
    points: dict[tuple[str, ...], dict[str, Row]] = {}  # by place and scheduler
    for row in rows:
        points.setdefault(tuple(row[axis] for axis in axes), {})[row["scheduler"]] = row
    known = [name for name in PAPER if any(row["scheduler"] == name for row in rows)]
    shown = []
    for point, mine in points.items():
        means = [pair(estimate_in(mine[name], "mean", "half_width"), 3) for name in known]
        apart = {k: estimate_in(mine[k], "difference", "difference_half_width") for k in OTHERS if k in mine}
        shown.append([*point, *means, judged(apart, below, SIMILAR_ACCURACY)])
    heading = [*map(fw.figures.field_name, axes), *map(fw.figures.name_of, known), "RR, W-max below ALSA-PI"]
    return "\n" + fw.tables.markdown(heading, shown)
