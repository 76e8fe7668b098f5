"""Units on Ray: the same results, whatever dies on the way."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from refusals import mentions, refused
from user_file import forgotten, text

from fedwave.adapters import ray as adapter
from fedwave.adapters.ray import RemoteWorker, connected, import_ray, ray_engine
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.config.units import Unit, cut_into_units, resolve
from fedwave.experiments.run.pool import Job, Message, run_here
from fedwave.experiments.run.process import environment
from fedwave.experiments.run.signals import TIMEOUT, Terminated
from fedwave.files.writing import write_csv
from fedwave.learning.settings import use_threads

if find_spec("ray") is None:
    pytest.skip("ray is not installed", allow_module_level=True)
ray = import_ray(loopback=True)

SIMULATED = {"schedulers": ["alsa-pi", "balsa"], "rounds": 300, "instances": 60, "block": 30}
TRAINED = {
    "schedulers": ["alsa-pi", "fresh", "update-aware"],
    "rounds": 100,
    "instances": 1,
    "block": 1,
    "network": {"kind": "random", "devices": 5, "slots": 2},
    "checkpoint_seconds": 0,
    "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1, "shard_size": 5, "batch": 5},
    "training": {"device": "cpu", "loss_images": 50, "test_images": 50},
}
# A model that sleeps in every step while the file exists, so that a signal surely finds its unit at work; in its first
# steps it always sleeps, so that the first message about rounds tells one round from those of a checkpoint.
SLOW_WHILE = """
import time
from pathlib import Path
import torch
import fedwave as fw

class Slow(torch.nn.Flatten):
    steps = 0

    def forward(self, images):
        Slow.steps += 1
        if Slow.steps < 20 or Path({file!r}).exists():
            time.sleep({seconds})
        return super().forward(images)

@fw.register("slow-test", family="model")
def slow():
    Slow.steps = 0
    return torch.nn.Sequential(Slow(), torch.nn.LazyLinear(10))
"""
NODE = {"node_ip_address": "127.0.0.1", "include_dashboard": False}


def units(mapping: dict[str, Any], **changes: Any) -> list[Unit]:
    return cut_into_units(resolve(experiment_from(mapping | changes)))


class Watch:
    """Keeps the messages; ``on`` may act on them."""

    def __init__(self, on: Callable[[Message], Any] | None = None) -> None:
        self.messages: list[tuple[str, str, Any]] = []
        self._on = on

    def __call__(self, message: Message) -> None:
        self.messages.append((message.kind, message.unit.name, message.content))
        if self._on is not None:
            self._on(message)

    def of(self, kind: str) -> list[str]:
        return [name for k, name, _ in self.messages if k == kind]

    def played(self, unit: str) -> int:
        return sum(sum(rounds) for rounds in self.rounds(unit))

    def rounds(self, unit: str) -> list[list[int]]:
        """The messages about rounds of each attempt at a unit, in order."""
        attempts: list[list[int]] = []
        for kind, name, content in self.messages:
            if name == unit and kind == "begun":
                attempts.append([])
            elif name == unit and kind == "rounds":
                attempts[-1].append(content)
        return attempts


def on_ray(
    wanted: list[Unit],
    watch: Watch,
    place: Path | None = None,
    address: str | None = None,
    cpus: int | None = None,
    timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """The results by unit; ``watch`` also hears of the units that are finished."""
    found = {}
    job = Job(wanted, watch, lambda unit: place and place / unit.name, timeout=timeout)
    for unit, data, _ in ray_engine(address, cpus)(job):
        watch(Message("finished", unit))
        found[unit.name] = data
    return found


def same_as_here(found: dict[str, Any], wanted: list[Unit]) -> bool:
    use_threads(1)  # as the workers do; two fight over such small models
    here = {u.name: o for u, o, _ in run_here(Job(wanted, Watch()))}
    return found.keys() == here.keys() and all(data.identical(here[name]) for name, data in found.items())


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def workers_of_mine() -> list[int]:
    """Processes that do a unit for this process, and for no other."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not (entry / "cmdline").read_bytes().startswith(b"ray::RemoteWorker"):
                continue
            parent = worker = int(entry.name)
            while parent not in (0, os.getpid()):
                parent = parent_of(parent)
            found += [worker] if parent else []
        except (OSError, ValueError):
            continue  # not a process, or not any longer
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a worker may end as soon as its raylet does
            os.kill(pid, signal.SIGKILL)


def slow_while(slow: Path, seconds: float) -> dict[str, Any]:
    """What makes the units of TRAINED slow while the file exists; use it with ``forgotten``."""
    file = slow.with_name("slow.py")
    file.write_text(SLOW_WHILE.format(file=str(slow), seconds=seconds))
    return {"imports": [str(file)], "task": TRAINED["task"] | {"model": "slow-test"}}


@pytest.fixture(scope="class")
def cluster() -> Iterator[Any]:
    """A head without CPUs, on loopback, that sees within a second or two that a node has died."""
    from ray.cluster_utils import Cluster

    soon = {"health_check_period_ms": 300, "health_check_failure_threshold": 2}
    # Otherwise Ray replaces 127.0.0.1 by the machine's address on the network.
    with environment({"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}):
        cluster = Cluster(True, head_node_args={**NODE, "num_cpus": 0, "_system_config": soon})
        yield cluster
        cluster.shutdown()


def test_a_local_ray_gives_the_same_simulation(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    wanted, addresses, before = units(SIMULATED), [], signal.getsignal(signal.SIGTERM)
    watch = Watch(lambda message: addresses.append(ray.nodes()[0]["NodeManagerAddress"]))
    found = on_ray(wanted, watch, tmp_path, cpus=2)
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) == before
    assert set(addresses) == {"127.0.0.1"}
    assert same_as_here(found, wanted)
    assert all(data.score.values.flags.writeable for data in found.values())
    assert sorted(watch.of("begun")) == sorted(found)
    assert all(watch.played(u.name) == u.rounds for u in wanted)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_killed_worker_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    killed: list[str] = []
    slow = tmp_path / "slow"
    slow.touch()

    def kill_once(message: Message) -> None:
        name = message.unit.name
        if message.kind == "rounds" and watch.played(name) > 20 and not killed:
            killed.append(name)
            kill(*workers_of_mine())
            slow.unlink()

    with forgotten():
        wanted, watch = units(TRAINED, **slow_while(slow, 0.02)), Watch(kill_once)
        found = on_ray(wanted, watch, tmp_path, cpus=1)
        assert same_as_here(found, wanted)
    assert watch.of("crashed") == killed
    assert Counter(watch.of("begun")) == Counter([*found, *killed])
    first, second = watch.rounds(killed[0])
    assert first[0] == 0
    assert next(filter(None, second)) > 10  # after some zeros, while it is simulated
    assert sum(second) == 100


@pytest.mark.slow
def test_a_scheduler_that_never_returns_is_abandoned(tmp_path: Path) -> None:
    with forgotten():
        file = tmp_path / "mine.py"
        file.write_text(
            "import time\nimport fedwave as fw\n\n@fw.register\nclass Endless(fw.Scheduler):\n"
            "    name, needs = 'endless-test', {'backlog'}\n\n"
            "    def priority(self, state, seen, draws):\n        time.sleep(1e9)\n"
        )
        chosen = ["endless-test", "age"]
        wanted = units(SIMULATED, imports=[str(file)], schedulers=chosen, rounds=20, instances=1)
        watch = Watch()
        found = on_ray(wanted, watch, cpus=1, timeout=20.0)
    assert list(found) == ["0000_age_0-0"]
    why = {name: text for kind, name, text in watch.messages if kind == "abandoned"}
    assert list(why) == ["0000_endless-test_0-0"]
    assert mentions(why["0000_endless-test_0-0"], "endless-test", 20)


@pytest.mark.slow
def test_files_of_the_user_travel_with_the_units(tmp_path: Path) -> None:
    """Nodes share no disk: the file is gone before any worker begins."""
    with forgotten():
        file = tmp_path / "mine.py"
        file.write_text(text())
        network = {"kind": "random", "devices": 5, "slots": 2, "fading": "steady-test"}
        wanted = units(SIMULATED, imports=[str(file)], schedulers=["heavy-test:weight=3"], network=network)
        file.unlink()
        found = on_ray(wanted, Watch())
        assert same_as_here(found, wanted)


@pytest.mark.slow
class TestOnACluster:
    def test_a_node_without_fedwave(self, tmp_path: Path, cluster: Any) -> None:
        (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['fedwave'] = None")
        node = cluster.add_node(**NODE, num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
        with refused("fedwave"):
            on_ray(units(SIMULATED), Watch(), address=cluster.address)
        assert not ray.is_initialized()
        cluster.remove_node(node)

    def test_a_run_survives_the_death_of_a_node(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Any
    ) -> None:
        monkeypatch.setattr(adapter, "_IDLE_SECONDS", 0.5)
        nodes: list[Any] = []
        slow = tmp_path / "slow"

        def interfere(message: Message) -> None:
            if message.kind == "warning" and not nodes:  # only a head without CPUs: add two nodes
                nodes.extend(cluster.add_node(**NODE, num_cpus=1) for _ in range(2))
            if message.kind == "finished" and len(nodes) == 2:
                slow.touch()  # before more units are submitted: some will find it
            at_work = set(watch.of("begun")) - set(watch.of("finished"))
            busy = [name for name in at_work if watch.played(name) > 8]
            if watch.of("finished") and len(busy) == 2 and len(nodes) == 2:
                raylet = nodes.pop().all_processes["raylet"][0].process.pid
                kill(raylet, *(pid for pid in workers_of_mine() if parent_of(pid) == raylet))
                slow.unlink()

        with forgotten():
            some = {"schedulers": ["alsa-pi", "fresh"], "instances": 4, "rounds": 60}
            wanted = units(TRAINED, **some, **slow_while(slow, 0.05))
            watch = Watch(interfere)
            found = on_ray(wanted, watch, tmp_path, cluster.address)
            assert not ray.is_initialized()
            assert len(nodes) == 1
            assert same_as_here(found, wanted)
        # What was at work on the node, or on its way there, was begun once more, and nothing else.
        died, begun = Counter(watch.of("crashed")), Counter(watch.of("begun"))
        assert all(begun[name] <= 1 + died[name] for name in found)
        again = [attempts for name in died for attempts in watch.rounds(name)[1:]]
        assert any(next(filter(None, attempts)) > 4 for attempts in again)
        assert "node was lost" in next(text for kind, _, text in watch.messages if kind == "crashed")
        last = {name: kind for kind, name, _ in watch.messages}
        assert set(last.values()) == {"finished"}


def test_what_an_actor_answers(tmp_path: Path) -> None:
    (unit,) = units(SIMULATED, schedulers=["fresh"], instances=1)

    def answer(unit: Unit, version: str = adapter.__version__) -> tuple[str, str]:
        *_, last = pickle.loads(RemoteWorker().do(unit, tmp_path / "run" / "checkpoints" / "it.npz", version))
        return last  # type: ignore[no-any-return]

    kind, why = answer(replace(unit, schedulers=("nobody",)))
    assert kind == "failed"
    assert mentions(why, "KeyError", "nobody")
    kind, why = answer(unit, "0.0.1")
    assert kind == "refused"
    assert mentions(why, "0.0.1")
    table = write_csv(tmp_path / "devices.csv", ["distance_m", "rate"], [[100, 1], [200, 2]])
    (lost, *_) = units(SIMULATED, network={"kind": "table", "file": str(table), "slots": 1})
    table.unlink()
    kind, why = answer(lost)
    assert kind == "refused"
    assert mentions(why, "network", "devices.csv")
    assert list(tmp_path.iterdir()) == []  # a node without the run folder writes no checkpoint


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with refused("fedwave[ray]"):
        ray_engine()


def refusal(address: str) -> str:
    with refused() as caught:
        on_ray(units(SIMULATED), Watch(), address=address)
    assert not ray.is_initialized()
    return str(caught.value)


def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        assert mentions(refusal(address), address, "refused")
        deaf.listen()
        monkeypatch.setattr(adapter, "_TRY_SECONDS", 2.0)
        assert mentions(refusal(address), "2 seconds")
        denied = "import os, time; os.write(2, b'Unauthenticated'); time.sleep(9)"  # as Ray does
        monkeypatch.setattr(adapter, "_TRY", denied)
        assert mentions(refusal(address), address, "RAY_AUTH_MODE=token")


def test_a_signal_that_reaches_rays_own_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """While Ray starts, its handler is there instead of ours; it exits with the bare number of the signal."""
    ray = MagicMock()
    monkeypatch.setattr(adapter, "_start", lambda *_, **__: sys.exit(int(signal.SIGTERM)))
    with pytest.raises(Terminated) as left, connected(ray, None, 1):
        pass
    assert left.value.code == 128 + signal.SIGTERM
    ray.shutdown.assert_called_once_with()


def test_a_bad_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mentions(refusal("somewhere"), "'somewhere'", "host:port")
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    assert mentions(refusal("auto"), "auto", "Invalid address")


def test_a_ray_that_would_listen_on_the_network_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is where the user's script imports ray before the engine is made."""
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "192.0.2.7")
    with refused("192.0.2.7", "`ray start`"):
        on_ray(units(SIMULATED), Watch())
    assert not ray.is_initialized()
