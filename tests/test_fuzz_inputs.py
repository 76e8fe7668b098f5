"""Experiments, device tables and records, damaged at random or to break readers: read, or refused in one sentence."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from mutations import mutated
from time_limit import time_limit

import fedwave as fw
from fedwave.errors import FedwaveError
from fedwave.experiments.config.read import load_experiment
from fedwave.files.writing import json_text
from fedwave.files.yaml_text import read_yaml
from tests.attacks import nasty_files

LONGEST_S = 60
PRESETS = resources.files("fedwave.experiments.presets")


def preset(name: str) -> bytes:
    return PRESETS.joinpath(f"{name}.yaml").read_bytes()


def as_npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def as_npz(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def experiment(path: Path) -> None:
    load_experiment(str(path))


CSV = b"# measured\nrate,distance_m,name,count,buffer_limit\n1,100,near,3,inf\n5,400,far,1,\n2.5,300,,2,7\n"
YAML = b"""devices:
- {rate: 1, distance_m: 100, count: 3}
- rate: 5.5
  distance_m: 4e2
  name: far
- &a {rate: 2, distance_m: 9}
- *a
"""
CURVE = b"snr_db,error_rate\n-5,0.9\n0,0.5\n5,1e-3\n"
NUMBERS = b"1,2,3\n4.5,0,6e-1\n7,8,9\n"
LOG = b"Timestamp,device,SNR\n2019.11.28_07.27.46,gate,-3.5\n2019.11.28_07.27.48,bus,-\n2019.11.28_07.27.49,bus,12\n"
RECORD = np.random.default_rng(0).random((5, 3))


def saved_trace() -> bytes:
    out = io.BytesIO()
    fw.simulate(fw.paper_network(), "balsa", 3, 1, beliefs=True).write(out)
    return out.getvalue()


# What is damaged, and what reads it.
INPUTS: dict[str, tuple[str, bytes, Callable[[Path], object]]] = {
    "experiment.yaml": ("yaml", preset("quick"), experiment),
    "trained.yaml": ("yaml", preset("paper-mnist"), experiment),
    "experiment.json": ("json", json_text(read_yaml(preset("quick").decode(), "it")).encode(), experiment),
    "devices.csv": ("csv", CSV, fw.read_devices),
    "devices.yaml": ("yaml", YAML, fw.read_devices),
    "curve.csv": ("csv", CURVE, fw.success.Table.from_file),
    "gains.csv": ("csv", NUMBERS, lambda path: fw.fading.RecordedGains.from_file(str(path))),
    "gains.npy": ("npy", as_npy(RECORD), lambda path: fw.fading.RecordedGains.from_file(str(path))),
    "log.csv": ("csv", LOG, fw.read_log),
    "wide log.csv": ("csv", b"time;gate;bus\n0;1;2\n1,5;;3e1\n", lambda path: fw.read_log(path, value="gain")),
    "log.npz": ("npz", as_npz(time=np.arange(5), device=np.array(list("ababa")), snr=RECORD[:, 0]), fw.read_log),
    "trace.fad": ("fad", b"0 -1.5 2e0\n3 4 5\n", lambda path: fw.read_log(path, value="gain_db", every="1ms")),
    "arrivals.npy": (
        "npy",
        as_npy(np.asfortranarray((RECORD * 9).astype(">i4"))),
        lambda path: fw.arrivals.RecordedArrivals.from_file(str(path)),
    ),
    "trace.npz": ("npz", saved_trace(), fw.Trace.load),
}


def attack(name: str, times: int, folder: Path) -> None:
    """Damage a file again and again; its seed and number find the damage again."""
    suffix, content, read = INPUTS[name]
    read_at_all = 0
    for number in range(times):
        path = folder / f"it.{suffix}"
        path.write_bytes(mutated(content, random.Random(f"{name} {number}")))
        read_at_all += is_read(path, read, f"{name}, damage {number}")
    assert read_at_all < times  # the damages are damages


def is_read(path: Path, read: Callable[[Path], object], what: str) -> bool:
    """Whether it is read; otherwise it must be refused in one sentence."""
    try:
        with time_limit(LONGEST_S):
            read(path)
        return True
    except FedwaveError as error:
        refusal = str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}") from error
    assert len(refusal.splitlines()) == 1, (what, refusal)
    assert len(refusal) < 2000, (what, refusal[:300])
    return False


MADE = {
    "npz": {},
    "fad": {},
    "yaml": nasty_files.YAML,
    "json": nasty_files.JSON,
    "csv": nasty_files.CSV,
    "npy": nasty_files.NPY,
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.filterwarnings("ignore")
def test_files_that_are_made_to_break_readers(name: str, tmp_path: Path) -> None:
    suffix, _, read = INPUTS[name]
    for number, (what, put) in enumerate({**nasty_files.ANY, **MADE[suffix]}.items()):
        path = tmp_path / f"{number}.{suffix}"
        put(path)
        assert not is_read(path, read, what) or what in MADE[suffix]


@pytest.mark.parametrize("name", INPUTS)
def test_damaged_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    attack(name, 60, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_thousands_of_damaged_files(name: str, tmp_path: Path) -> None:
    attack(name, 2000, tmp_path)
