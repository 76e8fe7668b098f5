"""From the words and options of a command to the experiment they ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, load_experiment, preset_names

_NETWORKS = ("paper", "random")
_TABLES = (".csv", ".yaml", ".yml")
# Options that are short for a field of the network.
_OF_NETWORK = ("devices", "slots", "gamma", "fading", "success", "arrivals")


def ask(
    words: Sequence[str] | None,
    defaults: Mapping[str, Any],
    *,
    schedulers: Sequence[str] | None = None,
    settings: Sequence[str] | None = None,
    imports: Sequence[str] | None = None,
    only_simulate: bool = False,
    **options: Any,
) -> Experiment:
    """The experiment that a command is asked for.

    ``defaults`` are the command's own, where no experiment is named. ``options`` with dots in place of double
    underscores are fields; they count more than the words, and the words more than the file.
    """
    source, overrides = _split(words or ())
    for name, value in options.items():
        if value is not None:
            field = f"network.{name}" if name in _OF_NETWORK else name.replace("__", ".")
            overrides.append(f"{field}={json.dumps(value)}")
    if schedulers:
        overrides.append(f"schedulers={json.dumps(scheduler_labels(schedulers))}")
    if only_simulate:
        overrides += ["task=null", "metric=backlog"]
    overrides += [f"network.set.{_setting(text)}" for text in settings or ()]
    if source in _NETWORKS:
        asked = {**defaults, "network": {"kind": source}}
        return experiment_from(asked, overrides, imports or ())
    if _is_device_table(source):
        table = {"kind": "table", "file": source}
        return experiment_from({**defaults, "network": table}, overrides, imports or ())
    known = (*preset_names(), *_NETWORKS)
    if Path(source).suffix.lower() not in (*_TABLES, ".json") and source not in known:
        raise FedwaveError(
            f"there is no experiment {source!r}; {did_you_mean(source, known)} A file must end in .yaml, a device "
            "table in .csv or .yaml."
        )
    return load_experiment(source, overrides, imports or ())


def scheduler_labels(texts: Sequence[str]) -> list[str]:
    """Schedulers with commas between, in one text or several."""
    labels: list[str] = []
    for text in texts:
        for item in text.split(","):
            # A comma also separates parameters: an item with '=' belongs to the scheduler before it.
            if "=" in item and ":" not in item and labels:
                labels[-1] += f",{item}"
            elif item.strip():
                labels.append(item.strip())
    return labels


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    sources = [word for word in words if "=" not in word]
    if len(sources) > 1:
        raise FedwaveError(
            f"{sources[1]!r} comes after {sources[0]!r}: name one experiment, then fields as key=value."
        )
    return (sources[0] if sources else "paper"), [word for word in words if "=" in word]


def _is_device_table(source: str) -> bool:
    """A device table in YAML is a list, an experiment is not."""
    from fedwave.yaml_text import read_yaml

    path = Path(source)
    if path.suffix.lower() not in _TABLES or path.suffix.lower() == ".csv" or not path.is_file():
        return path.suffix.lower() == ".csv"
    try:
        return isinstance(read_yaml(path.read_text(encoding="utf-8-sig"), source), list)
    except (FedwaveError, OSError, ValueError):
        return False  # reading it as an experiment will say what is wrong


def _setting(text: str) -> str:
    key, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return f"{key.strip()}={float(value)!r}"
    except ValueError:
        raise FedwaveError(
            f"--set {text!r} must read field=number, such as buffer_limit=20."
        ) from None
