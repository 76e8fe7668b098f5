"""Users' own parts: importing the files and modules that register them."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

from fedwave.errors import FedwaveError

_done: dict[Path, str] = {}  # files that were imported, and the sha256 of their content then


def import_parts(source: str | Path) -> None:
    """Import a .py file or a module by its dotted name, so that its parts are registered.

    A file is run once for each content: again only after it was changed.
    """
    if not _is_module(str(source)):
        _import_file(Path(os.path.abspath(source)))
        return
    try:
        import_module(str(source))
    except ModuleNotFoundError as error:
        if error.name is None or not f"{source}.".startswith(f"{error.name}."):
            raise _failed(str(source), error) from None
        raise FedwaveError(
            f"there is no module {str(source)!r} to import: install it, or give a file, which ends in .py."
        ) from None
    except (Exception, SystemExit) as error:
        raise _failed(str(source), error) from None


def absolute(source: str, folder: Path) -> str:
    """The source as any folder can name it: a file's whole path, seen from ``folder``; a module's name stays."""
    return source if _is_module(source) else os.path.abspath(folder / source)


def content_hashes(sources: Iterable[str | Path]) -> dict[str, str]:
    """The sha256 of each imported file's content, by source."""
    return {str(source): hashlib.sha256(_content(_file_of(str(source)))).hexdigest() for source in sources}  # fmt: skip


def _is_module(source: str) -> bool:
    return not source.endswith(".py") and all(step.isidentifier() for step in source.split("."))


def _file_of(source: str) -> Path:
    spec = find_spec(source) if _is_module(source) else None
    return Path(source if spec is None or spec.origin is None else spec.origin)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FedwaveError(f"parts file {path} cannot be read: {reason}.") from None


def _import_file(path: Path) -> None:
    if path.suffix != ".py":
        raise FedwaveError(
            f"parts file {path} must end in .py; a module is given by its dotted name."
        )
    content = _content(path)
    digest = hashlib.sha256(content).hexdigest()
    if _done.get(path) == digest:
        return
    # The same name in every process, and no other file's.
    name = f"fedwave_parts_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, path)
    assert spec is not None  # it ends in .py
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        exec(compile(content, path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed(str(path), error) from None
    _done[path] = digest


def _failed(source: str, error: BaseException) -> FedwaveError:
    """What went wrong in a user's file, and in which line of it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if frame.filename == source] or frames
    line = own[-1].lineno if own else None
    if isinstance(error, SyntaxError):
        line = error.lineno
    where = f" in line {line}" if line else ""
    text = " ".join(str(error).split()).rstrip(".")
    return FedwaveError(f"{source} cannot be imported: {type(error).__name__}{where}: {text}.")
