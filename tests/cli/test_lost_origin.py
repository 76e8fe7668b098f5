"""A run whose provenance.json is damaged, lost or of another run: nothing claims to have made what it has not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import mentions

Command = Callable[..., tuple[int, str, str]]
LOT = Path(__file__).parents[2] / "studies" / "lots" / "cifar10-0-2"


@pytest.fixture
def run(tmp_path: Path, fedwave: Command, monkeypatch: pytest.MonkeyPatch, no_figures: None) -> Path:
    monkeypatch.chdir(tmp_path)
    for first in (0, 2):
        words = ("-r", 3, "-i", 2, f"first_instance={first}", "--workers", 1, "-o", f"run-{first}")
        assert fedwave("run", "paper-score", "schedulers=[age,alsa-pi]", *words)[0] == 0
    return Path("run-0")


def _damage(run: Path) -> None:
    (run / "provenance.json").write_bytes(b"[1]")


def _lose(run: Path) -> None:
    (run / "provenance.json").unlink()


def _swap(run: Path) -> None:
    shutil.copy("run-2/provenance.json", run)


@pytest.mark.parametrize("harm", [_damage, _lose, _swap])
def test_a_report_says_that_the_origin_is_not_known(run: Path, fedwave: Command, harm: Callable[[Path], None]) -> None:
    harm(run)
    if harm is not _lose:
        assert fedwave("verify", run)[0] == 1
        assert fedwave("merge", run, "run-2", "--out", "all")[0] == 2
    status, _, err = fedwave("report", run, "--compact", "shown")
    assert status == 0
    assert mentions(err, "anew")
    runs = json.loads(Path("shown/provenance.json").read_text())["runs"]
    assert [one["begun"] for one in runs] == ["unknown"]
    status, out, _ = fedwave("verify", run)
    assert status == 0
    assert mentions(" ".join(out.split()), "not known")
    assert "those installed" not in out
    assert fedwave("reproduce", "--from", "shown", "--out", "drawn")[0] == 0
    status, _, err = fedwave("merge", run, "run-2", "--out", "all")
    assert (status, err) == (0, "")


@pytest.mark.usefixtures("no_figures")
def test_a_run_of_a_gpu_is_mended_where_there_is_none(tmp_path: Path, fedwave: Command) -> None:
    lot = shutil.copytree(LOT, tmp_path / "lot")
    _damage(lot)
    assert fedwave("report", lot)[0] == 0
    _damage(lot)
    status, _, err = fedwave("resume", lot)
    assert (status, "Traceback" in err) == (0, False)
