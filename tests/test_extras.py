"""Without its extras fedwave simulates, compares and draws; whatever needs them names the pip line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import mentions

LEARN = "pip install 'fedwave[learn]'"
RL = "pip install 'fedwave[rl]'"
RAY = "pip install 'fedwave[ray]'"
HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        library = name.partition(".")[0]
        if library in ("torch", "ray", "gymnasium"):
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)

sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture
def bare(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Runs Python in a process that cannot import the extras."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(HIDDEN)
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (["train", "paper", "--task", "synthetic"], ("PyTorch", LEARN)),
        (["run", "quick"], ("PyTorch", LEARN)),
        (["run", "mine.yaml"], ("PyTorch", LEARN)),
        (["reproduce", "mnist"], ("PyTorch", LEARN)),
        (["run", "paper", "--ray"], ("Ray", RAY)),
    ],
)
def test_a_command_names_the_pip_line(bare, words, tokens, tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mine.yaml").write_text("task: {dataset: synthetic}\nrounds: 3\ninstances: 2\n")
    done = bare("-m", "fedwave", *words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert mentions(done.stderr, *tokens)


def test_python_names_the_pip_line(bare) -> None:  # type: ignore[no-untyped-def]
    asked = [
        "fw.task('synthetic')",
        "fw.train",
        "fw.Task",
        "fw.train_in_lock_step",
        "fw.EvaluationSizes",
        "fw.check('cnn')",
        "fw.run('quick', 'out')",
        "fw.run({'task': {'dataset': 'synthetic'}, 'rounds': 2}, 'out', workers=1)",
    ]
    code = f"""
import fedwave as fw
from fedwave.errors import MissingExtra
for text in {asked}:
    try:
        eval(text)
    except MissingExtra as error:
        print(error)
"""
    said = bare("-c", code).stdout.splitlines()
    assert len(said) == len(asked)
    assert all(mentions(sentence, "PyTorch", LEARN) for sentence in said)


def test_the_environments_of_gymnasium_name_the_pip_line(bare) -> None:  # type: ignore[no-untyped-def]
    code = """
import fedwave as fw
print(fw.environment(fw.paper_network(), 2, 3).reset().round)
try:
    fw.rl
except fw.FedwaveError as error:
    print(error)
"""
    own, sentence = bare("-c", code).stdout.splitlines()
    assert own == "1"
    assert mentions(sentence, "fw.rl", "Gymnasium", RL)


def test_it_simulates_compares_and_draws(bare, tmp_path) -> None:  # type: ignore[no-untyped-def]
    done = bare("-m", "fedwave", "compare", "paper", "-s", "alsa-pi,age", "-r", "5", "-i", "2", "--out", "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "out").glob("*.png"))
    code = (
        "import fedwave as fw; trace = fw.simulate(fw.paper_network(), 'balsa', 5, 2)\n"
        "print(trace.score.shape, fw.load('out').score.shape)"
    )
    assert bare("-c", code).stdout == "(5, 2) (2, 2, 5)\n"
