"""Traces as values and as files: compared, saved, loaded, and refused when damaged."""

import dataclasses
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from odd_files import device, pipe
from summed import archive

import fedwave as fw
from fedwave.files.archive import CHECKSUM, HEADER


def run(scheduler="balsa", rounds=5, instances=2, **options):
    return fw.simulate(fw.paper_network(), scheduler, rounds, instances, seed=4, **options)


def changed(array):
    """A copy that differs in its first number."""
    copy = array.copy()
    first = copy.flat[0]
    copy.flat[0] = not first if copy.dtype == bool else 1 if np.isinf(first) else first + 1
    return copy


@pytest.mark.parametrize("group", ["series", "devices", "beliefs", "accumulated", "state", "memories"])
def test_same_as_sees_every_difference(group):
    trace = run(beliefs=True)
    assert trace.same_as(run(beliefs=True))
    arrays = getattr(trace, group)
    for name, array in arrays.items():
        if array.size == 0:
            continue  # nothing in it could differ
        other = dataclasses.replace(trace, **{group: arrays | {name: changed(array)}})
        assert not trace.same_as(other), name
        assert not other.same_as(trace), name


def test_same_as_sees_a_difference_in_the_final_counts():
    trace = run()
    for field in dataclasses.fields(trace.final):
        array = changed(getattr(trace.final, field.name))
        final = dataclasses.replace(trace.final, **{field.name: array})
        assert not trace.same_as(dataclasses.replace(trace, final=final)), field.name


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


def test_same_as_sees_what_only_one_of_them_holds():
    assert not run(beliefs=True).same_as(run())
    assert not run().same_as(run(beliefs=True))
    assert not run().same_as(run(rounds=4))


# --- files that are not what they should be -------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    return run(rounds=3, instances=1).save(tmp_path / "trace.npz")


def members(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def rewrite(path, **changes):
    """The same archive with some members replaced (or removed, with None), and the sum of these."""
    arrays = members(path) | changes
    path.write_bytes(archive({name: a for name, a in arrays.items() if a is not None}))


def test_a_missing_file(tmp_path):
    with pytest.raises(fw.FedwaveError, match=r"there is no trace at .*nowhere\.npz"):
        fw.Trace.load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("thing", [pipe, device, Path.mkdir])
def test_what_is_no_file(thing, tmp_path):
    """A pipe would be waited for, and a device has no end."""
    thing(tmp_path / "it.npz")
    reason = "Is a directory" if thing == Path.mkdir else "it is not a regular file"
    with pytest.raises(fw.FedwaveError, match=rf"it\.npz cannot be read: {reason}\.$"):
        fw.Trace.load(tmp_path / "it.npz")


@pytest.mark.parametrize(
    "content",
    [b"", b"score,backlog\n1,2\n", b"PK\x03\x04 and nothing more", b"\x80\x04\x95pickle"],
    ids=["empty", "text", "a torn archive", "a pickle"],
)
def test_a_file_of_another_kind(saved, content):
    saved.write_bytes(content)
    with pytest.raises(fw.FedwaveError, match=r"trace\.npz is not a trace or is damaged"):
        fw.Trace.load(saved)


def test_a_folder_is_not_a_trace(tmp_path):
    with pytest.raises(fw.FedwaveError, match="cannot be read: Is a directory"):
        fw.Trace.load(tmp_path)


def test_an_array_file_is_not_a_trace(tmp_path):
    np.save(tmp_path / "array.npy", np.ones(3))
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        fw.Trace.load(tmp_path / "array.npy")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short(saved, keep):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        fw.Trace.load(saved)


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
            assert loaded.setup.same_as(trace.setup)
    assert refused > 200


EDITED = r"trace\.npz .*checksum"


def refused_as_edited(path, arrays):
    np.savez(path, **arrays)
    with pytest.raises(fw.FedwaveError, match=EDITED):
        fw.Trace.load(path)


@pytest.mark.parametrize("record", ["full", "summary"])
def test_no_edit_of_one_member_goes_unnoticed(record, tmp_path):
    """Also of what no check can tell from the truth: a gain, a belief, the seed."""
    path = run(beliefs=True, record=record).save(tmp_path / "trace.npz")
    honest = members(path)
    assert honest.keys() >= {"series/score", "final/waiting", "beliefs/theta", "memories/mass.waiting"}
    for name in honest.keys() - {HEADER, CHECKSUM}:
        array = honest[name]
        refused_as_edited(path, {key: honest[key] for key in honest if key != name})
        refused_as_edited(path, {("state/x" if key == name else key): honest[key] for key in honest})
        refused_as_edited(path, honest | {name: array[None]})
        refused_as_edited(path, honest | {name: array.astype(complex)})
        if array.size:
            refused_as_edited(path, honest | {name: changed(array)})


def test_no_edit_of_the_text_goes_unnoticed(saved):
    honest = members(saved)
    text = json.loads(str(honest[HEADER]))
    for name in text.keys() - {"format"}:
        edits = [{**text, name: "x"}, {key: text[key] for key in text if key != name}]
        for edit in [*edits, dict(reversed(text.items()))]:
            refused_as_edited(saved, honest | {HEADER: np.array(json.dumps(edit))})
    refused_as_edited(saved, honest | {HEADER: np.array(json.dumps(text, indent=1))})


def test_the_sum_itself_and_the_order_of_the_members(saved):
    honest = members(saved)
    for sum_ in ("", "0" * 64, str(honest[CHECKSUM]).upper()):
        refused_as_edited(saved, honest | {CHECKSUM: np.array(sum_)})
    refused_as_edited(saved, {name: a for name, a in honest.items() if name != CHECKSUM})
    refused_as_edited(saved, dict(reversed(honest.items())))
    np.savez(saved, **honest)  # written by another program, with all that it held
    assert fw.Trace.load(saved).same_as(run(rounds=3, instances=1))


def test_a_trace_with_arrays_in_another_order_of_memory(tmp_path):
    trace = run()
    turned = {name: np.asfortranarray(array) for name, array in trace.devices.items()}
    strided = {name: np.repeat(array, 2, axis=0)[::2] for name, array in trace.series.items()}
    path = dataclasses.replace(trace, devices=turned, series=strided).save(tmp_path / "t.npz")
    assert fw.Trace.load(path).same_as(trace)


@pytest.mark.parametrize("member", [HEADER, "series/score", "final/waiting", "accumulated/device_shards"])
def test_a_trace_with_a_part_missing(saved, member):
    changes = {name: None for name in members(saved) if name.startswith("series/")}
    rewrite(saved, **(changes if member == "series/score" else {member: None}))
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        fw.Trace.load(saved)


@pytest.mark.parametrize("text", ["", "[]", '"words"', "{}", '{"format": '])
def test_a_trace_whose_text_is_damaged(saved, text):
    rewrite(saved, **{HEADER: np.array(text)})
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        fw.Trace.load(saved)


def test_a_trace_of_another_format(saved):
    rewrite(saved, **{HEADER: np.array('{"format": 99}')})
    with pytest.raises(fw.FedwaveError, match="trace 4"):
        fw.Trace.load(saved)


@pytest.mark.parametrize(
    ("origin", "complaint"),
    [
        ({"class": "Popen", "fields": {"args": "ls"}}, "made with Popen, which is not known here"),
        ({"family": "success", "name": "turbo", "class": "Turbo", "fields": {"wheels": 4}}, "made with another Turbo"),
        ({"fields": {}}, "corrupt"),
        ({"class": "Network", "fields": 5}, "corrupt"),
        ({"array": "nowhere"}, "corrupt"),
    ],
)
@pytest.mark.parametrize("part", ["fading", "scheduler"])
def test_only_known_parts_are_built_from_a_file(saved, part, origin, complaint):
    header = json.loads(str(members(saved)[HEADER]))
    holder = header["network"]["fields"] if part == "fading" else header
    holder[part] = origin
    rewrite(saved, **{HEADER: np.array(json.dumps(header))})
    with pytest.raises(fw.FedwaveError, match=complaint):
        fw.extend(fw.Trace.load(saved), 5)


class LeavesATrack:
    """Unpickling one of these creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_loading_never_unpickles(saved, tmp_path):
    track = tmp_path / "unpickled"
    rewrite(saved, **{"state/load_before": np.array([LeavesATrack(track)], dtype=object)})
    with pytest.raises(fw.FedwaveError, match="is not a trace or is damaged"):
        fw.Trace.load(saved)
    assert not track.exists()
    with np.load(saved, allow_pickle=True) as file:
        file["state/load_before"]  # the trap itself works
    assert track.exists()


def test_a_saved_trace_holds_no_pickle(saved):
    with zipfile.ZipFile(saved) as whole:
        for name in whole.namelist():
            with whole.open(name) as member:
                np.lib.format.read_array(member, allow_pickle=False)


class Hoarder(fw.Scheduler):
    """Keeps Python objects in its state, which no file can hold."""

    name = "hoarder"

    def remember(self, state, seen, decision):
        return {"things": np.array([object()] * seen.problem.instances, dtype=object)}

    def priority(self, state, seen, draws):
        return np.zeros(seen.delay.shape)


def test_python_objects_are_refused_when_saving_and_the_old_file_stays(saved):
    before = saved.read_bytes()
    with pytest.raises(fw.FedwaveError, match="state/things holds Python objects"):
        run(Hoarder(), 3).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["trace.npz"]


def test_a_trace_is_saved_as_npz(tmp_path):
    with pytest.raises(fw.FedwaveError, match=r"saved as a \.npz file, not 'trace\.pkl'"):
        run(rounds=1).save(tmp_path / "trace.pkl")


def test_a_place_that_cannot_be_written(saved):
    with pytest.raises(fw.FedwaveError, match=r"cannot be written: .*; choose another place"):
        run(rounds=1).save(saved / "trace.npz")
