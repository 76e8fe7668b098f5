"""The commands. Bad input ends in one sentence on standard error and exit status 2."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer

from fedwave.cli.compare import compare
from fedwave.cli.data import data
from fedwave.cli.listing import config, presets, schedulers
from fedwave.cli.merge import merge
from fedwave.cli.options import NETWORK_FIELDS
from fedwave.cli.predict import predict
from fedwave.cli.report import report
from fedwave.cli.reproduce import reproduce
from fedwave.cli.run import resume, run, train
from fedwave.cli.terminal import OutputClosed, print_error, standard_streams
from fedwave.cli.verify import verify
from fedwave.errors import FedwaveError, short_repr
from fedwave.experiments.run.signals import SIGNALS, stop_at_once
from fedwave.memory import memory_error
from fedwave.parts.user_code import failure_in_user_code
from fedwave.version import __version__

_INTERRUPTED = 128 + 2  # by SIGINT
_CLOSED = 128 + 13  # as of a program that SIGPIPE ends
_LONGEST_WORD = 500  # characters of a message of the option parser
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
    run,
    compare,
    predict,
    train,
    reproduce,
    resume,
    merge,
    report,
    verify,
    schedulers,
    presets,
    config,
    data,
):
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
    """Run the command that was asked for; ends in SystemExit."""
    for one in SIGNALS:
        if signal.getsignal(one) == signal.SIG_DFL:  # clean up, as after Ctrl-C
            signal.signal(one, stop_at_once)
    os.environ["MPLBACKEND"] = "agg"  # figures are files; an unknown one would fail at the import
    try:
        with standard_streams(), _plain_warnings():
            status = app(prog_name="fedwave", standalone_mode=False)
    except FedwaveError as error:
        _refuse(str(error))
    except OutputClosed:
        status = _CLOSED
    except MemoryError as error:  # what no estimate has foreseen
        _refuse(
            f"there is too little memory ({memory_error(error)}): lower instances, block, rounds, devices or workers."
        )
    except OSError as error:  # of the file system, where nobody has foreseen it
        _refuse(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}.")
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except Exception as error:
        # What the option parser finds wrong. Its error class is not public, its message is.
        message = getattr(error, "format_message", None)
        if message is None:
            if (told := failure_in_user_code(error)) is None:
                raise
            _refuse(str(told))
        words = " ".join(_shortened(word) for word in message().split())
        sentence = words + _what_was_given(error)
        if sentence:
            _refuse(sentence)
        status = 2  # no command was given: the help has been printed
    if status == _INTERRUPTED:  # typer catches Ctrl-C in a command and returns this
        print_error("stopped.")
    raise SystemExit(status or 0)


def _shortened(word: str) -> str:
    """Some versions of the option parser quote a value of any length."""
    return word if len(word) <= _LONGEST_WORD else f"{word[:100]}...{word[-50:]}"


def _what_was_given(error: Exception) -> str:
    """What the option parser leaves out: the value, and how `run` takes the options of `compare`."""
    found = getattr(error.__cause__, "errors", None)
    if found is not None:
        return f": {short_repr(found()[0]['input'])}."
    field = NETWORK_FIELDS.get(getattr(error, "option_name", ""))
    return "" if field is None else f"; write {field}=VALUE."


def _refuse(sentence: str) -> NoReturn:
    print_error(sentence)
    raise SystemExit(2) from None


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings are lines like every other, without a line of source code below."""
    before = warnings.showwarning

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        print_error(f"{message} ({category.__name__}, {filename}:{lineno})")

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before
