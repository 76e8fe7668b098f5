"""Archives of arrays in groups: saved, loaded, and refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from fedwave.files.archive import load_archive, save_archive

GROUPS = {"": {"loss": np.arange(3.0)}, "weights": {"0/w": np.ones((2, 2)), "1/w": np.zeros((2, 2))}}


def test_a_saved_archive_is_loaded_with_its_groups(tmp_path: Path) -> None:
    path = save_archive(tmp_path / "one.npz", "curves", "test 1", {"label": "age"}, GROUPS)
    header, groups = load_archive(path, "curves", "test 1")
    assert header == {"label": "age"}
    assert {group: set(own) for group, own in groups.items()} == {group: set(own) for group, own in GROUPS.items()}
    for group, own in GROUPS.items():
        for name, array in own.items():
            np.testing.assert_array_equal(groups[group][name], array)


@pytest.mark.parametrize("name", ["one.npy", "one", "one.npz.gz"])
def test_another_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with refused(name, "curves"):
        save_archive(tmp_path / name, "curves", "test 1", {}, GROUPS)
    assert not list(tmp_path.iterdir())


def test_a_missing_file_and_another_format_are_refused(tmp_path: Path) -> None:
    with refused("nowhere.npz", "curves"):
        load_archive(tmp_path / "nowhere.npz", "curves", "test 1")
    path = save_archive(tmp_path / "one.npz", "curves", "test 1", {}, GROUPS)
    with refused("one.npz", "test 1", "test 2"):
        load_archive(path, "curves", "test 2")
