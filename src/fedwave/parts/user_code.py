"""Users' own parts: importing the files and modules that register them.

A file is executed from its text, so that a worker that shares no disk with the user can import it too.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from fedwave.errors import FedwaveError, writes_into_input
from fedwave.files.reading import read_bytes
from fedwave.parts import registry

# Files that this process has imported, by absolute path: the text, and the parts that it registered.
_done: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {}
# Modules that were loaded while a file was imported, by its absolute path.
_loaded: dict[str, set[str]] = {}
_PREFIX = "fedwave_parts_"  # of the modules that files are executed as


def import_parts(source: str | Path) -> None:
    """Import a .py file or a module by its dotted name, so that its parts are registered."""
    source = str(source)
    if not is_module(source):
        path = os.path.abspath(source)
        import_source(path, read_source(path))
        return
    try:
        with _noting_modules(module_file(source) or source):
            import_module(source)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{source}.".startswith(f"{error.name}."):
            raise _failed(source, error) from None
        raise FedwaveError(
            f"there is no module {source!r} to import: install it, or give a file, which ends in .py."
        ) from None
    except (Exception, SystemExit) as error:
        raise _failed(source, error) from None


def import_source(path: str, text: str) -> None:
    """Execute the text of a user's file, once; the file need not exist on this machine.

    A changed text is executed again, and the parts that the old one registered are removed before.
    """
    own = registry.own()
    before, parts = _done.get(path, (None, {}))
    if text != before:
        for family, old in parts.items():
            for name in [n for n, part in old.items() if own[family].get(n) is part]:
                del own[family][name]
        known = {family: dict(parts) for family, parts in own.items()}
        try:
            with _noting_modules(path):
                _execute(path, text)
        except (Exception, SystemExit) as error:
            own.update(known)
            _done.pop(path, None)
            raise _failed(path, error) from None
        parts = {f: {n: p for n, p in own[f].items() if known[f].get(n) is not p} for f in own}
        _done[path] = (text, parts)
    for family, new in parts.items():  # also where the registry was emptied since
        own[family].update(new)


def imported_sources(sources: Iterable[str]) -> dict[str, str]:
    """The text of the files among the sources, by absolute path, as this process has imported them."""
    paths = [os.path.abspath(source) for source in sources if not is_module(source)]
    for path in paths:
        if path not in _done:
            import_parts(path)
    return {path: _done[path][0] for path in paths}


def texts_imported() -> dict[str, str]:
    """The files that this process has imported, by absolute path."""
    return {path: text for path, (text, _) in _done.items()}


def absolute(source: str, folder: Path) -> str:
    """The source as any folder can name it: a file's whole path, seen from ``folder``; a module's name stays."""
    return source if is_module(source) else os.path.abspath(folder / source)


def is_module(source: str) -> bool:
    """Is it the dotted name of a module, not a file?"""
    return not source.endswith(".py") and all(step.isidentifier() for step in source.split("."))


def read_source(path: str) -> str:
    """The text of a user's file, byte for byte."""
    if not path.endswith(".py"):
        raise FedwaveError(f"parts file {path} must end in .py; a module is given by its dotted name.")
    content = read_bytes(path, f"parts file {path}")
    try:
        return content.decode("utf-8")
    except ValueError as error:
        raise FedwaveError(f"parts file {path} cannot be read: {error}.") from None


def helper_modules(sources: Iterable[str]) -> dict[str, str]:
    """The files of the modules that users' sources are or import, by module name. Imports nothing.

    These are the modules that their text names, and those that were loaded while they were imported. Installed packages
    and fedwave itself are not the user's.
    """
    found: dict[str, str] = {}
    for source in sources:
        first = module_file(source) if is_module(source) else os.path.abspath(source)
        if first is None:
            continue
        top, package = "", ""
        if is_module(source):
            found[source] = first
            top = source.partition(".")[0]
            is_package = os.path.basename(first) == "__init__.py"
            package = source if is_package else source.rpartition(".")[0]
        _add_helpers(_imported_names(first, package), top, found)
        _add_helpers(sorted(_loaded.get(first, ())), top, found)
    return found


def module_file(module: str) -> str | None:
    """The .py file of a module, which is not imported for that."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
    else:
        places: Any = None
        spec = None
        for k in range(module.count(".") + 1):
            try:
                spec = PathFinder.find_spec(".".join(module.split(".")[: k + 1]), places)
            except (ImportError, ValueError):
                return None
            if spec is None or (k < module.count(".") and not spec.submodule_search_locations):
                return None
            places = spec.submodule_search_locations
        file = spec.origin if spec else None
    # Modules without a file of their own may say one, such as torch.ops; it is not absolute.
    return file if file and file.endswith(".py") and os.path.isabs(file) else None


def own_source(name: str, file: str | None) -> tuple[str, str | None] | None:
    """The name of a user's module, or the file of a script, and its file; None if it is fedwave's or installed.

    A notebook or standard input has no file.
    """
    if name.partition(".")[0] == "fedwave" or (file is not None and is_installed(file)):
        return None
    was_executed = name.startswith(_PREFIX)  # from a text, whose file may be elsewhere
    if file is None or not (was_executed or os.path.isfile(file)):
        return name, None
    file = os.path.abspath(file)
    return (file if was_executed or name in ("__main__", "__mp_main__") else name), file


def _add_helpers(names: Iterable[str], top: str, found: dict[str, str]) -> None:
    """Add the user's modules among the names, and what their texts name."""
    for name in names:
        first = name.partition(".")[0]
        ours = first in ("fedwave", "__main__", "__mp_main__") or first.startswith(_PREFIX)
        path = None if ours or name in found else module_file(name)
        # Of what is installed only the package that was asked for is the user's.
        if path is None or (first != top and is_installed(path)):
            continue
        found[name] = path
        inner = name if os.path.basename(path) == "__init__.py" else name.rpartition(".")[0]
        _add_helpers(_imported_names(path, inner), top, found)


def _imported_names(file: str, package: str) -> Iterator[str]:
    """Every module that a file may import, with the packages that it lies in."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            steps = package.split(".")[: len(package.split(".")) - node.level + 1]
            inside = ".".join([*(steps if node.level else []), *filter(None, [node.module])])
            names = [f"{inside}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            names = [str(node.args[0].value)] if called in ("import_module", "__import__") else []
        for name in names:
            steps = name.split(".")
            if all(steps):  # else it climbs out of its package
                yield from (".".join(steps[:k]) for k in range(1, len(steps) + 1))


def is_installed(path: str) -> bool:
    """Does it lie in the standard library, among installed packages, or is it a command that came with one?"""
    ours = (sysconfig.get_path(kind) for kind in ("stdlib", "scripts"))
    real = os.path.realpath(path)
    return is_package_file(path) or any(real.startswith(os.path.join(os.path.realpath(place), "")) for place in ours)


def is_package_file(path: str) -> bool:
    """Does it lie among installed packages?"""
    folders = {*Path(path).parts, *Path(os.path.realpath(path)).parts}
    return bool({"site-packages", "dist-packages"} & folders)


@contextmanager
def _noting_modules(file: str) -> Iterator[None]:
    """Note the modules that are loaded meanwhile, for the file that is imported; a text need not name them."""
    before = set(sys.modules)
    yield
    # Those of before stay: a file that is executed again finds them loaded.
    _loaded.setdefault(file, set()).update(set(sys.modules) - before)


def checksum(text: str) -> str:
    """The sha256 of the file with this text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _execute(path: str, text: str) -> None:
    # The same name in every process, and no other file's.
    name = f"{_PREFIX}{Path(path).stem}_{checksum(path)[:12]}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses look their module up there
    beside = os.path.dirname(path)
    if beside not in sys.path:
        # It may import what lies beside it, as a script does; at the end, so that it hides no installed module.
        sys.path.append(beside)
    try:
        exec(compile(text.encode(), path, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise


def failure_in(sources: Iterable[str], error: BaseException) -> FedwaveError | None:
    """The sentence about an error that one of the users' files raised; None if none of them did."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        code = frame.f_code
        if code.co_filename in sources:
            hint = "; change a copy of it" if writes_into_input(error) else ""
            where = f"{code.co_filename}, line {line}, in {code.co_qualname}"
            return FedwaveError(f"{where}: {_told(error)}{hint}.")
    return None


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
    return FedwaveError(f"{source} cannot be imported: {_told(error, where)}.")


def _told(error: BaseException, where: str = "") -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}{where}" + (f": {text}" if text else "")
