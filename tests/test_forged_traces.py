"""Traces from a stranger: whatever their arrays and their text say, they are refused or give a right answer."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forging import base_traces, contents, forged, outcomes
from summed import archive

import fedwave as fw


def files(count: int, seed: int) -> list[tuple[str, bytes]]:
    rng = np.random.default_rng(seed)
    bases = [contents(trace) for trace in base_traces()]
    return [forged(rng, *bases[k % len(bases)]) for k in range(count)]


def test_forged_traces_are_refused_or_used_without_a_traceback(tmp_path: Path) -> None:
    counts, raw = outcomes(files(60, seed=1), tmp_path)
    assert not raw, "\n".join(raw)
    assert counts["refused"] > 30
    assert counts["answered"] > 30  # what is still whole, or cannot be told from the truth


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_forged_traces(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts, raw = outcomes(files(100, seed=100 + seed), Path(folder))
    assert not raw, "\n".join(raw)
    assert counts["refused"] > 50


# --- one lie at a time, each by its name ----------------------------------------------------------


@pytest.fixture(scope="module")
def honest() -> tuple[dict[str, Any], dict[str, Any]]:
    return contents(base_traces()[0])


def load(arrays: dict[str, Any], text: dict[str, Any], path: Path) -> fw.Trace:
    path.write_bytes(archive({"provenance": np.array(json.dumps(text)), **arrays}))
    return fw.Trace.load(path)


def test_what_is_not_forged_is_read(honest: Any, tmp_path: Path) -> None:
    for trace in base_traces():
        assert load(*contents(trace), tmp_path / "t.npz").same_as(trace)


def flipped(array: Any) -> Any:
    array = array.copy()
    array.flat[0] = not array.flat[0] if array.dtype == bool else array.flat[0] + 1
    return array


LIES: dict[str, Any] = {
    "devices/waiting": "waiting does not follow",
    "devices/delay": "delay does not follow",
    "devices/learned": "learned does not follow",
    "devices/arrivals": "does not follow|is not the sum",
    "final/waiting": "does not follow|reported",
    "final/lost": "final/lost does not follow",
    "series/backlog": "backlog is not the sum",
    "series/score": "score is not the sum",
    "accumulated/device_shards": "device_shards is not the sum",
}


@pytest.mark.parametrize("name", LIES)
def test_a_number_that_the_others_contradict(name: str, honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    with pytest.raises(fw.FedwaveError, match=LIES[name]):
        load({**arrays, name: flipped(arrays[name])}, text, tmp_path / "t.npz")


def test_more_devices_scheduled_than_slots(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    scheduled = arrays["devices/scheduled"].copy()
    scheduled[0, 0] = True
    with pytest.raises(fw.FedwaveError, match="more devices were scheduled than there are slots"):
        load({**arrays, "devices/scheduled": scheduled}, text, tmp_path / "t.npz")


def test_a_delivery_of_a_device_that_was_not_scheduled(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    scheduled = arrays["devices/scheduled"] & ~arrays["devices/delivered"]
    with pytest.raises(fw.FedwaveError, match="delivered that was not scheduled"):
        load({**arrays, "devices/scheduled": scheduled}, text, tmp_path / "t.npz")


@pytest.mark.parametrize("kind", ["<c16", "<M8[s]", "<m8[s]", "<U3", "i4,f4"])
def test_arrays_of_another_kind(kind: str, honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    for name in ("series/jain", "devices/gain", "state/theta", "memories/jain.uploads"):
        other = np.zeros(arrays[name].shape, kind)
        with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
            load({**arrays, name: other}, text, tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("instances", [3, 3]), ("instances", [0]), ("instances", "01"), ("seed", -1), ("seed", True), ("seed", 0.5),
        ("label", ["a"]), ("label", "\ud800"), ("record", "summary"), ("keep_beliefs", False), ("metrics", []),
        ("more_metrics", {}), ("scheduler", None), ("scheduler_name", None), ("chance", [1]), ("own_draws", "no"),
    ],
)  # fmt: skip
def test_a_text_that_fedwave_does_not_write(field: str, value: Any, honest: Any, tmp_path: Path) -> None:  # fmt: skip
    arrays, text = honest
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        load(arrays, {**text, field: value}, tmp_path / "t.npz")


def test_a_metric_is_described_as_one(honest: Any, tmp_path: Path) -> None:
    """`over_rounds` names a method of an array: tofile, for example, would write a file."""
    arrays, text = honest
    about = {**text["metrics"]["score"], "over_rounds": "tofile"}
    with pytest.raises(fw.FedwaveError, match="over_rounds 'tofile'"):
        load(arrays, {**text, "metrics": {**text["metrics"], "score": about}}, tmp_path / "t.npz")


def test_compressed_archives_are_refused_before_they_take_memory(honest: Any, tmp_path: Path) -> None:  # fmt: skip
    arrays, text = honest
    path = tmp_path / "t.npz"
    whole = {"provenance": np.array(json.dumps(text)), **arrays}
    path.write_bytes(archive(whole, compressed=True))
    with pytest.raises(fw.FedwaveError, match="is compressed, which fedwave never does"):
        fw.Trace.load(path)


def test_columns_of_devices_are_real_numbers(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    name = "constants/network.devices.rate"
    with pytest.raises(fw.FedwaveError, match=r"device column 'rate' is .*, must be a number"):
        load({**arrays, name: arrays[name].astype(complex)}, text, tmp_path / "t.npz")


@pytest.mark.parametrize("word", ["a\rb", "\x1b]0;title\x07", "a" * 100_000, "\u202e"])
def test_a_refusal_is_one_short_line(word: str, honest: Any, tmp_path: Path) -> None:  # fmt: skip
    arrays, text = honest
    network = text["network"]
    forged_texts = [
        {"network": {**network, "fields": {**network["fields"], word: 1}}},
        {"network": {**network, "fields": {**network["fields"], "fading": word}}},
        {"network": {**network, "class": word}},
        {"metrics": {**text["metrics"], word: text["metrics"]["lost"]}},
        {"scheduler": {**text["scheduler"], "class": word}},
    ]
    for change in forged_texts:
        with pytest.raises(fw.FedwaveError) as refusal:
            fw.extend(load(arrays, {**text, **change}, tmp_path / "t.npz"), 9)
        sentence = str(refusal.value)
        assert len(sentence) < 600
        assert sentence.isprintable()


def test_states_that_are_not_the_schedulers(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    for name, array in [("state/counted", -arrays["state/counted"] - 1), ("state/theta", None)]:
        changed = {k: v for k, v in {**arrays, name: array}.items() if v is not None}
        with pytest.raises(fw.FedwaveError, match="the state of balsa in the trace is damaged"):
            fw.extend(load(changed, text, tmp_path / "t.npz"), 9)


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
