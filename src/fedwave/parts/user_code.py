"""Imports the files and modules in which users register their own parts.

A file is executed from its text, so a worker that shares no disk with the user can import it too.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fedwave.errors import FedwaveError, error_text, writes_into_input
from fedwave.files.checksum import sha256
from fedwave.files.reading import read_bytes
from fedwave.parts import registry

_PREFIX = "fedwave_parts_"  # of the modules that files are executed as
_FEDWAVE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


@dataclass(frozen=True)
class _Import:
    """A file or module of the user's that this process has imported."""

    text: str  # of a file; empty for a module
    parts: dict[str, dict[str, Any]]  # it registered, by family and name
    modules: set[str]  # it loaded


_imports: dict[str, _Import] = {}  # by absolute path, or by dotted name


def import_parts(source: str | Path) -> None:
    """Import a .py file, or a module by its dotted name, so that its parts are registered."""
    source = str(source)
    if is_module(source):
        import_source(source)
    else:
        path = os.path.abspath(source)
        import_source(path, read_source(path))


def import_source(source: str, text: str = "") -> None:
    """Import a module, or execute the text of a user's file, which need not exist on this machine; once.

    A changed text is executed again, and the parts that the old one registered are removed before.
    """
    own, old = registry.own(), _imports.get(source)
    if old is not None and old.text == text:
        for family, parts in old.parts.items():  # the registry may have been emptied since
            own[family].update(parts)
        return
    for family, parts in old.parts.items() if old is not None else ():
        own[family] = {name: part for name, part in own[family].items() if parts.get(name) is not part}
    known, loaded = {family: dict(parts) for family, parts in own.items()}, set(sys.modules)
    try:
        if is_module(source):
            import_module(source)
        else:
            _execute(source, text)
    except (Exception, SystemExit) as error:  # an import that fails registers nothing
        own.update(known)
        _imports.pop(source, None)
        raise _import_failure(source, error) from None
    brought = {f: {name: part for name, part in own[f].items() if known[f].get(name) is not part} for f in own}
    # A file that is executed again finds its helpers loaded.
    modules = set(sys.modules) - loaded | (old.modules if old is not None else set())
    _imports[source] = _Import(text, brought, modules)


def imported_sources(sources: Iterable[str]) -> dict[str, str]:
    """The texts of the files among the sources, by absolute path, as this process has imported them."""
    paths = [os.path.abspath(source) for source in sources if not is_module(source)]
    for path in paths:
        if path not in _imports:
            import_parts(path)
    return {path: _imports[path].text for path in paths}


def find_named(wanted: Mapping[str, str], given: Collection[str]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """The path and text of every wanted file, by its name, and the names that are missing. Executes nothing.

    A file or module is found if the user names it now (``given``), or if this process has imported it. Files are
    recognised by their checksums, which ``wanted`` has by name.
    """
    paths = [os.path.abspath(one) for one in given if not is_module(one)]
    texts = {path: one.text for path, one in _imports.items() if not is_module(path)}
    texts |= {path: read_source(path) for path in paths}
    by_checksum = {sha256(text.encode()): (path, text) for path, text in texts.items()}
    found = {name: by_checksum[one] for name, one in wanted.items() if one in by_checksum}
    modules = {name for name in wanted if is_module(name) and (name in given or name in sys.modules)}
    return found, [name for name in wanted if name not in found.keys() | modules]


def find_importer(part: Any) -> str | None:
    """The file or module whose import registered the part; None if a script or a notebook did."""
    for source, one in _imports.items():
        if any(part is own for parts in one.parts.values() for own in parts.values()):
            return source
    return None


def helper_modules(sources: Iterable[str]) -> dict[str, str]:
    """The files of the modules among the sources, and of those loaded from the sources' own folders, by module name.

    Installed packages are not the user's.
    """
    loaded = sorted(set().union(*(one.modules for one in _imports.values())))
    found: dict[str, str] = {}
    for source in sources:
        file = module_file(source) if is_module(source) else os.path.abspath(source)
        if file is None:
            continue
        if is_module(source) and not is_installed(file):
            found[source] = file
        folder = os.path.join(os.path.realpath(os.path.dirname(file)), "")
        for name in loaded:
            path = module_file(name)
            if path is not None and os.path.realpath(path).startswith(folder) and not is_installed(path):
                found[name] = path
    return found


def module_file(name: str) -> str | None:
    """The file of a module that is loaded; None if it has none."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file if file and os.path.isabs(file) and not name.startswith(_PREFIX) else None


def absolute(source: str, folder: Path) -> str:
    """The absolute path of a file in ``folder``; the name of a module as it is."""
    return source if is_module(source) else os.path.abspath(folder / source)


def is_module(source: str) -> bool:
    """True for the dotted name of a module, False for a file."""
    return not source.endswith(".py") and all(step.isidentifier() for step in source.split("."))


def is_installed(file: str) -> bool:
    """Is the file part of fedwave, of the standard library or of an installed package?"""
    if is_package_file(file) or os.path.abspath(file).startswith(_FEDWAVE):
        return True
    library = os.path.realpath(sysconfig.get_path("stdlib"))
    return os.path.realpath(file).startswith(os.path.join(library, ""))


def is_package_file(file: str) -> bool:
    """Does the file lie among installed packages?"""
    folders = {*Path(file).parts, *Path(os.path.realpath(file)).parts}
    return bool({"site-packages", "dist-packages"} & folders)


def read_source(path: str) -> str:
    """The text of a user's file, byte for byte."""
    if not path.endswith(".py"):
        raise FedwaveError(f"parts file {path} must end in .py; a module is given by its dotted name.")
    content = read_bytes(path, f"parts file {path}")
    try:
        return content.decode("utf-8")
    except ValueError as error:
        raise FedwaveError(f"parts file {path} cannot be read: {error}.") from None


def failure_in_user_code(error: BaseException) -> FedwaveError | None:
    """The FedwaveError for an error that was raised in a user's file; None if it was raised elsewhere."""
    parts = [part for own in registry.own().values() for part in own.values()]
    modules = [sys.modules.get(getattr(part, "__module__", None) or "") for part in parts]
    files = {*_imports, *(getattr(module, "__file__", None) for module in modules)}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if file in files and not file.startswith(_FEDWAVE):
            hint = "; change a copy of it" if writes_into_input(error) else ""
            where = f"{file}, line {line}, in {frame.f_code.co_qualname}"
            return FedwaveError(f"{where}: {error_text(error)}{hint}.")
    # A call with other arguments than the method takes fails where it is called, outside the user's file.
    for part in parts if isinstance(error, TypeError) else ():
        starts = [f"{kind.__qualname__}." for kind in getattr(part, "__mro__", ()) if kind.__module__ != "builtins"]
        if str(error).startswith((*starts, f"{getattr(part, '__qualname__', None)}()")):
            name = getattr(part, "name", getattr(part, "__name__", ""))
            return FedwaveError(f"{error_text(error)}: fw.check({name!r}) tries every method and says what is wrong.")
    return None


def _execute(path: str, text: str) -> None:
    # The same name in every process, and no other file's.
    name = f"{_PREFIX}{Path(path).stem}_{sha256(path.encode())[:12]}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses look their module up there
    folder = os.path.dirname(path)
    if folder not in sys.path:
        # Like a script, the file may import what lies beside it; at the end, so that it hides no installed module.
        sys.path.append(folder)
    try:
        exec(compile(text.encode(), path, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise


def _import_failure(source: str, error: BaseException) -> FedwaveError:
    """The FedwaveError for a user's file or module that cannot be imported, with the line."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{source}.".startswith(f"{error.name}."):
        return FedwaveError(f"there is no module {source!r} to import: install it, or give a file, which ends in .py.")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if frame.filename == source] or frames
    line = error.lineno if isinstance(error, SyntaxError) else own[-1].lineno if own else None
    where = f" in line {line}" if line else ""
    return FedwaveError(f"{source} cannot be imported: {error_text(error, where)}.")
