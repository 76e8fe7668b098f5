"""What was measured as a table for a terminal, a row for every way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedwave.errors import plural
from fedwave.plain_text import ratio_text

HEADS = ("way", "x plain", "least-most", "rounds/s", "samples/s", "x plain a sample", "memory")


def title_of(content: Mapping[str, Any], section: Mapping[str, Any]) -> str:
    """Where, and on what."""
    machine = content["machine"]
    if section["device"] == "cuda":
        return f"{machine['gpu']}"
    cores = section["threads"]
    return f"{machine['processor']}, {cores} core{'s' if cores > 1 else ''}"


def work_of(content: Mapping[str, Any]) -> str:
    """The work and its measurement in two sentences."""
    work, how = content["work"], content["measurement"]
    repeats = f"{plural(how['repeats'], 'repeat')} of {plural(how['rounds_a_repeat'], 'round')}"
    return (
        f"The paper's round on {work['dataset']}: {work['clients']} clients, "
        f"{work['scheduled_per_round']:.0f} scheduled, batch {work['batch']}, {work['epochs']} local epochs, "
        f"{work['samples_per_round']:,.0f} samples in a mean round. Median of {repeats} in turns, after a warm-up, "
        "without evaluation. The same clients train on the same batches in every way; skipping leaves out training "
        "that weighs a millionth or less when it is delivered."
    )


def rows(section: Mapping[str, Any]) -> list[list[str]]:
    """The cells; a way that is unavailable has dashes."""
    return [_row(way) for way in section["ways"]]


def _row(way: Mapping[str, Any]) -> list[str]:
    if not way["available"]:
        return [way["label"], "unavailable", *["-"] * (len(HEADS) - 2)]
    ratio, pace, rate = way["times_plain"], way["rounds_per_second"], way["samples_per_second"]
    memory = way["memory_bytes"]
    return [
        way["label"],
        ratio_text(ratio["median"]),
        f"{ratio_text(ratio['least'])}-{ratio_text(ratio['most'])}",
        ratio_text(pace["median"]),
        f"{rate['median']:,.0f}",
        ratio_text(way["times_plain_per_sample"]["median"]),
        "-" if memory is None else f"{memory / 2**20:,.0f} MiB",
    ]


def notes(section: Mapping[str, Any]) -> list[str]:
    """A sentence for every way that is unavailable."""
    missing = [way for way in section["ways"] if not way["available"]]
    return [f"{way['label']} is unavailable: {way['why']}." for way in missing]
