"""`fedwave sweep`, `resume`, `presets` and `config`."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.asking import ask
from fedwave.cli.running import run, show
from fedwave.errors import FedwaveError
from fedwave.experiments.config.read import preset_about, preset_names, to_yaml
from fedwave.experiments.config.schema import json_schema
from fedwave.experiments.results.folder import RunFolder
from fedwave.files import write_text


def sweep(
    words: opt.Words = None,
    schedulers: opt.SchedulersText = None,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What the figures show; e.g. backlog, accuracy.")
    ] = None,
    imports: opt.Imports = None,
    out: opt.OutFolder = Path("out/sweep"),
    workers: opt.Workers = None,
    engine: opt.EngineName = "local",
    address: opt.Address = None,
    events: opt.Events = None,
    json: opt.AsJson = False,
) -> None:
    """Run an experiment at every point of its sweep: sweep.network.slots=[2,5,10]."""
    how = ask(
        words, {"name": "sweep"}, schedulers=schedulers, rounds=rounds, instances=instances, seed=seed, metric=metric,
        imports=imports,
    )  # fmt: skip
    if not how.sweep:
        raise FedwaveError(
            f"{how.name} sweeps nothing: name an axis and its values, such as sweep.network.slots=[2,5,10]."
        )
    results = run(how, out, workers=workers, engine=engine, address=address, events=events)
    show(results, out, json)


def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run that was stopped.")],
    imports: Annotated[
        list[str] | None, typer.Option("--import", metavar="FILE", help="A file that the run imports, if it was moved.")
    ] = None,
    workers: opt.Workers = None,
    engine: opt.EngineName = "local",
    address: opt.Address = None,
    events: opt.Events = None,
    json: opt.AsJson = False,
) -> None:  # fmt: skip
    """Go on with a run that was stopped: what is finished stays, what was begun goes on from its checkpoint."""
    if not folder.is_dir():
        raise FedwaveError(f"there is no run folder at {folder}.")
    how = RunFolder(folder).experiment(imports or ())
    results = run(how, folder, workers=workers, engine=engine, address=address, events=events)
    show(results, folder, json)


def presets(json: opt.AsJson = False) -> None:
    """List the experiments that come with fedwave."""
    about = {name: preset_about(name) for name in preset_names()}
    if json:
        output.print_json(about)
        return
    screen = output.console()
    for name, text in about.items():
        screen.print(f"{name:<16} {text}", soft_wrap=True)
    screen.print(
        "\nRun one: `fedwave compare NAME` or `fedwave train NAME`. See it: `fedwave config NAME`."
    )


def config(
    words: opt.Words = None,
    imports: opt.Imports = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema, for editors that complete.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it to this file instead.")
    ] = None,
) -> None:
    """Print an experiment with every field filled in, checked, as YAML."""
    how = None if schema else ask(words, {}, imports=imports)
    text = json_module.dumps(json_schema(), indent=2) + "\n" if how is None else to_yaml(how)
    if out is None:
        print(text, end="")
        return
    opt.check_out(out, *((".json",) if schema else (".yaml", ".yml")))
    write_text(out, text)
