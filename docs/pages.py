"""Fills the numbers of the pages from the data that are committed beside them: `python docs/pages.py`.

A page marks what is filled as <!--=name-->text<!--/-->, which does not show when it is rendered; `name` is a function
below, with its arguments after a colon. tests/test_pages.py fails where a page and the data differ.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

# For the modules beside this one, and for benchmarks.
sys.path.extend(map(str, [Path(__file__).parent, Path(__file__).parents[1]]))
import cifar10_numbers
import claims as of_paper
import prediction_tables
from committed import DATA, DOCS, column, table_block
from verdicts import pair, plain, with_width

import fedwave as fw
from benchmarks.peers.report import CELLS, ratio_text, speed_table, work_of

PAGES = (
    DOCS / "theory.md",
    DOCS / "promises.md",
    DOCS / "reproduction.md",
    DOCS / "prediction.md",
    DOCS / "results" / "README.md",
    DOCS.parent / "README.md",
    DOCS.parent / "studies" / "README.md",
)
_MARKED = re.compile(r"<!--=(.*?)-->(.*?)<!--/-->", re.DOTALL)
# Accuracy of the earlier prototype after 10 and 150 rounds on MNIST, which has no data here.
PROTOTYPE = {
    "bench": (0.876, 0.962),
    "alsa-pi": (0.866, 0.950),
    "balsa": (0.858, 0.950),
    "balsa-po": (0.854, 0.949),
    "round-robin": (0.788, 0.931),
    "w-max": (0.603, 0.881),
}


def filled(text: str) -> str:
    """The page with every marked text made anew."""

    def made(found: re.Match[str]) -> str:
        name, _, words = found[1].partition(":")
        return f"<!--={found[1]}-->{GENERATORS[name](*words.split(',') if words else ())}<!--/-->"

    return _MARKED.sub(made, text)


# Score and backlog


def score_schedulers() -> str:
    return str(len({row["scheduler"] for row in DATA.table("score/instances.csv")}))


def score_table() -> str:
    """Means with their half-widths over instances, and paired differences from alsa-pi."""
    shown = (
        ("score", 1, 2),
        ("backlog", 1, 1),
        ("delivered_share", 100, 1),
        ("jain", 1, 2),
        ("mean_age", 1, 1),
        ("worst_age", 1, 0),
    )
    heading = ["scheduler", "score", "vs alsa-pi", "backlog", "vs alsa-pi", "delivered, %", "Jain", "age", "worst age"]
    lines = []
    for name in dict.fromkeys(row["scheduler"] for row in DATA.table("score/instances.csv")):
        cells = [with_width(fw.statistics.estimate(k * DATA.score(name, m)), d) for m, k, d in shown]
        for place, metric, digits in ((1, "score", 3), (3, "backlog", 1)):
            apart = fw.statistics.estimate(DATA.score(name, metric) - DATA.score("alsa-pi", metric))
            cells.insert(place, "-" if name == "alsa-pi" else with_width(apart, digits, "+"))
        lines.append([name, *cells])
    return table_block(heading, lines)


def score_luck() -> str:
    """How far the arrivals of the run lie from their mean; they are Poisson and independent."""
    found, expected = DATA.score("bench", "arrived"), float(fw.paper_network().rates.sum())
    deviation = np.sqrt(expected / (found.size * DATA.score_rounds()))
    apart, side = abs(found.mean() - expected), "high" if found.mean() > expected else "low"
    return (
        f"{found.mean():.2f} shards a round where {expected:g} are expected, {apart / deviation:.1f} standard "
        f"deviations of this mean ({deviation:.2f}) too {side}. Scores of schedulers that deliver more than 99 % "
        f"are therefore too {side} by about {apart:.2f}"
    )


def score_mean(scheduler: str, digits: str) -> str:
    return f"{DATA.score(scheduler, 'score').mean():.{digits}f}"


def score_cost(scheduler: str, digits: str) -> str:
    """How much less than alsa-pi's score."""
    return f"{(DATA.score('alsa-pi', 'score') - DATA.score(scheduler, 'score')).mean():.{digits}f}"


def score_gain(scheduler: str, digits: str) -> str:
    """How much more than alsa-pi's score."""
    return f"{(DATA.score(scheduler, 'score') - DATA.score('alsa-pi', 'score')).mean():.{digits}f}"


def backlog_saved(scheduler: str) -> str:
    """Percent less backlog than alsa-pi."""
    return f"{100 * (1 - DATA.score(scheduler, 'backlog').mean() / DATA.score('alsa-pi', 'backlog').mean()):.0f}"


def round_robin_swing() -> str:
    rows = [r for r in DATA.table("score/rounds.csv") if r["scheduler"] == "round-robin"]
    late = column(rows, "score_mean")[100:]  # after it has settled
    by_turn = [late[k::5].mean() for k in range(5)]
    return f"{min(by_turn):.0f} and {max(by_turn):.0f}"


# Learning


def run_size(study: str) -> str:
    """How much was run."""
    return f"{DATA.instances(study)} instances x {DATA.last_round(study)} rounds"


def mnist_table() -> str:
    spikes = {name: np.nanmean(found.spikes()) for name, found in DATA.curves("mnist").items()}
    lines = [
        [
            fw.figures.name_of(name),
            *(plain(DATA.at("mnist", name, t).mean(), 3) for t in (10, 100, 150)),
            " / ".join(plain(value, 3) for value in before),
            f"{spikes[name]:.2g}",
        ]
        for name, before in PROTOTYPE.items()
    ]
    heading = ["scheduler", "after 10 rounds", "after 100", "after 150", "prototype, after 10 / 150", "spikes"]
    return table_block(heading, lines)


def mnist_above_prototype() -> str:
    above = [
        DATA.at("mnist", name, t).mean() - value
        for name, before in PROTOTYPE.items()
        for t, value in zip((10, 150), before, strict=True)
    ]
    return f"{plain(min(above), 3)} to {plain(max(above), 3)}"


def mnist_differences() -> str:
    pairs = [
        ("bench", "alsa-pi"),
        ("bench", "balsa"),
        ("bench", "balsa-po"),
        ("alsa-pi", "round-robin"),
        ("balsa", "round-robin"),
        ("balsa-po", "round-robin"),
        ("round-robin", "w-max"),
    ]
    lines = []
    for one, other in pairs:
        apart = [fw.statistics.estimate(DATA.at("mnist", one, t) - DATA.at("mnist", other, t)) for t in (100, 150)]
        assert all(value.mean > value.half_width for value in apart), "the page says: all exclude 0"
        lines.append([f"{fw.figures.name_of(one)} - {fw.figures.name_of(other)}", *(pair(value, 4) for value in apart)])
    return table_block(["", "100", "150"], lines)


# The paper's claims


def claims(part: str) -> str:
    return of_paper.claims(DATA, part)


def claims_held(part: str) -> str:
    return of_paper.claims_held(DATA, part)


def choices() -> str:
    return of_paper.choices(DATA)


# Theory


def regret(label: str) -> str:
    """Regret a round in millionths."""
    value = of_paper.regret(DATA, label)
    return f"{_two_digits(value.mean)} ± {_two_digits(value.half_width)}"


def _two_digits(value: float) -> str:
    return f"{value:.2g}".replace("0.", ".", 1)


def empty_until() -> str:
    return f"{DATA.content('theory/regret.json')['the printed bound exceeds T up to round']:.0e}".replace("e+", "e")


def last_of_regret(name: str) -> str:
    """The last row: a number of stages, or what Lemma 4 allows; | stands for a comma in the column's name."""
    return f"{float(DATA.table('theory/regret.csv')[-1][name.replace('|', ', ')]):,.0f}"


def gap_table() -> str:
    """Greedy's backlog above the optimum in percent, as the map has it."""
    rows = DATA.table("theory/gap.csv")
    rates = list(dict.fromkeys(row["rate_of_the_second"] for row in rows))
    lines = []
    for level in dict.fromkeys(row["success"] for row in rows):
        mine = {r["rate_of_the_second"]: float(r["gap"]) for r in rows if r["success"] == level}
        name = " or ".join(f"{float(p):g}" for p in level.split(" or "))
        lines.append([name, *(f"{100 * mine[rate]:.1f}" for rate in rates)])
    heading = ["success probability", *(f"{float(rate):g}" for rate in rates)]
    return table_block(heading, lines)


def overshoot(bound: str) -> str:
    """How many times the measured loss a corrected bound is after the last round."""
    last = DATA.table("theory/convergence.csv")[-1]
    return f"{float(last[bound]) / float(last['gap']):.2g}".replace("e+0", "e")


def bound_breaks() -> str:
    """The first round in which the printed bound lies below the measured loss."""
    rows = DATA.table("theory/convergence.csv")
    return str(next(int(float(r["round"])) for r in rows if float(r["printed_product"]) < float(r["gap"])))


def decision_ratio() -> str:
    later = {
        row["scheduler"]: float(row["later_seconds"])
        for row in DATA.table("theory/times.csv")
        if row["devices"] == "1000"
    }
    return f"{later['lagrangian-bayes'] / later['balsa']:.1f}"


# Attacks

_ATTACKS = {
    "commands": "command line and files",
    "traces": "forged traces",
    "folders": "forged run folders",
    "flips": "bits flipped in a run folder",
    "packages": "hostile packages",
}


def _bad(counts: dict[str, int]) -> str:
    """What went wrong, the most frequent first."""
    good = ("attacks", "refused", "right")
    found = sorted(((-n, name) for name, n in counts.items() if n and name not in good))
    return ", ".join(f"{-n:,} {name}" for n, name in found) or "none"


def attacks_table() -> str:
    """Attacks by kind, and how many of them went wrong in the code before and after."""
    found = DATA.content("attacks.json")
    before, after = found["before"]["kinds"], found.get("after", {}).get("kinds", {})
    lines = [
        [name, f"{before[kind]['attacks']:,}", _bad(before[kind]), _bad(after[kind]) if kind in after else "-"]
        for kind, name in _ATTACKS.items()
        if kind in before
    ]
    heading = ["attacks", "number", "bad outcomes before", "after"]
    return table_block(heading, lines)


# Speed


def bench_table(file: str) -> str:
    """The ways of a benchmark of one section, ratios first."""
    (section,) = DATA.content(f"{file}.json")["sections"]
    return "\n" + speed_table(section).strip() + "\n"


def bench_by_cores(file: str) -> str:
    """The ways of a benchmark, the sections side by side; rounds/s are left out, because their ratios are there."""
    shown = [name for name in CELLS if name != "rounds/s"]
    sections = DATA.content(f"{file}.json")["sections"]
    heading, lines = [""], [[way["label"]] for way in sections[0]["ways"]]
    for section in sections:
        cores = f"{section['threads']} core{'s' if section['threads'] > 1 else ''}"
        heading += [f"{cores}: {shown[0]}", *shown[1:]]
        for line, way in zip(lines, section["ways"], strict=True):
            line += [CELLS[name](way) if way["available"] else "-" for name in shown]
    return table_block(heading, lines)


def bench_times(file: str, name: str) -> str:
    """How many times as fast as plain PyTorch a way is."""
    ways = {way["name"]: way for way in DATA.content(f"{file}.json")["sections"][0]["ways"]}
    return ratio_text(ways[name]["times_plain"]["median"])


def bench_work(file: str) -> str:
    """What was played and how often, in words."""
    return work_of(DATA.content(f"{file}.json"))


def gpu_equality() -> str:
    """How far the fast trainer on a GPU is from the reference trainer."""
    found = DATA.content("gpu-equality.json")
    # Where training is left out, that is what is seen.
    whole = [path for path in found["paths"] if "skipping" not in path["path"]]
    far = {
        precision: max(path["distance"] for path in whole if path["precision"] == precision)
        for precision in dict.fromkeys(path["precision"] for path in whole)
    }
    limits = {precision: min(path["limit"] for path in whole if path["precision"] == precision) for precision in far}
    assert all(far[precision] < limits[precision] for precision in far), "the page says so"
    shown = ", ".join(f"{value:.2g} in {precision} (limit {limits[precision]:g})" for precision, value in far.items())
    count = f"{len(found['paths'])} comparisons on an {found['device']}"
    beyond = f"{found['too_far']} beyond their limit"
    return f"{count}, {beyond}; where no training is left out, the largest distance is {shown}"


def bench_machine() -> str:
    """Where the benchmark was made."""
    found = DATA.content("bench.json")
    machine, versions = found["machine"], found["versions"]
    names = ("python", "torch", "numpy")
    shown = ", ".join(f"{name} {versions[name]}" for name in names)
    return f"{machine['processor']}, {machine['cores']} cores; {shown}"


# Kills, resumes and full disks


def soak_table() -> str:
    """A column per kind, before and after; counts of counts (signals, resumes, faults) have a row each."""
    columns = {
        f"{kind}, {when}": _counted(found)
        for kind, both in DATA.content("soak.json").items()
        for when, found in both.items()
    }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    lines = [[name, *(f"{c[name]:g}" if name in c else "-" for c in columns.values())] for name in names]
    return table_block(["", *columns], lines)


def _counted(found: dict[str, Any]) -> dict[str, float]:
    rows = {"minutes": found["minutes"], "cycles": found["cycles"]}
    for whole, parts in (("signals", "signal"), ("resumes", "resume"), ("faults", "fault")):
        rows |= {f"{parts}: {name}": number for name, number in found[whole].items()}
        if whole == "resumes":
            rows["full disks"] = found["full disks"]
    return rows | {"longest wait, s": found["longest wait in seconds"]}


# The public functions here and in the two other modules; the names in this one are made above.
GENERATORS: dict[str, Callable[..., str]] = {
    name: made
    for names in (globals(), vars(cifar10_numbers), vars(prediction_tables))
    for name, made in names.items()
    if isinstance(made, FunctionType) and made.__module__ == names["__name__"]
    if not name.startswith("_") and made is not filled
}


if __name__ == "__main__":
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = filled(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page.relative_to(DOCS.parent)} has changed", file=sys.stderr)
