"""`fedwave config`: an experiment as YAML, or the JSON schema of all experiments."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from fedwave.cli import options as opt
from fedwave.cli.terminal import in_encoding
from fedwave.experiments.config.experiment import Experiment
from fedwave.experiments.config.read import to_yaml
from fedwave.experiments.config.schema import json_schema


def config(
    words: opt.Words = None,
    imports: opt.Imports = None,
    schema: Annotated[bool, opt.flag("--schema", "Print the JSON schema, for editors that complete.")] = False,
) -> None:
    """Print an experiment as YAML, checked, with every field that has a value.

    `fedwave config quick > my-experiment.yaml` saves it. The network, the dataset or the machine decides the rest;
    config.yaml of a run folder has the values that were used.
    """
    if schema:
        print(json.dumps(json_schema(Experiment), indent=2))
        return
    how = opt.experiment_of(words, opt.Asked(imports=imports), defaults={} if words else {"name": "experiment"})
    text = to_yaml(how)
    if in_encoding(text, sys.stdout.encoding) != text:
        text = to_yaml(how, only_ascii=True)  # YAML reads its own escapes, not those of the terminal
    print(text, end="")
