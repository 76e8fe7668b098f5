from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import fedwave as fw
from fedwave.errors import FedwaveError
from fedwave.experiments.config.experiment import Experiment, NetworkConfig, TaskConfig, TrainingConfig
from fedwave.experiments.config.read import (
    experiment_from,
    load_experiment,
    points,
    preset_about,
    preset_names,
    to_mapping,
    to_yaml,
)
from fedwave.experiments.config.schema import json_schema
from fedwave.schedulers.base import PAPER_SCHEDULERS

PRESETS = (
    "label-skew",
    "million-devices",
    "paper-backlogs",
    "paper-cifar10",
    "paper-mnist",
    "paper-score",
    "quick",
    "recommended",
)


# What is asked, and the sentence that answers.
REFUSALS = {
    ("network.slots=0",): "network.slots is 0, must be a whole number >= 1.",
    ("network.slots=26",): "network.slots: slots (W) is 26 but there are only 25 devices",
    ("network.slots=[5, -1]", "rounds=2"): "network.slots: slots (W) is -1, must be a whole number",
    ("network.slots=[5, 5]", "rounds=3"): "network.slots gives W of 2 rounds, but rounds is 3",
    ("network.slots=five",): "network.slots is 'five', must be a whole number or a list of whole numbers",
    ("network.slot=2",): "there is no field 'network.slot'; did you mean 'slots'?",
    ("slots=2",): "there is no field 'slots'; did you mean 'network.slots'?",
    ("nonsense=2",): "there is no field 'nonsense'; known are against, block, burn_in",
    ("rounds.x=2",): "rounds is {'x': 2}, must be a whole number.",
    ("network.gamma=-1",): "network.gamma is -1.0, must be a number >= 0.",
    ("network.gamma=.nan",): "network.gamma is nan, must be a number >= 0.",
    ("network.fading=ricean",): "network.fading: there is no fading 'ricean'; did you mean 'rician'?",
    ("network.success=harq:tries=0",): "network.success: Harq tries is 0, must be a whole number >= 1.",
    ("network.arrivals=3",): "network.arrivals is 3, must be a name or a mapping or null.",
    ("network.arrivals=[poisson]",): "network.arrivals is ['poisson'], must be a name or a mapping or null.",
    ("network.fading.k_factor=6",): "network.fading has no name: write it as {name: ..., parameter: value}.",
    ("network.fading=rician:k",): "network.fading: fading 'rician:k': 'k' must read key=value.",
    ("network.fading={name: rician, k: 6}",): "network.fading: fading 'rician' has no parameter 'k'; known are",
    ("network.fading=rician", "network.fading.k.x=6"): "network.fading: fading 'rician' has no parameter 'k'",
    ("network.success={name: harq, model: {slope: 7}}",): "network.success.model has no name",
    ("network.success={name: harq, model: torbo}",): "network.success: there is no success model 'torbo'; did you",
    ("network.fading.name=3",): "network.fading has no name",
    ("network.set.rate=-2",): "network.set.rate: rate of device 1 is -2, must be a number >= 0",
    ("network.set.rat=2",): "network.set.rat: a network has no field 'rat'; did you mean 'rate'?",
    ("network.set.rate=fast",): "network.set.rate is 'fast', must be a number.",
    ("network.set.devices=9",): "network.set.devices is 9.0, but devices is no number to set",
    ("network.set.rate=2", "network.rate=3"): "network.set.rate is 2.0, but network.rate is given too",
    ("network.devices=4",): "network.devices is 4, but goes with network.kind random, not paper.",
    ("network.kind=random", "network.devices=0"): "network.devices is 0, must be a whole number >= 1",
    ("network.kind=random", "network.devices=50_000", "network.slots=60_000"): "network.slots is 60000, but there",
    ("network.kind=random", "network.devices=1_000_000_000"): "must be at most 10000000",
    ("network.kind=random", "network.set.seed=0.5"): "network.set.seed: seed is 0.5, must be a whole number",
    ("network.kind=table",): "network.file is None, must be a device table (.csv, .yaml) for kind table.",
    ("network.kind=table", "network.file=no.csv"): "network.file: device table no.csv cannot be read: No such file",
    ("network.file=no.csv",): "network.file is 'no.csv', but goes with network.kind table, not paper.",
    ("network.kind=tabel",): "network.kind is 'tabel', must be paper, random or table; did you mean 'table'?",
    ("network=null",): "network is None, must be a mapping.",
    ("rounds=0",): "rounds is 0, must be a whole number >= 1.",
    ("rounds=3.7",): "rounds is 3.7, must be a whole number.",
    ("rounds=true",): "rounds is True, must be a whole number.",
    ("rounds='5'",): "rounds is '5', must be a whole number.",
    ("rounds=0x" + "f" * 5000,): "override 'rounds': the value is not valid YAML in line 1: it holds a value that",
    ("rounds=0x" + "f" * 500,): "rounds is a number of too many digits",
    ("instances=0",): "instances is 0, must be a whole number >= 1.",
    ("first_instance=-1",): "first_instance is -1, must be a whole number >= 0.",
    ("first_instance=1000000001",): "first_instance is 1000000001, must be at most 1000000000.",
    ("sweep.first_instance=[0,5]",): "sweep.first_instance varies the numbers of the instances, but every point must",
    ("seed=-1",): "seed is -1, must be a whole number >= 0.",
    ("block=0",): "block is 0, must be a whole number >= 1.",
    ("group=many",): "group is 'many', must be a whole number or null.",
    ("burn_in=500",): "burn_in is 500, must lie between 0 and the 500 rounds less one.",
    ("checkpoint_seconds=-1",): "checkpoint_seconds is -1.0, must be a number >= 0.",
    ("name=''",): "name is '', must be a text of one line.",
    ("rounds=yes",): "rounds is 'yes', must be a whole number.",
    ("rounds=2024-01-01",): "rounds is '2024-01-01', must be a whole number.",
    ("name=&a [*a]",): "override 'name': the value is not valid YAML in line 1: the alias 'a' stands for.",
    ("imports=3",): "imports is 3, must be a list of texts.",
    ("imports=[3]",): "imports[0] is 3, must be text.",
    ("imports=[no.py]",): "no.py cannot be read: No such file",
    ("metrics=[x]",): "metrics[0]: there is no metric 'x'; known are",
    ("metrics=[jain, jain]",): "metrics[1] is 'jain' once more: name each once.",
    ("metrics=[jan]",): "metrics[0]: there is no metric 'jan'; did you mean 'jain'?",
    ("metric=device_uploads",): "metric is 'device_uploads', must be score, backlog,",
    ("targets=[1.5]",): "targets holds 1.5, must be numbers in (0, 1].",
    ("targets=[0.5, high]",): "targets[1] is 'high', must be a number.",
    ("metric=backlogs",): "metric is 'backlogs', must be score, backlog,",
    ("metric=accuracy",): "metric is accuracy, but task is null",
    ("against=blsa",): "against is 'blsa', which is not among the schedulers; did you mean 'balsa'?",
    ("schedulers=balsa",): "schedulers is 'balsa', must be a list of names or mappings.",
    ("schedulers=[]",): "schedulers is empty: name at least one",
    ("schedulers=[blsa]",): "schedulers[0]: there is no scheduler 'blsa'; did you mean 'balsa'?",
    ("schedulers=[age, age]",): "schedulers[1] is 'age' once more: name each once.",
    ("schedulers=[age, 3]",): "schedulers[1] is 3, must be a name or a mapping.",
    ("schedulers=[{nam: age}]",): "schedulers[0] has no name",
    ("schedulers=[{name: balsa, stage_rul: max1}]",): "has no parameter 'stage_rul'; did you mean 'stage_rule'?",
    ("schedulers=[{name: balsa, stage_rule: [1]}]",): "schedulers[0]: ",
    ("schedulers=[age, age]", "against=age"): "schedulers[1] is 'age' once more: name each once.",
    ("schedulers.x=1",): "schedulers is {'x': 1}, must be a list of names or mappings.",
    ("schedulers=[balsa:stage_rule=max1,prior=gamma]",): "Put a text with commas in quotes.",
    ("schedulers=[update-aware]",): "'update-aware' looks at the models, but task is null",
    ("task=mnist",): "task is 'mnist', must be a mapping or null.",
    ("task.dataset=minst",): "task.dataset: there is no dataset 'minst'; did you mean 'mnist'?",
    ("task.model=vgg",): "task.model: there is no model 'vgg'; did you mean 'vgg19'?",
    ("task.model=vgg19",): "task.model is vgg19, which cannot take the images of mnist: choose cnn or logistic.",
    ("task.partition=dirichlet:alpha=0",): "Dirichlet alpha is 0, must be a number > 0 and at most 1e9.",
    ("task.partition.alpha=1",): "task.partition: partition 'iid' has no parameter 'alpha'; it has none.",
    ("task.partition=by-class:held=11",): "task.partition: ByClass held is 11, but there are only 10 classes.",
    ("task.partition=iit",): "task.partition: there is no partition 'iit'; did you mean 'iid'?",
    ("task.aggregation=fedbuf",): "task.aggregation: there is no aggregation rule 'fedbuf'; did you mean 'fedbuff'?",
    ("task.aggregation=lee:beta=-1",): "task.aggregation: Lee beta is -1, must be a number between 0 and 1.",
    ("task.aggregation.bet=1",): "task.aggregation: aggregation rule 'lee' has no parameter 'bet'; did you mean",
    ("task.aggregation=null",): "task.aggregation is None, must be a name or a mapping.",
    ("task.batch=1",): "task.batch is 1, must be a whole number >= 2.",
    ("task.eta=0",): "task.eta is 0.0, must be a number > 0.",
    ("training.device=gpu",): "training.device is 'gpu', must be auto, cpu or cuda.",
    ("training.precision=float16",): "training.precision is 'float16', must be float32, float64, bfloat16 or auto",
    ("training.tolerance=1",): "training.tolerance is 1.0, must lie in [0, 1)",
    ("training.lanes=0",): "training.lanes is 0, must be a whole number >= 1.",
    ("training.test_images=0",): "training.test_images is 0, must be a whole number >= 1.",
    ("training.full_every=-1",): "training.full_every is -1, must be a whole number >= 0.",
    ("sweep.network.slots=[]",): "sweep.network.slots is empty: give at least one value",
    ("sweep.network.slots=5",): "sweep.network.slots is 5, must be a list of values.",
    ("sweep.network.slots=[5, 2, 5]",): "sweep.network.slots holds 5 twice: give each once.",
    ("sweep.network.gamma=[1, 1.0]",): "sweep.network.gamma holds 1.0 twice: give each once.",
    ("sweep.network.slot=[5]",): "sweep.network.slot: there is no field 'network.slot'; did you mean 'slots'?",
    ("sweep.sweep=[5]",): "sweep.sweep: there is no field 'sweep'",
    ("sweep.network.slots=[5, 26]",): "sweep.network.slots at 26: network.slots: slots (W) is 26",
    ("sweep.network.set.rate=[1, fast]",): "sweep.network.set.rate at 'fast': network.set.rate is 'fast'",
    ("sweep.seed=[1, 2]", "sweep.network.slots=[0]"): "sweep.network.slots at 0: network.slots is 0",
    ("sweep.rounds=[5, 6]", "sweep.burn_in=[0, 5]"): "sweep.rounds at 5 and sweep.burn_in at 5: burn_in is 5",
    (f"sweep.seed={list(range(200))}", f"sweep.rounds={list(range(1, 52))}"): "sweep.rounds makes 10200 points or more",
    ("rounds",): "override 'rounds' must read field=value, such as network.slots=10.",
    ("=5",): "override '=5' must read field=value",
    ("network.=5",): "there is no field 'network.'",
    ("rounds=[",): "override 'rounds': the value is not valid YAML in line 1: expected the node content",
    ("rounds=!!python/object:os.system 5",): "the tag 'tag:yaml.org,2002:python/object:os.system' is not known",
    ("rounds=!!int ''",): "override 'rounds': the value is not valid YAML in line 1: it holds a value that cannot be",
    ("name={a: 1, a: 2}",): "the key 'a' is given twice",
    ("sweep.network.fading.k=[1]", "network.fading=rician"): "sweep.network.fading.k at 1: network.fading: fading",
    ("sweep.network.fading=[rician, {name: rician}]",): "sweep.network.fading holds Part('rician') twice",
    ("sweep.network.fading=[rician, 3]",): "sweep.network.fading[1] is 3, must be a name or a mapping.",
    ("sweep.schedulers.x=[1]",): "sweep.schedulers.x: there is no field 'schedulers.x'",
    ("sweep.imports=[[a.py]]",): "sweep.imports: there is no field 'imports'",
    ("name=" + "[" * 500,): "override 'name': the value is nested too deeply",
    ('network.fading="rician:k_factor=a\\nb"',): "network.fading: Rician k_factor is a b, must be a number",
}


@pytest.mark.parametrize("asked", REFUSALS, ids=lambda asked: " ".join(asked)[:60])
def test_a_refusal_is_one_sentence_that_names_the_field(asked: tuple[str, ...]) -> None:
    with pytest.raises(FedwaveError) as caught:
        experiment_from({}, asked)
    assert REFUSALS[asked] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("content", [3, None, [1], {1: 2}, {"network.slots": 3}, {"a\ud800": 1}])
def test_what_is_no_experiment_at_all(content: object) -> None:
    with pytest.raises(FedwaveError, match=r"must be|there is no field|not valid text"):
        experiment_from(content)  # type: ignore[arg-type]


def test_presets_say_what_they_are() -> None:
    assert preset_names() == PRESETS
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
    again = load_experiment(tmp_path / "again.yaml")
    assert repr(again) == repr(experiment)  # 1 and 1.0 are equal, but not alike


def test_presets_have_the_numbers_of_the_paper() -> None:
    def size(e: Experiment) -> tuple[object, ...]:
        t = e.training
        return e.rounds, e.instances, t.tolerance, t.test_images, t.full_every, t.precision

    score, mnist, cifar = (load_experiment(f"paper-{n}") for n in ("score", "mnist", "cifar10"))
    assert (score.rounds, score.instances, score.task) == (500, 50, None)
    others = [n for n in fw.scheduler_names(learner=False) if n not in PAPER_SCHEDULERS]
    assert score.labels == (*PAPER_SCHEDULERS, *others)
    assert size(mnist) == (150, 50, 1e-6, 10_000, 0, "float32")
    assert size(cifar) == (400, 20, 1e-3, 2000, 10, "auto")
    assert mnist.targets == (0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
    assert cifar.targets == (0.48, 0.52, 0.56, 0.60, 0.64, 0.68, 0.72)
    assert mnist.labels == cifar.labels == PAPER_SCHEDULERS
    quick = load_experiment("quick")
    assert size(quick) == (25, 2, 1e-3, 2000, 0, "float32")
    assert quick.task == mnist.task == TaskConfig()
    assert cifar.task == TaskConfig(dataset="cifar10")
    skew = load_experiment("label-skew")
    assert (skew.rounds, skew.instances, skew.task) == (100, 6, TaskConfig(partition="dirichlet:alpha=0.2"))
    assert skew.labels[:4] == ("bench", "fresh", "alpha-fresh:alpha=0.5", "alsa-pi")
    assert load_experiment("million-devices").network.devices == 1_000_000


def test_overrides() -> None:
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
    made = experiment_from({"task": None, "network": {"set": {"noise_dbm": -100}}}, asked)
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


def test_overrides_leave_the_mapping_as_it_was() -> None:
    mapping = {"network": {"set": {"rate": 1}}, "schedulers": [{"name": "age"}]}
    before = json.dumps(mapping)
    experiment_from(mapping, ["network.set.rate=3", "network.slots=2"])
    assert json.dumps(mapping) == before


def test_the_scheduler_that_differences_are_taken_from() -> None:
    assert Experiment().base == "alsa-pi"
    assert Experiment(schedulers=("age", "fresh")).base == "age"
    assert Experiment(against="balsa").base == "balsa"


def test_points_are_the_product_of_the_axes_in_order() -> None:
    asked = ["sweep.network.set.rate=[1, 2.5]", "sweep.task.eta=[1, 0.1]", "rounds=7"]
    experiment = experiment_from({}, asked)
    found = points(experiment)
    assert [tuple(point.values()) for point, _ in found] == [(1, 1), (1, 0.1), (2.5, 1), (2.5, 0.1)]
    for point, at in found:
        assert list(point) == ["network.set.rate", "task.eta"]
        assert at == Experiment(
            rounds=7,
            network=NetworkConfig(set={"rate": point["network.set.rate"]}),
            task=TaskConfig(eta=point["task.eta"]),
            metric="backlog",
        )
    assert points(replace(experiment, sweep={})) == [({}, replace(experiment, sweep={}))]


def test_an_axis_of_whole_schedulers_and_of_slots_per_round(tmp_path: Path) -> None:
    asked = ["rounds=2", "sweep.schedulers=[[age], [{name: balsa}]]", "sweep.network.slots=[[1,2],3]"]
    experiment = experiment_from({}, asked)
    assert [at.labels for _, at in points(experiment)[::2]] == [("age",), ("balsa",)]
    assert [at.network.slots for _, at in points(experiment)[:2]] == [(1, 2), 3]
    (tmp_path / "again.yaml").write_text(to_yaml(experiment))
    assert load_experiment(tmp_path / "again.yaml") == experiment


FILES: dict[tuple[str, bytes], str] = {
    ("a.yaml", b""): "a.yaml must be a mapping of fields, such as `rounds: 100`.",
    ("a.yaml", b"- 1\n"): "a.yaml must be a mapping of fields",
    ("a.yaml", b"rounds: 5\nseed: [1\n"): "a.yaml is not valid YAML in line 3: expected ',' or ']'",
    ("a.yml", b"rounds: 5\n\nrounds: 6\n"): "a.yml is not valid YAML in line 3: the key 'rounds' is given twice.",
    ("a.yaml", b"rounds: 5\nname: !mine x\n"): "in line 2: the tag '!mine' is not known, write plain values.",
    ("a.yaml", b"rounds: 5\nname: \x07\n"): "is not valid YAML in line 2: it holds a control character.",
    ("a.yaml", b"\xff\xfe\x00\x81"): "a.yaml cannot be read: it is UTF-16, save it as UTF-8.",
    ("a.yaml", b"a: \xff\x00\x81"): "a.yaml cannot be read: it is not text.",
    ("a.yaml", b"[" * 500): "a.yaml is nested too deeply",
    ("a.yaml", b"rounds: 5\n---\nrounds: 6\n"): "is not valid YAML in line 2: expected a single document",
    ("a.json", b'{"rounds": 5,\n"rounds": 6}'): "a.json is not valid: the key 'rounds' is given twice.",
    ("a.json", b'{"rounds": 5,\n'): "a.json is not valid JSON in line 2",
    ("a.json", b"[" * 200_000): "a.json is nested too deeply",
    ("a.json", b'{"rounds": 1' + b"0" * 5000 + b"}"): "a.json holds a number of too many digits",
    ("a.json", b"3"): "a.json must be a mapping of fields",
    ("a.txt", b"rounds: 5"): "A file must end in .yaml, .yml or .json.",
}


@pytest.mark.parametrize("name, content", FILES, ids=lambda x: str(x)[:30])
def test_files_that_cannot_be_read(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FedwaveError) as caught:
        load_experiment(tmp_path / name)
    assert FILES[name, content] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    for source, sentence in {
        tmp_path / "none.yaml": "none.yaml cannot be read: No such file",
        tmp_path / "folder.yaml": "folder.yaml cannot be read: Is a directory",
        tmp_path / ("x" * 5000 + ".yaml"): "cannot be read: File name too long",
        "\0.yaml": "cannot be read",
        str(tmp_path): "A file must end in .yaml, .yml or .json.",
        "quik": "there is no experiment 'quik'; did you mean 'quick'?",
        "": "there is no experiment ''",
    }.items():
        with pytest.raises(FedwaveError, match="experiment") as caught:
            load_experiment(source)
        assert sentence in str(caught.value)


def test_a_billion_laughs_end_early(tmp_path: Path) -> None:
    lines = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    (tmp_path / "a.yaml").write_text("\n".join(lines))
    with pytest.raises(FedwaveError, match="too large"):
        load_experiment(tmp_path / "a.yaml")


def test_anchors_merge(tmp_path: Path) -> None:
    text = "network: &a {kind: random, devices: 50}\nsweep:\n  network: [{<<: *a, devices: 60}, *a]\n"
    (tmp_path / "a.yaml").write_text(text)
    sizes = [at.network.devices for _, at in points(load_experiment(tmp_path / "a.yaml"))]
    assert sizes == [60, 50]


@pytest.mark.parametrize("name", ["1e5", "yes", "null", "a: b", "# x", "ü", "2024-01-01", "[", "'"])
def test_any_name_is_read_back(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(to_yaml(Experiment(name=name)), encoding="utf-8")
    assert load_experiment(tmp_path / "a.yaml").name == name


def test_the_schema_describes_every_field() -> None:
    schema = json_schema()
    json.dumps(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "fedwave experiment"
    mapping = to_mapping(Experiment(task=TaskConfig()))
    parts = {"network": "NetworkConfig", "task": "TaskConfig", "training": "TrainingConfig"}
    for part, fields in {None: schema, **{k: schema["$defs"][v] for k, v in parts.items()}}.items():
        assert fields["additionalProperties"] is False
        assert set(fields["properties"]) == set(mapping[part] if part else mapping)
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
    with pytest.raises(FedwaveError, match="noise_dbm is 'inf', must be a number"):
        experiment_from({}, ["network.set.noise_dbm=inf"])
