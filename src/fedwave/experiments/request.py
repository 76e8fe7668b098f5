"""The experiment that a word asks for: a file, a preset, or a network alone. For the command line and fw.run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import experiment_from, load_experiment, preset_names
from fedwave.files.reading import read_text

_NETWORKS = ("paper", "random")
_FILES = (".yaml", ".yml", ".json")


def requested_experiment(
    source: str, overrides: Sequence[str] = (), imports: Sequence[str] = (), defaults: Mapping[str, Any] | None = None
) -> Experiment:
    """An experiment from its file, its preset's name, or its network: paper, random, or a device table.

    ``overrides`` read ``field=value``; ``defaults`` are the fields of an experiment that is named by its network only.
    """
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


def _network(source: str) -> dict[str, Any] | None:
    """The network that a word names; None where it names an experiment."""
    if source in _NETWORKS:
        return {"kind": source}
    return {"kind": "table", "file": source} if _is_device_table(Path(source)) else None


def _is_device_table(path: Path) -> bool:
    """A device table in YAML is a list, an experiment is a mapping."""
    from fedwave.files.yaml_text import is_yaml_list

    ending = path.suffix.lower()
    if ending not in (".yaml", ".yml") or not path.is_file():
        return ending == ".csv"
    try:
        return is_yaml_list(read_text(path, str(path)), str(path))
    except FedwaveError:
        return False  # load_experiment says what is wrong with it
