"""The commit of a checkout is read from plain files; git is not started."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedwave as fw
from fedwave.experiments.store.provenance import own_commit

COMMIT = "0123456789abcdef" * 2 + "01234567"
CHECKOUTS: dict[str, tuple[dict[str, str], str | None]] = {
    "a branch": ({"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{COMMIT}\n"}, COMMIT),
    "a packed branch": (
        {"HEAD": "ref: refs/heads/main\n", "packed-refs": f"# pack-refs\n{COMMIT} refs/heads/main\n"},
        COMMIT,
    ),
    "no branch": ({"HEAD": f"{COMMIT}\n"}, COMMIT),
    "a branch without a commit": ({"HEAD": "ref: refs/heads/main\n"}, None),
    "not a commit": ({"HEAD": "\x1b[31mred\n"}, None),
    "no checkout": ({}, None),
}


@pytest.mark.parametrize("name", CHECKOUTS)
def test_the_commit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, wanted = CHECKOUTS[name]
    for file, content in files.items():
        (tmp_path / ".git" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".git" / file).write_text(content)
    monkeypatch.setattr(fw, "__file__", str(tmp_path / "src/fedwave/__init__.py"))
    assert own_commit() == wanted
    monkeypatch.setattr(fw, "__file__", str(tmp_path / "site-packages/fedwave/__init__.py"))
    assert own_commit() is None


def test_an_installed_package_has_the_commit_of_its_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages/fedwave"
    package.mkdir(parents=True)
    monkeypatch.setattr(fw, "__file__", str(package / "__init__.py"))
    for text, wanted in ((f"{COMMIT}\n", COMMIT), ("red\n", None)):
        (package / "commit.txt").write_text(text)
        assert own_commit() == wanted
