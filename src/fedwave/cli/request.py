"""From the words and options of a command to the experiment that they ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedwave.cli.options import FIELDS, Asked
from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import load_experiment


def experiment_of(
    words: Sequence[str] | None, asked: Asked | None = None, defaults: Mapping[str, Any] | None = None
) -> Experiment:
    """The experiment that a command is asked for.

    Later sources override earlier ones: the file, then ``key=value`` words, then options. ``defaults`` are the
    fields of an experiment that is named by its network only.
    """
    source, overrides = _split(words or ())
    asked = asked or Asked()
    labels = scheduler_labels(asked.schedulers) if asked.schedulers else None
    options = {**vars(asked), "schedulers": labels}
    overrides += [f"{key}={_as_yaml(options[name])}" for name, key in FIELDS.items() if options.get(name) is not None]
    return load_experiment(source, overrides, asked.imports or (), defaults)


def fields_of(words: Sequence[str] | None) -> dict[str, str]:
    """The ``key=value`` words of a command that takes no experiment."""
    found = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals:
            raise FedwaveError(f"{word!r} is not a field: write it as key=value.")
        found[key] = value
    return found


def folder_of(experiment: Experiment) -> Path:
    """Where its results go unless another place is named: out/NAME, without what a folder's name must not hold."""
    plain = re.sub(r"[^\w.\u0080-\U0010ffff-]+|[\s/]+", "-", experiment.name).strip(".-")
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


def _as_yaml(value: Any) -> str:
    """The value as YAML reads it. JSON would write an emoji as two halves, which YAML takes for two characters."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text)


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    sources = [word for word in words if "=" not in word]
    if len(sources) > 1:
        raise FedwaveError(f"{sources[1]!r} comes after {sources[0]!r}: name one experiment, then fields as key=value.")
    return (sources[0] if sources else "paper"), [word for word in words if "=" in word]
