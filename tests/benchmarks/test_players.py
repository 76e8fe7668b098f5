"""Players train as fedwave does; one that does not answer is ended."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks.peers import player
from benchmarks.peers.player import Player, PlayerFailed
from benchmarks.peers.players import protocol
from benchmarks.peers.work import Work, task_of, trace_of
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.models import Cnn
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings


def test_the_players_train_as_fedwave_does(tmp_path: Path) -> None:
    """In double precision, where nothing but a different computation makes a difference."""
    rounds, path = 2, tmp_path / "work.npz"
    Work("synthetic", rounds).write(path)
    work = protocol.Work(str(path))
    model = protocol.new_model(work.weights).double()
    shapes = {name: p.shape for name, p in Cnn().state_dict().items()}
    assert {name: p.shape for name, p in model.state_dict().items()} == shapes
    work.images = work.images.double()
    server = protocol.Server(work, {name: p.double() for name, p in work.weights.items()})
    settings = Settings(tolerance=0, precision="float64")
    replay = Replay(labelled_runs({"run": trace_of(rounds)}), task_of("synthetic"), settings, EvaluationSizes(1, 1))
    for t in range(rounds):
        trained = {}
        for client in work.clients(t):
            model.load_state_dict(server.central)
            if protocol.train_client(model, work, t, client):
                trained[client] = {k: p.detach().clone() for k, p in model.named_parameters()}
        server.finish(t, trained)
        replay.deliver(replay.train_round())
    for name, p in replay.layout.views(replay.central.w).items():
        assert torch.allclose(p[0], server.central[name], rtol=0, atol=1e-12)
        assert not torch.allclose(p[0], work.weights[name].double(), rtol=0, atol=1e-5)


def playing(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Player:
    """A player whose program is ``code``."""
    package = folder / "benchmarks" / "peers" / "players"
    package.mkdir(parents=True)
    (package / "__main__.py").write_text(code)
    monkeypatch.setattr(player, "ROOT", folder)
    monkeypatch.chdir(folder)
    return Player(Path(sys.executable), [], alone=True)


def test_a_player_that_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "_PATIENCE", 0.2)
    monkeypatch.setattr(player, "_FAREWELL", 0.2)
    with playing("import time; time.sleep(100)", tmp_path, monkeypatch) as asleep:  # noqa: SIM117
        with pytest.raises(PlayerFailed, match="not answered"):
            asleep.versions()
    assert asleep._process.returncode == -9


def test_after_ctrl_c_a_player_and_its_own_processes_end_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player, "_FAREWELL", 1000)  # too long to wait for
    child = tmp_path / "child"
    code = (
        "import subprocess, sys, time\n"
        "from multiprocessing.connection import Connection\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(child)!r}, 'w').write(str(child.pid))\n"
        "Connection(int(sys.argv[1])).send({})\n"
        "time.sleep(60)"
    )
    busy = playing(code, tmp_path, monkeypatch)
    busy.versions()
    busy.__exit__(KeyboardInterrupt)
    assert busy._process.returncode == -9
    if sys.platform == "linux":
        state, until = Path(f"/proc/{child.read_text()}/stat"), time.monotonic() + 20
        while state.exists() and " Z " not in state.read_text():
            assert time.monotonic() < until
            time.sleep(0.01)
