"""The paper's claims with our numbers and verdicts, as the tables of docs/reproduction.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fedwave as fw
from fedwave.paper import claims_learning as of_learning
from fedwave.paper import claims_score as of_scores
from fedwave.paper import claims_theory as of_theory
from fedwave.paper.results import Results
from fedwave.paper.verdicts import (
    HOLDS,
    NOT,
    OPEN,
    OTHERS,
    PAPER,
    PART,
    SIMILAR_ACCURACY,
    TARGETS,
    UNTESTED,
    Claim,
    Found,
    below,
    pair,
    verdict,
)


def _said(text: str, judged: str) -> Callable[[Results], Found]:
    """A claim that needs no number of ours, or has one without data here."""
    return lambda data: (text, judged)


_TEXTBOOK = _said("known of strongly convex functions", HOLDS)
_OTHER_POLICY = _said("they are about the optimal policy of the drawn rates; BALSA plays another", UNTESTED)
_SUMS = _said(
    "with the rounds that a sum covers, yes; with the printed t - 1 the score falls to -42 (no data here)", PART
)
_OTHER_ARRIVALS = _said(
    "for negative binomial and zero-inflated Poisson arrivals: 50 % and 90 % intervals of the sampled posterior "
    "cover .50 and .90 (no data here)",
    HOLDS,
)
_SLOTS = _said("`network.slots` may be a list with one W for each round", HOLDS)


PARTS: dict[str, tuple[Claim, ...]] = {
    "score": (
        Claim("V-A", "BALSA and BALSA-PO achieve a score similar to ALSA-PI's", of_scores.similar_scores),
        Claim("V-A", "their scores converge to ALSA-PI's", of_scores.converging_scores),
        Claim("V-A", "RR and W-max achieve much lower scores", of_scores.much_lower_scores),
        Claim("V-A", "the score of W-max decreases over the rounds", of_scores.falling_score),
        Claim("V-C", "W-max raises many more stragglers than RR", of_scores.more_stragglers),
        Claim("III, V-A", "a higher score means a better trained model", of_scores.score_is_learning),
    ),
    "learning": (
        Claim("V-B", "ALSA-PI, BALSA, BALSA-PO: training loss similar to Bench's", of_learning.similar_loss),
        Claim("V-B, VI", "the same three: accuracy close to Bench's", of_learning.similar_accuracy),
        Claim("V-B", "RR and W-max have a larger loss", of_learning.larger_loss),
        Claim("V-B", "RR and W-max have a significantly lower accuracy", of_learning.lower_accuracy),
        Claim("V-B", "and much larger variances", of_learning.larger_variance),
        Claim("V-B", "a larger loss goes with a lower accuracy", of_learning.loss_and_accuracy),
        Claim("VI", "BALSAs need no knowledge of the rates", of_learning.without_knowledge),
        Claim("V-C", "Bench is the most stable", of_learning.bench_most_stable),
        Claim("V-C", "the three are as stable as Bench", of_learning.stable_as_bench),
        Claim("V-C", "RR and W-max have many spikes", of_learning.many_spikes),
        Claim("V-C", "W-max is much less stable than RR", of_learning.w_max_less_stable),
        Claim("V-D", "the three satisfy targets as often as Bench", of_learning.similar_satisfaction),
        Claim("V-D", "RR and W-max: less often as the target rises", of_learning.falling_satisfaction),
        Claim("V-D", "the three need fewer rounds than RR and W-max", of_learning.fewer_rounds),
    ),
    "theorems": (
        Claim("Theorem 1", "the first bound on the loss", of_theory.theorem_1_product),
        Claim("Theorem 1", "the second bound contracts in every round", of_theory.theorem_1_power),
        Claim("II-C", "the procedure converges", of_theory.theorem_1_converges),
        Claim("II-C", "more successful uploads, faster convergence", of_theory.theorem_1_more_uploads),
        Claim("Lemma 1", "2ξ (l - l*) ≤ squared norm of the gradient", _TEXTBOOK),
        Claim("Theorem 2, V-A", "greedy, and so ALSA-PI, is optimal", of_theory.theorem_2),
        Claim(
            "App. B", "whoever picks all devices now and then delivers everything", of_theory.theorem_2_all_delivered
        ),
        Claim("Theorem 3", "BALSA's regret is sublinear: it is optimal in the long run", of_theory.theorem_3),
        Claim("Theorem 3", "the number that bounds the regret", of_theory.theorem_3_number),
        Claim("Lemma 2", "bounds on the three parts of the regret", _OTHER_POLICY),
        Claim("Lemma 3", "stages of BALSA: at most sqrt(2 S A T log T)", of_theory.stages),
        Claim("IV-C", "BALSA learns the rates", of_theory.balsa_learns),
        Claim("IV-D", "sums of arrivals are enough for BALSA-PO's posterior", _SUMS),
        Claim("II-B", "other i.i.d. arrivals than Poisson by sampling", _OTHER_ARRIVALS),
        Claim("Remark 2", "all three extend to a W that changes by round", _SLOTS),
        Claim("IV-E", "a decision takes O(U log U), dynamic programming grows exponentially", of_theory.complexity),
    ),
}


def claims(data: Results, part: str) -> str:
    """The table of a part; of the trained runs with a column for each."""
    if part != "learning":
        lines = [[c.where, c.says, *_marked(c.found(data))] for c in PARTS[part]]
        return _table(["in the paper", "claim", "ours", "verdict"], lines)
    lines = []
    for claim in PARTS[part]:
        cells = [cell for study in TARGETS for cell in _marked(claim.found(data, study))]
        lines.append([claim.where, claim.says, *cells])
    return _table(["in the paper", "claim", "MNIST", "verdict", "CIFAR-10", "verdict"], lines)


def _marked(found: Found) -> list[str]:
    return [found[0], f"**{found[1]}**"]


def _table(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Texts, so nothing is flush right and nothing is escaped."""
    rule = "|".join("---" for _ in heading)
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"\n| {' | '.join(heading)} |\n|{rule}|\n{body}\n"


def claims_held(data: Results, part: str) -> str:
    """How many of a part (or of one trained run) have each verdict."""
    if part in TARGETS:
        found = [claim.found(data, part)[1] for claim in PARTS["learning"]]
    else:
        found = [claim.found(data)[1] for claim in PARTS[part]]
    counts = {name: found.count(name) for name in (HOLDS, PART, NOT, OPEN, UNTESTED)}
    return ", ".join(f"{name}: {number}" for name, number in counts.items() if number)


def choices(data: Results) -> str:
    """How much our choices matter: accuracies of sweeps over them, a table for each that is committed."""
    found = [_choice(data, name) for name in data.below("choices", "summary.csv")]
    return "".join(found) or "The study of these choices is not committed yet."


def _choice(data: Results, name: str) -> str:
    lines = [row for row in data.table(name) if row["metric"] == "accuracy"]
    keys = list(lines[0])
    axes = keys[: keys.index("scheduler")]
    known = [name for name in PAPER if any(row["scheduler"] == name for row in lines)]
    shown = []
    for point in dict.fromkeys(tuple(row[axis] for axis in axes) for row in lines):
        mine = {r["scheduler"]: r for r in lines if tuple(r[axis] for axis in axes) == point}
        means = [pair(_estimate(mine[name], "mean", "half_width"), 3) for name in known]
        others = [mine[name] for name in OTHERS if name in mine]
        apart = [_estimate(row, "difference", "difference_half_width") for row in others]
        shown.append([*point, *means, verdict([below(value, SIMILAR_ACCURACY) for value in apart])])
    heading = [*map(fw.figures.axis_label, axes), *map(fw.figures.name_of, known), "RR, W-max below ALSA-PI"]
    return "\n" + fw.tables.markdown(heading, shown).strip() + "\n"


def _estimate(row: dict[str, str], mean: str, half_width: str) -> fw.statistics.Estimate:
    return fw.statistics.Estimate(float(row[mean] or "nan"), float(row[half_width] or "nan"), 0)
