"""The JSON schema of an experiment's file, which editors check and complete from."""

from __future__ import annotations

from typing import Any

from fedwave import registry
from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import LEARNT_METRICS, METRICS
from fedwave.experiments.config.parts import DATASETS, MODELS, PLACES, PRECISIONS
from fedwave.experiments.config.validation import experiment_adapter


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12), with a description of every field and the names that it can take."""
    adapter = experiment_adapter()
    if adapter is None:
        raise FedwaveError("the schema needs pydantic, which is missing: pip install pydantic.")
    schema: dict[str, Any] = adapter.json_schema()
    own = schema["properties"]
    network, task, training = (
        schema["$defs"][name]["properties"]
        for name in ("NetworkConfig", "TaskConfig", "TrainingConfig")
    )
    own["metric"]["enum"] = [*METRICS, *LEARNT_METRICS]
    own["schedulers"]["items"] = _scheduler()
    task["dataset"]["enum"] = list(DATASETS)
    task["model"]["anyOf"] = [{"enum": list(MODELS)}, {"type": "null"}]
    task["aggregation"]["anyOf"] = [*_texts(registry.names("aggregation")), {"type": "null"}]
    task["instead_of"]["anyOf"] = [{"enum": list(DATASETS)}, {"type": "null"}]
    for name, known in (("device", PLACES), ("precision", PRECISIONS)):
        training[name]["enum"] = list(known)
    for name in ("fading", "success", "arrivals"):
        network[name]["anyOf"] = [*_texts(registry.names(name)), {"type": "null"}]
    heading = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fedwave experiment",
    }
    return {**heading, **{key: value for key, value in schema.items() if key not in heading}}


def _texts(names: Any) -> list[dict[str, Any]]:
    """A name alone, or with parameters after a colon."""
    return [{"enum": list(names)}, {"type": "string", "pattern": f"^({'|'.join(names)}):"}]


def _scheduler() -> dict[str, Any]:
    names = registry.names("scheduler")
    mapping = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"enum": list(names), "description": "The scheduler's name."}},
    }
    return {"anyOf": [*_texts(names), mapping]}
