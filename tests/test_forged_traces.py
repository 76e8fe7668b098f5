"""Traces from a stranger: whatever their arrays and their text say, they are refused or give a right answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from itertools import product
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
    path.write_bytes(archive({"header": np.array(json.dumps(text)), **arrays}))
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
    "devices/arrivals": "does not follow",
    "final/waiting": "does not follow|reported",
    "final/lost": "final/lost does not follow",
    "series/backlog": "score is not what its other numbers give",
    "series/score": "score is not what its other numbers give",
    "accumulated/device_shards": "device_shards is not what its other numbers give",
}


@pytest.mark.parametrize("name", LIES)
def test_a_number_that_the_others_contradict(name: str, honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    with pytest.raises(fw.FedwaveError, match=LIES[name]):
        load({**arrays, name: flipped(arrays[name])}, text, tmp_path / "t.npz")


@pytest.fixture(scope="module")
def summary() -> tuple[dict[str, Any], dict[str, Any]]:
    net = fw.Network([fw.Device(rate=r, distance_m=250, buffer_limit=6) for r in range(1, 6)], slots=2)
    return contents(fw.simulate(net, "max-weight", 12, 3, record="summary"))


def put(value: Any) -> Callable[[Any], Any]:
    """The last number of an array replaced."""

    def changed(array: Any) -> Any:
        array = array.copy()
        array.flat[-1] = value
        return array

    return changed


COUNTED = "backlog, arrived and lost are not those"
OTHER = "is not what its other numbers give"
SERIES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "score float16": ("series/score", lambda a: a.astype("f2"), "score holds float16"),
    "score float32": ("series/score", lambda a: a.astype("f4"), "score holds float32"),
    "score int": ("series/score", lambda a: a.astype("i8"), "score holds int64"),
    "score bool": ("series/score", lambda a: a.astype("?"), "score holds bool"),
    "score big-endian": ("series/score", lambda a: a.astype(">f8"), "score holds >f8"),
    "backlog bool": ("series/backlog", lambda a: a.astype("?"), "backlog holds bool"),
    "uploads float": ("series/uploads", lambda a: a.astype("f8"), "uploads holds float64"),
    "score nan": ("series/score", put(np.nan), "score holds a number that cannot be"),
    "score inf": ("series/score", put(-np.inf), "score holds a number that cannot be"),
    "backlog -5": ("series/backlog", put(-5), "backlog holds a number that cannot be"),
    "jain -3": ("series/jain", put(-3), "jain holds a number that cannot be"),
    "jain 1.1": ("series/jain", lambda a: a * 0 + 1.1, "jain holds a number that cannot be"),
    "mass nan": ("series/mass", put(np.nan), "mass holds a number that cannot be"),
    "score": ("series/score", lambda a: a + 0.005, f"score {OTHER}"),
    "backlog": ("series/backlog", lambda a: a + 1, COUNTED),
    "arrived": ("series/arrived", lambda a: a + 1, COUNTED),
    "lost": ("series/lost", lambda a: a + 1, COUNTED),
    "final lost": ("final/lost", lambda a: a + 1, f"worst_device {OTHER}|{COUNTED}"),
    "delivered_share": ("series/delivered_share", lambda a: a / 2, f"delivered_share {OTHER}"),
    "lost_share": ("series/lost_share", lambda a: a + 0.01, f"lost_share {OTHER}"),
    "worst_device": ("series/worst_device", put(0.123), f"worst_device {OTHER}"),
    "jain": ("series/jain", put(0.321), f"jain {OTHER}"),
    "uploads": ("series/uploads", lambda a: a - (a == a.max()), "uploads"),
    "uploads 4": ("series/uploads", put(4), "more devices delivered than there are slots"),
    "device_uploads": ("accumulated/device_uploads", lambda a: a + 1, "uploads are not those"),
    "device_shards": ("accumulated/device_shards", lambda a: a + 1, f"device_shards {OTHER}"),
    "final delay": ("final/delay", lambda a: a + 90, "final/delay is not that of its deliveries"),
    "final delay 2": ("final/delay", lambda a: np.where(a > 1, 13, 1), "final/delay is not that of its uploads"),
    "mean_age": ("series/mean_age", lambda a: a + 90, "its ages are more than its rounds"),
    "worst_age": ("series/worst_age", lambda a: a + 12, "its ages are more than its rounds"),
    "jain's memory": ("memories/jain.uploads", lambda a: a + 5, "memories/jain.uploads are not"),
    "mass's memory": ("memories/mass.waiting", lambda a: a > 0, "memories/mass.waiting is not a mass"),
    "a column": ("constants/network.devices.rate", lambda a: a.astype("U8"), "network.devices.rate"),
}


@pytest.mark.parametrize("lie", SERIES)
def test_a_summary_that_contradicts_itself(lie: str, summary: Any, tmp_path: Path) -> None:
    arrays, text = summary
    name, change, complaint = SERIES[lie]
    with pytest.raises(fw.FedwaveError, match=complaint):
        load({**arrays, name: change(arrays[name])}, text, tmp_path / "t.npz")


def test_ages_and_backlog_of_a_full_record(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    half = arrays["series/mean_age"] / 2 + 0.5
    with pytest.raises(fw.FedwaveError, match=f"mean_age {OTHER}"):
        load({**arrays, "series/mean_age": half}, text, tmp_path / "t.npz")
    backlog = arrays["series/backlog"].copy()
    backlog[0] -= 1  # one more shard delivered in round 1, one less in round 2: the sums fit
    came = arrays["series/arrived"].cumsum(0)
    learned = came - arrays["series/lost"].cumsum(0) - backlog
    gamma = text["network"]["fields"]["gamma"]
    changes = {
        "series/backlog": backlog,
        "series/score": np.diff(learned, axis=0, prepend=0) - gamma * backlog,
        "series/delivered_share": learned / np.maximum(came, 1),
    }
    with pytest.raises(fw.FedwaveError, match=f"backlog {OTHER}"):
        load({**arrays, **changes}, text, tmp_path / "t.npz")
    gain = arrays["devices/gain"].astype("f2")
    with pytest.raises(fw.FedwaveError, match="devices/gain holds float16"):
        load({**arrays, "devices/gain": gain}, text, tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("metric", "change"),
    [
        ("score", {"over_rounds": "max"}),
        ("device_shards", {"over_rounds": "mean"}),
        ("backlog", {"better": "higher"}),
        ("jain", {"over_rounds": "mean"}),
    ],
)
def test_a_built_in_metric_is_described_as_registered(
    metric: str, change: dict[str, str], summary: Any, tmp_path: Path
) -> None:
    arrays, text = summary
    metrics = {**text["metrics"], metric: {**text["metrics"][metric], **change}}
    with pytest.raises(fw.FedwaveError, match=f"metrics.{metric} is not as it is registered"):
        load(arrays, {**text, "metrics": metrics}, tmp_path / "t.npz")


def test_beliefs_that_are_not_those_of_the_state(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    for name in ("beliefs/theta", "state/theta"):
        trace = load({**arrays, name: arrays[name] * 2}, text, tmp_path / "t.npz")
        with pytest.raises(fw.FedwaveError, match="beliefs in the trace are not those of balsa"):
            fw.extend(trace, 9)


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


class Score(fw.Metric):
    """Stands in the place of the built-in score, with numbers, a type and a range of its own."""

    name, over_rounds = "score", "max"

    def measure(self, state: fw.State, played: Any) -> Any:
        return state, np.where(played.score > 3, np.nan, 0).astype(np.float32)


@pytest.mark.parametrize("record", ["full", "summary"])
def test_what_is_the_users_own_is_not_judged(record: str, tmp_path: Path) -> None:
    net = fw.paper_network().replace(arrivals=Unsigned())
    trace = fw.simulate(net, Renamed(), 5, 2, record=record, metrics=[Score()])
    assert fw.Trace.load(trace.save(tmp_path / "t.npz")).same_as(trace)


def test_every_scheduler_writes_what_is_read(tmp_path: Path) -> None:
    """The checks know no less than the schedulers do: ideals, lists of slots, losses, parameters in the label."""
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
        ("instances", [3, 3]),
        ("instances", [0]),
        ("instances", "01"),
        ("seed", -1),
        ("seed", True),
        ("seed", 0.5),
        ("label", ["a"]),
        ("label", "\ud800"),
        ("record", "summary"),
        ("keep_beliefs", False),
        ("metrics", []),
        ("more_metrics", {}),
        ("scheduler", None),
        ("scheduler_name", None),
        ("chance", [1]),
        ("own_draws", "no"),
        ("scheduler_name", "age"),
        ("label", "age"),
        ("label", "age:x=balsa"),
        ("more_metrics", [{"name": "score"}]),
    ],
)
def test_a_text_that_fedwave_does_not_write(field: str, value: Any, honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        load(arrays, {**text, field: value}, tmp_path / "t.npz")


def test_a_metric_is_described_as_one(honest: Any, tmp_path: Path) -> None:
    """`over_rounds` names a method of an array: tofile, for example, would write a file."""
    arrays, text = honest
    about = {**text["metrics"]["score"], "over_rounds": "tofile"}
    with pytest.raises(fw.FedwaveError, match="over_rounds 'tofile'"):
        load(arrays, {**text, "metrics": {**text["metrics"], "score": about}}, tmp_path / "t.npz")


def test_compressed_archives_are_refused_before_they_take_memory(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    path = tmp_path / "t.npz"
    whole = {"header": np.array(json.dumps(text)), **arrays}
    path.write_bytes(archive(whole, compressed=True))
    with pytest.raises(fw.FedwaveError, match="compressed"):
        fw.Trace.load(path)


def test_columns_of_devices_are_real_numbers(honest: Any, tmp_path: Path) -> None:
    arrays, text = honest
    name = "constants/network.devices.rate"
    with pytest.raises(fw.FedwaveError, match=r"device column 'rate' is .*, must be a number"):
        load({**arrays, name: arrays[name].astype(complex)}, text, tmp_path / "t.npz")


@pytest.mark.parametrize("word", ["a\rb", "\x1b]0;title\x07", "a" * 100_000, "\u202e"])
def test_a_refusal_is_one_short_line(word: str, honest: Any, tmp_path: Path) -> None:
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
