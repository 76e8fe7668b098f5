"""Connecting to a Ray cluster, or starting Ray on this machine; every failure is one sentence."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedwave.errors import FedwaveError, error_text, extra_for
from fedwave.experiments.run.signals import Terminated
from fedwave.experiments.run.worker import environment

_TRY_SECONDS = 20.0
# Ray tries for minutes and may end the process, so another process tries first.
_TRY = """
import logging, sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
except Exception as error:
    print(type(error).__name__ + ": " + " ".join(str(error).split()))
    sys.exit(1)
"""
# Ray reads these when it is imported. With the first, a Ray that is started here listens on the loopback address only,
# as Ray does by default on Windows and macOS.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# Ray prints the death of a worker to standard output, where a table or JSON is expected; fedwave reports it itself.
_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
_SILENT: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


def import_ray(loopback: bool = False) -> Any:
    """The ray package. ``loopback``: if this imports it, a Ray started by this process is not on the network."""
    with environment(_QUIET | (_LOOPBACK if loopback else {})), extra_for("the engine ray"):
        return importlib.import_module("ray")


@contextmanager
def connected(ray: Any, address: str | None, cpus: int | None) -> Iterator[None]:
    """Connect to a cluster; an existing connection of this process is used, and left open."""
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", there):
            raise FedwaveError(
                f"this process is connected to the Ray cluster at {there}, not to {address}: leave out the "
                "address, or call ray.shutdown() first."
            )
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ours = signal.getsignal(signal.SIGTERM)  # Ray sets a handler of its own, which prints a stack and may abort
    try:
        if address is None:
            _start(ray, cpus)
        else:
            _reach(ray, address)
        _on_sigterm(ours)
        yield
    except SystemExit as left:  # by Ray's own handler, which is there until ours is back
        if left.code != signal.SIGTERM:
            raise
        raise Terminated from None
    finally:
        ray.shutdown()
        _on_sigterm(ours)


def _on_sigterm(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():  # only it may set signal handlers
        signal.signal(signal.SIGTERM, handler)


def _start(ray: Any, cpus: int | None) -> None:
    """Start Ray on this machine, not reachable from the network: whoever reaches Ray can run any code."""
    here = ray.util.get_node_ip_address()
    if not here.startswith("127.") and here != "::1":
        raise FedwaveError(
            f"ray was imported before the engine was made, so it would listen on the network ({here}): call "
            "ray_engine() before `import ray`, or call ray.init() yourself."
        )
    try:
        ray.init(address="local", num_cpus=cpus, include_dashboard=False, **_SILENT)
    except Exception as error:
        raise FedwaveError(
            f"Ray cannot be started on this machine ({_reason(error_text(error))}): try the local engine."
        ) from None


def _reach(ray: Any, address: str) -> None:
    """Connect to a cluster; fail soon if it does not answer."""
    host, colon, port = address.rpartition(":")
    if address != "auto" and "://" not in address and not (colon and host and port.isdecimal()):
        raise FedwaveError(f'the address of the Ray cluster is {address!r}, must be "auto" or host:port.')
    try:
        if colon and "://" not in address:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        attempt = [sys.executable, "-c", _TRY, address]
        tried = subprocess.run(attempt, capture_output=True, text=True, timeout=_TRY_SECONDS)
        if tried.returncode:
            raise OSError((tried.stdout.strip().splitlines() or [f"exit status {tried.returncode}"])[-1])
        ray.init(address=address, **_SILENT)
    except subprocess.TimeoutExpired as late:
        if b"Unauthenticated" in (late.stderr or b""):
            raise FedwaveError(
                f"the Ray cluster at {address} asks for its token: set RAY_AUTH_MODE=token, and have the token in "
                "~/.ray/auth_token or RAY_AUTH_TOKEN."
            ) from None
        raise _unreachable(address, f"no answer within {_TRY_SECONDS:.0f} seconds") from None
    except Exception as error:
        raise _unreachable(address, str(error)) from None


def _unreachable(address: str, reason: str) -> FedwaveError:
    return FedwaveError(
        f"the Ray cluster at {address} cannot be reached ({_reason(reason)}): is it running, and is this machine one "
        "of its nodes (`ray start`)?"
    )


def _reason(text: str) -> str:
    """Its first sentence, in one line: Ray's errors are long."""
    return " ".join(text.split()).split(". ")[0].rstrip(".")
