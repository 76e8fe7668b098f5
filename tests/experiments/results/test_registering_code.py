"""What a part has from the code that registered it, or from an installed package, is pinned too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from killing import command

from fedwave.experiments.results.verify import verify

RUN = """
if __name__ == "__main__":
    asked = {{"network": {{"kind": "paper", "fading": "mine-test"}}, "schedulers": ["age", "random"]}}
    fw.run({{**asked, "rounds": 3, "instances": 1}}, "run", workers={workers})
"""
PARTIAL = """
import functools
import fedwave as fw
fw.register("mine-test", family="fading")(functools.partial(fw.fading.Rician, k_factor={k}))
"""
MAKER = """
import fedwave as fw

def make(k):
    @fw.register("mine-test", family="fading")
    def made():
        return fw.fading.Rician(k)
"""
CALLER = """
import fedwave as fw
from maker_test import make
make({k})
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(*words: str, **more: Any) -> str:
    run = subprocess.run([sys.executable, *words], capture_output=True, text=True, **more)
    return run.stderr


def reopen() -> None:
    min(Path("run/units").glob("*")).unlink()


def pinned() -> list[str]:
    return list(json.loads(Path("run/plan.json").read_text())["inputs"])


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", [PARTIAL, CALLER], ids=["partial", "caller"])
def test_the_script_that_gives_a_part_its_numbers_is_pinned(text: str, workers: int) -> None:
    Path("maker_test.py").write_text(MAKER)
    script = Path("script.py")
    script.write_text(text.format(k=2) + RUN.format(workers=workers))
    assert said("script.py") == ""
    assert "code of fading mine-test" in pinned()
    assert (Path("run/inputs") / "script.py").exists()
    reopen()
    before = script.read_text()
    script.write_text(text.format(k=9) + RUN.format(workers=workers))
    assert "script.py has changed since the run in run was started" in said("script.py")
    script.write_text(before)
    assert said("script.py") == ""


def test_parts_of_standard_input_are_still_said_not_to_be_pinned() -> None:
    assert said("-", input=PARTIAL.format(k=2) + RUN.format(workers=1)) == ""
    told = " ".join(one.text for one in verify(Path("run")))
    assert "code of fading mine-test was in no file" in told


def install(version: str, k: int) -> None:
    """As pip does."""
    place = Path("lib/site-packages")
    for about in place.glob("*.dist-info"):
        (about / "METADATA").unlink()
        (about / "entry_points.txt").unlink()
        (about / "top_level.txt").unlink()
        about.rmdir()
    about = place / f"parts_test-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: parts-test\nVersion: {version}\n")
    (about / "entry_points.txt").write_text("[fedwave.parts]\nany = installed_parts_test\n")
    (about / "top_level.txt").write_text("installed_parts_test\n")
    (place / "installed_parts_test.py").write_text(PARTIAL.format(k=k))


def fedwave(*words: str) -> tuple[int, str]:
    paths = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path("lib/site-packages").absolute())])
    there = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command(*words), capture_output=True, text=True, env=there)
    return run.returncode, run.stderr + run.stdout * (words[0] == "verify")


@pytest.mark.slow
def test_a_package_is_pinned_by_its_version() -> None:
    install("1.2", 2)
    how = "paper -s age,random -t 3 -i 1 network.fading=mine-test --out run"
    words = ("run", *how.split())
    for workers in ("2", "1"):
        assert fedwave(*words, "--workers", workers) == (0, "")
        assert pinned() == ["package parts-test 1.2"]
        reopen()
    runs = json.loads(Path("run/provenance.json").read_text())["runs"]
    assert runs[0]["packages"]["parts-test"] == "1.2"
    install("1.3", 9)
    sentence = "package parts-test 1.3 is installed, but the run in run was begun with package parts-test 1.2: install"
    for again in (("resume", "run"), words):
        status, told = fedwave(*again)
        assert (status, sentence in told) == (2, True), told
    told = " ".join(fedwave("verify", "run")[1].split())
    assert "package parts-test 1.2 is pinned by its version; here it is 1.3" in told
    install("1.2", 2)
    assert fedwave("resume", "run") == (0, "")
    assert "it is the same here" in " ".join(fedwave("verify", "run")[1].split())
