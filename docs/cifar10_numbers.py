"""The numbers of the CIFAR-10 experiment: how much of it has been trained, and the results (for pages.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from claims import with_fewer_rounds
from committed import DATA, DOCS, table_block
from verdicts import OURS, PAPER, TARGETS, pair, plain

import fedwave as fw

_STUDY = "cifar10"
_AT_ONCE = 4  # instances of a lot: what has been seen to fit into the memory of an H200

# How much has been trained


def cifar_trained() -> str:
    """Of the paper's instances."""
    return f"{DATA.instances(_STUDY)} of {fw.load_experiment('paper-cifar10').instances}"


def _lots() -> dict[tuple[int, int], float]:
    """Seconds of training of every lot, by its first and last instance."""
    found = {}
    for lot in (DOCS.parent / "studies" / "lots").glob(f"{_STUDY}-*"):
        first, last = map(int, lot.name.split("-")[1:])
        _, *units = map(json.loads, (lot / "done.jsonl").read_text().splitlines())
        found[first, last] = sum(unit["seconds"] for unit in units)
    assert sum(last - first + 1 for first, last in found) == DATA.instances(_STUDY), "merge the lots"
    return dict(sorted(found.items()))


def cifar_lots() -> str:
    *but_last, last = (f"{first} to {last}" for first, last in _lots())
    return f"{', '.join(but_last)} and {last}"


def cifar_seconds() -> str:
    return " + ".join(f"{seconds:.0f}" for seconds in _lots().values())


def cifar_minutes() -> str:
    return f"{sum(_lots().values()) / 60:.0f}"


def cifar_seconds_a_round() -> str:
    """Of one instance, all schedulers together."""
    rounds = DATA.last_round(_STUDY)
    return _range([s / (rounds * (last - first + 1)) for (first, last), s in _lots().items()], 2)


def next_lot() -> str:
    """The commands that add a lot, of the first instances that have not been trained."""
    first = DATA.instances(_STUDY)
    left = fw.load_experiment("paper-cifar10").instances - first
    count = min(max(left, 0), _AT_ONCE) or _AT_ONCE
    return f"""
```sh
# on a machine with a GPU
lot={_STUDY}-{first}-{first + count - 1}
fedwave reproduce {_STUDY} --full instances={count} first_instance={first} --out out/$lot checkpoint_seconds=10000

# keep the lot without its tables and figures
mkdir studies/lots/$lot
tar -C out/$lot -cf - config.yaml run.json done.jsonl devices rounds \\
  | tar -C studies/lots/$lot -xf -

# put all lots together and export the result
rm -rf out/lots out/{_STUDY} docs/results/{_STUDY}
mkdir -p out && cp -r studies/lots out/lots
for lot in out/lots/*; do fedwave report $lot; done
fedwave merge out/lots/* --out out/{_STUDY}
fedwave report out/{_STUDY} --compact docs/results/{_STUDY}
fedwave reproduce --from docs/results
cp out/published/section-v.pdf out/published/section-v.png docs/results/
python docs/pages.py

# check the result
python -m pytest tests/test_pages.py tests/test_claims.py
python -m pytest -m slow tests/cli/test_committed_lots.py
```
"""


# Results


def cifar_table() -> str:
    last, early = DATA.last_round(_STUDY), (50, 100)
    lines = [
        [
            fw.figures.name_of(name),
            *(plain(DATA.at(_STUDY, name, t).mean(), 3) for t in early),
            pair(fw.statistics.estimate(DATA.at(_STUDY, name, last)), 3),
            pair(fw.statistics.estimate(DATA.final(_STUDY, name)), 3),
        ]
        for name in PAPER
    ]
    heading = [f"after {t} rounds, 2,000 images" for t in early]
    ends = [f"after {last}, {images} images" for images in ("2,000", "all")]
    return table_block(["scheduler", *heading, *ends], lines)


def cifar_differences() -> str:
    """After the last round."""
    pairs = [
        *(("bench", name) for name in OURS),
        *(("alsa-pi", name) for name in OURS[1:]),
        *((name, "round-robin") for name in OURS),
        ("round-robin", "w-max"),
    ]
    last, lines = DATA.last_round(_STUDY), []
    for one, other in pairs:
        few = fw.statistics.estimate(DATA.at(_STUDY, one, last) - DATA.at(_STUDY, other, last))
        every = fw.statistics.estimate(DATA.final(_STUDY, one) - DATA.final(_STUDY, other))
        lines.append([f"{fw.figures.name_of(one)} - {fw.figures.name_of(other)}", pair(few, 4), pair(every, 4)])
    return table_block(["", "2,000 images", "all images"], lines)


def cifar_order() -> str:
    """From the best, on all images."""
    return ", ".join(map(fw.figures.name_of, sorted(PAPER, key=lambda name: -DATA.final(_STUDY, name).mean())))


def _on_all(name: str, round_: int) -> float:
    return float(DATA.at(_STUDY, name, round_, "accuracy_on_all").mean())


def cifar_gained(since: str, *schedulers: str) -> str:
    """Accuracy on all images from a round to the last."""
    last = DATA.last_round(_STUDY)
    return _range([_on_all(name, last) - _on_all(name, int(since)) for name in schedulers], 3)


def behind_bench(round_: str) -> str:
    """The paper's own three on all images after a round."""
    bench = _on_all("bench", int(round_))
    return _range([bench - _on_all(name, int(round_)) for name in OURS], 3)


def cifar_loss(scheduler: str) -> str:
    return plain(DATA.final(_STUDY, scheduler, "loss").mean(), 3)


def loss_times_bench() -> str:
    """The final loss of the paper's own three."""
    bench = DATA.final(_STUDY, "bench", "loss").mean()
    return _range([DATA.final(_STUDY, name, "loss").mean() / bench for name in OURS], 0)


def highest_target() -> str:
    """Who reaches it."""
    target = TARGETS[_STUDY][-1]
    counts = {name: int(np.isfinite(DATA.curves(_STUDY)[name].rounds_to(target)).sum()) for name in PAPER}
    some = [f"{n} of {DATA.instances(_STUDY)} instances of {fw.figures.name_of(k)}" for k, n in counts.items() if n]
    return f"{plain(target, 2)}, is reached by {' and '.join(some) or 'nobody'}"


def best_evaluation(metric: str) -> str:
    """The highest accuracy of any scheduler, instance and round."""
    return plain(max(float(np.nanmax(getattr(found, metric))) for found in DATA.curves(_STUDY).values()), 4)


def targets_with_fewer_rounds() -> str:
    """Those of all reached at which the three certainly need fewer rounds than both others."""
    fits = with_fewer_rounds(DATA, _STUDY)[1]
    return f"{fits.count(True)} of the {len(fits)}"


def share_allowed(study: str) -> str:
    """The share that may not agree although all instances do (Clopper and Pearson, 95 %)."""
    return plain(1 - 0.025 ** (1 / DATA.instances(study)), 2)


def spikes_from(scheduler: str) -> str:
    """The first round with a spike in any instance, and the largest loss of one."""
    found = DATA.curves(_STUDY)[scheduler]
    spikes = np.full(found.loss.shape, False)
    for t in range(10, len(spikes)):
        spikes[t] = found.loss[t] > 1.2 * np.median(found.loss[t - 10 : t], axis=0)
    assert (spikes.sum(axis=0) == found.spikes()).all(), "a spike is what Curves.spikes counts"
    largest = f"{found.loss[spikes].max():.2g}".lstrip("0")
    return f"from round {spikes.any(axis=1).argmax() + 1} on, up to a loss of {largest}"


def _range(values: Sequence[float], digits: int) -> str:
    """The smallest and the largest, or one number where they are written alike."""
    ends = dict.fromkeys(plain(value, digits) for value in (min(values), max(values)))
    return " to ".join(ends)
