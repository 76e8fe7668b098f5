"""`fedwave schedulers`, `presets` and `config`: what there is to run."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.request import experiment_of
from fedwave.cli.terminal import in_encoding
from fedwave.experiments.config.read import preset_about, preset_names, to_yaml
from fedwave.experiments.config.schema import json_schema
from fedwave.files.writing import write_csv, write_json, write_text
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts

# What a scheduler may need (types.INFORMATION): before the first round, and in every round.
_MUST_KNOW = {"rates": "true rates", "statistics": "distributions"}
_SEES = {"channel": "h", "backlog": "n", "learner": "updates", "labels": "labels"}
_CAPTION = (
    "Must know, before the first round: true rates (theta), distributions (of gains and arrivals). Sees, in every "
    "round: h (channel gains), n (backlogs), updates (norms of the local updates; needs a task), labels (samples "
    "by class in the uploads that arrived; needs a task). Every scheduler sees which uploads arrived, the shards "
    "they brought, and d, the rounds since. p: probability that an upload arrives; theta_k: arrival rate sampled "
    "from the posterior, once per stage; v, r, x: long-run share of a device, rate and mass of the aggregation "
    "rule; R(d): v r(d) E[x], the mass that a delivery at delay d brings; R_k: at theta_k; w: how much the labels "
    "of a device are those that the model lacks."
)


def schedulers(
    imports: opt.Imports = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the table to this .csv or .json file.")] = None,
    json: opt.AsJson = False,
) -> None:
    """List the schedulers: what each must know, what it sees, how it ranks devices."""
    opt.check_out(out, ".csv", ".json")
    for source in imports or ():
        import_parts(source)
    rows = [_row(name) for name in registry.names("scheduler")]
    if out is not None and out.suffix == ".json":
        write_json(out, rows)
    elif out is not None:
        write_csv(out, list(rows[0]), [list(row.values()) for row in rows])
    if json:
        output.print_json(rows)
        return
    table = output.plain_table("Schedulers", _CAPTION)
    for heading in rows[0]:
        table.add_column(heading, no_wrap=heading not in ("priority", "about"))
    for row in rows:
        table.add_row(*row.values())
    output.console().print(table)


def presets(json: opt.AsJson = False) -> None:
    """List the experiments that come with fedwave."""
    about = {name: preset_about(name) for name in preset_names()}
    if json:
        output.print_json(about)
        return
    for name, text in about.items():
        output.print_out(f"{name:<16} {text}")
    output.print_out("")
    output.print_out("Run one: `fedwave run NAME`. Print it: `fedwave config NAME`.")


def config(
    words: opt.Words = None,
    imports: opt.Imports = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema, for editors that complete.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write it to this file instead.")] = None,
) -> None:
    """Print an experiment as YAML: checked, with every field.

    null is what the network, the dataset or the machine decides; config.yaml of a run folder has what was used.
    """
    opt.check_out(out, *((".json",) if schema else (".yaml", ".yml")))
    if schema:
        text = json_module.dumps(json_schema(), indent=2) + "\n"
    else:
        defaults = {} if words else {"name": "experiment"}
        how = experiment_of(words, [opt.Choice(imports=imports)], defaults)
        text = to_yaml(how)
        if out is None and in_encoding(text, sys.stdout.encoding) != text:
            text = to_yaml(how, only_ascii=True)  # what the terminal lacks stays readable for YAML
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)


def _row(name: str) -> dict[str, str]:
    """A line of the paper's information table."""
    kind = registry.find("scheduler", name)
    known = [text for need, text in _MUST_KNOW.items() if need in kind.needs]
    seen = [text for need, text in _SEES.items() if need in kind.needs]
    return {
        "name": name,
        "must know": ", ".join(known) or "-",
        "sees": ", ".join(seen) or "-",
        "priority": kind.formula,
        "about": (kind.__doc__ or "").strip().split("\n")[0],
    }
