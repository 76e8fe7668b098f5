"""From the words and options of a command to the experiment that they ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedwave.cli.options import Group
from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, load_experiment, preset_names

_NETWORKS = ("paper", "random")
_FILES = (".yaml", ".yml", ".json")


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
        for one in fields(group):
            value = getattr(group, one.name)
            if not value and value != 0:
                continue
            if one.name == "imports":
                imports += value
            elif one.name == "settings":
                overrides += [f"network.set.{_setting(text)}" for text in value]
            else:
                value = scheduler_labels(value) if one.name == "schedulers" else value
                overrides.append(f"{group.prefix}{one.name}={json.dumps(value)}")
    overrides += [f"{k}={json.dumps(v)}" for k, v in (more or {}).items() if v is not None]
    network = _network(source)
    if network is not None:
        content = {"name": Path(source).stem, **(defaults or {}), "network": network}
        return experiment_from(content, overrides, imports)
    known = (*preset_names(), *_NETWORKS)
    if Path(source).suffix.lower() not in _FILES and source not in known:
        raise FedwaveError(
            f"there is no experiment {source!r}; {did_you_mean(source, known)} A file must end in .yaml or .json, a "
            "device table in .csv or .yaml."
        )
    return load_experiment(source, overrides, imports)


def folder_of(experiment: Experiment) -> Path:
    """Where its results go unless another place is named: out/NAME."""
    plain = re.sub(r"[^\w.-]+", "-", experiment.name).strip(".-")
    return Path("out") / (plain or "experiment")


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


def _network(source: str) -> dict[str, Any] | None:
    """The network that a word names; None where it names an experiment."""
    if source in _NETWORKS:
        return {"kind": source}
    return {"kind": "table", "file": source} if _is_device_table(Path(source)) else None


def _is_device_table(path: Path) -> bool:
    """A device table in YAML is a list, an experiment is a mapping."""
    from fedwave.yaml_text import read_yaml

    ending = path.suffix.lower()
    if ending not in (".yaml", ".yml") or not path.is_file():
        return ending == ".csv"
    try:
        return isinstance(read_yaml(path.read_text(encoding="utf-8-sig"), str(path)), list)
    except (FedwaveError, OSError, ValueError):
        return False  # load_experiment says what is wrong with it


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
