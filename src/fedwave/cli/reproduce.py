"""`fedwave reproduce ...`: the paper's figures, made again."""

from __future__ import annotations

from pathlib import Path

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.learn import cifar10, mnist
from fedwave.experiments.score import BASE, as_json, run_score, write_score
from fedwave.files import check_folder
from fedwave.schedulers.registry import names

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
    rounds: opt.Rounds = 500,
    instances: opt.Instances = 50,
    seed: opt.Seed = 0,
    out: opt.OutFolder = Path("out/score"),
    json: opt.AsJson = False,
) -> None:
    """Figure 2: the score and backlog of all schedulers on the paper's network."""
    check_folder(out)
    with output.progress(names(learner=False), rounds) as meter:
        traces = run_score(rounds, instances, seed, meter)
    rows, paths = write_score(traces, out, seed)
    if json:
        output.print_json(
            {"files": [str(path) for path in paths], "seed": seed, "schedulers": as_json(rows)}
        )
        return
    screen = output.console()
    screen.print(
        output.comparison_table(rows, BASE, output.title("paper", 25, rounds, instances, seed))
    )
    screen.print(
        f"Figures and data are in {out}: {', '.join(path.name for path in paths)}", soft_wrap=True
    )
