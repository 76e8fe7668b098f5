from __future__ import annotations

import shutil
from pathlib import Path

import matplotlib
import pytest

# Where the home is read-only, it finds another folder and leaves it in the environment: the commands that tests start
# would otherwise say so on standard error.
matplotlib.get_configdir()


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of anything else: figures take the longest of all that a run writes."""
    from fedwave.experiments.report.figures import common

    monkeypatch.setattr(common, "save_figure", lambda figure, stem: [])


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small run, made once for all tests: only to be read."""
    from small_run import make

    return make(tmp_path_factory.mktemp("finished") / "run")


@pytest.fixture
def small_run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of it, in the test's own folder."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))


# Fixtures hold no doctests, and would all be called "conftest". The typed script registers parts when imported.
collect_ignore_glob = ["*conftest.py", "*typed_user.py"]
