"""`fedwave reproduce ...`: the paper's figures, made again."""

from __future__ import annotations

from pathlib import Path

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.asking import ask
from fedwave.cli.learn import Quick, Stored, cifar10, mnist
from fedwave.cli.learn import reproduce as run_reproduction
from fedwave.cli.running import heading, run
from fedwave.files import check_folder

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


@app.command()
def theory(
    words: opt.Words = None,
    quick: Quick = True,
    rounds: opt.Rounds = None,
    instances: opt.Instances = None,
    seed: opt.Seed = None,
    out: opt.OutFolder = Path("out/theory"),
    workers: opt.Workers = None,
    events: opt.Events = None,
    json: opt.AsJson = False,
) -> None:
    """The bound and who comes near it, greedy's gap to the optimum, decision times, regret, Theorem 1."""
    from fedwave.experiments.report.theory import backlog_lines, write_theory

    sizes = ["instances=50"] if quick else []
    how = ask(
        ["paper-backlogs", *sizes, *(words or ())], {}, rounds=rounds, instances=instances, seed=seed
    )  # fmt: skip
    check_folder(out)
    results = run(how, out / "backlogs", workers=workers, events=events)
    with output.steps() as say:
        rows, paths = write_theory(results, out, quick, say)
    if json:
        told = {row.label: {**vars(row.backlog), "gap": row.gap} for row in rows}
        output.print_json({"files": [str(path) for path in paths], "backlogs": told})
        return
    screen = output.console()
    screen.print(output.plain_rows(*backlog_lines(rows), heading(how)))
    screen.print(
        f"Figures and data are in {out}: {', '.join(p.name for p in paths)}", soft_wrap=True
    )
