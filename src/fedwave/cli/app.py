"""The commands. An error is one sentence on standard error: status 2 for bad usage or input, 1 for failed work."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from fedwave.cli.data import data
from fedwave.cli.describe import config, describe, list_parts
from fedwave.cli.folders import merge, report, verify
from fedwave.cli.options import with_ray_address
from fedwave.cli.predict import predict
from fedwave.cli.reproduce import reproduce
from fedwave.cli.run import compare, resume, run, train
from fedwave.cli.terminal import OutputClosed, print_error, standard_streams
from fedwave.errors import FedwaveError, WorkFailed, short_repr
from fedwave.experiments.run.signals import SIGNALS, stop_at_once
from fedwave.memory import memory_error
from fedwave.network.plausible import ImplausibleWarning
from fedwave.parts.user_code import failure_in_user_code
from fedwave.plain_text import brief
from fedwave.version import __version__

_FAILED, _REFUSED = 1, 2
_INTERRUPTED = 128 + 2  # by SIGINT
_CLOSED = 128 + 13  # the status of a program that SIGPIPE ends
_shown: set[str] = set()  # warnings of this process
app = typer.Typer(
    name="fedwave",
    help="Who should transmit now? Simulate federated learning over wireless networks; compare schedulers.",
    epilog="Start with: fedwave compare paper --schedulers alsa-pi,balsa,round-robin",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "resume": resume,
    "compare": compare,
    "train": train,
    "predict": predict,
    "reproduce": reproduce,
    "report": report,
    "verify": verify,
    "merge": merge,
    "list": list_parts,
    "config": config,
    "describe": describe,
    "data": data,
}
for name, command in COMMANDS.items():
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    app.command(name, help="\n\n".join(" ".join(text.split()) for text in paragraphs))(command)


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
        with standard_streams(), warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            status = app(with_ray_address(sys.argv[1:]), prog_name="fedwave", standalone_mode=False)
    except OutputClosed:
        status = _CLOSED
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except Exception as error:
        sentence, status = _explained(error)
        if sentence:
            print_error(sentence)
    if status == _INTERRUPTED:  # typer catches Ctrl-C in a command and returns this
        print_error("stopped.")
    raise SystemExit(status or 0)


def _explained(error: Exception) -> tuple[str, int]:
    """The sentence for an error, and the exit status; an unexpected error is raised again."""
    if isinstance(error, FedwaveError):
        return str(error), _FAILED if isinstance(error, WorkFailed) else _REFUSED
    if isinstance(error, MemoryError):  # not foreseen by any estimate
        why = memory_error(error)
        return f"there is too little memory ({why}): lower instances, block, rounds, devices or workers.", _FAILED
    if isinstance(error, OSError):  # from the file system, not foreseen
        return f"{error.filename or 'a file'} cannot be used: {error.strerror or error}.", _FAILED
    # Errors of the option parser. Their class is not public, their message is.
    if (message := getattr(error, "format_message", None)) is not None:
        found = getattr(error.__cause__, "errors", None)  # has the value, which the message leaves out
        value = "" if found is None else f": {short_repr(found()[0]['input'])}."
        return brief(" ".join(message().split())) + value, _REFUSED  # empty: the help has been printed
    if (failure := failure_in_user_code(error)) is not None:
        return str(failure), _FAILED
    raise error


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any) -> None:
    """One line like every other, without a line of source code below; our own ones are shown once."""
    if not issubclass(category, ImplausibleWarning):
        print_error(f"{message} ({category.__name__}, {filename}:{lineno})")
    elif str(message) not in _shown:
        _shown.add(str(message))
        print_error(f"warning: {message}")
