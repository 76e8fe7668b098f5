"""Experiments as files: read with overrides, checked to the last point of their sweep, and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from fedwave.errors import FedwaveError, did_you_mean
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.points import points, to_mapping, with_override
from fedwave.experiments.config.schema import json_schema
from fedwave.experiments.config.stored import stored_experiment
from fedwave.experiments.config.validation import build_experiment, plain_copy
from fedwave.experiments.config.yaml_text import read_json, read_yaml, write_yaml
from fedwave.parts_import import absolute, import_parts

__all__ = [
    "experiment_from", "json_schema", "load_experiment", "points", "preset_about", "preset_names",
    "stored_experiment", "to_mapping", "to_yaml",
]  # fmt: skip

_PRESETS = "fedwave.experiments.presets"


def load_experiment(source: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """An experiment from a preset's name or a .yaml, .yml or .json file; overrides read ``field=value``.

    >>> load_experiment("quick", ["network.slots=3", "instances=4"]).instances
    4
    """
    with _one_line():
        return experiment_from(_content(source), overrides)


def experiment_from(mapping: Mapping[str, Any], overrides: Sequence[str] = ()) -> Experiment:
    """An experiment from nested mappings, as a file has them."""
    with _one_line():
        content = plain_copy(mapping)
        for text in overrides:
            content = with_override(content, text)
        asked = content.get("imports")
        if isinstance(asked, list) and all(isinstance(name, str) for name in asked):
            content["imports"] = [absolute(name, Path()) for name in asked]
            for name in content["imports"]:  # before the check of names, which may be defined there
                import_parts(name)
        experiment = build_experiment(content)
        if experiment.sweep:
            points(experiment)  # a point that is wrong is found now, not after hours
        return experiment


def to_yaml(experiment: Experiment) -> str:
    """The file that gives this experiment, with every field."""
    return write_yaml(to_mapping(experiment))


def preset_names() -> tuple[str, ...]:
    """The experiments that come with fedwave."""
    files = resources.files(_PRESETS).iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")))


def preset_about(name: str) -> str:
    """What a preset is, in one line."""
    return _preset_text(name).splitlines()[0].lstrip("# ")


def _preset_text(name: str) -> str:
    known = preset_names()
    if name not in known:
        raise FedwaveError(
            f"there is no experiment {name!r}; {did_you_mean(name, known)} "
            "A file must end in .yaml, .yml or .json."
        )
    return resources.files(_PRESETS).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _content(source: str | Path) -> Mapping[str, Any]:
    path, what = Path(source), f"experiment {source}"
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        text = _preset_text(str(source))
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise FedwaveError(f"{what} cannot be read: {reason}.") from None
    content = (read_json if path.suffix.lower() == ".json" else read_yaml)(text, what)
    if not isinstance(content, Mapping):
        raise FedwaveError(f"{what} must be a mapping of fields, such as `rounds: 100`.")
    return content


@contextmanager
def _one_line() -> Iterator[None]:
    """A refusal may quote what the user wrote, with its line breaks."""
    try:
        yield
    except FedwaveError as error:
        raise FedwaveError(" ".join(str(error).splitlines())) from None
