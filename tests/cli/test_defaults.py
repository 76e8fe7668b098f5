"""What the help says is what is run, and every way to ask for a network gives the same one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

import fedwave as fw
from fedwave.cli import app as cli
from fedwave.cli import run as cli_run
from fedwave.cli.run import TRAIN
from fedwave.experiments.config.build import network_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.sweep import to_mapping

ROOT = Path(__file__).parents[2]
COMMANDS: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
FIELDS = {
    "schedulers": "schedulers",
    "metric": "metric",
    "rounds": "rounds",
    "instances": "instances",
    "seed": "seed",
    "first_instance": "first_instance",
    "burn_in": "burn_in",
    "task": "task.dataset",
    "aggregation": "task.aggregation",
    "skew": "task.partition",
    "device": "training.device",
    "precision": "training.precision",
    "tolerance": "training.tolerance",
    "test_images": "training.test_images",
}
NETWORK = ("slots", "gamma", "fading", "success", "arrivals")
SHOWN = re.compile(r"(.*), or the experiment's")


class Asked(Exception):
    pass


def asked(monkeypatch: pytest.MonkeyPatch, *words: str) -> Experiment:
    """The experiment that a command would run."""
    found: list[Experiment] = []

    def keep(experiment: Experiment, *rest: object, **more: object) -> None:
        found.append(experiment)
        raise Asked

    monkeypatch.setattr(cli_run, "running", keep)
    with pytest.raises(Asked):
        cli.app(list(words), standalone_mode=False)
    return found[0]


def shown(command: str) -> dict[str, str]:
    """The defaults in the help, by option; those of the kind "N, or the experiment's"."""
    texts = {p.name: p.show_default for p in COMMANDS[command].params if hasattr(p, "show_default")}
    found = {name: SHOWN.fullmatch(str(text)) for name, text in texts.items()}
    return {name: match[1] for name, match in found.items() if match}


@pytest.mark.parametrize("command", ["run", "compare", "train"])
def test_the_help_names_what_a_network_alone_is_run_with(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    how = asked(monkeypatch, command, "paper")
    content, network, named = to_mapping(how), network_of(how.network), shown(command)
    assert {"rounds", "instances", "seed", "metric", "schedulers"} <= named.keys()
    for option, text in named.items():
        if option in FIELDS:
            value: Any = content
            for word in FIELDS[option].split("."):
                value = value[word]
        elif option in NETWORK:
            value = getattr(network, option)
            value = getattr(value, "name", value)
            text = text.partition(";")[0]
        else:
            assert option == "devices", f"no test looks at --{option}"
            value = network_of(asked(monkeypatch, command, "random").network).size
        value = ",".join(value) if isinstance(value, list) else value
        assert text == str(value), f"fedwave {command} --{option}"


def test_every_number_of_the_help_is_looked_at() -> None:
    """A default that is a text of its own could be wrong without a test noticing."""
    for name in ("run", "compare", "train"):
        for param in COMMANDS[name].params:
            text = getattr(param, "show_default", None)
            if isinstance(text, str) and not SHOWN.fullmatch(text):
                assert not re.search(r"\d", text), f"fedwave {name} --{param.name}: {text}"
        assert not re.search(r"\d+ (rounds|instances|test images)", COMMANDS[name].help)


def test_the_page_names_the_defaults_of_train() -> None:
    wanted = (
        f"MNIST, {TRAIN['rounds']} rounds, {TRAIN['instances']} instances, accuracy on "
        f"{TRAIN['training']['test_images']:,} test images"  # type: ignore[index]
    )
    assert wanted in (ROOT / "docs/command-line.md").read_text()


def test_a_file_keeps_its_own_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("task: {dataset: synthetic}\nrounds: 7\n")
    how = asked(monkeypatch, "train", "mine.yaml")
    assert (how.rounds, how.instances, how.training.test_images) == (7, 50, 10_000)


@pytest.mark.parametrize("devices", [3, 100, 1000])
def test_a_random_network_is_the_same_from_everywhere(
    devices: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    made = fw.random_network(devices)
    for command in ("compare", "train"):
        how = asked(monkeypatch, command, "random", "--devices", str(devices))
        assert repr(network_of(how.network)) == repr(made)
    assert made.slots == max(1, devices // 5)
