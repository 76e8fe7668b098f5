"""Users' parts from a file, a module or an installed package: imported once, and replaced when their text changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from user_file import forgotten, text

from fedwave.errors import FedwaveError
from fedwave.parts import registry
from fedwave.parts.user_code import import_parts, import_source, imported_sources


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with forgotten():
        yield


def weight() -> float:
    found: float = registry.build("scheduler", "heavy-test").weight
    return found


def test_a_file_is_run_once_for_each_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.py"
    monkeypatch.chdir(tmp_path)
    for now in (1.0, 2.0, 1.0):
        content = "\ufeff".encode() + text(now).encode() + b"# \xc3\xa9\r\n"
        file.write_bytes(content)
        import_parts(file)
        first = registry.find("scheduler", "heavy-test")
        import_parts("mine.py")
        assert registry.find("scheduler", "heavy-test") is first
        assert weight() == now
        assert sys.modules[first.__module__].Heavy is first
        assert first.__module__.startswith("fedwave_parts_mine_")
        file.write_text(text(9))
        assert imported_sources(["mine.py", "json"]) == {str(file): content.decode()}  # the text that was imported


def test_a_changed_text_replaces_what_the_old_one_registered() -> None:
    """The file itself need not exist on this machine."""
    import_source("/a.py", text(1))
    import_source("/a.py", text(2, kind="Renamed"))
    assert weight() == 2
    import_source("/a.py", text(3, name="other-test"))
    assert registry.build("scheduler", "other-test").weight == 3
    with pytest.raises(FedwaveError, match="there is no scheduler 'heavy-test'"):
        weight()


def test_a_text_that_fails_registers_nothing() -> None:
    before = {family: dict(parts) for family, parts in registry.own().items()}
    for content, error in ((text() + "1 / 0", "ZeroDivisionError"), (text(name="balsa"), "FedwaveError")):
        with pytest.raises(FedwaveError, match=rf"^/a\.py cannot be imported: {error} in line"):
            import_source("/a.py", content)
        assert registry.own() == before


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    """By the installed command, whose path does not begin with the current folder, and in its workers."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside_test.py").write_text("LEVEL = 3.0\n")
    (tmp_path / "sub" / "mine.py").write_text("from beside_test import LEVEL\n" + text())
    code = (
        "import sys; sys.path = [p for p in sys.path if p]; from fedwave.cli import main;"
        "sys.argv = 'fedwave run paper network.fading=steady-test --import sub/mine.py -s age,random -r 3 -i 2"
        " --workers 2 -o run'.split(); main()"
    )
    words = [sys.executable, "-P", "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run" / "inputs" / "beside_test.py").exists()


def test_a_module_by_its_dotted_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_parts_folder").mkdir()
    (tmp_path / "own_parts_folder" / "heavy.py").write_text(text(3))
    monkeypatch.syspath_prepend(tmp_path)
    import_parts("own_parts_folder.heavy")
    assert weight() == 3


BROKEN = {
    "x = 1\n\nraise ValueError('no\\nluck.')\n": "ValueError in line 3: no luck.",
    "def f(:\n": "SyntaxError in line 1: invalid syntax",
    "\nimport no_such_module_at_all\n": "ModuleNotFoundError in line 2: No module named 'no_such_module_at_all'.",
    "import json\njson.loads('x')\n": "JSONDecodeError in line 2: Expecting value",
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_file_is_told_with_its_line(content: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(content)
    with pytest.raises(FedwaveError) as caught:
        import_parts(file)
    assert str(caught.value).startswith(f"{file} cannot be imported: ")
    assert BROKEN[content] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not [name for name in sys.modules if name.startswith("fedwave_parts_mine_")]


def test_what_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_parts_broken.py").write_text("\n\n1 / 0\n")
    (tmp_path / "own_parts_lacking.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    for source, sentence in {
        "own_parts_broken": "own_parts_broken cannot be imported: ZeroDivisionError in line 3: division by zero.",
        "own_parts_lacking": "own_parts_lacking cannot be imported: ModuleNotFoundError in line 1: No module named",
        "own_parts_none.at.all": "there is no module 'own_parts_none.at.all' to import: install it, or give a file",
        str(tmp_path / "mine.txt"): "mine.txt must end in .py; a module is given by its dotted name.",
        str(tmp_path): "must end in .py",
    }.items():
        with pytest.raises(FedwaveError) as caught:
            import_parts(source)
        assert sentence in str(caught.value)


def test_an_installed_package_brings_its_parts(tmp_path: Path) -> None:
    """A distribution of the group fedwave.parts is found, and a broken one beside it does not matter."""
    for name, content in {"good": text(7), "bad": "1 / 0\n"}.items():
        (tmp_path / f"own_parts_{name}.py").write_text(content)
        about = tmp_path / f"own_{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: own-{name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[fedwave.parts]\nany = own_parts_{name}\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import fedwave as fw; print(fw.scheduler('heavy-test:weight=4'))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "Heavy(weight=4)\n"
    assert "own_parts_bad" in told.stderr
    assert "ZeroDivisionError" in told.stderr
