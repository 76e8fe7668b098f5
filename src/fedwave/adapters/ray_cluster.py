"""Reaching a Ray cluster, or starting one on this machine; what goes wrong is told in one sentence."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fedwave.errors import FedwaveError

_TRY_SECONDS = 20.0
# Ray tries for minutes, and may end the process that tries: so another process tries first.
_TRY = """
import logging, sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
except Exception as error:
    print(type(error).__name__ + ": " + " ".join(str(error).split()))
    sys.exit(1)
"""


def import_ray() -> Any:
    """The package, which not everyone has."""
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise FedwaveError("ray is not installed: pip install 'fedwave[ray]'.") from None


@contextmanager
def connected(ray: Any, address: str | None, cpus: int | None) -> Iterator[None]:
    """With a cluster to work on; one that this process is connected to already is used, and left connected."""
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
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    # A worker that dies is our news to tell: Ray would print it where a table or JSON is expected.
    with (
        _changed("ray._private.worker", "print_to_stdstream", lambda *_, **__: None),
        _sigterm() as ours,
    ):
        try:
            if address is None:
                _start(ray, num_cpus=cpus, include_dashboard=False, **quiet)
            else:
                _reach(ray, address, **quiet)
            ours()
            yield
        finally:
            ray.shutdown()


@contextmanager
def _sigterm() -> Iterator[Callable[[], None]]:
    """Ray prints a stack and may abort when its process is told to end: ours shuts Ray down, and ends."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # signals are not ours to handle, nor Ray's
        return
    before = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
    handler = before if callable(before) else lambda *_: sys.exit(128 + signal.SIGTERM)

    def ours() -> None:
        signal.signal(signal.SIGTERM, handler)

    try:
        yield ours
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _changed(module: str, name: str, value: Any) -> Iterator[None]:
    """Something of Ray's own that it has no option for, changed for a while."""
    there: Any = importlib.import_module(module)
    before = getattr(there, name, value)
    setattr(there, name, value)
    try:
        yield
    finally:
        setattr(there, name, before)


def _start(ray: Any, **options: Any) -> None:
    """A Ray that listens on 127.0.0.1 only, as it does by itself where clusters are not supported."""
    try:
        with _changed("ray._private.ray_constants", "ENABLE_RAY_CLUSTER", False):
            ray.init(address="local", **options)
    except Exception as error:
        reason = " ".join(str(error).split()).split(". ")[0].rstrip(".")
        raise FedwaveError(
            f"Ray cannot be started on this machine ({type(error).__name__}: {reason}): try the local engine."
        ) from None


def _reach(ray: Any, address: str, **options: Any) -> None:
    """Connect to a cluster, and refuse one that does not answer."""
    _check(address)
    try:
        ray.init(address=address, **options)
    except Exception as error:
        raise _unreachable(address, f"{type(error).__name__}: {error}") from None


def _check(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if address != "auto" and "://" not in address:
        if not (colon and host and port.isdecimal()):
            raise FedwaveError(
                f'the address of the Ray cluster is {address!r}, must be "auto" or host:port.'
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
        except (OSError, OverflowError) as error:
            raise _unreachable(address, str(error)) from None
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRY, address], capture_output=True, text=True, timeout=_TRY_SECONDS
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        if b"Unauthenticated" in (late.stderr or b""):
            raise FedwaveError(
                f"the Ray cluster at {address} asks for its token: set RAY_AUTH_MODE=token, and have the token in "
                "~/.ray/auth_token or RAY_AUTH_TOKEN."
            ) from None
        raise _unreachable(address, f"no answer within {_TRY_SECONDS:.0f} seconds") from None
    if tried.returncode:
        told = tried.stdout.strip().splitlines() or [f"exit status {tried.returncode}"]
        raise _unreachable(address, told[-1])


def _unreachable(address: str, reason: str) -> FedwaveError:
    reason = " ".join(reason.split()).split(". ")[0].rstrip(".")
    return FedwaveError(
        f"the Ray cluster at {address} cannot be reached ({reason}): is it running, and is this "
        "machine one of its nodes (`ray start`)?"
    )
