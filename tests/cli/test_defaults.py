"""What the help says is what is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from fedwave.cli import app as cli
from fedwave.cli import run as cli_run
from fedwave.cli.options import FIELDS, with_ray_address
from fedwave.cli.run import TRAIN
from fedwave.experiments.config.build import network_of
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.sweep import to_mapping

ROOT = Path(__file__).parents[2]
COMMANDS: dict[str, Any] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
SHOWN = re.compile(r".* Default: (.*)\.")


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


@pytest.mark.parametrize("command", ["run", "compare", "train"])
def test_the_help_names_what_a_network_alone_is_run_with(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    how = asked(monkeypatch, command, "paper")
    content: Any = to_mapping(how) | {"network": {"slots": network_of(how.network).slots}}
    texts = {p.name: SHOWN.fullmatch(p.help or "") for p in COMMANDS[command].params}
    named = {name: match[1] for name, match in texts.items() if match and name in FIELDS}
    assert {"rounds", "instances", "seed", "schedulers", "slots"} <= named.keys()
    assert ("task" in named) == (command == "train")
    for option, text in named.items():
        value = content
        for word in FIELDS[option].split("."):
            value = value[word]
        assert text == (",".join(value) if isinstance(value, list) else str(value)), f"fedwave {command} --{option}"


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


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("run --ray", ""),
        ("run --ray --json", ""),
        ("run --ray mine.yaml", ""),
        ("run --ray sweep.seed=[1]", ""),
        ("run --ray head:6379 mine.yaml", "head:6379"),
        ("run --ray ray://head:10001", "ray://head:10001"),
        ("run --ray auto", "auto"),
        ("run --ray=head:6379", "head:6379"),
    ],
)
def test_ray_takes_an_address_or_none(words: str, address: str) -> None:
    found = with_ray_address(words.split())
    assert f"--ray={address}" in found
    assert len(found) == len(words.split()) - (f"--ray {address}" in words and address != "")
