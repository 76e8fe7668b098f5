"""Traces as values and as files: compared, saved, loaded, continued, and refused when damaged."""

import dataclasses
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from summed import archive

import fedwave as fw
from fedwave.files.archive import CHECKSUM, HEADER


def run(scheduler="balsa", rounds=5, instances=2, **options):
    return fw.simulate(fw.paper_network(), scheduler, rounds, instances, seed=4, **options)


def base_traces():
    """Small runs of several kinds: full and summary, with beliefs, names, a list of slots and a metric more."""
    named = [fw.Device(rate=r, distance_m=90 + 60 * r, name=f"d{r}", buffer_limit=6) for r in range(1, 6)]
    net = fw.Network(named, slots=2)
    fading = net.replace(fading="gauss-markov:correlation=0.5", miss_probability=0.3)
    return [
        fw.simulate(net, "balsa", 4, [3, 1], seed=2, beliefs=True),
        fw.simulate(fading, "balsa-po:stage_rule=per-device", 3, 2, beliefs=True),
        fw.simulate(net.replace(slots=[2, 0, 1, 2, 2, 2, 2]), "round-robin", 4, 2, record="summary"),
        fw.simulate(net, "proportional-fair", 4, 2, metrics=["mass:aggregation=fedbuff:size=2"]),
        fw.simulate(net, "mass-labels", 4, 2, labels=fw.partition.Labels("by-class", 3, 4)),
    ]


def changed(array):
    """A copy that differs in its first number."""
    copy = array.copy()
    first = copy.flat[0]
    copy.flat[0] = not first if copy.dtype == bool else first + 1 if np.isfinite(first) else 1
    return copy


@pytest.mark.parametrize("group", ["series", "devices", "beliefs", "accumulated", "state", "memories"])
def test_same_as_sees_every_difference(group):
    trace = run(beliefs=True)
    assert trace.same_as(run(beliefs=True))
    for name, array in getattr(trace, group).items():
        if array.size:
            other = dataclasses.replace(trace, **{group: getattr(trace, group) | {name: changed(array)}})
            assert not trace.same_as(other), name
    assert not trace.same_as(run())  # without beliefs
    assert not trace.same_as(run(rounds=4, beliefs=True))


def test_representations_are_short_and_a_notebook_shows_a_table():
    trace = run()
    assert len(repr(trace).splitlines()) == 2
    page = trace._repr_html_()
    assert page.count("<tr>") == 1 + len(trace.series)
    assert f"{trace.backlog.mean():.4g}" in page
    frame = trace.to_xarray()
    np.testing.assert_array_equal(frame.waiting, trace.waiting)
    np.testing.assert_array_equal(frame.device_lost, trace.lost)
    assert frame.sizes["round"] == trace.rounds


# --- what is saved can be read --------------------------------------------------------------------


class OwnScore(fw.Metric):
    """Like the built-in score, with numbers, a type and a range of its own."""

    name, over_rounds = "own_score", "max"

    def measure(self, state, played):
        return state, np.where(played.score > 3, np.nan, 0).astype(np.float32)


class Narrow(fw.Scheduler):
    """Its beliefs are two numbers of each instance, not one of each device."""

    name = "narrow"

    def start(self, problem):
        return {"pair": np.zeros((problem.instances, 2))}

    def priority(self, state, seen, draws):
        return seen.delay

    def beliefs(self, state):
        return state


@pytest.mark.parametrize("record", ["full", "summary"])
def test_parts_of_a_user_may_have_types_and_ranges_of_their_own(record, tmp_path):
    net = fw.paper_network()
    trace = fw.simulate(net, "age", 5, 2, record=record, metrics=[OwnScore()])
    assert fw.Trace.load(trace.save(tmp_path / "t.npz")).same_as(trace)
    narrow = fw.simulate(net, Narrow(), 3, 2, beliefs=True)
    assert narrow.to_xarray()["belief_pair"].dims == ("round", "instance", "pair_2")


def test_what_is_saved_is_read(tmp_path):
    for trace in base_traces():
        assert fw.Trace.load(trace.save(tmp_path / "t.npz")).same_as(trace)


def test_a_trace_with_arrays_in_another_order_of_memory(tmp_path):
    trace = run()
    turned = {name: np.asfortranarray(array) for name, array in trace.devices.items()}
    strided = {name: np.repeat(array, 2, axis=0)[::2] for name, array in trace.series.items()}
    path = dataclasses.replace(trace, devices=turned, series=strided).save(tmp_path / "t.npz")
    assert fw.Trace.load(path).same_as(trace)


class Hoarder(fw.Scheduler):
    """Keeps Python objects in its state, which no file can hold."""

    name = "hoarder"

    def remember(self, state, seen, decision):
        return {"things": np.array([object()] * seen.problem.instances, dtype=object)}

    def priority(self, state, seen, draws):
        return np.zeros(seen.delay.shape)


def test_what_cannot_be_saved_leaves_the_old_file(saved):
    before = saved.read_bytes()
    with pytest.raises(fw.FedwaveError, match="state/things"):
        run(Hoarder(), 3).save(saved)
    for name in ("trace.pkl", "trace.npz/trace.npz"):  # the second lies below a file
        with pytest.raises(fw.FedwaveError, match=r"trace\.(pkl|npz)"):
            run(rounds=1).save(saved.parent / name)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["trace.npz"]


# --- files that are not what they should be -------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    return run(rounds=3, instances=1).save(tmp_path / "trace.npz")


def members(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def refuses(path, match="is not a trace"):
    with pytest.raises(fw.FedwaveError, match=match) as refusal:
        fw.Trace.load(path)
    assert len(str(refusal.value)) < 600
    assert str(refusal.value).isprintable()


def test_what_is_no_file(tmp_path):
    refuses(tmp_path / "nowhere.npz", "nowhere.npz")


def test_no_flipped_bit_goes_unnoticed(saved):
    trace, content = fw.Trace.load(saved), saved.read_bytes()
    refused = 0
    for at in np.random.default_rng(0).integers(0, 8 * len(content), 400):
        damaged = bytearray(content)
        damaged[at // 8] ^= 1 << at % 8
        saved.write_bytes(damaged)
        try:
            loaded = fw.Trace.load(saved)
        except fw.FedwaveError:
            refused += 1
        else:  # a date, or padding: nothing that was recorded
            assert loaded.same_as(trace)
            assert loaded.setup.packed()[0] == trace.setup.packed()[0]
    assert refused > 200


def test_no_edit_goes_unnoticed(saved):
    """Also of what no check can tell from the truth: a gain, a belief, the seed."""
    honest = members(saved)
    for name in honest.keys() - {CHECKSUM}:
        array = np.array(f"{honest[name]} ") if name == HEADER else honest[name]
        if array.size:
            edited = array if name == HEADER else changed(array)
            np.savez(saved, **(honest | {name: edited}))
            refuses(saved, "checksum")
    np.savez(saved, **{name: a for name, a in honest.items() if name != CHECKSUM})
    refuses(saved, "checksum")
    np.savez(saved, **honest)  # written by another program, with all that it held
    assert fw.Trace.load(saved).same_as(run(rounds=3, instances=1))


class LeavesATrack:
    """Unpickling one of these creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_loading_never_unpickles(saved, tmp_path):
    track = tmp_path / "unpickled"
    trap = {"state/load_before": np.array([LeavesATrack(track)], dtype=object)}
    saved.write_bytes(archive(members(saved) | trap))
    refuses(saved)
    assert not track.exists()
    with np.load(saved, allow_pickle=True) as file:
        file["state/load_before"]  # the trap itself works
    assert track.exists()


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1, -9)"])
def test_a_heading_that_claims_another_size_takes_no_memory(saved, shape):
    heading = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    start = b"\x93NUMPY\x01\x00" + len(heading).to_bytes(2, "little")
    with zipfile.ZipFile(saved, "a") as file:
        file.writestr("state/more.npy", start + heading + bytes(72))
    refuses(saved, "not as large as its heading")


# --- valid checksums, but nothing that fedwave writes ---------------------------------------------


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The arrays and the header of a saved trace."""
    arrays = members(base_traces()[0].save(tmp_path_factory.mktemp("honest") / "t.npz"))
    del arrays[CHECKSUM]
    return arrays, json.loads(str(arrays.pop(HEADER)))


def forged(arrays, header, path, **options):
    path.write_bytes(archive({HEADER: np.array(json.dumps(header)), **arrays}, **options))
    return path


ARRAYS = {
    "series/score": lambda a: a[:, 0],
    "final/waiting": lambda a: a.ravel(),
    "state/theta": lambda a: a[:-1],
    "memories/jain.uploads": lambda a: a.astype(str),
    "devices/learned": lambda a: a.astype("i4"),
    "final/reported": lambda a: a.astype("i4"),
    "accumulated/device_uploads": lambda a: None,
    "devices/more": lambda a: np.ones(3),
}
FIELDS = {
    "instances": [0, 0],
    "seed": "-1",
    "label": ["a"],
    "record": "summary",
    "measured": {"score": 5},
    "device_names": ["a"],
    "channel": {"class": "Popen", "fields": {"args": "ls"}},
    "network": None,
    "more": 1,
    "\x1b]0;title\x07" + 1000 * "a": 1,
}


@pytest.mark.parametrize("name", [*ARRAYS, *FIELDS], ids=lambda name: ascii(name[:30]))
def test_what_fedwave_would_not_write_is_refused(name, honest, tmp_path):
    arrays, header = dict(honest[0]), dict(honest[1])
    if name in FIELDS:
        header[name] = FIELDS[name]
    else:
        arrays[name] = ARRAYS[name](arrays.get(name))
    whole = {key: array for key, array in arrays.items() if array is not None}
    refuses(forged(whole, header, tmp_path / "t.npz"))


def test_files_that_are_refused_for_their_form(honest, tmp_path):
    arrays, header = honest
    refuses(forged(arrays, header, tmp_path / "t.npz", compressed=True), "compressed")
    refuses(forged(arrays, {"format": "trace 99"}, tmp_path / "t.npz"), "trace 99")
    # `over_rounds` names a method of an array: tofile, for example, would write a file.
    score = header["measured"]["score"] | {"over_rounds": "tofile"}
    refuses(forged(arrays, header | {"measured": header["measured"] | {"score": score}}, tmp_path / "t.npz"))


@pytest.mark.parametrize("name", ["network", "scheduler", "metrics"])
def test_parts_that_cannot_be_built_leave_the_numbers(name, honest, tmp_path):
    arrays, header = honest
    whole = fw.Trace.load(forged(arrays, header, tmp_path / "t.npz"))
    turbo = {"family": "success", "name": "turbo", "class": "Turbo", "fields": {"wheels": 4}}
    network = header["network"]
    odd, negative = ({**network, "fields": {**network["fields"], **more}} for more in ({"a\rb": 1}, {"gamma": -1}))
    popen, unprintable = {"class": "Popen", "fields": {"args": "ls"}}, {"class": "a\u202eb", "fields": {}}
    for part in (popen, turbo, odd, negative, unprintable, {"array": "nowhere"}, {"fields": {}}):
        trace = fw.Trace.load(forged(arrays, header | {name: part}, tmp_path / "t.npz"))
        np.testing.assert_array_equal(trace.score, whole.score)
        assert repr(trace) == repr(whole)
        assert trace.device_names == whole.device_names
        assert fw.Trace.load(trace.save(tmp_path / "again.npz")).same_as(trace)
        for needs_it in (fw.remake, lambda trace: fw.extend(trace, 9)):
            with pytest.raises(fw.FedwaveError) as refusal:
                needs_it(trace)
            assert str(refusal.value).isprintable()


def test_states_that_are_not_of_the_scheduler(honest, tmp_path):
    """As after a change of the scheduler or a metric."""
    arrays, header = honest
    for name, array, complaint in (
        ("state/theta", None, "state of balsa"),
        ("state/theta", arrays["state/theta"][:, 0], "state of balsa"),
        ("state/theta", arrays["state/theta"] * 2, "beliefs"),
        ("beliefs/theta", None, "beliefs"),
        ("memories/jain.uploads", None, "memory of jain"),
    ):
        changed = {k: v for k, v in {**arrays, name: array}.items() if v is not None}
        with pytest.raises(fw.FedwaveError, match=complaint):
            fw.extend(fw.Trace.load(forged(changed, header, tmp_path / "t.npz")), 9)
