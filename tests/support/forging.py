"""Forged traces: archives with a valid checksum whose arrays or header fedwave would not have written."""

from __future__ import annotations

import copy
import json
import re
import struct
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from summed import archive
from tiny import blobs, linear

import fedwave as fw
from fedwave.files.archive import CHECKSUM, HEADER
from fedwave.theory import regret

Arrays = dict[str, Any]
Text = dict[str, Any]

_STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    3,
    2**31,
    2**63,
    2**64,
    10**400,
    -0.0,
    0.5,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "score",
    "\ud800",
    "a\nb",
    "../../x",
    "{}",
    [],
    [[]],
    [0, 0],
    ["a", "b"],
    {},
    {"a": 1},
    {"array": "nowhere"},
    {"array": []},
    {"array": {}},
    {"array": "network.devices.rate"},
    {"class": "Popen", "fields": {"args": "ls"}},
    {"class": [], "fields": {}},
    {"class": "Network", "fields": []},
    {"class": "DeviceTable", "fields": {}},
    {"class": "Device", "fields": {"rate": 1, "distance_m": 1}},
    {"family": "fading", "name": "rayleigh", "class": "Rayleigh", "fields": {}},
    {"family": [], "name": {}, "class": "Rayleigh", "fields": {}},
    {"family": "scheduler", "name": "age", "class": "Age", "fields": {}},
    {"family": "scheduler", "name": "balsa", "class": "Balsa", "fields": {"prior": 3}},
    {"family": "metric", "name": "mass", "class": "Mass", "fields": {"aggregation": "lee"}},
]
_KINDS = ["<i1", "<u8", "<f2", "<f4", "<c16", "<M8[s]", "<m8[s]", "<U3", "S2", "?", "V4", ">i8", "i4,f4"]


def base_traces() -> list[fw.Trace]:
    """Small runs of several kinds: full and summary, with beliefs, names, a list of slots and a metric more."""
    named = [fw.Device(rate=r, distance_m=90 + 60 * r, name=f"d{r}", buffer_limit=6) for r in range(1, 6)]
    net = fw.Network(named, slots=2)
    fading = net.replace(fading="gauss-markov:correlation=0.5", miss_probability=0.3)
    return [
        fw.simulate(net, "balsa", 4, [3, 1], seed=2, beliefs=True),
        fw.simulate(fading, "balsa-po:stage_rule=per-device", 3, 2, beliefs=True),
        fw.simulate(net.replace(slots=[2, 0, 1, 2, 2, 2, 2]), "round-robin", 4, 2, record="summary"),
        fw.simulate(net, "proportional-fair", 4, 2, metrics=["mass:aggregation=fedbuff:size=2"]),
        fw.simulate(net, "bench", 3, 2),
        fw.simulate(net, "mass-labels", 4, 2, labels=fw.partition.Labels("by-class", 3, 4)),
    ]


def contents(trace: fw.Trace) -> tuple[Arrays, Text]:
    """The arrays and the text of a saved trace."""
    file = BytesIO()
    trace.write(file)
    file.seek(0)
    with np.load(file) as saved:
        arrays = {name: saved[name] for name in saved.files if name != CHECKSUM}
    return arrays, json.loads(str(arrays.pop(HEADER)))


def forged(rng: np.random.Generator, arrays: Arrays, text: Text) -> tuple[str, bytes]:
    """What was done, and the file."""
    arrays, text = dict(arrays), copy.deepcopy(text)
    done = []
    for _ in range(int(rng.integers(1, 3))):
        change = _CHANGES[int(rng.integers(len(_CHANGES)))]
        done.append(f"{change.__name__}({change(rng, arrays, text)})")
    envelope = _ENVELOPES[int(rng.integers(len(_ENVELOPES)))]
    return f"{' '.join(done)} {envelope.__name__}", envelope(rng, arrays, text)


# --- changes of the arrays ------------------------------------------------------------------------


def _any(rng: np.random.Generator, arrays: Arrays) -> str:
    names = sorted(arrays)
    return names[int(rng.integers(len(names)))] if names else "series/score"


def remove_array(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    name = _any(rng, arrays)
    arrays.pop(name, None)
    return name


def add_array(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    names = [
        "series/more",
        "devices/more",
        "beliefs/round",
        "accumulated/more",
        "final/more",
        "state/more",
        "series/",
        "memories/mass",
        "memories/jain.more",
        "constants/network",
        "elsewhere/x",
        "score",
        "beliefs/theta",
    ]
    shape = [(), (2,), (4, 2), (4, 2, 5), (4, 2, 7), (0, 2)][int(rng.integers(6))]
    name = names[int(rng.integers(len(names)))]
    arrays[name] = np.zeros(shape)
    return f"{name} {shape}"


def reshape(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    name = _any(rng, arrays)
    array = np.asarray(arrays.get(name, 0))
    how = int(rng.integers(7))
    arrays[name] = [
        array.ravel(),
        array[None],
        array[..., None],
        array[:1] if array.ndim else array,
        np.empty(0, array.dtype),
        array.T,
        np.concatenate([array, array]) if array.ndim else array,
    ][how]
    return f"{name} {how}"


def recast(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    name, kind = _any(rng, arrays), np.dtype(_KINDS[int(rng.integers(len(_KINDS)))])
    array = np.asarray(arrays.get(name, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            arrays[name] = array.astype(kind)
        except (TypeError, ValueError):
            arrays[name] = np.zeros(array.shape, kind)
    return f"{name} {kind}"


def revalue(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    name = _any(rng, arrays)
    array = np.array(arrays.get(name, 0))
    value = [-1, 0, 1, 2**31 - 1, 2**62, -(2**63), np.nan, np.inf, -np.inf, 1e308, 7][int(rng.integers(11))]
    if array.size and array.dtype.kind in "biuf":
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            put = np.asarray(float(value)).astype(array.dtype)
        if rng.random() < 0.3:
            array[...] = put
        else:
            array.flat[int(rng.integers(array.size))] = put
    arrays[name] = array
    return f"{name} {value}"


def lie_about_deliveries(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    name = ["devices/delivered", "devices/scheduled", "devices/heard"][int(rng.integers(3))]
    if name in arrays and arrays[name].size:
        arrays[name] = np.array(arrays[name])
        arrays[name].flat[int(rng.integers(arrays[name].size))] ^= True
    return name


# --- changes of the text --------------------------------------------------------------------------


def _places(text: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(text, dict):
        for key in text:
            found += _places(text[key], (*path, key))
    elif isinstance(text, list):
        for i in range(len(text)):
            found += _places(text[i], (*path, i))
    return found


def _place(rng: np.random.Generator, text: Text) -> tuple[Any, Any, tuple[Any, ...]]:
    places = _places(text)
    # Half of them at the top: most places are deep in the descriptions of the metrics.
    if rng.random() < 0.5:
        places = [place for place in places if len(place) <= 2 or "measured" not in place]
    path = places[int(rng.integers(len(places)))]
    holder: Any = text
    for key in path[:-1]:
        holder = holder[key]
    return holder, path[-1], path


def replace_text(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    holder, key, path = _place(rng, text)
    holder[key] = copy.deepcopy(_STRANGE[int(rng.integers(len(_STRANGE)))])
    return f"{path} {str(holder[key])[:60]!r}"


def remove_text(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    holder, key, path = _place(rng, text)
    del holder[key]
    return f"{path}"


def nest_text(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    holder, key, path = _place(rng, text)
    depth = [20, 200, 450, 900, 100_000][int(rng.integers(5))]
    holder[key] = f"nested {depth}"  # written out in the text: Python could not copy it
    return f"{path} {depth}"


def swap_texts(rng: np.random.Generator, arrays: Arrays, text: Text) -> str:
    holder, key, path = _place(rng, text)
    other, name, there = _place(rng, text)
    holder[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(holder[key])
    return f"{path} {there}"


_CHANGES: list[Callable[[np.random.Generator, Arrays, Text], str]] = [
    remove_array,
    add_array,
    reshape,
    reshape,
    recast,
    recast,
    revalue,
    revalue,
    revalue,
    lie_about_deliveries,
    replace_text,
    replace_text,
    replace_text,
    replace_text,
    remove_text,
    remove_text,
    nest_text,
    swap_texts,
]


# --- the archive ----------------------------------------------------------------------------------


def _dumped(text: Text) -> Any:
    def nested(found: re.Match[str]) -> str:
        depth = int(found[1])
        if depth % 100 == 50:
            return "[" * depth + "]" * depth
        return '{"class": "Network", "fields": {"devices": ' * depth + "1" + "}}" * depth

    return np.array(re.sub(r'"nested (\d+)"', nested, json.dumps(text)))


def as_saved(rng: np.random.Generator, arrays: Arrays, text: Text) -> bytes:
    return archive({HEADER: _dumped(text), **arrays})


def compressed(rng: np.random.Generator, arrays: Arrays, text: Text) -> bytes:
    return archive({HEADER: _dumped(text), **arrays}, compressed=True)


def with_a_member_twice(rng: np.random.Generator, arrays: Arrays, text: Text) -> bytes:
    file, more = BytesIO(as_saved(rng, arrays, text)), BytesIO()
    np.save(more, np.zeros((4, 2)))
    with warnings.catch_warnings(), zipfile.ZipFile(file, "a") as whole:
        warnings.simplefilter("ignore")
        whole.writestr("series/score.npy", more.getvalue())
    return file.getvalue()


def with_a_huge_member(rng: np.random.Generator, arrays: Arrays, text: Text) -> bytes:
    """A header that promises more than the member holds."""
    file = BytesIO(as_saved(rng, arrays, text))
    head = str({"descr": "<f8", "fortran_order": False, "shape": (2**40,)}).encode().ljust(117) + b"\n"
    with zipfile.ZipFile(file, "a") as whole:
        whole.writestr("state/huge.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head)
    return file.getvalue()


_ENVELOPES = [as_saved] * 12 + [compressed, with_a_member_twice, with_a_huge_member]


# --- every public use of a trace that was loaded --------------------------------------------------


def _task() -> fw.Task:
    return fw.Task(blobs(), linear, shard_size=4, batch=4, epochs=1, eta=0.1)


def _properties(trace: fw.Trace) -> object:
    names = [name for name in dir(fw.Trace) if isinstance(getattr(fw.Trace, name), property)]
    for name in names:
        with suppress(fw.FedwaveError):
            getattr(trace, name)
    return len(names)


def uses(folder: Path) -> dict[str, Callable[[fw.Trace], object]]:
    """By name; each gets the loaded trace."""
    import matplotlib.pyplot as plt

    from fedwave.experiments.results.container import unit_dataset

    def plot(trace: fw.Trace) -> None:
        fw.train(trace, _task()).plot()
        plt.close("all")

    return {
        "properties": _properties,
        "repr": repr,
        "html": lambda trace: trace._repr_html_(),
        "to_xarray": lambda trace: trace.to_xarray().load(),
        "same_as": lambda trace: trace.same_as(trace),
        "metric_memory": lambda trace: [trace.metric_memory(name) for name in trace.metrics],
        "save": lambda trace: fw.Trace.load(trace.save(folder / "again.npz")),
        "extend": lambda trace: fw.extend(trace, trace.rounds + 3),
        "remake": fw.remake,
        "network": lambda trace: repr(trace.network),
        "bound": lambda trace: fw.backlog_bound(trace.network),
        "train": lambda trace: fw.train([trace], _task()),
        "plot": plot,
        "stages_begun": lambda trace: regret.stages_begun(trace) if trace.beliefs else None,
        "unit_dataset": lambda trace: unit_dataset({trace.label: trace}),
    }


def outcomes(
    files: list[tuple[str, bytes]], folder: Path, only: tuple[str, ...] = ()
) -> tuple[Counter[str], list[str]]:
    """How many calls gave an answer or a refusal, and what gave any other exception."""
    counts: Counter[str] = Counter()
    raw: list[str] = []
    calls = {name: use for name, use in uses(folder).items() if not only or name in only}

    def call(name: str, what: str, use: Callable[[], Any]) -> Any:
        try:
            answer = use()
        except fw.FedwaveError:
            counts["refused"] += 1
            return None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            counts["raw"] += 1
            raw.append(f"{name}: {type(error).__name__}: {str(error)[:120]} <- {what}")
            return None
        counts["answered"] += 1
        return answer

    path = folder / "forged.npz"
    for what, content in files:
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trace = call("load", what, partial(fw.Trace.load, path))
            if trace is None:
                continue
            for name, use in calls.items():
                call(name, what, partial(use, trace))
    return counts, raw
