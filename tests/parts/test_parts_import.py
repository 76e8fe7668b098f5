"""Parts of one's own: from a file, a module, and an installed package."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedwave.errors import FedwaveError
from fedwave.parts import registry
from fedwave.parts.user_code import absolute, import_parts

FADING = """
from dataclasses import dataclass
import fedwave as fw

@fw.register
@dataclass(frozen=True)
class Flat(fw.fading.Rayleigh):
    name = "flat-test"
    level: float = {level}
"""


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    before = {family: dict(own) for family, own in registry.own().items()}
    modules = set(sys.modules)
    yield
    registry.own().update(before)
    for name in set(sys.modules) - modules:
        if "own_parts" in name or "mine" in name:
            del sys.modules[name]


def test_a_file_is_run_once_for_each_content(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    for level in (1.0, 2.0, 1.0):
        file.write_text(FADING.format(level=level))
        import_parts(file)
        first = registry.find("fading", "flat-test")
        import_parts(str(file))
        assert registry.find("fading", "flat-test") is first
        assert first().level == level
        assert sys.modules[first.__module__].Flat is first
        assert first.__module__.startswith("fedwave_parts_mine_")


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    """By the installed command, whose path does not begin with the current folder, and in its workers."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside_test.py").write_text("LEVEL = 3.0\n")
    (tmp_path / "sub" / "mine.py").write_text("from beside_test import LEVEL\n" + FADING.format(level="LEVEL"))
    code = (
        "import sys; sys.path = [p for p in sys.path if p]; from fedwave.cli import main;"
        "sys.argv = 'fedwave run paper network.fading=flat-test --import sub/mine.py -s age,random -r 3 -i 2"
        " --workers 2 -o run'.split(); main()"
    )
    words = [sys.executable, "-P", "-c", code]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run" / "inputs" / "beside_test.py").exists()


def test_a_module_by_its_dotted_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_parts").mkdir()
    file = tmp_path / "own_parts" / "fading.py"
    file.write_text(FADING.format(level=3.0))
    monkeypatch.syspath_prepend(tmp_path)
    import_parts("own_parts.fading")
    assert registry.build("fading", "flat-test").level == 3.0


def test_names_that_every_folder_understands(tmp_path: Path) -> None:
    assert absolute("mine.py", tmp_path) == str(tmp_path / "mine.py")
    assert absolute("../mine.py", tmp_path) == str(tmp_path.parent / "mine.py")
    assert absolute(str(tmp_path / "mine.py"), Path("/")) == str(tmp_path / "mine.py")
    assert absolute("own.parts", tmp_path) == "own.parts"


BROKEN = {
    "x = 1\n\nraise ValueError('no\\nluck.')\n": "ValueError in line 3: no luck.",
    "def f(:\n": "SyntaxError in line 1: invalid syntax",
    "\nimport no_such_module_at_all\n": "ModuleNotFoundError in line 2: No module named 'no_such_module_at_all'.",
    "import sys\nsys.exit(3)\n": "SystemExit in line 2: 3.",
    "import json\njson.loads('x')\n": "JSONDecodeError in line 2: Expecting value",
    "import fedwave as fw\nfw.register(3)\n": "FedwaveError in line 2: 3 cannot be registered by itself",
    "\0": "cannot be imported: ",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_is_told_with_its_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(FedwaveError) as caught:
        import_parts(file)
    assert str(caught.value).startswith(f"{file} cannot be imported: ")
    assert BROKEN[text] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not [name for name in sys.modules if name.startswith("fedwave_parts_mine_")]


def test_a_broken_module_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_parts_broken.py").write_text("\n\n1 / 0\n")
    (tmp_path / "own_parts_lacking.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name, sentence in {
        "own_parts_broken": "own_parts_broken cannot be imported: ZeroDivisionError in line 3: division by zero.",
        "own_parts_lacking": "own_parts_lacking cannot be imported: ModuleNotFoundError in line 1: No module named",
        "own_parts_none.at.all": "there is no module 'own_parts_none.at.all' to import: install it, or give a file",
    }.items():
        with pytest.raises(FedwaveError) as caught:
            import_parts(name)
        assert sentence in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x = 1\n")
    for source, sentence in {
        str(tmp_path / "none.py"): "none.py cannot be read: No such file or directory.",
        str(tmp_path / "mine.txt"): "mine.txt must end in .py; a module is given by its dotted name.",
        str(tmp_path): "must end in .py",
        "": "must end in .py",
        "\0.py": "cannot be read: ",
    }.items():
        with pytest.raises(FedwaveError) as caught:
            import_parts(source)
        assert sentence in str(caught.value)


def test_an_installed_package_brings_its_parts(tmp_path: Path) -> None:
    """A distribution of the group fedwave.parts is found, and a broken one beside it does not matter."""
    for name, text in {"good": FADING.format(level=7.0), "bad": "1 / 0\n"}.items():
        (tmp_path / f"own_parts_{name}.py").write_text(text)
        about = tmp_path / f"own_{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: own-{name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[fedwave.parts]\nany = own_parts_{name}\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from fedwave.experiments.config.read import experiment_from\n"
        "from fedwave.experiments.config.build import network_of\n"
        "made = experiment_from({'network': {'fading': 'flat-test:level=4'}})\n"
        "print(network_of(made.network).fading)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "Flat(level=4)\n"
    assert "own_parts_bad" in told.stderr
    assert "ZeroDivisionError" in told.stderr
