"""The commands. Bad input ends in one sentence on standard error and exit status 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from fedwave.cli import options as opt
from fedwave.cli import output
from fedwave.cli.data import data
from fedwave.cli.experiments import config, presets, resume, sweep
from fedwave.cli.learn import train
from fedwave.cli.reproduce import app as reproduce
from fedwave.cli.runs import compare, simulate
from fedwave.errors import FedwaveError
from fedwave.files import write_csv, write_json
from fedwave.version import __version__

_INTERRUPTED = 130
app = typer.Typer(
    name="fedwave",
    help="Who should transmit now? Simulate federated learning over a wireless network and compare schedulers.",
    epilog="Start with: fedwave compare paper --schedulers alsa-pi,balsa,round-robin",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(simulate)
app.command()(compare)
app.command()(train)
app.command()(sweep)
app.command()(resume)
app.command()(presets)
app.command()(config)
app.command()(data)
app.add_typer(reproduce, name="reproduce")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"fedwave {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Read options that stand before any command."""


@app.command("schedulers")
def list_schedulers(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the table to this .csv or .json file.")
    ] = None,
    json: opt.AsJson = False,
) -> None:
    """List the schedulers: what each must know, what it sees, how it ranks devices."""
    opt.check_out(out, ".csv", ".json")
    rows = output.scheduler_rows()
    if out is not None and out.suffix == ".json":
        write_json(out, rows)
    elif out is not None:
        write_csv(out, list(rows[0]), [list(row.values()) for row in rows])
    if json:
        output.print_json(rows)
    else:
        output.console().print(output.scheduler_table())


def main() -> None:
    """Entry point of the `fedwave` command."""
    try:
        status = app(prog_name="fedwave", standalone_mode=False)
    except FedwaveError as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except Exception as error:
        # What the option parser finds wrong. Its error class is not public, its message is.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        sentence = " ".join(message().split())
        if sentence:
            _refuse(sentence)
        status = 2  # no command was given: the help has been printed
    if status == _INTERRUPTED:  # typer catches Ctrl-C in a command and returns this
        print("fedwave: stopped; files already written are complete.", file=sys.stderr)
    raise SystemExit(status or 0)


def _refuse(sentence: str) -> NoReturn:
    print(f"fedwave: {sentence}", file=sys.stderr)
    raise SystemExit(2) from None
