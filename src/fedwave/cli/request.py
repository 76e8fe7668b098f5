"""From the words and options of a command to the experiment that they ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedwave.cli.options import Group, given
from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import requested_experiment

# Windows keeps these for devices, with any ending.
_RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10))}


def experiment_of(
    words: Sequence[str] | None,
    groups: Sequence[Group] = (),
    defaults: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Experiment:
    """The experiment that a command is asked for.

    Later sources override earlier ones: the file, then ``key=value`` words, then options. ``defaults`` are the
    fields of an experiment that is named by its network only; ``more`` are options by their fields.
    """
    source, overrides = _split(words or ())
    imports: list[str] = []
    for group in groups:
        for name, value in given(vars(group)).items():
            if name == "imports":
                imports += value
            elif name == "settings":
                overrides += [f"network.set.{_setting(text)}" for text in value]
            else:
                value = scheduler_labels(value) if name == "schedulers" else value
                overrides.append(f"{group.prefix}{name}={_as_yaml(value)}")
    overrides += [f"{k}={_as_yaml(v)}" for k, v in (more or {}).items() if v is not None]
    return requested_experiment(source, overrides, imports, defaults)


def _as_yaml(value: Any) -> str:
    """The value as YAML reads it. JSON would write an emoji as two halves, which YAML takes for two characters."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text)


def folder_of(experiment: Experiment) -> Path:
    """Where its results go unless another place is named: out/NAME, without what a folder's name must not hold."""
    plain = re.sub(r"[^\w.\u0080-\U0010ffff-]+|[\s/]+", "-", experiment.name).strip(".-")
    if plain.partition(".")[0].upper() in _RESERVED:
        plain += "-"
    return Path("out") / (plain or "experiment")


def scheduler_labels(texts: Sequence[str]) -> list[str]:
    """Schedulers with commas between, in one text or several."""
    labels: list[str] = []
    for text in texts:
        for item in text.split(","):
            # A comma also separates parameters: an item that begins with 'key=' belongs to the scheduler before it.
            if "=" in item.partition(":")[0] and labels:
                labels[-1] += f",{item}"
            elif item.strip():
                labels.append(item.strip())
    return labels


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    sources = [word for word in words if "=" not in word]
    if len(sources) > 1:
        raise FedwaveError(f"{sources[1]!r} comes after {sources[0]!r}: name one experiment, then fields as key=value.")
    return (sources[0] if sources else "paper"), [word for word in words if "=" in word]


def _setting(text: str) -> str:
    key, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return f"{key.strip()}={float(value)!r}"
    except ValueError:
        raise FedwaveError(f"--set {text!r} must read field=number, such as buffer_limit=20.") from None
