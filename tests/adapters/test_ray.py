"""Units on Ray: the same results, whatever dies on the way."""

from __future__ import annotations

import os
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
from fedwave.adapters.ray_worker import Mailbox
from fedwave.errors import FedwaveError
from fedwave.experiments.config_text import experiment_from
from fedwave.experiments.pool import run_here
from fedwave.experiments.units import Unit, resolved, units_of
from fedwave.files import write_csv
from fedwave.learning.replay import use_threads

ray = pytest.importorskip("ray")

SIMULATED = {"schedulers": ["alsa-pi", "balsa"], "rounds": 300, "instances": 60, "block": 30}
TRAINED = {
    "schedulers": ["alsa-pi", "fresh", "update-aware"], "rounds": 150, "instances": 1, "block": 1,
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
        outcome.same_as(here[name][label])
        for name, outcomes in found.items()
        for label, outcome in outcomes.items()
    )


def workers_of_mine() -> list[int]:
    """Processes that do a unit for this process, and for no other."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (entry / "cmdline").read_bytes().startswith(b"ray::do_unit"):
                parent, pid = int(entry.name), os.getpid()
                while parent > 1 and parent != pid:
                    parent = int(
                        Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1]
                    )
                found += [int(entry.name)] if parent == pid else []
        except (OSError, ValueError):
            continue
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def local() -> Iterator[None]:
    """A Ray that several tests share."""
    with ray_cluster.connected(ray, None, 2):
        yield


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head without CPUs, on loopback, that sees within a second or two that a node has died."""
    from ray.cluster_utils import Cluster

    # Without these two, Ray takes 127.0.0.1 for another name of the machine's address on the network.
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    soon = {"health_check_period_ms": 300, "health_check_failure_threshold": 2}
    cluster = Cluster(True, head_node_args={**NODE, "num_cpus": 0, "_system_config": soon})
    yield cluster
    cluster.shutdown()


def test_a_local_ray_gives_the_same_simulation(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    wanted, addresses = units(SIMULATED), []
    watch = Watch(lambda *told: addresses.append(ray.nodes()[0]["NodeManagerAddress"]))
    found = {
        u.name: o for u, o, _ in ray_engine(cpus=2)(wanted, lambda u: tmp_path / u.name, watch)
    }
    assert not ray.is_initialized()
    assert set(addresses) == {"127.0.0.1"}
    assert same_as_here(found, wanted)  # Ray's memory is gone: the arrays must not lie in it
    assert sorted(watch.of("begun")) == sorted(found)
    assert all(watch.played(u.name) == u.rounds for u in wanted)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("local")
def test_a_killed_worker_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
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
    assert second[0] > 20
    assert sum(second) == 150


@pytest.mark.usefixtures("local")
def test_a_unit_that_ends_its_workers_is_given_up() -> None:
    watch = Watch(lambda kind, *_: kind == "begun" and kill(*workers_of_mine()))
    long = units(SIMULATED, schedulers=["balsa"], rounds=100_000, instances=1)
    with pytest.raises(FedwaveError, match=r"0000_balsa_0-0 is given up: its worker ended 3 times"):
        list(ray_engine()(long, lambda unit: None, watch))
    assert watch.of("died") == ["0000_balsa_0-0"] * 3


@pytest.mark.usefixtures("local")
def test_errors_arrive_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_csv(tmp_path / "devices.csv", ["distance_m", "rate"], [[100, 1], [200, 2]])
    wanted = units(SIMULATED, network={"kind": "table", "file": str(table), "slots": 1})
    table.unlink()
    run = lambda units: list(ray_engine()(units, lambda unit: None, Watch()))  # noqa: E731
    with pytest.raises(FedwaveError, match=r"^network.file: .*devices.csv cannot be read"):
        run(wanted)
    wanted = units(SIMULATED)
    with pytest.raises(
        RuntimeError, match=r"(?s)^unit 0000_alsa-pi_0-29 failed.*KeyError: 'nobody'"
    ):
        run([replace(wanted[0], schedulers=("nobody",))])
    monkeypatch.setattr(adapter, "__version__", "0.0.1")
    with pytest.raises(FedwaveError, match=r"has fedwave .*, but this is fedwave 0\.0\.1: install"):
        run(wanted)


def test_a_run_survives_the_death_of_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Any
) -> None:
    monkeypatch.setattr(adapter, "_PATIENCE", 0.5)
    finished: list[str] = []
    nodes: list[Any] = []

    def interfere(kind: str, unit: Unit, more: Any) -> None:
        if kind == "warning":  # nothing but a head that does no work: now come two that do
            nodes.extend(cluster.add_node(**NODE, num_cpus=1) for _ in range(2))
        rounds = {name: watch.rounds(name) for name in set(watch.of("begun")) - set(finished)}
        busy = [name for name, told in rounds.items() if sum(told[-1]) > 20]
        if finished and len(busy) == 2 and len(nodes) == 2:
            kill(nodes.pop().all_processes["raylet"][0].process.pid)

    wanted, watch = units(TRAINED, instances=2), Watch(interfere)
    found = {}
    for unit, outcomes, _ in ray_engine(cluster.address)(
        wanted, lambda u: tmp_path / u.name, watch
    ):
        assert unit.name not in finished
        finished.append(unit.name)
        found[unit.name] = outcomes
    assert not ray.is_initialized()
    assert len(nodes) == 1
    assert same_as_here(found, wanted)
    (died,) = watch.of("died")
    assert Counter(watch.of("begun")) == Counter([*found, died])
    assert watch.rounds(died)[1][0] > 20
    assert "its node was lost" in next(more for kind, _, more in watch.told if kind == "died")


def test_what_a_task_given_up_for_dead_still_sends_is_ignored(tmp_path: Path) -> None:
    (unit,), watch, mailbox = (
        units(SIMULATED, schedulers=["fresh"], instances=1),
        Watch(),
        Mailbox(),
    )
    driver = adapter._Driver(
        MagicMock(get=lambda x: x), [], lambda u: tmp_path / u.name, watch, None
    )
    driver.mailbox = SimpleNamespace(
        letters=SimpleNamespace(remote=mailbox.letters),
        checkpoint=SimpleNamespace(remote=mailbox.checkpoint),
    )
    driver.at_work["task"] = adapter._Attempt(unit, 2)
    for attempt in (2, 1):
        mailbox.post((unit.name, attempt), "rounds", attempt)
        mailbox.post((unit.name, attempt), "checkpoint", bytes([attempt]))
    driver._read_mail()
    assert watch.told == [("rounds", unit.name, 2)]
    assert (tmp_path / unit.name).read_bytes() == bytes([2])
    assert mailbox.letters() == ([], [])


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        FedwaveError, match=r"^ray is not installed: pip install 'fedwave\[ray\]'\.$"
    ):
        ray_engine()


def test_a_cluster_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "_TRY_SECONDS", 4.0)
    run = lambda address: list(ray_engine(address)(units(SIMULATED), lambda u: None, Watch()))  # noqa: E731
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(
            FedwaveError, match=rf"at {address} cannot be reached \(.*refused\): is it"
        ):
            run(address)
        deaf.listen()
        with pytest.raises(FedwaveError, match=rf"at {address} .*no answer within 4 seconds"):
            run(address)
    with pytest.raises(FedwaveError, match=r"is 'somewhere', must be \"auto\" or host:port\.$"):
        run("somewhere")
    with pytest.raises(FedwaveError, match=r"^cpus is 0, must be a whole number >= 1\."):
        ray_engine(cpus=0)
    assert not ray.is_initialized()
