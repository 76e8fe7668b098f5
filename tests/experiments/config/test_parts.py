"""Parts in an experiment: as text, as mappings, nested, overridden, swept, and of one's own."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import fedwave as fw
from fedwave.errors import FedwaveError
from fedwave.experiments.config.build import check, network_of, schedulers_of
from fedwave.experiments.config.experiment import Experiment, NetworkConfig, TaskConfig
from fedwave.experiments.config.parts import Part
from fedwave.experiments.config.read import (
    experiment_from,
    load_experiment,
    points,
    stored_experiment,
    to_mapping,
    to_yaml,
)
from fedwave.experiments.run.runner import run_experiment
from fedwave.parts import registry

ALIKE = [
    ("network.fading", "rician:k_factor=6", {"name": "rician", "k_factor": 6}),
    (
        "network.success",
        "harq:tries=3,model=turbo:blocks=2;slope=7",
        {"name": "harq", "tries": 3, "model": {"name": "turbo", "blocks": 2, "slope": 7}},
    ),
    (
        "network.success",
        {"name": "harq", "model": "turbo:slope=7"},
        {"name": "harq", "model": {"name": "turbo", "slope": 7}},
    ),
    ("network.arrivals", " poisson ", {"name": "poisson"}),
    ("task.partition", "dirichlet:alpha=0.2", {"name": "dirichlet", "alpha": 0.2}),
    ("task.dataset", "synthetic", {"name": "synthetic"}),
    ("task.model", "logistic:inputs=784", {"name": "logistic", "inputs": 784}),
]


def content(field: str, value: Any) -> dict[str, Any]:
    first, _, last = field.partition(".")
    return {first: {last: value}}


@pytest.mark.parametrize("field, one, other", ALIKE, ids=lambda x: str(x)[:40])
def test_a_text_and_a_mapping_are_the_same_part(field: str, one: Any, other: Any) -> None:
    made = experiment_from(content(field, one))
    assert made == experiment_from(content(field, other))
    first, _, last = field.partition(".")
    part = getattr(getattr(made, first), last)
    assert isinstance(part, Part)
    assert part == other
    assert experiment_from({}, [f"{field}={json.dumps(other)}"]) == made


def test_labels_are_the_texts_of_the_parts() -> None:
    given = [
        "age",
        {"name": "balsa", "prior": {"name": "gamma", "shape": 2, "rate": 0.5}},
        "alpha-fresh: alpha=0.50",
        {"name": "balsa", "stage_rule": "max1"},
    ]
    made = experiment_from({"schedulers": given, "against": "alpha-fresh:alpha=0.500"})
    wanted = ("age", "balsa:prior=gamma:shape=2;rate=0.5", "alpha-fresh:alpha=0.5", "balsa:stage_rule=max1")
    assert made.labels == wanted
    assert made.base == "alpha-fresh:alpha=0.5"
    assert tuple(schedulers_of(made)) == wanted
    assert experiment_from({"schedulers": list(wanted), "against": wanted[2]}) == made


def test_a_part_is_a_value() -> None:
    part = Part.of("scheduler", {"name": "balsa", "prior": "gamma:shape=2;rate=1"}, "it")
    again = pickle.loads(pickle.dumps(part))
    assert again == part
    assert hash(again) == hash(part)
    assert hash(TaskConfig(partition="dirichlet:alpha=1")) == hash(TaskConfig(partition="dirichlet:alpha=1.0"))
    with pytest.raises(TypeError, match="does not support item assignment"):
        part["prior"] = 3  # type: ignore[index]


def test_a_part_is_not_built_from_its_text() -> None:
    """A text with a comma or a colon in it would not survive that."""
    path = "a,b:c;d=e.npy"
    made = NetworkConfig(fading={"name": "recorded", "path": path})
    assert made.fading is not None
    assert made.fading["path"] == path
    with refused("network.fading", f"{path}"):
        network_of(made)


def test_overrides_reach_into_parts() -> None:
    base = {"network": {"success": "harq:tries=3,model=turbo:slope=6", "fading": {"name": "rician"}}}
    asked = [
        "network.success.tries=4",
        "network.success.model.slope=7",
        "network.fading.k_factor=1e1",
        "task.partition.name=dirichlet",
        "task.partition.alpha=0.5",
    ]
    made = experiment_from(base, asked)
    assert made.network.success == {"name": "harq", "tries": 4, "model": {"name": "turbo", "slope": 7}}
    assert made.network.fading == {"name": "rician", "k_factor": 10.0}
    assert made.task == TaskConfig(partition={"name": "dirichlet", "alpha": 0.5})


def test_a_parameter_of_the_default_rule() -> None:
    made = experiment_from({"task": {"dataset": "mnist"}}, ["task.aggregation.beta=0.5"])
    assert made.task is not None
    assert made.task.aggregation == {"name": "lee", "beta": 0.5}


def test_sweeps_reach_into_parts(tmp_path: Path) -> None:
    asked = [
        "network.fading=rician",
        "sweep.network.fading.k_factor=[1, 4]",
        "sweep.network.success=[turbo, {name: harq, tries: 2}]",
        "task.dataset=synthetic",
        "sweep.task.partition=[iid, dirichlet]",
        "rounds=5",
    ]
    made = experiment_from({}, asked)
    found = points(made)
    assert len(found) == 8
    assert found[2][1].network.fading == {"name": "rician", "k_factor": 1}
    assert found[2][1].network.success == {"name": "harq", "tries": 2}
    assert [str(value) for value in made.sweep["network.success"]] == ["turbo", "harq:tries=2"]
    assert [at.network.fading["k_factor"] for _, at in found[::4]] == [1, 4]  # type: ignore[index]
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(made))
    assert load_experiment(file) == stored_experiment(to_mapping(made)) == made
    assert [at for _, at in points(stored_experiment(to_mapping(made)))] == [at for _, at in found]


def test_what_is_written_is_short() -> None:
    made = experiment_from({"schedulers": ["age", "balsa:stage_rule=max1"], "network": {"fading": "rician"}})
    lines = to_yaml(made).splitlines()
    assert "schedulers: [age, {name: balsa, stage_rule: max1}]" in lines
    assert "  fading: rician" in lines
    assert to_mapping(made)["network"]["fading"] == "rician"


OWN = """
from dataclasses import dataclass
import fedwave as fw

@fw.register
@dataclass(frozen=True)
class Louder(fw.fading.Rayleigh):
    name = "louder-test"
    base: fw.fading.Fading | None = None

@fw.register("own-model-test", family="model")
def make(width: int = 3):
    raise AssertionError("nobody asked for it")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an experiment that uses parts of its own, which are forgotten afterwards."""
    for family in registry.FAMILIES:
        monkeypatch.setitem(registry.own(), family, dict(registry.own()[family]))
    monkeypatch.setattr("fedwave.parts.user_code._imports", {})
    (tmp_path / "parts.py").write_text(OWN)
    (tmp_path / "mine.yaml").write_text(
        "imports: [parts.py]\nschedulers: [age]\nnetwork: {fading: 'louder-test:base=rician:k_factor=2'}\n"
        "task: {model: own-model-test:width=9}\nrounds: 3\ninstances: 2\n"
    )
    return tmp_path


def test_an_experiment_imports_parts_of_its_own(own: Path) -> None:
    made = load_experiment(own / "mine.yaml")
    assert made.imports == (str(own / "parts.py"),)
    assert made.network.fading == {"name": "louder-test", "base": {"name": "rician", "k_factor": 2}}
    assert network_of(made.network).fading.base == fw.fading.Rician(k_factor=2)  # type: ignore[attr-defined]
    assert made.task is not None
    assert str(made.task.model) == "own-model-test:width=9"
    (own / "elsewhere").mkdir()
    again = own / "elsewhere" / "config.yaml"
    again.write_text(to_yaml(made))
    assert load_experiment(again) == made


def test_the_command_line_adds_to_the_imports(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own)
    more = own / "more.py"
    more.write_text("import fedwave as fw\n@fw.register('more-test', family='model')\ndef f(): ...\n")
    made = load_experiment("mine.yaml", ["task.model=more-test"], ["more.py", "parts.py"])
    assert made.imports == (str(own / "parts.py"), str(more))
    asked = experiment_from({}, ["task.model=more-test", "imports=[more.py]"])
    assert asked.imports == (str(more),)


def test_without_the_import_the_name_is_unknown(own: Path) -> None:
    with refused("network.fading", "louder-test"):
        load_experiment(own / "mine.yaml", ["imports=[]", "task=null"])
    with refused("task.model", "own-model-test"):
        load_experiment(own / "mine.yaml", ["imports=[]", "network.fading=null"])


def test_a_broken_import_is_told(own: Path) -> None:
    (own / "parts.py").write_text("\n1 / 0\n")
    with refused("imports", "parts.py", "ZeroDivisionError", 2):
        load_experiment(own / "mine.yaml")
    (own / "parts.py").unlink()
    with refused("imports", "parts.py", "No such file"):
        load_experiment(own / "mine.yaml")


def test_a_stored_experiment_is_read_without_its_inputs(own: Path) -> None:
    table = own / "devices.csv"
    table.write_text("rate,distance_m\n1,100\n2,200\n")
    asked = ["network.kind=table", f"network.file={table}", "sweep.seed=[1, 2]"]
    made = load_experiment(own / "mine.yaml", asked)
    (own / "config.json").write_text(json.dumps(to_mapping(made)))
    for name in ("parts.py", "devices.csv"):
        (own / name).unlink()
    code = (
        "import json, sys, pickle; from pathlib import Path\n"
        "from fedwave.experiments.config.read import stored_experiment, points\n"
        f"made = stored_experiment(json.loads(Path({str(own / 'config.json')!r}).read_text()))\n"
        "assert len(points(made)) == 2 and 'torch' not in sys.modules\n"
        "sys.stdout.buffer.write(pickle.dumps(made))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert pickle.loads(told.stdout) == made


def test_what_was_made_by_hand_is_checked_when_it_runs() -> None:
    with refused("schedulers[0]", "blsa"):
        check(Experiment(schedulers=("blsa",)))  # type: ignore[arg-type]
    with refused("schedulers[0]", "blsa"):
        run_experiment(Experiment(schedulers=("blsa",)))  # type: ignore[arg-type]


def test_an_axis_inside_another_axis_is_applied_after_it() -> None:
    both = {"task.aggregation.beta": [0.1, 1], "task.aggregation": ["lee", "fedbuff"]}
    made = experiment_from({"task": {"dataset": "synthetic"}, "sweep": both})
    rules = [at.task.aggregation for _, at in points(made) if at.task is not None]
    found = [(rule.name, rule["beta"]) for rule in rules]
    assert found == [("lee", 0.1), ("fedbuff", 0.1), ("lee", 1), ("fedbuff", 1)]


TWICE: list[tuple[str, ...]] = [
    ("schedulers=[balsa, age, 'balsa:stage_rule=literal']",),
    ("schedulers=['balsa:prior=gamma', {name: balsa, prior: {name: gamma, shape: 1, rate: 1.0}}]",),
    ("sweep.network.success=[turbo, 'turbo:blocks=1']",),
    ("sweep.network.success=['harq:tries=2', 'harq:model=turbo:slope=7.468']",),
    ("sweep.task.dataset=[synthetic, 'synthetic:seed=0']", "task.model=logistic"),
]


@pytest.mark.parametrize("overrides", TWICE, ids=lambda asked: asked[0])
def test_a_part_with_its_defaults_written_out_is_the_same_part(overrides: tuple[str, ...]) -> None:
    with pytest.raises(FedwaveError, match="is the same as"):
        experiment_from({}, overrides)


def test_parts_that_differ_in_a_parameter_are_points_of_their_own() -> None:
    rules = ["balsa", "balsa:stage_rule=max1", "balsa:prior=gamma", "balsa:prior=gamma:rate=2"]
    assert experiment_from({"schedulers": rules}).labels == tuple(rules)
    swept = experiment_from({}, ["sweep.network.success=[turbo, 'turbo:blocks=2', 'harq:tries=3']"])
    assert len(points(swept)) == 3
    # Only where the task has the rule that one of them names do they do the same.
    rules = ["schedulers=[mass, 'mass:aggregation=lee']", "sweep.task.aggregation=[lee, sync]"]
    assert len(points(experiment_from({}, [*rules, "task.dataset=synthetic"]))) == 2


def test_recorded_parts_differ_by_their_files(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        file.write_text("\n".join(["1," * 24 + "2"] * 9))
    swept = {"network.fading": [{"name": "recorded", "path": str(file)} for file in files]}
    asked = {"rounds": 3, "instances": 1, "sweep": swept}
    assert len(points(experiment_from(asked))) == 2


def test_a_parameter_that_is_a_mapping_is_refused_by_the_part_that_does_not_have_it() -> None:
    with refused("schedulers[0]", "balsa", "'x'"):
        experiment_from({"schedulers": [{"name": "balsa", "x": {"y": {"z": 1}}}]})


def test_null_in_the_place_of_a_part_is_refused_unless_the_part_takes_it() -> None:
    with refused("metrics[0]", "None"):
        experiment_from({"metrics": [{"name": "mass", "aggregation": None}]})
    assert experiment_from({"schedulers": [{"name": "mass", "aggregation": None}]})
