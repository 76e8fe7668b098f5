"""Follows the README and docs/first-hour.md literally in an empty environment: `make first-hour`.

The blocks come from the pages, in their order: `title=FILE` is saved as that file, `sh` is run, `sh ctrl-c` is started
and interrupted. Anything that fails ends it with the block that failed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INTERRUPTED = 130


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    note: str  # what follows the language: title=FILE, or ctrl-c
    text: str


def blocks(page: str, section: str | None = None) -> list[Block]:
    """The blocks of a page, or of one section of it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if section is not None:
        (text,) = re.findall(rf"^## {section}$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return [Block(language, note.strip(), code) for language, note, code in BLOCK.findall(text)]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="first hour ") as folder:
        checkout, work = Path(folder, "fedwave"), Path(folder, "work")
        copy_checkout(checkout)
        work.mkdir()
        environment = clean_environment(checkout / ".venv")
        for block in blocks("README.md", "Install"):
            shell(block.text, checkout, environment)
        script = "\n".join(b.text for b in blocks("README.md") if b.language == "python")
        (work / "ten_lines.py").write_text(script, encoding="utf-8")
        shell("python ten_lines.py", work, environment)
        for block in blocks("docs/first-hour.md"):
            if block.note.startswith("title="):
                (work / block.note.removeprefix("title=")).write_text(block.text, encoding="utf-8")
            elif block.note == "ctrl-c":
                interrupt(block.text, work, environment)
            else:
                shell(block.text, work, environment)
        assert list(work.glob("out/first/*.png")), "there is no first figure"
    print("== the first hour is as the pages say")


def copy_checkout(place: Path) -> None:
    """What a clone would hold, with changes that are not committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / name)


def clean_environment(venv: Path) -> dict[str, str]:
    """As in a new terminal: nothing of the Python that runs this. Data and settings of pip are left alone."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    # `. .venv/bin/activate` lasts for one shell, and every block has its own.
    return {**kept, "PATH": os.pathsep.join([str(venv / "bin"), kept["PATH"]])}


def shell(text: str, folder: Path, environment: dict[str, str]) -> None:
    print(f"$ {text.rstrip()}", flush=True)
    done = subprocess.run(["bash", "-euc", text], cwd=folder, env=environment)
    if done.returncode:
        sys.exit(f"exit status {done.returncode} of:\n{text}")


def interrupt(text: str, folder: Path, environment: dict[str, str]) -> None:
    """Ctrl-C after some seconds of work; it must end with its status and the line that resumes."""
    print(f"$ {text.rstrip()}   # and Ctrl-C", flush=True)
    run = subprocess.Popen(
        ["bash", "-euc", f"exec {text}"],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )
    place = folder / text.split("--out")[1].split()[0]
    for _ in waiting():
        if (place / "run.json").exists() or run.poll() is not None:
            break
    time.sleep(6)
    os.killpg(run.pid, signal.SIGINT)
    _, errors = run.communicate(timeout=300)
    print(errors, end="", flush=True)
    assert run.returncode == INTERRUPTED, f"exit status {run.returncode} after Ctrl-C"
    assert "Traceback" not in errors
    assert f"fedwave resume {place.relative_to(folder)}" in errors.splitlines()[-1]


def waiting(seconds: float = 300) -> Iterator[None]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield
        time.sleep(0.1)
    sys.exit("the run has not begun")


if __name__ == "__main__":
    main()
