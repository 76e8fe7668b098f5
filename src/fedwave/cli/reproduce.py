"""`fedwave reproduce ...`: the paper's figures, made again."""

from __future__ import annotations

from pathlib import Path

import typer

from fedwave.cli import options as opt
from fedwave.cli.asking import ask
from fedwave.cli.learn import Quick, Stored, cifar10, mnist
from fedwave.cli.learn import reproduce as run_reproduction

app = typer.Typer(
    no_args_is_help=True, help="Make the paper's figures again, with confidence bands."
)


app.command()(mnist)
app.command()(cifar10)


@app.callback()
def reproduce() -> None:
    """Keep `score` a word of its own: a single command would swallow it."""


@app.command()
def score(
    words: opt.Words = None,
    quick: Quick = False,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    out: opt.OutFolder = Path("out/score"),
    stored: Stored = None,
    workers: opt.Workers = None,
    events: opt.Events = None,
    json: opt.AsJson = False,
) -> None:
    """Figure 2: the score and backlog of all schedulers on the paper's network."""
    sizes = ["rounds=200", "instances=10"] if quick else []
    how = ask(
        ["paper-score", *sizes, *(words or ())], {}, rounds=rounds, instances=instances, seed=seed
    )
    run_reproduction(how, out, stored, workers, events, json)
