"""Players train as fedwave does, and one that does not answer is left."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
import torch
from script_module import module_of

from fedwave.bench import player
from fedwave.bench.environments import PLAYERS
from fedwave.bench.player import Player, PlayerFailed
from fedwave.bench.work import Setting, Work
from fedwave.learning.evaluation import EvaluationSizes
from fedwave.learning.models import Cnn
from fedwave.learning.replay import Replay
from fedwave.learning.schedule import labelled_runs
from fedwave.learning.settings import Settings


def test_the_players_train_as_fedwave_does(tmp_path: Path) -> None:
    """In double precision, where nothing but a different computation makes a difference."""
    rounds, theirs = 2, module_of(PLAYERS / "rounds_protocol.py")
    setting = Setting("synthetic", rounds=rounds)
    Work(setting).write(tmp_path)
    work = theirs.Work(str(tmp_path))
    model = theirs.new_model(work.weights).double()
    shapes = {name: p.shape for name, p in Cnn().state_dict().items()}
    assert {name: p.shape for name, p in model.state_dict().items()} == shapes
    work.images = work.images.double()
    server = theirs.Server(work, {name: p.double() for name, p in work.weights.items()})
    settings = Settings(tolerance=0, precision="float64")
    runs = labelled_runs({"run": setting.trace()})
    replay = Replay(runs, setting.task(), settings, EvaluationSizes(1, 1))
    for t in range(rounds):
        trained = {}
        for client in work.clients(t):
            model.load_state_dict(server.central)
            if theirs.train_client(model, work, t, client):
                trained[client] = {k: p.detach().clone() for k, p in model.named_parameters()}
        server.finish(t, trained)
        replay.deliver(replay.train_round())
    for name, p in replay.layout.views(replay.central.w).items():
        assert torch.allclose(p[0], server.central[name], rtol=0, atol=1e-12)
        assert not torch.allclose(p[0], work.weights[name].double(), rtol=0, atol=1e-5)


def test_a_player_that_does_not_answer_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "_PATIENCE", 0.2)
    monkeypatch.setattr(player, "_FAREWELL", 0.2)
    script = tmp_path / "asleep.py"
    script.write_text("import time; time.sleep(100)")
    with Player([sys.executable, str(script)], {}) as asleep:  # noqa: SIM117
        with pytest.raises(PlayerFailed, match="it has not answered"):
            asleep.ready()
    assert asleep._process.returncode == -9


def test_after_ctrl_c_a_player_and_its_own_processes_end_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player, "_FAREWELL", 1000)  # who waits for it finds that it ended by itself
    script, said = tmp_path / "parent.py", tmp_path / "child"
    script.write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(said)!r}, 'w').write(str(child.pid))\n"
        "print('{\"versions\": {}}', flush=True)\n"
        "time.sleep(60)"
    )
    busy = Player([sys.executable, str(script)], {})
    busy.ready()
    busy.__exit__(KeyboardInterrupt)
    assert busy._process.returncode == -9
    if sys.platform == "linux":
        state, until = Path(f"/proc/{said.read_text()}/stat"), time.monotonic() + 20
        while state.exists() and " Z " not in state.read_text():
            assert time.monotonic() < until
            time.sleep(0.01)
