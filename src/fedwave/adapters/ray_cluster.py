"""Reaching a Ray cluster, or starting one on this machine; what goes wrong is told in one sentence."""

from __future__ import annotations

import importlib
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
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
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    # A worker that dies is our news to tell: Ray would print it where a table or JSON is expected.
    with _changed("ray._private.worker", "print_to_stdstream", lambda *_, **__: None):
        try:
            if address is None:
                # So it listens on 127.0.0.1 only, which it does where clusters are not supported.
                with _changed("ray._private.ray_constants", "ENABLE_RAY_CLUSTER", False):
                    ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
            else:
                _check(address)
                ray.init(address=address, **quiet)
            yield
        finally:
            ray.shutdown()


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


def _check(address: str) -> None:
    """Refuse a cluster that does not answer."""
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
    except subprocess.TimeoutExpired:
        raise _unreachable(address, f"no answer within {_TRY_SECONDS:.0f} seconds") from None
    if tried.returncode:
        told = tried.stdout.strip().splitlines() or [f"exit status {tried.returncode}"]
        raise _unreachable(address, told[-1])


def _unreachable(address: str, reason: str) -> FedwaveError:
    return FedwaveError(
        f"the Ray cluster at {address} cannot be reached ({reason.rstrip('.')}): is it running, and is this "
        "machine one of its nodes (`ray start`)?"
    )
