"""The paper's claims, each with our number and a verdict that follows from it (for docs/reproduction.md).

The rules are those that the page states. What a claim says of one scheduler is true, false, or open (None) where the
95 % interval is too wide to tell; a claim about several holds if it is true of all, and in part if it is of some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from committed import (
    column,
    content,
    curves,
    final,
    finite_estimate,
    instances,
    is_committed,
    last_round,
    pair,
    plain,
    score,
    table,
    with_width,
)
from scipy import special

from fedwave.experiments.report.figures.common import name_of
from fedwave.experiments.report.tables import markdown
from fedwave.experiments.results.statistics import Estimate, estimate

HOLDS, PART, NOT = "holds", "in part", "does not hold"
OPEN, UNTESTED = "open", "cannot be tested"
OURS = ("alsa-pi", "balsa", "balsa-po")  # the paper's own three
OTHERS = ("round-robin", "w-max")
PAPER = ("bench", *OURS, *OTHERS)
TARGETS = {
    "mnist": (0.70, 0.75, 0.80, 0.85, 0.90, 0.95),
    "cifar10": (0.48, 0.52, 0.56, 0.60, 0.64, 0.68, 0.72),
}
# What counts as similar, and what as much: see the page.
SIMILAR_SCORE, SIMILAR_LOSS, SIMILAR_ACCURACY, SIMILAR_SHARE, SIMILAR_SPIKES = (
    0.01,
    0.1,
    0.01,
    0.1,
    1.0,
)
MUCH = 0.1
# Of summary.csv; the others are the axes of a sweep.
_COLUMNS = {
    "scheduler",
    "metric",
    "mean",
    "half_width",
    "standard_error",
    "difference",
    "difference_half_width",
    "instances",
    "difference_instances",
}

Found = tuple[str, str]  # our number, and the verdict


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, and what we find."""

    where: str
    says: str
    found: Callable[..., Found]  # of a trained run: with its name


Truth = bool | None  # None: the interval is too wide to tell


def verdict(fits: Sequence[Truth]) -> str:
    """From what is true of each scheduler, or pair, that a claim is about."""
    if all(fits):
        return HOLDS
    if any(fits):
        return PART
    return NOT if any(one is False for one in fits) else OPEN


def above(value: Estimate, reach: float) -> Truth:
    """Is it above 0? False if it is at most ``reach``, which counts as no difference."""
    if value.mean > value.half_width:
        return True
    return False if value.mean + value.half_width <= reach else None


def below(value: Estimate, reach: float) -> Truth:
    """The same for less than 0."""
    return above(Estimate(-value.mean, value.half_width, 0), reach)


def within(value: Estimate, reach: float) -> Truth:
    """Does it lie between -reach and reach, with its whole interval?"""
    if abs(value.mean) + value.half_width <= reach:
        return True
    return False if abs(value.mean) - value.half_width > reach else None


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name_of(name)} {text}" for name, text in found.items())


# V-A: scores


def _apart(one: str, other: str, metric: str = "score") -> Estimate:
    return estimate(score(one, metric) - score(other, metric))


def similar_scores() -> Found:
    level = score("alsa-pi", "score").mean()
    found = {name: _apart(name, "alsa-pi") for name in ("balsa", "balsa-po")}
    text = _listed({name: with_width(value, 3, "+") for name, value in found.items()})
    return f"{text} of {level:.2f}", verdict(
        [within(v, SIMILAR_SCORE * level) for v in found.values()]
    )


def _bands(scheduler: str, name: str, round_: int) -> Estimate:
    line = next(
        r
        for r in table("score/rounds.csv")
        if (r["scheduler"], r["round"]) == (scheduler, str(round_))
    )
    return Estimate(float(line[f"{name}_mean"]), float(line[f"{name}_half_width"]), 0)


def _score_rounds() -> int:
    return max(int(row["round"]) for row in table("score/rounds.csv"))


def converging_scores() -> Found:
    """The gap in the second half of the rounds, whose interval must include 0."""
    late = {name: _second_half(name) for name in ("balsa", "balsa-po")}
    text = _listed({name: with_width(value, 2, "+") for name, value in late.items()})
    fits = [abs(value.mean) <= value.half_width for value in late.values()]
    return (
        f"less ALSA-PI's, rounds {_score_rounds() // 2 + 1} to {_score_rounds()}: {text}",
        verdict(fits),
    )


def _second_half(name: str) -> Estimate:
    """From the means over all rounds and over the first half; the half-width is at most this."""
    last = _score_rounds()
    whole, first = (_bands(name, "running_difference", t) for t in (last, last // 2))
    part = last // 2 / (last - last // 2)
    mean = (1 + part) * whole.mean - part * first.mean
    return Estimate(mean, (1 + part) * whole.half_width + part * first.half_width, 0)


def much_lower_scores() -> Found:
    found = {name: _apart(name, "balsa-po") for name in OTHERS}
    level = score("balsa-po", "score").mean()
    fits = [above(Estimate(-v.mean - MUCH * level, v.half_width, 0), 0) for v in found.values()]
    text = _listed(
        {n: f"{with_width(v, 2, '+')} ({100 * v.mean / level:+.0f} %)" for n, v in found.items()}
    )
    return f"less BALSA-PO's: {text}", verdict(fits)


def falling_score() -> Found:
    last = _score_rounds()
    early, late = (_bands("w-max", "recent", t) for t in (50, last))
    text = f"mean of 25 rounds: {with_width(early, 0)} up to round 50, {with_width(late, 0)} up to round {last}"
    return text, verdict([late.mean + late.half_width < early.mean - early.half_width])


def score_is_learning() -> Found:
    """Among the paper's six; of others the page has a sentence."""
    scores = [score(name, "score").mean() for name in PAPER]
    ranks = {
        study: rank_correlation(scores, [np.nanmean(final(study, n)) for n in PAPER])
        for study in TARGETS
    }
    text = (
        "rank correlation with accuracy over the paper's six schedulers: "
        f"MNIST {ranks['mnist']:.2f}, CIFAR-10 {ranks['cifar10']:.2f}; not over others (below)"
    )
    return text, PART if min(ranks.values()) > 0.8 else NOT


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, of values without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def more_stragglers() -> Found:
    ages = {name: estimate(score(name, "mean_age")) for name in reversed(OTHERS)}
    more = _apart("w-max", "round-robin", "mean_age")
    text = _listed({name: with_width(value, 1) for name, value in ages.items()})
    return f"mean age of a device: {text} rounds", verdict([above(more, 1.0)])


# V-B: loss and accuracy


def _differences(
    study: str, ones: Sequence[str], others: Sequence[str], metric: str
) -> dict[tuple[str, str], Estimate]:
    return {
        (one, other): finite_estimate(final(study, one, metric) - final(study, other, metric))
        for one in ones
        for other in others
    }


def _close_to_bench(study: str, metric: str, reach: float) -> Found:
    """Similar, or at least nearer to Bench than to RR."""
    apart = _differences(study, OURS, ["bench"], metric)
    to_rr = finite_estimate(final(study, "round-robin", metric) - final(study, "bench", metric))
    fits = [within(value, reach) for value in apart.values()]
    nearer = all(abs(value.mean) < abs(to_rr.mean) / 2 for value in apart.values())
    text = _listed({one: pair(value, 4, "+") for (one, _), value in apart.items()})
    text += f"; RR {pair(to_rr, 4, '+')}"
    found = verdict(fits)
    return f"less Bench's: {text}", PART if found == NOT and nearer else found


def similar_loss(study: str) -> Found:
    level = float(np.nanmean(final(study, "bench", "loss")))
    text, found = _close_to_bench(study, "loss", SIMILAR_LOSS * level)
    return f"Bench {plain(level, 3)}; {text}", found


def similar_accuracy(study: str) -> Found:
    level = float(np.nanmean(final(study, "bench")))
    text, found = _close_to_bench(study, "accuracy", SIMILAR_ACCURACY)
    return f"Bench {plain(level, 3)}; {text}", found


def larger_loss(study: str) -> Found:
    apart = _differences(study, OTHERS, OURS, "loss")
    reach = SIMILAR_LOSS * float(np.nanmean(final(study, "bench", "loss")))
    return _least(apart, "+"), verdict([above(value, reach) for value in apart.values()])


def lower_accuracy(study: str) -> Found:
    apart = _differences(study, OTHERS, OURS, "accuracy")
    return _least(apart, "+"), verdict([below(value, SIMILAR_ACCURACY) for value in apart.values()])


def _least(apart: dict[tuple[str, str], Estimate], sign: str) -> str:
    """Of each of the others, the smallest of its three differences."""
    found = {}
    for name in OTHERS:
        mine = {pair_: value for pair_, value in apart.items() if pair_[0] == name}
        (_, other), value = min(mine.items(), key=lambda item: abs(item[1].mean))
        found[name] = f"{pair(value, 4, sign)} (from {name_of(other)})"
    return f"the smallest difference: {_listed(found)}"


def larger_variance(study: str) -> Found:
    """By the F interval of the ratio of two variances; compared with each of the three."""
    count = instances(study)
    reach = float(special.fdtri(count - 1, count - 1, 0.975))
    spread = {name: float(np.nanvar(final(study, name), ddof=1)) for name in PAPER}
    fits, found = [], {}
    for name in OTHERS:
        ratios = [spread[name] / spread[other] for other in OURS]
        fits.append(True if min(ratios) > reach else False if max(ratios) * reach < 1 else None)
        ratio = spread[name] / spread["alsa-pi"]
        found[name] = f"{_short(ratio)} ({_short(ratio / reach)} to {_short(ratio * reach)})"
    return f"times ALSA-PI's variance: {_listed(found)}", verdict(fits)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def loss_and_accuracy(study: str) -> Found:
    loss, accuracy = ([np.nanmean(final(study, n, m)) for n in PAPER] for m in ("loss", "accuracy"))
    rank = rank_correlation(loss, accuracy)
    return (
        f"rank correlation over the six: {rank:.2f}",
        HOLDS if rank <= -0.8 else PART if rank < 0 else NOT,
    )


def without_knowledge(study: str) -> Found:
    apart = _differences(study, OURS[1:], ["alsa-pi"], "accuracy")
    text = _listed({one: pair(value, 4, "+") for (one, _), value in apart.items()})
    return f"accuracy less ALSA-PI's: {text}", verdict(
        [within(v, SIMILAR_ACCURACY) for v in apart.values()]
    )


# V-C: robustness


def _spikes(study: str, name: str) -> np.ndarray:
    return curves(study)[name].spikes()


def bench_most_stable(study: str) -> Found:
    least = {name: finite_estimate(_spikes(study, name)) for name in PAPER}
    text = ", ".join(f"{name_of(n)} {with_width(v, 1)}" for n, v in least.items())
    apart = [finite_estimate(_spikes(study, n) - _spikes(study, "bench")) for n in PAPER[1:]]
    return f"spikes per instance: {text}", verdict([not below(value, 0.0) for value in apart])


def stable_as_bench(study: str) -> Found:
    apart = {n: finite_estimate(_spikes(study, n) - _spikes(study, "bench")) for n in OURS}
    text = _listed({n: with_width(v, 1, "+") for n, v in apart.items()})
    return f"spikes less Bench's: {text}", verdict(
        [within(v, SIMILAR_SPIKES) for v in apart.values()]
    )


def many_spikes(study: str) -> Found:
    """More than the paper's own three."""
    apart = {
        n: finite_estimate(
            _spikes(study, n) - np.nanmean([_spikes(study, o) for o in OURS], axis=0)
        )
        for n in OTHERS
    }
    text = _listed({n: with_width(v, 1, "+") for n, v in apart.items()})
    return f"spikes less the mean of the three's: {text}", verdict(
        [above(v, SIMILAR_SPIKES) for v in apart.values()]
    )


def w_max_less_stable(study: str) -> Found:
    apart = finite_estimate(_spikes(study, "w-max") - _spikes(study, "round-robin"))
    return f"spikes less RR's: {with_width(apart, 1, '+')}", verdict([above(apart, SIMILAR_SPIKES)])


# V-D: targets


def similar_satisfaction(study: str) -> Found:
    fits: list[Truth] = []
    worst, place = Estimate(0.0, 0.0, 0.0), ("alsa-pi", TARGETS[study][0])
    for target in TARGETS[study]:
        reached = {n: curves(study)[n].reaches(target).astype(float) for n in PAPER}
        apart = {n: estimate(reached[n] - reached["bench"]) for n in OURS}
        alike = [within(value, SIMILAR_SHARE) for value in apart.values()]
        fits.append(True if all(alike) else False if False in alike else None)
        name = max(apart, key=lambda n: abs(apart[n].mean))
        if abs(apart[name].mean) > abs(worst.mean):
            worst, place = apart[name], (name, target)
    same = f"within {plain(SIMILAR_SHARE, 1)} at {fits.count(True)} of {len(fits)} targets"
    if not worst.mean:
        return f"{same}, no gap anywhere", verdict(fits)
    gap = f"{name_of(place[0])} {pair(worst, 2, '+')} at {plain(place[1], 2)}"
    return f"{same}; the largest gap: {gap}", verdict(fits)


def falling_satisfaction(study: str) -> Found:
    first, last = TARGETS[study][0], TARGETS[study][-1]
    found, fits = {}, list[Truth]()
    for name in OTHERS:
        low, high = (curves(study)[name].reaches(t).astype(float) for t in (first, last))
        # Whoever never beats the lowest target cannot fall.
        fits.append(below(estimate(high - low), SIMILAR_SHARE) if low.any() else None)
        found[name] = f"{low.mean():.2f} to {high.mean():.2f}"
    text = f"share from target {plain(first, 2)} to {plain(last, 2)}: {_listed(found)}"
    low, high = (curves(study)["bench"].reaches(target).mean() for target in (first, last))
    return f"{text} (Bench {low:.2f} to {high:.2f})", verdict(fits)


def fewer_rounds(study: str) -> Found:
    """Whoever never gets there counts with the last round; targets that none of the three reaches do not count."""
    fits: list[Truth] = []
    text = "nobody reaches a target"
    for target in TARGETS[study]:
        reached = {n: curves(study)[n].rounds_to(target) for n in PAPER}
        if not any(np.isfinite(reached[n]).any() for n in OURS):
            continue
        needed = {n: np.minimum(values, last_round(study)) for n, values in reached.items()}
        fewer = [below(estimate(needed[n] - needed[o]), 1.0) for n in OURS for o in OTHERS]
        fits.append(True if all(fewer) else False if False in fewer else None)
        if np.isfinite(reached["balsa"]).mean() >= 0.5:
            shown = {n: with_width(estimate(needed[n]), 0) for n in ("bench", "balsa", *OTHERS)}
            text = f"rounds to {plain(target, 2)}: {_listed(shown)}"
    return f"{text}; fewer than both at {fits.count(True)} of {len(fits)} targets reached", verdict(
        fits
    )


# Theorems


def theorem_1_product() -> Found:
    lines = table("theory/convergence.csv")
    below = column(lines, "printed_product") < column(lines, "gap")
    first = int(below.argmax()) if below.any() else None
    text = (
        "the printed bound never lies below the measured loss"
        if first is None
        else (f"the printed bound lies below the measured loss from round {first} on")
    )
    return text, HOLDS if first is None else NOT


def theorem_1_power() -> Found:
    bound = column(table("theory/convergence.csv"), "printed_power")
    falls = bool((np.diff(bound) < 0).any())
    text = (
        "with the printed step size ε' = εζ (1 - 1 / max c) is never above 0; the bound "
        f"{'falls' if falls else 'never falls'}"
    )
    return text, HOLDS if falls else NOT


def theorem_1_more_uploads() -> Found:
    """W-max delivers at least as many uploads as ALSA-PI."""
    found = {n: estimate(score(n, "uploads")) for n in ("w-max", "alsa-pi", "round-robin")}
    more = _apart("w-max", "alsa-pi", "uploads")
    worse = finite_estimate(final("mnist", "w-max") - final("mnist", "alsa-pi"))
    text = _listed({n: with_width(value, 2) for n, value in found.items()})
    text = f"uploads a round: {text}; W-max learns worst ({pair(worse, 3, '+')} on MNIST)"
    return text, NOT if above(more, 0) and below(worse, 0) else OPEN


def theorem_1_converges() -> Found:
    lines = table("theory/convergence.csv")
    gap = column(lines, "gap")
    falls = gap[-1] < 0.1 * gap[0]
    text = (
        f"loss above its minimum falls by a factor of {gap[0] / gap[-1]:,.0f} in {len(gap) - 1} rounds where devices "
        "share one minimiser; with different data at each device it stops above it (no data here)"
    )
    return text, PART if falls else NOT


def theorem_2() -> Found:
    better = {n: _apart(n, "alsa-pi") for n in ("max-weight", "lagrangian")}
    most = max(float(row["gap"]) for row in table("theory/gap.csv"))
    text = ", ".join(f"`{n}` {with_width(value, 3, '+')}" for n, value in better.items())
    text = (
        f"score less ALSA-PI's: {text}; two devices, solved exactly: greedy's backlog is up to {100 * most:.0f} % "
        "above the optimum"
    )
    return text, NOT if any(above(value, 0) for value in better.values()) else OPEN


def theorem_2_all_delivered() -> Found:
    found = {n: estimate(100 * score(n, "delivered_share")) for n in ("alsa-pi", "w-max")}
    text = _listed({n: f"{with_width(v, 1)} %" for n, v in found.items()})
    return f"delivered after {_score_rounds()} rounds: {text}, which takes much longer", HOLDS


def _regret(label: str) -> Estimate:
    value = content("theory/regret.json")["regret a round"][label]
    return Estimate(1e6 * value["mean"], 1e6 * value["half_width"], 0)


def theorem_3() -> Found:
    balsa, greedy, solved = (_regret(n) for n in ("balsa", "J* - J of greedy", "dp-ts"))
    text = (
        f"regret a round in the second half, in millionths: BALSA {with_width(balsa, 0)}, greedy with known rates "
        f"{with_width(greedy, 0)}, `dp-ts` {with_width(solved, 2)}: it grows linearly"
    )
    return text, NOT if above(balsa, 0) else OPEN


def theorem_3_number() -> Found:
    empty = content("theory/regret.json")["the printed bound exceeds T up to round"]
    power = int(np.floor(np.log10(empty)))
    return (
        f"larger than T, which no regret exceeds, up to round {empty / 10**power:.0f} x 10^{power}",
        UNTESTED,
    )


def balsa_learns() -> Found:
    less = _regret("balsa less J* - J of greedy")
    return f"BALSA less greedy with known rates: {with_width(less, 1, '+')}", verdict(
        [abs(less.mean) <= less.half_width]
    )


def stages() -> Found:
    last = table("theory/regret.csv")[-1]
    found, allowed = float(last["stages literal"]), float(last["lemma 4"])
    text = f"{found:,.0f} in {float(last['round']):,.0f} rounds; allowed are {allowed:,.0f}"
    return text, verdict([found <= allowed])


def complexity() -> Found:
    times = {(r["scheduler"], r["devices"]): r for r in table("theory/times.csv")}
    grow = {
        n: float(times[n, "1000"]["later_seconds"]) / float(times[n, "100"]["later_seconds"])
        for n in ("alsa-pi", "balsa")
    }
    solve = float(times["dp", "3"]["first_seconds"]) / float(times["dp", "2"]["first_seconds"])
    text = _listed({n: f"{value:.1f}" for n, value in grow.items()})
    text = (
        f"time of a decision, 1000 devices over 100: {text} (U log U: 15); "
        f"solving the DP, 3 devices over 2: {solve:.0f}"
    )
    return text, verdict([*(value <= 15 for value in grow.values()), solve > 10])


def _said(text: str, judged: str) -> Callable[[], Found]:
    """A claim that needs no number of ours, or has one without data here."""
    return lambda: (text, judged)


_TEXTBOOK = _said("known of strongly convex functions", HOLDS)
_OTHER_POLICY = _said(
    "they are about the optimal policy of the drawn rates; BALSA plays another", UNTESTED
)
_SUMS = _said(
    "with the rounds that a sum covers, yes; with the printed t - 1 the score falls to -42 (no data here)",
    PART,
)

PARTS: dict[str, tuple[Claim, ...]] = {
    "score": (
        Claim("V-A", "BALSA and BALSA-PO achieve a score similar to ALSA-PI's", similar_scores),
        Claim("V-A", "their scores converge to ALSA-PI's", converging_scores),
        Claim("V-A", "RR and W-max achieve much lower scores", much_lower_scores),
        Claim("V-A", "the score of W-max decreases over the rounds", falling_score),
        Claim("V-C", "W-max raises many more stragglers than RR", more_stragglers),
        Claim("III, V-A", "a higher score means a better trained model", score_is_learning),
    ),
    "learning": (
        Claim("V-B", "ALSA-PI, BALSA, BALSA-PO: training loss similar to Bench's", similar_loss),
        Claim("V-B, VI", "the same three: accuracy close to Bench's", similar_accuracy),
        Claim("V-B", "RR and W-max have a larger loss", larger_loss),
        Claim("V-B", "RR and W-max have a significantly lower accuracy", lower_accuracy),
        Claim("V-B", "and much larger variances", larger_variance),
        Claim("V-B", "a larger loss goes with a lower accuracy", loss_and_accuracy),
        Claim("VI", "BALSAs need no knowledge of the rates", without_knowledge),
        Claim("V-C", "Bench is the most stable", bench_most_stable),
        Claim("V-C", "the three are as stable as Bench", stable_as_bench),
        Claim("V-C", "RR and W-max have many spikes", many_spikes),
        Claim("V-C", "W-max is much less stable than RR", w_max_less_stable),
        Claim("V-D", "the three satisfy targets as often as Bench", similar_satisfaction),
        Claim("V-D", "RR and W-max: less often as the target rises", falling_satisfaction),
        Claim("V-D", "the three need fewer rounds than RR and W-max", fewer_rounds),
    ),
    "theorems": (
        Claim("Theorem 1", "the first bound on the loss", theorem_1_product),
        Claim("Theorem 1", "the second bound contracts in every round", theorem_1_power),
        Claim("II-C", "the procedure converges", theorem_1_converges),
        Claim("II-C", "more successful uploads, faster convergence", theorem_1_more_uploads),
        Claim("Lemma 1", "2ξ (l - l*) ≤ squared norm of the gradient", _TEXTBOOK),
        Claim("Theorem 2, V-A", "greedy, and so ALSA-PI, is optimal", theorem_2),
        Claim(
            "App. B",
            "whoever picks all devices now and then delivers everything",
            theorem_2_all_delivered,
        ),
        Claim("Theorem 3", "BALSA's regret is sublinear: it is optimal in the long run", theorem_3),
        Claim("Theorem 3", "the number that bounds the regret", theorem_3_number),
        Claim("Lemma 2", "bounds on the three parts of the regret", _OTHER_POLICY),
        Claim("Lemma 3", "stages of BALSA: at most sqrt(2 S A T log T)", stages),
        Claim("IV-C", "BALSA learns the rates", balsa_learns),
        Claim("IV-D", "sums of arrivals are enough for BALSA-PO's posterior", _SUMS),
        Claim(
            "IV-E",
            "a decision takes O(U log U), dynamic programming grows exponentially",
            complexity,
        ),
    ),
}


def claims(part: str) -> str:
    """The table of a part; of the trained runs with a column for each."""
    if part != "learning":
        lines = [[c.where, c.says, *_marked(c.found())] for c in PARTS[part]]
        return _table(["in the paper", "claim", "ours", "verdict"], lines)
    lines = []
    for claim in PARTS[part]:
        cells = [cell for study in TARGETS for cell in _marked(claim.found(study))]
        lines.append([claim.where, claim.says, *cells])
    return _table(["in the paper", "claim", "MNIST", "verdict", "CIFAR-10", "verdict"], lines)


def _marked(found: Found) -> list[str]:
    return [found[0], f"**{found[1]}**"]


def _table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Texts, so nothing is flush right and nothing is escaped."""
    rule = "|".join("---" for _ in heading)
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"\n| {' | '.join(heading)} |\n|{rule}|\n{body}\n"


def claims_held(part: str) -> str:
    """How many of a part (or of one trained run) have each verdict."""
    if part in TARGETS:
        found = [claim.found(part)[1] for claim in PARTS["learning"]]
    else:
        found = [claim.found()[1] for claim in PARTS[part]]
    counts = {name: found.count(name) for name in (HOLDS, PART, NOT, OPEN, UNTESTED)}
    return ", ".join(f"{name}: {number}" for name, number in counts.items() if number)


def choices() -> str:
    """How much our choices matter: accuracies of a sweep over them, if it is there."""
    name = "choices/summary.csv"
    if not is_committed(name):
        return "The study of these choices is not committed yet."
    lines = [row for row in table(name) if row["metric"] == "accuracy"]
    axes = [key for key in lines[0] if key not in _COLUMNS]
    points = dict.fromkeys(tuple(row[axis] for axis in axes) for row in lines)
    shown = []
    for point in points:
        mine = {r["scheduler"]: r for r in lines if tuple(r[axis] for axis in axes) == point}
        means = {
            n: Estimate(float(r["mean"]), float(r["half_width"] or "nan"), 0)
            for n, r in mine.items()
        }
        known = [n for n in PAPER if n in means]
        apart = [means[n].mean for n in known]
        same = all(ours >= others for ours, others in pairwise(apart))
        shown.append([*point, *(pair(means[n], 3) for n in known), "yes" if same else "no"])
    return "\n" + markdown([*axes, *map(name_of, known), "the paper's order"], shown).strip() + "\n"
