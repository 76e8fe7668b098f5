"""Parts in an experiment: as text, as mappings, nested, overridden, swept, and of one's own."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import fedwave as fw
from fedwave.experiments.config.build import check_buildable, network_of, schedulers_of
from fedwave.experiments.config.experiment import Experiment, NetworkConfig, TaskConfig
from fedwave.experiments.config.parts import Part
from fedwave.experiments.config.read import experiment_from, load_experiment, stored_experiment, to_yaml
from fedwave.experiments.config.sweep import points, to_mapping
from fedwave.experiments.run.runner import run_experiment
from fedwave.parts import registry

ALIKE = [
    (
        "network.success",
        "harq:tries=3,model=turbo:blocks=2;slope=7",
        {"name": "harq", "tries": 3, "model": {"name": "turbo", "blocks": 2, "slope": 7}},
    ),
    ("network.success", {"name": "harq", "model": "soft"}, {"name": "harq", "model": {"name": "soft"}}),
    ("network.arrivals", " poisson ", {"name": "poisson"}),
    ("task.partition", "dirichlet:alpha=0.2", {"name": "dirichlet", "alpha": 0.2}),
    ("task.model", "logistic:inputs=784", {"name": "logistic", "inputs": 784}),
]


@pytest.mark.parametrize("field, one, other", ALIKE, ids=lambda x: str(x)[:40])
def test_a_text_and_a_mapping_are_the_same_part(field: str, one: Any, other: Any) -> None:
    first, _, last = field.partition(".")
    made = experiment_from({first: {last: one}})
    assert made == experiment_from({first: {last: other}})
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
        "task.aggregation.beta=0.5",  # of the default rule
    ]
    made = experiment_from(base, asked)
    assert made.network.success == {"name": "harq", "tries": 4, "model": {"name": "turbo", "slope": 7}}
    assert made.network.fading == {"name": "rician", "k_factor": 10.0}
    assert made.task == TaskConfig(partition={"name": "dirichlet", "alpha": 0.5}, aggregation="lee:beta=0.5")


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

@fw.register
@dataclass(frozen=True)
class Filed(fw.Scheduler):
    name, needs = "filed-test", frozenset({"channel"})
    path: str = ""
    curve_files: tuple = ()

    def priority(self, state, seen, draws):
        return seen.snr

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


def test_labels_name_files_by_their_copies(own: Path, no_figures: None) -> None:
    (own / "a.csv").write_text("1\n")
    (own / "b.csv").write_text("2\n")
    (own / "filed.yaml").write_text(
        "imports: [parts.py]\n"
        "schedulers: [age, 'filed-test:path=a.csv', {name: filed-test, curve_files: [a.csv, b.csv]}]\n"
        "against: 'filed-test:path=a.csv'\nrounds: 2\ninstances: 1\n"
    )
    made = load_experiment(own / "filed.yaml")
    assert made.base == f"filed-test:path={own}/a.csv"
    data = fw.run(own / "filed.yaml", own / "run", workers=1)
    wanted = ["age", "filed-test:path=inputs/a.csv", "filed-test:curve_files=['inputs/a.csv'; 'inputs/b.csv']"]
    assert data["scheduler"].values.tolist() == wanted
    again = load_experiment(own / "run" / "config.yaml")
    assert again.base == f"filed-test:path={own}/run/inputs/a.csv"
    assert fw.run(own / "run" / "config.yaml", own / "again", workers=1).identical(data)


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
        "from fedwave.experiments.config.read import stored_experiment\n"
        "from fedwave.experiments.config.sweep import points\n"
        f"made = stored_experiment(json.loads(Path({str(own / 'config.json')!r}).read_text()))\n"
        "assert len(points(made)) == 2 and 'torch' not in sys.modules\n"
        "sys.stdout.buffer.write(pickle.dumps(made))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert pickle.loads(told.stdout) == made


def test_what_was_made_by_hand_is_checked_when_it_runs() -> None:
    with refused("schedulers[0]", "blsa"):
        check_buildable(Experiment(schedulers=("blsa",)))  # type: ignore[arg-type]
    with refused("schedulers[0]", "blsa"):
        run_experiment(Experiment(schedulers=("blsa",)))  # type: ignore[arg-type]


def test_an_axis_inside_another_axis_is_applied_after_it() -> None:
    both = {"task.aggregation.beta": [0.1, 1], "task.aggregation": ["lee", "fedbuff"]}
    made = experiment_from({"task": {"dataset": "synthetic"}, "sweep": both})
    rules = [at.task.aggregation for _, at in points(made) if at.task is not None]
    found = [(rule.name, rule["beta"]) for rule in rules]
    assert found == [("lee", 0.1), ("fedbuff", 0.1), ("lee", 1), ("fedbuff", 1)]


TWICE = [
    "schedulers=[balsa, age, 'balsa:stage_rule=literal']",
    "schedulers=['balsa:prior=gamma', {name: balsa, prior: {name: gamma, shape: 1, rate: 1.0}}]",
]


@pytest.mark.parametrize("override", TWICE)
def test_a_scheduler_with_its_defaults_written_out_is_the_same_scheduler(override: str) -> None:
    with refused("schedulers", "'balsa"):
        experiment_from({}, [override])


def test_parts_that_differ_in_a_parameter_are_points_of_their_own() -> None:
    rules = ["balsa", "balsa:stage_rule=max1", "balsa:prior=gamma", "balsa:prior=gamma:rate=2"]
    assert experiment_from({"schedulers": rules}).labels == tuple(rules)
    swept = experiment_from({}, ["sweep.network.success=[turbo, 'turbo:blocks=2', 'harq:tries=3']"])
    assert len(points(swept)) == 3
    # Only where the task has the rule that one of them names do they do the same.
    rules = ["schedulers=[mass, 'mass:aggregation=lee']", "sweep.task.aggregation=[lee, sync]"]
    assert len(points(experiment_from({}, [*rules, "task.dataset=synthetic"]))) == 2


def test_null_in_the_place_of_a_part_is_refused_unless_the_part_takes_it() -> None:
    with refused("metrics[0]", "None"):
        experiment_from({"metrics": [{"name": "mass", "aggregation": None}]})
    assert experiment_from({"schedulers": [{"name": "mass", "aggregation": None}]})


SMALL: dict[str, Any] = {"network": {"kind": "random", "devices": 5, "slots": 2}, "rounds": 6, "instances": 3}
DISCOUNT = "schedulers.discounted.discount"


@pytest.fixture
def discounted() -> None:
    @fw.register
    @dataclass(frozen=True)
    class Discounted(fw.Scheduler):
        name = "discounted"
        needs = frozenset({"channel"})
        discount: float = 1.0

        def priority(self, state: Any, seen: Any, draws: Any) -> Any:
            return seen.success * self.discount**seen.delay


@pytest.mark.parametrize(
    "name, parameter, values", [("alpha-fresh", "alpha", (0.0, 2.5)), ("discounted", "discount", (0.5, 0.9))]
)
def test_files_tables_and_figures_have_the_parameter_as_an_axis(
    name: str, parameter: str, values: tuple[float, float], discounted: None, tmp_path: Path
) -> None:
    axis = f"schedulers.{name}.{parameter}"
    asked = {**SMALL, "schedulers": ["age", name], "sweep": {axis: list(values)}}
    data = fw.run(asked, tmp_path / "run", workers=1)
    assert data["scheduler"].values.tolist() == ["age", name]
    network = fw.random_network(5, 2)
    for value in values:
        alone = fw.simulate(network, fw.scheduler(name, **{parameter: value}), 6, 3)
        found = data["backlog"].sel({axis: value, "scheduler": name}).values
        assert np.array_equal(found, alone.series["backlog"].T)
    assert fw.load(tmp_path / "run").identical(data)
    rows = pd.read_csv(tmp_path / "run/summary.csv")
    assert set(rows[axis]) == set(values)
    assert set(pd.read_parquet(tmp_path / "run/rounds")[axis]) == set(values)
    assert f"{name}: {parameter}" in (tmp_path / "run/table.md").read_text()
    assert (tmp_path / f"run/backlog-{axis.replace('.', '-')}.png").is_file()
    again = fw.run(tmp_path / "run/config.yaml", tmp_path / "again", workers=1)
    assert again.identical(data)


def test_every_way_to_ask_gives_the_same_sweep(discounted: None, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"schedulers: [age, discounted]\nsweep: {{{DISCOUNT}: [0.5, 0.9]}}\n")
    made = load_experiment(tmp_path / "a.yaml")
    assert experiment_from({}, ["schedulers=[age, discounted]", f"sweep.{DISCOUNT}=[0.5, 0.9]"]) == made
    assert fw.Experiment(schedulers=("age", "discounted"), sweep={DISCOUNT: (0.5, 0.9)}) == made
    assert [at.labels for _, at in points(made)] == [("age", "discounted")] * 2
    assert [at.schedulers[1]["discount"] for _, at in points(made)] == [0.5, 0.9]


def test_a_label_selects_one_of_several_and_parameters_inside_parameters() -> None:
    variants = ["alpha-fresh:alpha=0.25", {"name": "alpha-fresh", "as": "swept"}, "balsa:prior=gamma"]
    sweep = {"schedulers.swept.alpha": [1, 2], "schedulers.balsa:prior=gamma.prior.rate": [3]}
    made = experiment_from({"schedulers": variants, "sweep": sweep})
    assert made.labels == ("alpha-fresh:alpha=0.25", "swept", "balsa:prior=gamma")
    for (_, at), alpha in zip(points(made), (1, 2), strict=True):
        assert at.labels == made.labels
        first, second, third = at.schedulers
        assert (first["alpha"], second["alpha"], third["prior"]) == (0.25, alpha, {"name": "gamma", "rate": 3})
    with refused("schedulers.alpha-fresh.alpha"):
        experiment_from({"schedulers": variants, "sweep": {"schedulers.alpha-fresh.alpha": [1]}})


def test_an_override_sets_a_parameter_and_the_label_says_so() -> None:
    made = experiment_from({"schedulers": ["age", "balsa"]}, ["schedulers.balsa.stage_rule=max1"])
    assert made.labels == ("age", "balsa:stage_rule=max1")
    labelled = experiment_from({"schedulers": [{"name": "balsa", "as": "b"}]}, ["schedulers.b.stage_rule=max1"])
    assert labelled.labels == ("balsa:stage_rule=max1",)


def test_parameters_of_metrics_are_swept_too() -> None:
    made = experiment_from({"metrics": ["mass"], "sweep": {"metrics.mass.aggregation": ["lee", "sync"]}})
    assert [at.metrics[0]["aggregation"]["name"] for _, at in points(made)] == ["lee", "sync"]
