"""The tables of prediction.md, from the committed results of the studies (for pages.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from committed import DATA, estimate_in, table_block
from verdicts import pair, plain

import fedwave as fw

FILES = ("chosen-on", "rules", "skew", "mlp", "devices", "channel", "again", "cifar10")
IID, CLASSES = "iid", "by-class"
CHOSEN_RULE = "constant:beta=1,stretch=2"
PREDICTORS = ("useful mass", "delivered mass", "fresh shards", "score", "small backlog")
_FEWEST = 4  # cells that an interval is made of
# The groups of cells: what they are, whether they were held out, their files, and the partitions that belong to it.
GROUPS = (
    ("i.i.d., the paper's network", False, ("chosen-on",), (IID,)),
    ("i.i.d., other beta, both rates", True, ("rules",), (IID,)),
    ("i.i.d., 50 to 200 devices", True, ("devices",), (IID,)),
    ("i.i.d., 2 or 10 slots, fading with memory", True, ("channel",), (IID,)),
    ("i.i.d., an MLP", True, ("mlp",), (IID,)),
    ("i.i.d., CIFAR-10 and VGG19", True, ("cifar10",), (IID,)),
    ("Dirichlet .1 to 1", False, ("chosen-on", "rules", "skew", "mlp"), ("dirichlet",)),
    ("one or two classes a device", False, ("rules", "skew"), (CLASSES,)),
    ("Dirichlet .15 and .3, 40 devices, other rules", True, ("again",), ("dirichlet",)),
    ("one or three classes a device, 40 devices, other rules", True, ("again",), (CLASSES,)),
)


def law_table() -> str:
    """Mean rank correlations of every group of cells."""
    rows = []
    for title, held_out, files, partitions in GROUPS:
        cells = _of_group(files, partitions)
        rows.append([title, "yes" if held_out else "no", str(len(cells)), *_means(cells)])
    everything = _held_out()
    rows.append(["all held-out cells", "yes", str(len(everything)), *_means(everything)])
    return table_block(["cells", "held out", "number", *PREDICTORS], rows)


def law_lead() -> str:
    """What knowing the rule adds to the fresh shards, over the held-out cells."""
    lead = [
        cell["correlation"]["useful mass"]["mean"] - cell["correlation"]["fresh shards"]["mean"] for cell in _held_out()
    ]
    return pair(fw.statistics.estimate(np.array(lead)), 2, "+")


def law_cells() -> str:
    """Rank correlations of every cell."""
    rows = []
    for file in FILES:
        for cell in _cells((file,)):
            where = ", ".join(cell["where"].values())
            found = [fw.statistics.Estimate(**cell["correlation"][k]) for k in PREDICTORS]
            rows.append([file, where, *(pair(one, 2) for one in found)])
    return table_block(["study", "cell", *PREDICTORS], rows)


def recommended_table() -> str:
    """The recommended setting in every scenario."""
    heads = [
        "scenario",
        "eta",
        "recommended",
        "Bench",
        "from Bench",
        "from the paper's ALSA-PI",
        "from ALSA-PI with the same rule",
        "the paper's ALSA-PI from Bench",
    ]
    names = ("from bench", "from alsa-pi", "from alsa-pi, same rule", "of alsa-pi from bench")
    rows = [
        [
            line["scenario"],
            plain(float(line["eta"]), 2),
            *(plain(float(line[k]), 4) for k in ("recommended", "bench")),
            *(_distance(line, name) for name in names),
        ]
        for line in DATA.table("recommended/summary.csv")
    ]
    return table_block(heads, rows)


def recommended_in_short() -> str:
    """How often the aims are met."""
    lines = DATA.table("recommended/summary.csv")
    above = sum(float(line["from alsa-pi"]) > float(line["from alsa-pi, half-width"]) for line in lines)
    near = sum(float(line["from bench"]) > -0.005 for line in lines)
    all_of_them = f"{above} of {len(lines)} comparisons (intervals exclude 0)"
    return f"above the paper's ALSA-PI in {all_of_them}, and on average within .005 of Bench or above it in {near}"


def choice_table() -> str:
    """What the setting was chosen among, with its rule: distances from Bench after the last round."""
    apart: dict[str, list[fw.statistics.Estimate]] = {}  # by scheduler: in each setting
    for line in DATA.table("recommended/choice/summary.csv"):
        if (line["task.aggregation"], line["metric"]) == (CHOSEN_RULE, "accuracy"):
            found = estimate_in(line, "difference", "difference_half_width")
            apart.setdefault(line["scheduler"], []).append(found)
    del apart["bench"]
    rows = [
        [
            name,
            pair(min(found, key=lambda one: one.mean), 4, "+"),
            plain(float(np.mean([one.mean for one in found])), 4, "+"),
        ]
        for name, found in apart.items()
    ]
    return table_block(["scheduler", "worst of six settings", "mean of six"], rows)


def rules_table() -> str:
    """Accuracy by aggregation rule and scheduler, under the same schedules and uploads."""
    lines = [line for line in DATA.table("rules/summary.csv") if line["metric"] == "accuracy"]
    schedulers = list(dict.fromkeys(line["scheduler"] for line in lines))
    rows = []
    for where in dict.fromkeys((line["task.partition"], line["task.aggregation"]) for line in lines):
        mine = {
            line["scheduler"]: line for line in lines if (line["task.partition"], line["task.aggregation"]) == where
        }
        rows.append([*where, *(pair(estimate_in(mine[s], "mean", "half_width"), 4) for s in schedulers)])
    return table_block(["shards", "rule", *schedulers], rows)


def _held_out() -> list[dict[str, Any]]:
    return [cell for _, out, *group in GROUPS if out for cell in _of_group(*group)]


def _of_group(files: tuple[str, ...], partitions: tuple[str, ...]) -> list[dict[str, Any]]:
    return [cell for cell in _cells(files) if _partition(cell).startswith(partitions)]


def _cells(files: tuple[str, ...]) -> list[dict[str, Any]]:
    return [cell for file in files for cell in DATA.content(f"law/{file}.json")["points"]]


def _partition(cell: dict[str, Any]) -> str:
    return str(cell["where"].get("task.partition", IID))


def _means(cells: list[dict[str, Any]]) -> list[str]:
    each = [[cell["correlation"][k]["mean"] for cell in cells] for k in PREDICTORS]
    if len(cells) < _FEWEST:
        return [plain(float(np.mean(one)), 2) for one in each]
    return [pair(fw.statistics.estimate(np.array(one)), 2) for one in each]


def _distance(line: dict[str, str], name: str) -> str:
    return pair(estimate_in(line, name, f"{name}, half-width"), 4, "+")
