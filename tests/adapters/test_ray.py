"""Units on Ray: the same results, whatever dies on the way."""

from __future__ import annotations

import os
import pickle
import re
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from fedwave.adapters import ray as adapter
from fedwave.adapters import ray_cluster
from fedwave.adapters.ray import ray_engine
from fedwave.adapters.ray_worker import Mailbox, do_unit
from fedwave.errors import FedwaveError
from fedwave.experiments.config.read import experiment_from
from fedwave.experiments.run.pool import run_here
from fedwave.experiments.run.units import Unit, resolved, units_of
from fedwave.files import write_csv
from fedwave.learning.replay import use_threads

ray = pytest.importorskip("ray")

SIMULATED = {"schedulers": ["alsa-pi", "balsa"], "rounds": 300, "instances": 60, "block": 30}
TRAINED = {
    "schedulers": ["alsa-pi", "fresh", "update-aware"], "rounds": 100, "instances": 1, "block": 1,
    "network": {"kind": "random", "devices": 5, "slots": 2}, "checkpoint_seconds": 0,
    "task": {"dataset": "synthetic", "model": "logistic", "epochs": 1, "shard_size": 5, "batch": 5},
    "training": {"device": "cpu", "loss_images": 50, "test_images": 50},
}  # fmt: skip
NODE = {"node_ip_address": "127.0.0.1", "include_dashboard": False}


def units(mapping: dict[str, Any], **changes: Any) -> list[Unit]:
    return units_of(resolved(experiment_from(mapping | changes)))


class Watch:
    """Writes down what is told; ``on`` may do something about it."""

    def __init__(self, on: Callable[[str, Unit, Any], None] | None = None) -> None:
        self.told: list[tuple[str, str, Any]] = []
        self._on = on

    def __call__(self, kind: str, unit: Unit, more: Any) -> None:
        self.told.append((kind, unit.name, more))
        if self._on is not None:
            self._on(kind, unit, more)

    def of(self, kind: str) -> list[str]:
        return [name for k, name, _ in self.told if k == kind]

    def played(self, unit: str) -> int:
        return sum(sum(told) for told in self.rounds(unit))

    def rounds(self, unit: str) -> list[list[int]]:
        """What each attempt at a unit told, in order."""
        attempts: list[list[int]] = []
        for kind, name, more in self.told:
            if name == unit and kind == "begun":
                attempts.append([])
            elif name == unit and kind == "rounds":
                attempts[-1].append(more)
        return attempts


def same_as_here(found: dict[str, Any], wanted: list[Unit]) -> bool:
    use_threads(1)  # as the workers do; two fight over such small models
    here = {u.name: o for u, o, _ in run_here(wanted, lambda unit: None, Watch())}
    return found.keys() == here.keys() and all(
        data.identical(here[name]) for name, data in found.items()
    )


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def workers_of_mine() -> list[int]:
    """Processes that do a unit for this process, and for no other."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if not (entry / "cmdline").read_bytes().startswith(b"ray::do_unit"):
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
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="class")
def local() -> Iterator[None]:
    """A Ray that several tests share."""
    with ray_cluster.connected(ray, None, 2):
        yield


@pytest.fixture(scope="class")
def cluster() -> Iterator[Any]:
    """A head without CPUs, on loopback, that sees within a second or two that a node has died."""
    from ray.cluster_utils import Cluster

    soon = {"health_check_period_ms": 300, "health_check_failure_threshold": 2}
    with pytest.MonkeyPatch.context() as patch:
        # Without these two, Ray takes 127.0.0.1 for another name of the machine's address on the network.
        patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        cluster = Cluster(True, head_node_args={**NODE, "num_cpus": 0, "_system_config": soon})
        yield cluster
        cluster.shutdown()


def test_a_local_ray_gives_the_same_simulation(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    wanted, addresses, before = units(SIMULATED), [], signal.getsignal(signal.SIGTERM)
    watch = Watch(lambda *told: addresses.append(ray.nodes()[0]["NodeManagerAddress"]))
    found = {
        u.name: o for u, o, _ in ray_engine(cpus=2)(wanted, lambda u: tmp_path / u.name, watch)
    }
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) == before
    assert set(addresses) == {"127.0.0.1"}
    assert same_as_here(found, wanted)
    assert all(o.score.flags.writeable for some in found.values() for o in some.values())
    assert sorted(watch.of("begun")) == sorted(found)
    assert all(watch.played(u.name) == u.rounds for u in wanted)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("local")
class TestOnALocalRay:
    def test_a_killed_worker_goes_on_from_its_checkpoint(self, tmp_path: Path) -> None:
        killed: list[str] = []

        def kill_once(kind: str, unit: Unit, more: Any) -> None:
            if kind == "rounds" and watch.played(unit.name) > 20 and not killed:
                killed.append(unit.name)
                kill(*workers_of_mine())

        wanted, watch = units(TRAINED), Watch(kill_once)
        engine = ray_engine(cpus=1)
        found = {u.name: o for u, o, _ in engine(wanted, lambda u: tmp_path / u.name, watch)}
        assert ray.is_initialized()  # it was before, so it is left so
        assert same_as_here(found, wanted)
        assert watch.of("died") == killed
        assert Counter(watch.of("begun")) == Counter([*found, *killed])
        first, second = watch.rounds(killed[0])
        assert first[0] == 0
        assert second[0] > 10
        assert sum(second) == 100

    def test_a_unit_that_ends_its_workers_is_given_up(self, capfd: pytest.CaptureFixture) -> None:
        watch = Watch(lambda kind, *_: kind == "begun" and kill(*workers_of_mine()))
        long = units(SIMULATED, schedulers=["fresh"], rounds=100_000, instances=1)
        with pytest.raises(
            FedwaveError, match=r"0000_fresh_0-0 is given up: its worker ended 3 times"
        ):
            list(ray_engine()(long, lambda unit: None, watch))
        assert watch.of("died") == ["0000_fresh_0-0"] * 2  # the third death is told by the error
        assert capfd.readouterr() == ("", "")

    def test_a_refusal_arrives_as_it_is(self, tmp_path: Path) -> None:
        table = write_csv(tmp_path / "devices.csv", ["distance_m", "rate"], [[100, 1], [200, 2]])
        wanted = units(SIMULATED, network={"kind": "table", "file": str(table), "slots": 1})
        table.unlink()
        with pytest.raises(FedwaveError, match=r"^network.file: .*devices.csv cannot be read"):
            list(ray_engine()(wanted, lambda unit: None, Watch()))


@pytest.mark.slow
class TestOnACluster:
    def test_a_node_without_fedwave(self, tmp_path: Path, cluster: Any) -> None:
        (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['fedwave'] = None")
        node = cluster.add_node(**NODE, num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
        with pytest.raises(FedwaveError, match=r"^fedwave is not installed on a node of the Ray"):
            list(ray_engine(cluster.address)(units(SIMULATED), lambda unit: None, Watch()))
        assert not ray.is_initialized()
        cluster.remove_node(node)

    def test_a_run_survives_the_death_of_a_node(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Any
    ) -> None:
        monkeypatch.setattr(adapter, "_PATIENCE", 0.5)
        nodes: list[Any] = []

        def interfere(kind: str, unit: Unit, more: Any) -> None:
            if (
                kind == "warning" and not nodes
            ):  # nothing but a head that does no work: now come two that do
                nodes.extend(cluster.add_node(**NODE, num_cpus=1) for _ in range(2))
            at_work = set(watch.of("begun")) - set(watch.of("finished"))
            busy = [name for name in at_work if 20 < watch.played(name) < 200]
            if watch.of("finished") and len(busy) == 2 and len(nodes) == 2:
                raylet = nodes.pop().all_processes["raylet"][0].process.pid
                kill(raylet, *(pid for pid in workers_of_mine() if parent_of(pid) == raylet))

        wanted = units(TRAINED, schedulers=["alsa-pi", "fresh"], instances=2, rounds=250)
        watch = Watch(interfere)
        engine, found = ray_engine(cluster.address), {}
        for unit, data, _ in engine(wanted, lambda u: tmp_path / u.name, watch):
            watch("finished", unit, None)
            found[unit.name] = data
        assert not ray.is_initialized()
        assert len(nodes) == 1
        assert same_as_here(found, wanted)
        # What was at work on the node, or on its way there, was begun once more, and nothing else.
        died, begun = Counter(watch.of("died")), Counter(watch.of("begun"))
        assert all(begun[name] <= 1 + died[name] for name in found)
        assert any(attempts[0] > 1 for name in died for attempts in watch.rounds(name)[1:])
        assert "node was lost" in next(more for kind, _, more in watch.told if kind == "died")
        last = {name: kind for kind, name, _ in watch.told}
        assert set(last.values()) == {"finished"}


def a_driver(folder: Path, watch: Watch) -> Any:
    """With nothing but a mailbox at its other end."""
    box = Mailbox()
    driver = adapter._Driver(MagicMock(get=lambda x: x), [], lambda u: folder / u.name, watch, None)
    driver.mailbox = SimpleNamespace(
        post=SimpleNamespace(remote=lambda *letter: box.post(*letter) or MagicMock()),
        letters=SimpleNamespace(remote=box.letters),
        checkpoint=SimpleNamespace(remote=box.checkpoint),
    )
    return driver


def test_what_a_task_given_up_for_dead_still_sends_is_ignored(tmp_path: Path) -> None:
    (unit,), watch = units(SIMULATED, schedulers=["fresh"], instances=1), Watch()
    driver = a_driver(tmp_path, watch)
    driver.at_work["task"] = adapter._Attempt(unit, 2)
    for attempt in (2, 1):
        driver.mailbox.post.remote((unit.name, attempt), "rounds", attempt)
        driver.mailbox.post.remote((unit.name, attempt), "checkpoint", bytes([attempt]))
    driver._read_mail()
    assert watch.told == [("rounds", unit.name, 2)]
    assert (tmp_path / unit.name).read_bytes() == bytes([2])
    assert driver.mailbox.letters.remote() == ([], [])


def test_an_error_names_its_unit_and_another_version_is_refused(tmp_path: Path) -> None:
    (unit,) = units(SIMULATED, schedulers=["fresh"], instances=1)
    driver, broken = a_driver(tmp_path, Watch()), replace(unit, schedulers=("nobody",))

    def run(unit: Unit, version: str) -> None:
        answer = pickle.loads(do_unit(unit, 1, None, False, version, driver.mailbox))
        driver._finished(adapter._Attempt(unit, 1), *answer)

    with pytest.raises(RuntimeError, match=r"(?s)^unit 0000_fresh_0-0 failed.*KeyError: 'nobody'"):
        run(broken, adapter.__version__)
    with pytest.raises(FedwaveError, match=r"has fedwave .*, but this is fedwave 0\.0\.1: install"):
        run(unit, "0.0.1")


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        FedwaveError, match=r"^ray is not installed: pip install 'fedwave\[ray\]'\.$"
    ):
        ray_engine()


def refusal(address: str) -> str:
    with pytest.raises(FedwaveError) as refused:
        list(ray_engine(address)(units(SIMULATED), lambda unit: None, Watch()))
    assert not ray.is_initialized()
    return str(refused.value)


def test_a_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        assert re.search(rf"at {address} cannot be reached \(.*refused\): is it", refusal(address))
        deaf.listen()
        monkeypatch.setattr(ray_cluster, "_TRY_SECONDS", 2.0)
        assert "(no answer within 2 seconds)" in refusal(address)
        denied = "import os, time; os.write(2, b'Unauthenticated'); time.sleep(9)"  # as Ray does
        monkeypatch.setattr(ray_cluster, "_TRY", denied)
        assert f"at {address} asks for its token: set RAY_AUTH_MODE=token" in refusal(address)


def test_a_bad_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is 'somewhere', must be \"auto\" or host:port." in refusal("somewhere")
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    assert "at auto cannot be reached (ValueError: Invalid address" in refusal("auto")
    with pytest.raises(FedwaveError, match=r"^cpus is 0, must be a whole number >= 1\."):
        ray_engine(cpus=0)
