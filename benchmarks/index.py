"""The index schedulers against the bound: `python -m benchmarks.index`.

Mean backlogs are paired over common worlds. "gap" is how far above the bound a mean lies, with the half-width of
its 95 % interval. Parts: paper (rates known), learnt, models, networks, many.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from unittest.mock import patch

import numpy as np

import fedwave as fw
from fedwave.experiments.analysis.statistics import estimate, paired_difference
from fedwave.schedulers import priced
from fedwave.theory.bound import backlog_bound
from fedwave.types import FloatArray

KNOWN = ("lagrangian", "whittle", "sqrt-rule", "max-weight", "alsa-pi")
LEARNT = ("lagrangian-bayes", "whittle-bayes", "balsa")
HIDDEN = ("lagrangian-po", "lagrangian-po:average=0", "balsa-po")
MODELS: dict[str, dict[str, object]] = {
    "soft": {"success": fw.success.Soft()},
    "threshold": {"success": fw.success.Threshold()},
    "uncoded": {"success": fw.success.Uncoded()},
    "harq": {"success": fw.success.Harq()},
    "turbo, 683 blocks": {"success": fw.success.Turbo(blocks=683)},
    "negative binomial": {"arrivals": fw.arrivals.NegativeBinomial()},
}


def backlogs(network: fw.Network, text: str, first: int, last: int, instances: int, block: int = 200) -> FloatArray:
    """Mean backlog of rounds ``first`` to ``last``, one per instance; in blocks, to save memory."""
    scheduler = fw.scheduler(text)
    parts = []
    for start in range(0, instances, block):
        numbers = range(start, min(start + block, instances))
        trace = fw.simulate(network, scheduler, last, list(numbers), 0, record="summary")
        parts.append(trace.backlog[first - 1 :].mean(axis=0))
    return np.concatenate(parts)


def compare(
    what: str, network: fw.Network, texts: Iterable[str], first: int, last: int, instances: int, hidden: bool = False
) -> dict[str, FloatArray]:
    """Print each scheduler's mean backlog and its gap to the bound."""
    start = time.perf_counter()
    bound = backlog_bound(network, hidden=hidden)
    print(
        f"{what}: bound {bound.value:.3f} (error {bound.error:.4f}) at price {bound.price:.2f}, "
        f"found in {time.perf_counter() - start:.2f} s"
    )
    out = {}
    for text in texts:
        start = time.perf_counter()
        out[text] = backlogs(network, text, first, last, instances)
        mean = estimate(out[text])
        gap, half = (100 * x / bound.value for x in (mean.mean - bound.value, mean.half_width))
        print(
            f"  {text:<28}{mean.mean:>11.3f} (s.e. {mean.standard_error:.3f})"
            f"   gap {gap:+.2f} % +- {half:.2f}   {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    return out


def differences(measured: dict[str, FloatArray], base: str) -> None:
    """Paired, in per cent of the base's mean."""
    for text, values in measured.items():
        if text != base:
            less = paired_difference(values, measured[base])
            unit = 100 / measured[base].mean()
            print(
                f"  {text} less {base}: {less.mean:+.3f} +- {less.half_width:.3f}"
                f" ({unit * less.mean:+.2f} % +- {unit * less.half_width:.2f})"
            )


def paper(instances: int) -> None:
    found = compare("rounds 301-1800", fw.paper_network(), KNOWN, 301, 1800, instances)
    differences(found, "lagrangian")


def learnt(instances: int) -> None:
    net = fw.paper_network()
    differences(compare("rounds 501-1000", net, LEARNT, 501, 1000, instances), "balsa")
    found = compare("rounds 501-1000, hidden", net, HIDDEN, 501, 1000, instances, hidden=True)
    differences(found, "balsa-po")
    differences({text: found[text] for text in HIDDEN[:2]}, HIDDEN[1])


def models(instances: int) -> None:
    for name, change in MODELS.items():
        # Without a code uploads hardly ever get through from afar: backlogs take long to settle.
        first, last = (4001, 8000) if name == "uncoded" else (301, 1300)
        texts = KNOWN[:3] + KNOWN[4:]
        compare(f"\n{name}", fw.paper_network(**change), texts, first, last, instances // 2)


def networks(instances: int) -> None:
    few = max(4, instances // 10)
    for devices, slots, count in ((100, 20, 2 * few), (1000, 50, few)):
        network = fw.random_network(devices, slots)
        texts = (*KNOWN[:3], "lagrangian-bayes", "alsa-pi")
        compare(f"\n{devices} devices, {slots} slots", network, texts, 301, 800, count)


def many(instances: int) -> None:
    """Many different devices: indices from the tables, less those that are solved for each device."""
    network, few = fw.random_network(5000), max(4, instances // 10)
    found = {"tables": backlogs(network, "lagrangian", 201, 400, few)}
    with patch.object(priced, "MANY_CLASSES", network.size):
        priced._at_best_price.cache_clear()
        found["solved"] = backlogs(network, "lagrangian", 201, 400, few)
    print(f"\n{network.size} different devices, {network.slots} slots, rounds 201-400")
    differences(found, "solved")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = {"paper": paper, "learnt": learnt, "models": models, "networks": networks, "many": many}
    parser.add_argument("parts", nargs="*", default=list(parts))
    parser.add_argument("--instances", type=int, default=200)
    options = parser.parse_args()
    for name in options.parts:
        parts[name](options.instances)


if __name__ == "__main__":
    main()
