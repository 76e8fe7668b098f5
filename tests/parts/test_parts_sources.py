"""Users' files as texts: imported where the file is not, replaced when they change."""

from __future__ import annotations

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


def test_the_text_is_the_one_that_was_imported(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    content = "\ufeff".encode() + text().encode() + b"# \xc3\xa9\r\n"
    file = tmp_path / "mine.py"
    file.write_bytes(content)
    monkeypatch.chdir(tmp_path)
    import_parts("mine.py")
    file.write_text(text(2))
    assert imported_sources(["mine.py", "json"]) == {str(file): content.decode()}
    assert weight() == 1
    import_parts("mine.py")
    assert imported_sources([str(file)]) == {str(file): text(2)}
    assert weight() == 2


def test_a_changed_text_replaces_what_the_old_one_registered() -> None:
    import_source("/a.py", text(1))
    first = registry.find("scheduler", "heavy-test")
    import_source("/a.py", text(1))
    assert registry.find("scheduler", "heavy-test") is first
    import_source("/a.py", text(2, kind="Renamed"))
    assert weight() == 2
    import_source("/a.py", text(3, name="other-test"))
    assert registry.build("scheduler", "other-test").weight == 3
    with pytest.raises(FedwaveError, match="there is no scheduler 'heavy-test'"):
        weight()


def test_two_files_cannot_bring_one_name() -> None:
    """Otherwise the order of the imports would decide which of them runs under that name."""
    import_source("/a.py", text(1))
    with pytest.raises(FedwaveError, match=r"'heavy-test' is already used by Heavy of fedwave_parts_a_"):
        import_source("/b.py", text(2))
    assert weight() == 1
    import_source("/a.py", text(3))  # the same file, changed
    assert weight() == 3


def test_a_text_that_fails_registers_nothing() -> None:
    before = {family: dict(parts) for family, parts in registry.own().items()}
    with pytest.raises(FedwaveError, match=r"^/a\.py cannot be imported: ZeroDivisionError in line"):
        import_source("/a.py", text() + "1 / 0")
    assert registry.own() == before
    with pytest.raises(FedwaveError, match=r"FedwaveError in line .*the name 'balsa' is already used by"):
        import_source("/a.py", text(name="balsa"))
    assert registry.own() == before
