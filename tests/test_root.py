"""The package's table of contents: complete, light, and visible to a type checker."""

import doctest
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedwave as fw

SCRIPT = Path(__file__).parent / "support" / "typed_user.py"


def test_every_listed_name_is_there_and_nothing_else_is_shown() -> None:
    assert sorted(fw.__all__) == dir(fw)
    assert len(set(fw.__all__)) == len(fw.__all__)
    for name in fw.__all__:
        assert getattr(fw, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        _ = fw.simulat  # type: ignore[attr-defined]


def test_the_docstring_lists_every_public_name_in_the_same_order() -> None:
    assert re.findall(r"^    (\w+) {2,}\S", fw.__doc__ or "", re.MULTILINE) == fw.__all__


def test_every_public_class_and_function_has_an_example() -> None:
    """They run with the other doctests, each without any names but its own (conftest.py)."""
    parts = {name: getattr(fw, name) for name in fw.__all__}
    documented = [name for name, part in parts.items() if getattr(part, "__module__", "").startswith("fedwave.")]
    assert "Comparison" in documented
    parser = doctest.DocTestParser()
    without = [name for name in documented if not parser.get_examples(parts[name].__doc__ or "")]
    assert without == []
    assert [name for name in documented if "import fedwave as fw" not in parts[name].__doc__] == []


def test_help_shows_no_address_of_an_object() -> None:
    for name in fw.__all__:
        part = getattr(fw, name)
        text = "" if isinstance(part, str) else pydoc.plain(pydoc.render_doc(part))
        assert not re.findall(r"^.*(?:<object|\bat 0x).*$", text, re.MULTILINE), name


def test_a_strict_type_checker_accepts_a_script_that_uses_all_of_it() -> None:
    """What the type checker knows of the package from `make types` it need not find out again."""
    words = [sys.executable, "-m", "mypy", "--strict", str(SCRIPT)]
    answer = subprocess.run(words, capture_output=True, text=True, cwd=SCRIPT.parents[2])
    assert answer.returncode == 0, answer.stdout


def test_the_script_runs(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), str(tmp_path / "run")]
    answer = subprocess.run(words, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "run" / "table.md").exists()
