from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusals import mentions, refused

import fedwave as fw
from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment, NetworkConfig, TaskConfig, TrainingConfig
from fedwave.experiments.config.read import experiment_from, load_experiment, preset_about, preset_names, to_yaml
from fedwave.experiments.config.schema import json_schema
from fedwave.experiments.config.sweep import points, to_mapping
from fedwave.schedulers.base import PAPER_SCHEDULERS

PRESETS = preset_names()


# What is asked, and what the answer names.
REFUSALS = {
    ("network.slots=0",): ("network.slots", 0),
    ("network.slots=26",): ("slots", 26, 25),
    ("network.slots=[5, -1]", "rounds=2"): ("network.slots", -1),
    ("network.slots=[5, 5]", "rounds=3"): ("slots", 2, "rounds", 3),
    ("network.slot=2",): ("network.slot", "'slots'"),
    ("slots=2",): ("slots", "network.slots"),
    ("nonsense=2",): ("nonsense",),
    ("network.gamma=.nan",): ("network.gamma", "nan"),
    ("network.fading=ricean",): ("network.fading", "ricean", "rician"),
    ("network.success=harq:tries=0",): ("network.success", "tries", 0),
    ("network.arrivals=[poisson]",): ("network.arrivals", "['poisson']"),
    ("network.fading.k_factor=6",): ("network.fading", "name"),
    ("network.fading=rician:k",): ("network.fading", "rician:k", "k"),
    ("network.success={name: harq, model: {slope: 7}}",): ("network.success.model", "name"),
    ("network.set.rate=-2",): ("rate", 1, -2),
    ("network.set.devices=9",): ("network.set.devices", 9.0),
    ("network.set.rate=2", "network.rate=3"): ("network.set.rate", 2.0),
    ("network.devices=4",): ("network.devices", 4),
    ("network.kind=random", "network.devices=50_000", "network.slots=60_000"): ("network.slots", 60000),
    ("network.kind=random", "network.devices=1_000_000_000"): (10000000,),
    ("network.kind=table",): ("network.file", "None"),
    ("network.kind=table", "network.file=no.csv"): ("network", "no.csv"),
    ("network.kind=tabel",): ("network.kind", "tabel", "table"),
    ("network=null",): ("network", "None"),
    ("rounds=0",): ("rounds", 0),
    ("rounds=3.7",): ("rounds", 3.7),
    ("rounds='5'",): ("rounds", 5),
    ("rounds=0x" + "f" * 5000,): ("rounds", "YAML", 1),
    ("rounds=0x" + "f" * 500,): ("rounds", "digits"),
    ("first_instance=1000000001",): ("first_instance", 1000000001),
    ("sweep.metric=[score,backlog]",): ("sweep.metric", "same"),
    ("sweep.against=[alsa-pi,balsa]",): ("sweep.against", "same"),
    ("sweep.first_instance=[0,5]",): ("sweep.first_instance", "same"),
    ("sweep.schedulers=[[age], [balsa]]",): ("sweep.schedulers", "same"),
    ("sweep.task.eta=[1, 0.1]",): ("sweep.task.eta", "null"),
    ("task.dataset=synthetic", "metric=backlog", "sweep.task=[null, {dataset: synthetic}]"): ("sweep.task", "null"),
    ("burn_in=500",): ("burn_in", 500),
    ("name=&a [*a]",): ("'name'", "alias", "'a'"),
    ("imports=[3]",): ("imports[0]", 3),
    ("imports=[no.py]",): ("no.py", "No such file"),
    ("metrics=[jain, jain]",): ("metrics[1]", "jain"),
    ("metrics=[jan]",): ("metrics[0]", "jan", "jain"),
    ("metric=device_uploads",): ("metric", "device_uploads"),
    ("targets=[0.5, high]",): ("targets[1]", "high"),
    ("metric=accuracy",): ("metric", "accuracy"),
    ("against=blsa",): ("against", "blsa", "balsa"),
    ("schedulers=balsa",): ("schedulers", "balsa"),
    ("schedulers=[]",): ("schedulers", "empty"),
    ("schedulers=[age, age]",): ("schedulers[1]", "age"),
    ("schedulers=[{nam: age}]",): ("schedulers[0]", "name"),
    ("schedulers.x=1",): ("schedulers.x", "schedulers.NAME.PARAMETER"),
    ("schedulers=[balsa:stage_rule=max1,prior=gamma]",): ("commas",),
    ("schedulers=[update-aware]",): ("update-aware", "task"),
    ("task.dataset=minst",): ("task.dataset", "minst", "mnist"),
    ("task.model=vgg19",): ("task.model", "vgg19", "mnist"),
    ("task.partition.alpha=1",): ("task.partition", "iid", "alpha"),
    ("task.partition=by-class:held=11",): ("task.partition", "held", 11, 10),
    ("task.aggregation=null",): ("task.aggregation", "None"),
    ("task.eta=0",): ("task.eta", 0),
    ("training.tolerance=1",): ("training.tolerance", 1),
    ("sweep.network.slots=[]",): ("sweep.network.slots", "empty"),
    ("sweep.network.gamma=[1, 1.0]",): ("sweep.network.gamma", 1.0),
    ("sweep.network.slot=[5]",): ("sweep.network.slot", "network.slot", "slots"),
    ("sweep.network.slots=[5, 26]",): ("sweep.network.slots", 26, 25),
    ("sweep.network.set.rate=[1, fast]",): ("sweep.network.set.rate", "fast", "network.set.rate"),
    ("sweep.rounds=[5, 6]", "sweep.burn_in=[0, 5]"): ("sweep.rounds", "sweep.burn_in", "burn_in", 5),
    (f"sweep.seed={list(range(200))}", f"sweep.rounds={list(range(1, 52))}"): ("sweep.rounds", 10200),
    ("rounds",): ("'rounds'", "field=value"),
    ("=5",): ("'=5'", "field=value"),
    ("network.=5",): ("'network.'",),
    ("rounds=[",): ("'rounds'", "YAML", 1),
    ("rounds=!!python/object:os.system 5",): ("tag:yaml.org,2002:python/object:os.system",),
    ("name={a: 1, a: 2}",): ("key", "'a'"),
    ("sweep.network.fading.k=[1]", "network.fading=rician"): ("sweep.network.fading.k", 1, "network.fading"),
    ("sweep.network.fading=[rician, {name: rician}]",): ("sweep.network.fading", "'rician'"),
    ("sweep.schedulers.balsa.rule=[x]",): ("sweep.schedulers.balsa.rule", "'rule'", "stage_rule"),
    ("schedulers=['alpha-fresh:alpha=1']", "sweep.schedulers.alpha-fresh.alpha=[0, 1]"): ("alpha", "as"),
    ("schedulers=['alpha-fresh:alpha=1', alpha-fresh]", "schedulers.alpha.alpha=1"): ("schedulers.alpha.alpha",),
    ("schedulers=[{name: age, as: ''}]",): ("schedulers[0].as", "''"),
    ("schedulers=[age, {name: w-max, as: age}]",): ("schedulers[1]", "'age'"),
    ("sweep.imports=[[a.py]]",): ("sweep.imports", "imports"),
    ("name=" + "[" * 500,): ("'name'", "deeply"),
    ('network.fading="rician:k_factor=a\\nb"',): ("network.fading", "k_factor"),
}


@pytest.mark.parametrize("asked", REFUSALS, ids=lambda asked: " ".join(asked)[:60])
def test_a_refusal_is_one_sentence_that_names_the_field(asked: tuple[str, ...]) -> None:
    with pytest.raises(FedwaveError) as caught:
        experiment_from({}, asked)
    assert mentions(caught.value, *REFUSALS[asked])
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("content", [3, None, [1], {1: 2}, {"network.slots": 3}, {"a\ud800": 1}])
def test_what_is_no_experiment_at_all(content: object) -> None:
    with pytest.raises(FedwaveError, match=r"must be|must hold|there is no field|not valid text"):
        experiment_from(content)  # type: ignore[arg-type]


def test_presets_say_what_they_are() -> None:
    assert {"quick", "recommended", "paper-score", "paper-mnist", "paper-cifar10"} <= set(PRESETS)
    for name in PRESETS:
        about = preset_about(name)
        assert about[0].isupper()
        assert about[-1] in ".?"
        assert load_experiment(name).name == name


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_read_back(name: str, tmp_path: Path) -> None:
    experiment = load_experiment(name)
    assert experiment_from(to_mapping(experiment)) == experiment
    (tmp_path / "again.yaml").write_text(to_yaml(experiment))
    (tmp_path / "again.json").write_text(json.dumps(to_mapping(experiment)))
    assert load_experiment(tmp_path / "again.yaml") == experiment
    assert load_experiment(tmp_path / "again.json") == experiment
    assert repr(load_experiment(tmp_path / "again.yaml")) == repr(experiment)  # 1 and 1.0 are equal, but not alike


def test_presets_have_the_numbers_of_the_paper() -> None:
    def size(e: Experiment) -> tuple[object, ...]:
        t = e.training
        return e.rounds, e.instances, t.tolerance, t.test_images, t.full_every, t.precision

    score, mnist, cifar = (load_experiment(f"paper-{n}") for n in ("score", "mnist", "cifar10"))
    assert (score.rounds, score.instances, score.task) == (500, 50, None)
    others = [n for n in fw.scheduler_names(standalone=True) if n not in PAPER_SCHEDULERS]
    assert score.labels == (*PAPER_SCHEDULERS, *others)
    assert size(mnist) == (150, 50, 1e-6, 10_000, 0, "float32")
    assert size(cifar) == (400, 20, 1e-3, 2000, 10, "auto")
    assert mnist.targets == (0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
    assert cifar.targets == (0.48, 0.52, 0.56, 0.60, 0.64, 0.68, 0.72)
    assert mnist.labels == cifar.labels == PAPER_SCHEDULERS
    assert mnist.task == TaskConfig()
    assert cifar.task == TaskConfig(dataset="cifar10")


def test_overrides_of_a_mapping_which_stays_as_it_was() -> None:
    asked = [
        "network.slots=10",
        "network.set.rate=2",
        "network.set.buffer_limit=.inf",
        "task.partition=dirichlet",
        "task.partition.alpha=5e-1",
        "training.tolerance=1e-3",
        "schedulers=[alsa-pi, {name: balsa, stage_rule: max1}]",
        "against=balsa:stage_rule=max1",
        "sweep.network.gamma=[0, 0.5]",
        "targets=[1]",
        "name=a=b",
    ]
    given: dict[str, Any] = {"task": None, "network": {"set": {"noise_dbm": -100}}}
    made = experiment_from(given, asked)
    assert given == {"task": None, "network": {"set": {"noise_dbm": -100}}}
    assert made == Experiment(
        name="a=b",
        network=NetworkConfig(slots=10, set={"noise_dbm": -100.0, "rate": 2.0, "buffer_limit": float("inf")}),
        task=TaskConfig(partition={"name": "dirichlet", "alpha": 0.5}),
        training=TrainingConfig(tolerance=0.001),
        schedulers=("alsa-pi", "balsa:stage_rule=max1"),
        against="balsa:stage_rule=max1",
        sweep={"network.gamma": (0, 0.5)},
        targets=(1.0,),
    )
    assert isinstance(made.targets[0], float)
    assert isinstance(made.network.set["rate"], float)
    assert experiment_from(to_mapping(made), ["task=null", "metric=backlog", "sweep={}", "network={}"]) == replace(
        made, task=None, metric="backlog", sweep={}, network=NetworkConfig()
    )


def test_the_scheduler_that_differences_are_taken_from() -> None:
    assert Experiment().base == "alsa-pi"
    assert Experiment(schedulers=("age", "fresh")).base == "age"
    assert Experiment(against="balsa").base == "balsa"


def test_points_are_the_product_of_the_axes_in_order() -> None:
    asked = ["sweep.network.set.rate=[1, 2.5]", "sweep.task.eta=[1, 0.1]", "rounds=7", "task.epochs=2"]
    experiment = experiment_from({}, asked)
    found = points(experiment)
    assert [tuple(point.values()) for point, _ in found] == [(1, 1), (1, 0.1), (2.5, 1), (2.5, 0.1)]
    for point, at in found:
        assert list(point) == ["network.set.rate", "task.eta"]
        assert at == Experiment(
            rounds=7,
            network=NetworkConfig(set={"rate": point["network.set.rate"]}),
            task=TaskConfig(eta=point["task.eta"], epochs=2),
        )
    assert points(replace(experiment, sweep={})) == [({}, replace(experiment, sweep={}))]


def test_an_axis_of_slots_per_round(tmp_path: Path) -> None:
    experiment = experiment_from({}, ["rounds=2", "sweep.network.slots=[[1,2],3]"])
    assert [at.network.slots for _, at in points(experiment)] == [(1, 2), 3]
    (tmp_path / "again.yaml").write_text(to_yaml(experiment))
    assert load_experiment(tmp_path / "again.yaml") == experiment


FILES: dict[tuple[str, bytes], tuple[object, ...]] = {
    ("a.yaml", b""): ("a.yaml", "mapping"),
    ("a.yaml", b"- 1\n"): ("a.yaml", "device table"),
    ("a.json", b'{"rounds": 5,\n'): ("a.json", "line 2"),
    ("a.json", b"3"): ("a.json", "mapping"),
    ("a.txt", b"rounds: 5"): (".yaml", ".yml", ".json"),
}


@pytest.mark.parametrize("name, content", FILES, ids=lambda x: str(x)[:30])
def test_files_that_cannot_be_read(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FedwaveError) as caught:
        load_experiment(tmp_path / name)
    assert mentions(caught.value, *FILES[name, content])
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for source, tokens in {
        tmp_path / "none.yaml": ("none.yaml", "No such file"),
        tmp_path / "folder.yaml": ("folder.yaml", "Is a directory"),
        tmp_path / ("x" * 5000 + ".yaml"): ("File name too long",),
        "\0.yaml": (".yaml",),
        str(tmp_path): (".yaml", ".yml", ".json"),
        "quik": ("'quik'", "'quick'"),
        "": ("''",),
    }.items():
        with refused("experiment", *tokens):
            load_experiment(source)


def test_anchors_merge(tmp_path: Path) -> None:
    text = "network: &a {kind: random, devices: 50}\nsweep:\n  network: [{<<: *a, devices: 60}, *a]\n"
    (tmp_path / "a.yaml").write_text(text)
    sizes = [at.network.devices for _, at in points(load_experiment(tmp_path / "a.yaml"))]
    assert sizes == [60, 50]


def test_the_schema_describes_every_field() -> None:
    schema = json_schema(Experiment)
    json.dumps(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "fedwave experiment"
    kinds = (Experiment, NetworkConfig, TaskConfig, TrainingConfig)
    for kind, fields in zip(kinds, [schema, *(schema["$defs"][one.__name__] for one in kinds[1:])], strict=True):
        assert fields["additionalProperties"] is False
        assert set(fields["properties"]) == {one.name for one in dataclasses.fields(kind)}
        for name, field in fields["properties"].items():
            assert field["description"].endswith("."), name
    assert schema["$defs"]["NetworkConfig"]["properties"]["kind"]["enum"] == ["paper", "random", "table"]
    assert "float64" in schema["$defs"]["TrainingConfig"]["properties"]["precision"]["enum"]
    texts = json.dumps(schema["properties"]["schedulers"]["items"])
    assert all(name in texts for name in fw.scheduler_names())


def test_configurations_are_made_without_torch_and_without_pydantic() -> None:
    code = (
        "import sys; from fedwave.experiments.config.experiment import Experiment; Experiment();"
        "print('pydantic' in sys.modules, 'torch' in sys.modules);"
        "from fedwave.experiments.config.read import load_experiment; load_experiment('quick');"
        "print('pydantic' in sys.modules, 'torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False", "True", "False"]


@pytest.mark.parametrize("text", ["inf", ".inf"])
def test_a_number_that_is_infinite_unless_given_can_be_given_so(text: str) -> None:
    found = experiment_from({}, [f"network.set.buffer_limit={text}"])
    assert found.network.set == {"buffer_limit": float("inf")}
    found = experiment_from({}, [f"network.set.interference_dbm=-{text}"])
    assert found.network.set == {"interference_dbm": -float("inf")}
    swept = experiment_from({}, [f"sweep.network.set.buffer_limit=[10, {text}]"])
    assert swept.sweep["network.set.buffer_limit"] == (10, float("inf"))
    assert experiment_from({}, ["name=inf"]).name == "inf"  # elsewhere it is a text
    with refused("noise_dbm", "inf"):
        experiment_from({}, ["network.set.noise_dbm=inf"])
