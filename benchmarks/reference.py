"""The reference backlogs of the paper's network at full size: `make reference`.

Prints, for every policy with a known long-run mean backlog, the measured mean, its standard error over
instances and how many standard errors it lies from the reference; then BALSA and BALSA-PO against ALSA-PI,
paired, over rounds 1-1000 (score) and 501-1000 (backlog).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import numpy as np

import fedwave as fw
from fedwave.experiments.analysis.statistics import Estimate, estimate, paired_difference
from fedwave.types import FloatArray

# Mean backlog in the long run, and its standard error (0: exact), measured by two independent
# prototypes over 600 instances x 2000 rounds after 300 rounds of burn-in.
BACKLOGS: dict[str, tuple[float, float]] = {
    "sqrt-rule": (102.12, 0.02),
    "max-weight": (102.73, 0.02),
    "alsa-pi": (114.54, 0.02),
    "age": (138.32, 0.02),
    "round-robin": (198.888, 0.0),
    "proportional-fair": (250.17, 0.12),
    "random": (332.888, 0.0),
}


def mean_backlogs(scheduler: str, rounds: int, burn_in: int, instances: Iterable[int], seed: int) -> FloatArray:
    """Mean backlog after the burn-in, one value per instance; in blocks of instances, to save memory."""
    numbers = list(instances)
    parts = []
    for start in range(0, len(numbers), 200):
        block = numbers[start : start + 200]
        trace = fw.simulate(fw.paper_network(), scheduler, burn_in + rounds, block, seed, record="summary")
        parts.append(trace.backlog[burn_in:].mean(axis=0))
    out: FloatArray = np.concatenate(parts)
    return out


def distance(measured: Estimate, reference: tuple[float, float]) -> float:
    """Standard errors between a measured mean and a reference that has an error of its own."""
    value, error = reference
    return (measured.mean - value) / float(np.hypot(measured.standard_error, error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=2000, help="rounds after the burn-in")
    parser.add_argument("--burn-in", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'scheduler':<20}{'backlog':>10}{'s.e.':>8}{'reference':>11}{'distance':>10} s.e.")
    for scheduler, reference in BACKLOGS.items():
        measured = estimate(
            mean_backlogs(scheduler, options.rounds, options.burn_in, range(options.instances), options.seed)
        )
        print(
            f"{scheduler:<20}{measured.mean:>10.3f}{measured.standard_error:>8.3f}"
            f"{reference[0]:>11.3f}{distance(measured, reference):>+10.2f}",
            flush=True,
        )
    print("\nagainst alsa-pi, paired     score 1-1000 (s.e.)   backlog 501-1000")
    base = _first_thousand("alsa-pi", options.instances, options.seed)
    for text in ("balsa", "balsa:stage_rule=max1", "balsa-po", "balsa-po:stage_rule=max1"):
        score, backlog = _first_thousand(text, options.instances, options.seed)
        lower = paired_difference(score, base[0])
        more = 100 * (backlog.mean() / base[1].mean() - 1)
        print(f"{text:<28}{lower.mean:>+8.4f} ({lower.standard_error:.4f}){more:>+14.2f} %", flush=True)


def _first_thousand(text: str, instances: int, seed: int) -> tuple[FloatArray, FloatArray]:
    trace = fw.simulate(fw.paper_network(), fw.scheduler(text), 1000, instances, seed, record="summary")
    return trace.score.mean(axis=0), trace.backlog[500:].mean(axis=0)


if __name__ == "__main__":
    main()
