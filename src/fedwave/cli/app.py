"""The commands. Bad input ends in one sentence on standard error and exit status 2."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, NoReturn

import typer

from fedwave.cli.compare import compare
from fedwave.cli.data import data
from fedwave.cli.listing import config, presets, schedulers
from fedwave.cli.report import report
from fedwave.cli.reproduce import reproduce
from fedwave.cli.run import resume, run, train
from fedwave.cli.verify import verify
from fedwave.errors import FedwaveError
from fedwave.experiments.run.stopping import stop_at_once
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
for command in (
    run, compare, train, reproduce, resume, report, verify, schedulers, presets, config, data,
):  # fmt: skip
    app.command()(command)


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
    """Options before the command."""


def main() -> None:
    """Entry point of the `fedwave` command."""
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:  # clean up, as after Ctrl-C
        signal.signal(signal.SIGTERM, stop_at_once)
    try:
        status = app(prog_name="fedwave", standalone_mode=False)
    except FedwaveError as error:
        _refuse(str(error))
    except MemoryError as error:  # what no estimate has foreseen
        _refuse(
            f"there is too little memory ({' '.join(str(error).split()) or 'an allocation failed'}): lower instances, "
            "block, rounds, devices or workers."
        )
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
        print("fedwave: stopped.", file=sys.stderr)
    raise SystemExit(status or 0)


def _refuse(sentence: str) -> NoReturn:
    print(f"fedwave: {sentence}", file=sys.stderr)
    raise SystemExit(2) from None
