"""The environments of the other simulators, which clash with each other and with fedwave: one for each.

NAME.txt lists all that is installed, with exact versions.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "out" / "peers"
_MADE = "made-of.txt"  # in a complete environment: what it was made of


class NoEnvironment(Exception):
    """An environment cannot be made; the text says why."""


def requirements_of(peer: str) -> Path:
    """The requirements file of a peer."""
    return Path(__file__).with_name(f"{peer}.txt")


def python_of(peer: str) -> Path:
    """The Python of a peer's environment; makes the environment if it is missing, incomplete or out of date."""
    requirements, folder = requirements_of(peer), ENVIRONMENTS / peer
    python, made = folder / "bin" / "python", folder / _MADE
    content = f"# Python {sys.version}\n{requirements.read_text()}"
    if made.is_file() and made.read_text() == content:
        return python
    print(f"{peer}: installing {requirements.name} into {folder}", file=sys.stderr)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "-r", str(requirements)]
    for step in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
        done = subprocess.run(step, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode:
            raise NoEnvironment(f"its environment cannot be made: {reason_in(done.stderr)}")
    made.write_text(content)
    return python


def reason_in(text: str) -> str:
    """The reason of a failure in what a program wrote to standard error: pip's first error, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors[:1] or lines[-1:] or ["no reason was given"])[0].rstrip(".")
