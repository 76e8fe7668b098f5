"""Files of traces with a valid checksum that fedwave would not have written: refused in one sentence, run no code."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_traces import base_traces, contents
from summed import archive

import fedwave as fw
from fedwave.files.archive import HEADER


@pytest.fixture(scope="module")
def honest() -> tuple[dict[str, Any], dict[str, Any]]:
    return contents(base_traces()[0])


def load(arrays: dict[str, Any], header: dict[str, Any], path: Path) -> fw.Trace:
    path.write_bytes(archive({HEADER: np.array(json.dumps(header)), **arrays}))
    return fw.Trace.load(path)


def test_an_honest_trace_is_read(honest: Any, tmp_path: Path) -> None:
    for trace in base_traces():
        assert load(*contents(trace), tmp_path / "t.npz").same_as(trace)


SHAPES = {
    "series/score": lambda a: a[:, 0],
    "series/jain": lambda a: a[:-1],
    "devices/waiting": lambda a: a[..., :-1],
    "beliefs/theta": lambda a: a[:-1],
    "accumulated/device_uploads": lambda a: a[None],
    "final/waiting": lambda a: a.ravel(),
    "final/lost": lambda a: a.T,
    "state/theta": lambda a: a[:-1],
    "memories/jain.uploads": lambda a: np.empty(0),
    "devices/learned": lambda a: a.astype("i4"),
    "devices/arrivals": lambda a: -a - 1,
    "devices/gain": lambda a: a * np.nan,
    "final/delay": lambda a: a.astype(float),
    "final/reported": lambda a: a + 2**60,
}


@pytest.mark.parametrize("name", SHAPES)
def test_arrays_of_a_wrong_shape_type_or_range(name: str, honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        load({**arrays, name: SHAPES[name](arrays[name])}, header, tmp_path / "t.npz")


@pytest.mark.parametrize("kind", ["<c16", "<M8[s]", "<m8[s]", "<U3", "i4,f4"])
def test_arrays_of_another_kind(kind: str, honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    for name in ("series/jain", "devices/gain", "state/theta", "memories/jain.uploads"):
        other = np.zeros(arrays[name].shape, kind)
        with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
            load({**arrays, name: other}, header, tmp_path / "t.npz")


@pytest.mark.parametrize("more", ["series/more", "devices/more", "final/more", "labels/more", "elsewhere/x", "score"])
def test_arrays_that_no_trace_has(more: str, honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        load({**arrays, more: arrays["series/score"]}, header, tmp_path / "t.npz")


DESCRIBED = {"name": "score", "label": "Score", "over_rounds": "mean", "better": "", "per_device": False}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instances", [3, 3]),
        ("instances", [0]),
        ("instances", [0, -1]),
        ("instances", [0, True]),
        ("instances", "01"),
        ("seed", 4),
        ("seed", "-1"),
        ("seed", "9" * 5000),
        ("label", ["a"]),
        ("label", "\ud800"),
        ("record", "summary"),
        ("record", []),
        ("beliefs", 1),
        ("version", 3),
        ("measured", []),
        ("measured", {}),
        ("measured", {"score": 5}),
        ("device_names", "abc"),
        ("device_names", ["a"]),
        ("channel", {"class": "Popen", "fields": {"args": "ls"}}),
        ("channel", [5]),
        ("more", 1),
    ],
)
def test_a_header_that_fedwave_does_not_write(field: str, value: Any, honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        load(arrays, {**header, field: value}, tmp_path / "t.npz")


@pytest.mark.parametrize("change", [{"over_rounds": "tofile"}, {"label": 5}, {"name": "other"}, {"more": 1}], ids=str)
def test_a_metric_is_described_as_one(change: dict[str, Any], honest: Any, tmp_path: Path) -> None:
    """`over_rounds` names a method of an array: tofile, for example, would write a file."""
    arrays, header = honest
    measured = {**header["measured"], "score": DESCRIBED | change}
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        load(arrays, {**header, "measured": measured}, tmp_path / "t.npz")


UNKNOWN = {"class": "Popen", "fields": {"args": "ls"}}, {"array": "nowhere"}, {"fields": {}}


@pytest.mark.parametrize("name", ["network", "scheduler", "metrics"])
def test_parts_that_cannot_be_built_leave_the_numbers(name: str, honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    whole = load(arrays, header, tmp_path / "t.npz")
    for part in UNKNOWN:
        trace = load(arrays, {**header, name: part}, tmp_path / "t.npz")
        np.testing.assert_array_equal(trace.score, whole.score)
        assert repr(trace) == repr(whole)
        assert trace.device_names == whole.device_names
        assert fw.Trace.load(trace.save(tmp_path / "again.npz")).same_as(trace)
        for needs_it in (fw.remake, lambda trace: fw.extend(trace, 9)):
            with pytest.raises(fw.FedwaveError):
                needs_it(trace)


@pytest.mark.parametrize("name", ["network", "scheduler", "metrics"])
@pytest.mark.parametrize("part", [None, 5, [[]], {"family": "success", "name": "soft", "class": "Soft", "fields": {}}])
def test_what_is_not_such_a_part(name: str, part: Any, honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    with pytest.raises(fw.FedwaveError, match=name):
        load(arrays, {**header, name: part}, tmp_path / "t.npz")


def test_a_network_of_another_size(honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    other = contents(fw.simulate(fw.paper_network(), "age", 3, 2))
    constants = {name: array for name, array in other[0].items() if name.startswith("constants/network")}
    with pytest.raises(fw.FedwaveError, match="network"):
        load({**arrays, **constants}, {**header, "network": other[1]["network"]}, tmp_path / "t.npz")


def test_compressed_archives_are_refused_before_they_take_memory(honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    path = tmp_path / "t.npz"
    path.write_bytes(archive({HEADER: np.array(json.dumps(header)), **arrays}, compressed=True))
    with pytest.raises(fw.FedwaveError, match="is compressed"):
        fw.Trace.load(path)


@pytest.mark.parametrize("word", ["a\rb", "\x1b]0;title\x07", "a" * 100_000, "\u202e"])
def test_a_refusal_is_one_short_line(word: str, honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    network = header["network"]
    changes = [
        {"network": {**network, "fields": {**network["fields"], word: 1}}},
        {"network": {**network, "fields": {**network["fields"], "fading": word}}},
        {"network": {**network, "class": word}},
        {"measured": {**header["measured"], word: header["measured"]["lost"]}},
        {"scheduler": {**header["scheduler"], "class": word}},
    ]
    for change in changes:
        with pytest.raises(fw.FedwaveError) as refusal:
            fw.extend(load(arrays, {**header, **change}, tmp_path / "t.npz"), 9)
        sentence = str(refusal.value)
        assert len(sentence) < 600
        assert sentence.isprintable()


# --- a changed scheduler or metric ----------------------------------------------------------------


def test_states_that_are_not_of_the_scheduler(honest: Any, tmp_path: Path) -> None:
    arrays, header = honest
    changes: list[tuple[str, Any, str]] = [
        ("state/theta", None, "state of balsa"),
        ("state/theta", arrays["state/theta"][:, 0], "state of balsa"),
        ("state/theta", arrays["state/theta"] * 2, "beliefs"),
        ("beliefs/theta", arrays["beliefs/theta"] * 2, "beliefs"),
        ("beliefs/theta", None, "beliefs"),
        ("memories/jain.uploads", None, "memory of jain"),
    ]
    for name, array, complaint in changes:
        changed = {k: v for k, v in {**arrays, name: array}.items() if v is not None}
        with pytest.raises(fw.FedwaveError, match=complaint):
            fw.extend(load(changed, header, tmp_path / "t.npz"), 9)


class Renamed(fw.Scheduler):
    """Its name is not that of its class."""

    name = "renamed"

    def __init__(self) -> None:
        self.name = "another"  # type: ignore[misc]

    def priority(self, state: fw.State, seen: fw.Observation, draws: fw.Draws) -> Any:
        return seen.delay


class Unsigned(fw.arrivals.Poisson):
    """Counts without a sign, as a user's own process may draw them."""

    name = "unsigned"

    def sample(self, *given: Any) -> Any:
        return super().sample(*given).astype(np.uint32)


class OwnScore(fw.Metric):
    """Like the built-in score, with numbers, a type and a range of its own."""

    name, over_rounds = "own_score", "max"

    def measure(self, state: fw.State, played: Any) -> Any:
        return state, np.where(played.score > 3, np.nan, 0).astype(np.float32)


@pytest.mark.parametrize("record", ["full", "summary"])
def test_parts_of_a_user_may_have_types_and_ranges_of_their_own(record: str, tmp_path: Path) -> None:
    net = fw.paper_network().replace(arrivals=Unsigned())
    trace = fw.simulate(net, Renamed(), 5, 2, record=record, metrics=[OwnScore()])
    assert fw.Trace.load(trace.save(tmp_path / "t.npz")).same_as(trace)


def test_every_scheduler_writes_what_is_read(tmp_path: Path) -> None:
    """Ideals, lists of slots, losses, parameters in the label."""
    few = [fw.Device(rate=r, distance_m=400, buffer_limit=2) for r in (0.01, 1, 3)]
    networks = [
        fw.Network(few, slots=[2, 0, 3, 1, 1, 2], gamma=0.3),
        fw.Network(few, slots=3, gamma=1),  # a whole number makes whole scores
        fw.Network([fw.Device(rate=0.01, distance_m=90)], slots=1, gamma=1e9),
    ]
    chosen = ["bench", "age", "max-weight", "balsa-po", " balsa:stage_rule=max1 ", {"name": "random"}]
    more = ["mass:aggregation=fedbuff:size=2", "jain"]
    for net, name, record in product(networks, chosen, ["full", "summary"]):
        trace = fw.simulate(net, name, 6, 3, record=record, metrics=more)
        assert fw.Trace.load(trace.save(tmp_path / "t.npz")).same_as(trace)


class Narrow(fw.Scheduler):
    """Its beliefs are two numbers of each instance, not one of each device."""

    name = "narrow"

    def start(self, problem: fw.Problem) -> fw.State:
        return {"pair": np.zeros((problem.instances, 2))}

    def priority(self, state: fw.State, seen: fw.Observation, draws: fw.Draws) -> Any:
        return seen.delay

    def beliefs(self, state: fw.State) -> fw.State:
        return state


def test_beliefs_that_are_not_of_devices_have_an_axis_of_their_own() -> None:
    trace = fw.simulate(fw.paper_network(), Narrow(), 3, 2, beliefs=True)
    assert trace.to_xarray()["belief_pair"].dims == ("round", "instance", "pair_2")
