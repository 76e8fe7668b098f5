"""Measured logs: layouts, values, gaps, matching by name, instances, refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedwave as fw
from fedwave.network.logs import LogArrivals, LogFading

# Small whole numbers as gains are easy to follow, and look wrong.
pytestmark = pytest.mark.filterwarnings("ignore::fedwave.network.plausible.ImplausibleWarning")

# Five seconds of two devices: gate misses second 1, bus seconds 0 and 3, and has two values in second 2.
LONG = """timestamp,device,snr_db
0,gate,10
0,bus,-
2.2,bus,0
1,bus,3
2,gate,20
2.9,bus,10
3,gate,
4,gate,0
4,bus,7
"""
GATE, BUS = [10, 10, 20, 20, 0], [3, 3, 5, 5, 7]  # in dB, with gaps held


def decibels(part):
    return 10 * np.log10(part.record)


def table(network, **more):
    return fw.Network(fw.DeviceTable(rate=1.0, distance_m=[100.0] * len(network), name=tuple(network)), slots=1, **more)


def write_long(folder):
    (folder / "log.csv").write_text(LONG)
    return folder / "log.csv"


def write_wide(folder):
    path = folder / "log.csv"
    path.write_text("Time;gate;bus\n0;10;-\n1;;3\n2;20;\n2.2;;0\n2.9;;10\n3;NaN;\n4;0;7\n")
    return path


def write_files(folder):
    (folder / "logs" / "day").mkdir(parents=True)
    stamp = "2019.11.28_23.59.5{}"  # as drive-test apps write it
    rows = {"gate": [(5, 10), (7, 20), (8, "-"), (9, 0)], "bus": [(5, ""), (6, 3), (7, 0), (7, 10), (9, 7)]}
    (folder / "logs" / "gate.csv").write_text(
        "Timestamp,Speed,SNR\n" + "".join(f"{stamp.format(t)},4,{v}\n" for t, v in rows["gate"])
    )
    (folder / "logs" / "day" / "bus.csv").write_text(  # another day, other columns
        "SNR,Timestamp\n" + "".join(f"{v},{stamp.format(t).replace('11', '12')}\n" for t, v in rows["bus"])
    )
    return folder / "logs"


def write_npz(folder):
    nan, path = np.nan, folder / "log.npz"
    values = [[10, nan], [nan, 3], [20, 0], [nan, 10], [nan, nan], [0, 7]]
    np.savez(path, snr=np.array(values), device=["gate", "bus"], time=np.array([0, 1, 2, 2, 3, 4]))
    return path


def write_columns(folder):
    frame = pd.read_csv(write_long(folder), na_values="-")
    np.savez(folder / "log.npz", **{name: frame[name].to_numpy("U" if name == "device" else float) for name in frame})
    return folder / "log.npz"


LAYOUTS = {
    "long": write_long,
    "wide": write_wide,
    "folder": write_files,
    "pattern": lambda folder: f"{write_files(folder)}/**/*.csv",
    "list": lambda folder: sorted(write_files(folder).rglob("*.csv")),
    "mapping": lambda folder: {one.stem: str(one) for one in write_files(folder).rglob("*.csv")},
    "npz table": write_npz,
    "npz columns": write_columns,
    "frame": lambda folder: pd.read_csv(write_long(folder)),
    "frame by time": lambda folder: pd.read_csv(write_wide(folder), sep=";").set_index(
        pd.to_datetime([0, 1, 2, 2.2, 2.9, 3, 4], unit="s")
    )[["gate", "bus"]],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout(tmp_path, layout):
    part = fw.read_log(LAYOUTS[layout](tmp_path), ["bus", "gate"])
    np.testing.assert_allclose(decibels(part), np.transpose([BUS, GATE]), atol=1e-12)
    assert part.absolute
    assert part.devices == part.summary.used == ("bus", "gate")
    found = part.summary.devices
    assert found["values"].to_dict() == {"gate": 3, "bus": 4}
    assert found["rounds"].to_dict() == {"gate": 5, "bus": 5}
    assert found["filled"].to_dict() == {"gate": 0.4, "bus": 0.4}
    assert found["longest_gap"].to_dict() == {"gate": 1, "bus": 1}
    assert found["mean"].to_dict() == {"gate": 10.0, "bus": 5.0}
    assert part.summary.filled == 0.4
    np.testing.assert_allclose(part.mean_snr(), [(2 * 10**0.3 + 2 * 10**0.5 + 10**0.7) / 5, (20 + 200 + 1) / 5])


def test_one_device_and_tables_without_headings(tmp_path):
    (tmp_path / "gate.csv").write_text("t,SINR [dB]\n0,1\n1,2\n")
    assert fw.read_log(tmp_path / "gate.csv").devices == ("gate",)
    (tmp_path / "bare.csv").write_text("1,2\n3,4\n5,6\n")
    part = fw.read_log(tmp_path / "bare.csv", 2, value="gain", every="1min")
    assert (part.devices, part.record.tolist()) == (("1", "2"), [[1, 2], [3, 4], [5, 6]])
    assert table(["a", "b"], fading=part).fading.devices == ("a", "b")  # numbers are no names
    (tmp_path / "rounds.csv").write_text("gate,bus\n1,2\n3,4\n")
    assert fw.read_log(tmp_path / "rounds.csv", ["bus"], value="gain", time=None).record.tolist() == [[2], [4]]
    np.savez(tmp_path / "bare.npz", np.array([[1.0, 2], [3, 4]]))
    assert fw.read_log(tmp_path / "bare.npz", 2, value="gain").record.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("value", "given", "record"),
    [
        ("snr_db", [10, 20], [10, 100]),
        ("gain_db", [10, -10], [10, 0.1]),
        ("gain", [0, 2.5], [0, 2.5]),
        ("rsrp_dbm", [-115, -105], [10, 100]),
        ("count", [0, 7], [0, 7]),
    ],
)
def test_a_value(value, given, record):
    part = fw.read_log(pd.DataFrame({"time": [0, 1], "device": "a", value: given}), ["a"], value=value)
    np.testing.assert_allclose(part.record[:, 0], record, rtol=1e-12)
    if value == "count":
        assert isinstance(part, LogArrivals)
        assert table(["a"], arrivals=part).rates.tolist() == [3.5]
    else:
        assert part.absolute == (value in ("snr_db", "rsrp_dbm"))


def test_the_noise_of_rsrp_is_an_argument():
    frame = pd.DataFrame({"time": [0], "a": [-100.0]})
    np.testing.assert_allclose(fw.read_log(frame, ["a"], "rsrp_dbm", noise_dbm=-110).record, 10)


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [
        ("hold", [1, 1, 1, 5, 5, 5, 2, 2]),
        ("zero", [-np.inf, 1, -np.inf, 5, -np.inf, -np.inf, 2, -np.inf]),
        ("interpolate", [1, 1, 3, 5, 4, 3, 2, 2]),
    ],
)
def test_gaps(gaps, expected):
    frame = pd.DataFrame({"time": [0, 1, 3, 6, 7], "a": [np.nan, 1, 5, 2, np.nan]})
    part = fw.read_log(frame, ["a"], gaps=gaps)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(decibels(part)[:, 0], expected, atol=1e-12)
    assert part.summary.filled == 5 / 8
    assert part.summary.devices["longest_gap"].tolist() == [2]


def test_no_gaps_allowed_but_a_device_without_any_value():
    assert fw.read_log(FRAME, ["bus"], gaps="error").summary.filled == 0


def test_counts_are_added_up_and_gaps_are_empty():
    frame = pd.DataFrame({"time": [0, 0.5, 1, 3], "device": ["a", "a", "b", "a"], "count": [2, 3, 4, 1]})
    part = fw.read_log(frame, ["b", "a"], "count", align="clock")
    assert part.record.tolist() == [[0, 5], [4, 0], [0, 0], [0, 1]]
    assert part.summary.devices["mean"].to_dict() == {"a": 1.5, "b": 1.0}
    assert fw.read_log(frame, ["b", "a"], "count").rounds.tolist() == [1, 4]  # each from its own start


@pytest.mark.parametrize("factor", [1, 1e3, 1e6, 1e9])
def test_times_in_seconds_or_finer(factor):
    """Also with a part of a second, which a float holds inexactly."""
    times = np.round((1_700_000_123 + np.arange(200) / 1000) * factor, 3 if factor == 1 else 0)
    part = fw.read_log(pd.DataFrame({"time": times, "a": np.arange(200.0)}), ["a"], every="1ms", gaps="error")
    np.testing.assert_allclose(decibels(part)[:, 0], np.arange(200))


@pytest.mark.parametrize(
    ("first", "second", "more"),
    [
        ("2020-02-29T23:59:59.5", "2020-03-01T00:00:00.5", {}),
        ("2020-02-29 23:59:59+01:00", "2020-02-29 23:00:00Z", {}),
        ("2019.12.31_23.59.59", "2020.01.01_00.00.00", {}),
        ("2019/12/31 23:59:59", "2020/1/1 0:00:00", {}),
        ("29/02/2020 10:00:00", "29/02/2020 10:00:01", {"time_format": "%d/%m/%Y %H:%M:%S"}),
    ],
)
def test_written_times(first, second, more):
    part = fw.read_log(pd.DataFrame({"Timestamp": [second, first], "a": [2.0, 1.0]}), ["a"], **more)
    np.testing.assert_allclose(decibels(part)[:, 0], [1, 2])


def test_logs_of_other_days_start_together_or_by_the_clock(tmp_path):
    folder = write_files(tmp_path)
    both = fw.read_log(folder, ["gate", "bus"], every="1D", align="clock", gaps="zero")
    assert both.rounds.tolist() == [31, 31]
    assert np.argwhere(both.record).tolist() == [[0, 0], [30, 1]]
    assert fw.read_log(folder, ["gate", "bus"], every="1D").rounds.tolist() == [1, 1]


VALUES = st.one_of(st.none(), st.integers(-30, 30))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 4).flatmap(lambda many: st.lists(st.lists(VALUES, min_size=many, max_size=many), min_size=1)),
    st.sampled_from(["hold", "zero", "interpolate"]),
    st.data(),
)
def test_long_and_wide_tables_of_the_same_data_agree(cells, gaps, data):
    """In any order of rows, at irregular and repeated times, with devices without any value."""
    times = data.draw(st.lists(st.integers(0, 40), min_size=len(cells), max_size=len(cells)))
    names = [f"d{u}" for u in range(len(cells[0]))]
    wide = pd.DataFrame(cells, columns=names, dtype=float).assign(time=np.array(times) / 4)
    long = wide.melt("time", var_name="device", value_name="snr_db").sample(frac=1, random_state=1)
    chosen = data.draw(st.permutations(names))
    how = {"gaps": gaps, "without": "silent"}
    one, two = (fw.read_log(frame, chosen, align=align, **how) for frame, align in ((wide, "start"), (long, "clock")))
    np.testing.assert_allclose(one.record, two.record)
    assert one.rounds.tolist() == two.rounds.tolist()
    pd.testing.assert_frame_equal(one.summary.devices, two.summary.devices)
    assert (one.summary.used, one.summary.silent) == (two.summary.used, two.summary.silent)


def test_what_spreadsheets_leave_behind(tmp_path):
    """A saved index, fields after the last comma, capitals, spaces, quotes, Windows' ends of lines, short lines."""
    path = tmp_path / "log.csv"
    for text in (
        ",time,gate,bus\n0,0,1,2\n1,1,3,4\n",
        "time,gate,bus,\n0,1,2,\n1,3,4,\n",
        '# Time , "Gate", "Bus" \r\n0, 1, 2\r\n\r\n1, 3, 4\r\n'.replace("Gate", "gate").replace("Bus", "bus"),
        "# measured by me, in June\n# sampled by hand\ntime,gate,bus\n0,1,2\n1,3,4\n",
        "\ufefftime;bus;gate\n1;4;3\n0;2;1\n",
    ):
        path.write_bytes(text.encode())
        np.testing.assert_allclose(decibels(fw.read_log(path, ["gate", "bus"])), [[1, 2], [3, 4]], err_msg=text)
        assert len(fw.read_log(path).devices) == 2
    path.write_text("time,gate,bus\n0,1\n1,3,4\n")
    assert fw.read_log(path).summary.devices["values"].to_dict() == {"gate": 2, "bus": 1}


# --- devices ----------------------------------------------------------------------------------------

FRAME = pd.DataFrame(
    {"time": [0, 1, 2], "node10": [3.0, 4, 5], "node2": [1.0, 1, 1], "quiet": [np.nan] * 3, "bus": [7.0, 7, 7]}
)
LONG_FRAME = FRAME.melt("time", var_name="device", value_name="snr")


def test_devices_are_matched_by_name():
    network = table(["bus", "node2"])
    for devices in (
        network,
        network.table,
        ["bus", "node2"],
        [fw.Device(1, 1, name="bus"), fw.Device(1, 1, name="node2")],
    ):
        part = fw.read_log(FRAME, devices)
        np.testing.assert_allclose(decibels(part)[0], [7, 1])
        assert (part.summary.used, part.summary.unused) == (("bus", "node2"), ("node10",))
        assert part.summary.without == ("quiet",)
    whole = fw.read_log(FRAME)
    np.testing.assert_allclose(10 * np.log10(table(["node2", "bus"], fading=whole).mean_snr), [1, 7])
    np.testing.assert_allclose(10 * np.log10(network.replace(fading=whole).mean_snr), [7, 1])
    for word in ("quiet", "node10", "7.00"):
        assert word in str(part.summary)


def test_a_mapping_names_its_devices_and_a_folder_sorts_them(tmp_path):
    """A phone writes its model into a column that is called device."""
    for name in ("node10", "node2"):
        (tmp_path / f"{name}.csv").write_text(f"time,device,snr\n0,SM-G950,{name[4:]}\n")
    part = fw.read_log({"bus": tmp_path / "node10.csv", "gate": tmp_path / "node2.csv"}, ["gate", "bus"])
    np.testing.assert_allclose(decibels(part), [[2, 10]])
    np.testing.assert_allclose(decibels(fw.read_log(tmp_path, ["node2", "node10"])), [[2, 10]])
    for name in ("node10", "node2"):
        (tmp_path / f"{name}.csv").write_text(f"time,snr\n0,{name[4:]}\n")
    assert fw.read_log(tmp_path, 2).devices == fw.read_log(f"{tmp_path}/*.csv", 2).devices == ("node2", "node10")


def test_a_number_takes_the_first_devices():
    assert fw.read_log(FRAME, 2).devices == ("node10", "node2")  # the order of the columns
    assert fw.read_log(LONG_FRAME, 2).devices == ("bus", "node2")  # by name, numbers by size
    assert fw.read_log(LONG_FRAME, 3, without="drop").devices == ("bus", "node2", "node10")
    unnamed = fw.Network(fw.DeviceTable(rate=1, distance_m=[1, 2, 3]), fading=fw.read_log(LONG_FRAME, without="drop"))
    assert unnamed.fading.devices == ("bus", "node2", "node10")


def test_devices_without_values_are_refused_or_silent():
    for devices, named in ((["bus", "quiet"], "quiet"), (["bus", "nodeX"], "nodeX"), (4, "quiet")):
        with pytest.raises(fw.FedwaveError) as error:
            fw.read_log(LONG_FRAME, devices)
        assert named in str(error.value)
        assert "without=" in str(error.value)
    part = fw.read_log(FRAME, ["quiet", "bus", "nodeX"], without="silent")
    assert part.summary.silent == ("quiet", "nodeX")
    network = table(["quiet", "bus", "nodeX"], fading=part)
    trace = fw.simulate(network.replace(slots=3), "age", rounds=30, instances=2)
    assert trace.delivered[..., [0, 2]].sum() == 0
    assert trace.delivered[..., 1].all()
    assert np.isfinite(trace.gain).all()


# --- rounds and instances ---------------------------------------------------------------------------


def test_an_absolute_log_is_the_snr(play):
    frame = pd.DataFrame({"time": [0, 1, 2], "a": [0.0, 10, 20], "b": [3.0, 3, 3]})
    network = table(["a", "b"], fading=fw.read_log(frame))
    played = play(network, 70, 3, first=60)
    rows = 10 ** (frame[["a", "b"]].to_numpy() / 10)[np.arange(59, 70) % 3]
    np.testing.assert_allclose(played.snr, np.repeat(rows[:, None], 3, axis=1))
    np.testing.assert_allclose(network.mean_snr, [37, 10**0.3])
    np.testing.assert_allclose(played.gain * network.mean_snr, played.snr)
    np.testing.assert_array_equal(played.success, network.success.probability(played.snr))
    far = network.replace(devices=network.table.replace(distance_m=4000.0))
    np.testing.assert_array_equal(play(far, 3).snr, play(network, 3).snr)
    quartiles = network.fading.quartiles()
    np.testing.assert_allclose(quartiles, np.quantile(rows[:3] / [37, 10**0.3], [0.25, 0.5, 0.75]), rtol=1e-6)


def test_a_gain_is_multiplied_by_the_mean_snr(play):
    frame = pd.DataFrame({"time": [0, 1], "a": [0.5, 2.0]})
    network = table(["a"], fading=fw.read_log(frame, value="gain"))
    played = play(network, 4)
    assert played.gain[:, 0, 0].tolist() == [0.5, 2, 0.5, 2]
    np.testing.assert_allclose(played.snr[:, 0, 0], network.mean_snr[0] * played.gain[:, 0, 0])
    assert network.mean_snr == table(["a"]).mean_snr


def test_the_mean_is_that_of_the_own_rounds():
    frame = pd.DataFrame({"time": [0, 1, 2, 0, 1], "device": list("aaabb"), "snr": [0.0, 10, 20, 10, 20]})
    part = fw.read_log(frame, ["a", "b"])
    np.testing.assert_allclose(part.mean_snr(), [37, 55])
    gains = [1 / 37, 10 / 37, 100 / 37, 10 / 55, 100 / 55]
    np.testing.assert_allclose(part.quartiles(), np.quantile(gains, [0.25, 0.5, 0.75]))


def test_each_device_repeats_after_its_own_end(play):
    frame = pd.DataFrame({"time": [0, 1, 2, 0, 1], "device": list("aaabb"), "count": [1, 2, 3, 4, 5]})
    network = table(["a", "b"], arrivals=fw.read_log(frame, value="count"))
    played = play(network, 7)
    assert played.arrivals[:, 0].T.tolist() == [[1, 2, 3, 1, 2, 3, 1], [4, 5, 4, 5, 4, 5, 4]]
    assert network.rates.tolist() == [2, 4.5]
    once = table(["a", "b"], arrivals=fw.read_log(frame, value="count", repeat=False))
    once.check_run(2, np.array([0]))
    with pytest.raises(fw.FedwaveError, match="b covers 2 rounds"):
        once.check_run(3, np.array([0]))
    assert play(once, 2).arrivals[:, 0].T.tolist() == [[1, 2], [4, 5]]


@pytest.mark.parametrize("align", ["start", "clock"])
def test_instances_start_at_random_places(play, align):
    times, many = np.tile(np.arange(500), 3), 40
    frame = pd.DataFrame({"time": times, "device": np.repeat(["a", "b", "c"], 500), "gain": times + 1.0})
    part = fw.read_log(frame, value="gain", align=align, offset="random")
    assert not part.shared
    network = table(["a", "b", "c"], fading=part)
    whole = play(network, 130, many).gain
    assert len(set(whole[0, :, 0])) > many / 2
    np.testing.assert_array_equal(whole, (whole[0] - 1 + np.arange(130)[:, None, None]) % 500 + 1)
    np.testing.assert_array_equal(play(network, 130, [7], first=100).gain, whole[99:, [7]])
    same = [len(set(row)) == 1 for row in whole[0]]
    assert all(same) if align == "clock" else not any(same)
    assert "gains" in network.random_parts
    assert (play(network, 1, many, seed=1).gain != whole[0]).any()


def test_a_shared_log_is_not_covered_by_intervals():
    network = table(["bus", "node2"], fading=fw.read_log(FRAME))
    assert network.fading.shared
    assert "gains" not in network.random_parts


def test_gains_and_arrivals_of_one_log_keep_their_offset(play):
    frame = pd.DataFrame({"time": np.arange(90), "a": np.arange(90.0)})
    parts = [fw.read_log(frame, value=value, offset="random") for value in ("gain", "count")]
    played = play(table(["a"], fading=parts[0], arrivals=parts[1]), 20, 5)
    np.testing.assert_array_equal(played.gain, played.arrivals)


def test_a_trace_and_a_pickle_keep_a_log(tmp_path):
    part = fw.read_log(FRAME, ["bus", "node10"], offset="random")
    network = table(["bus", "node10"], fading=part)
    trace = fw.simulate(network, "max-weight", rounds=80, instances=2)
    trace.save(tmp_path / "trace.npz")
    again = fw.extend(fw.Trace.load(tmp_path / "trace.npz"), rounds=100)
    longer = fw.simulate(network, "max-weight", rounds=100, instances=2)
    np.testing.assert_array_equal(again.gain, longer.gain)
    np.testing.assert_array_equal(again.backlog, longer.backlog)
    assert str(pickle.loads(pickle.dumps(part)).summary) == str(part.summary)


def test_the_fading_keeps_the_contract():
    part = fw.read_log(FRAME, ["bus", "node10"], offset="random")
    fw.check(part, network=table(["bus", "node10"], fading=part))


# --- fading traces ----------------------------------------------------------------------------------


def test_an_ns3_fading_trace(tmp_path, play):
    """Gains in dB, a line per resource block and a number each millisecond; devices start apart."""
    blocks = np.array([[0.0, 10, 20, -10], [0.0, 0, 0, 0]])
    path = tmp_path / "trace.fad"
    path.write_text("\n".join(" ".join(f"{x:.6e}" for x in row) for row in blocks))
    mean = (10 ** (blocks / 10)).mean(axis=0)
    part = fw.read_log(path, 2, value="gain_db", every="1ms")
    assert not part.absolute
    np.testing.assert_allclose(part.record, np.transpose([mean, np.roll(mean, -2)]), rtol=1e-5)
    network = table(["a", "b", "c"], fading=fw.read_log(path, value="gain_db", every="2ms"))
    np.testing.assert_allclose(play(network, 3).gain[:, 0, 0], np.resize(mean.reshape(2, 2).mean(axis=1), 3), rtol=1e-5)
    with pytest.raises(fw.FedwaveError, match="gain_db"):
        fw.read_log(path, 2)


# --- refusals ---------------------------------------------------------------------------------------


def frame_of(**columns):
    return pd.DataFrame({"time": [0, 1, 2], **columns})


REFUSED = {
    "value": (lambda: fw.read_log(FRAME, value="snr"), ("value", "'snr'", "snr_db")),
    "gaps": (lambda: fw.read_log(FRAME, gaps="fill"), ("gaps", "'fill'")),
    "align": (lambda: fw.read_log(FRAME, align=3), ("align", "3")),
    "every": (lambda: fw.read_log(FRAME, every="soon"), ("every", "soon")),
    "every zero": (lambda: fw.read_log(FRAME, every=0), ("every", "0")),
    "every negative": (lambda: fw.read_log(FRAME, every="-1s"), ("every", "-1s")),
    "every nan": (lambda: fw.read_log(FRAME, every=np.nan), ("every", "nan")),
    "offset of rounds": (lambda: fw.read_log(FRAME, offset=["random"]), ("offset", "['random']")),
    "without a list": (lambda: fw.read_log(FRAME, without=["drop"]), ("without", "['drop']")),
    "time": (lambda: fw.read_log(FRAME, time=3), ("time", "3")),
    "repeat": (lambda: fw.read_log(FRAME, repeat="no"), ("repeat", "'no'")),
    "without": (lambda: fw.read_log(FRAME, without="skip"), ("without", "'skip'")),
    "offset": (lambda: fw.read_log(FRAME, offset=5), ("offset", "5")),
    "offset of a record that ends": (lambda: fw.read_log(FRAME, offset="random", repeat=False), ("offset", "repeat")),
    "noise": (lambda: fw.read_log(FRAME, noise_dbm="low"), ("noise_dbm", "low")),
    "devices": (lambda: fw.read_log(FRAME, "bus"), ("devices", "bus")),
    "devices twice": (lambda: fw.read_log(FRAME, ["bus", "bus"]), ("devices", "bus")),
    "no devices": (lambda: fw.read_log(FRAME, []), ("devices", "[]")),
    "half a device": (lambda: fw.read_log(FRAME, 2.5), ("devices", "2.5")),
    "too many devices": (lambda: fw.read_log(FRAME, 9), ("4 devices", "9")),
    "counts held": (lambda: fw.read_log(FRAME, value="count", gaps="hold"), ("gaps", "hold", "counts")),
    "a gap": (lambda: fw.read_log(frame_of(a=[1, np.nan, np.nan]), gaps="error"), ("device a", "2 of 3", "round 2")),
    "text": (lambda: fw.read_log(frame_of(a=["1", "loud", "2"])), ("'a'", "row 2", "loud")),
    "infinite": (lambda: fw.read_log(frame_of(a=[1, np.inf, 2])), ("row 2", "inf", "dB")),
    "a large number": (lambda: fw.read_log(frame_of(a=[1, 2, 99999])), ("row 3", "99999", "empty")),
    "a negative gain": (lambda: fw.read_log(frame_of(a=[1, -3, 2]), value="gain"), ("row 2", "-3", "dB")),
    "half a count": (lambda: fw.read_log(frame_of(a=[1, 0.5, 2]), value="count"), ("row 2", "0.5", "whole")),
    "no time": (lambda: fw.read_log(pd.DataFrame({"a": [1.0]})), ("timestamp", "time=None")),
    "a wrong time": (lambda: fw.read_log(pd.DataFrame({"time": ["2020-01-01", "soon"], "a": 1.0})), ("row 2", "soon")),
    "an unclear date": (
        lambda: fw.read_log(pd.DataFrame({"time": ["01/02/2020"], "a": 1.0})),
        ("01/02/2020", "format"),
    ),
    "a time far away": (lambda: fw.read_log(pd.DataFrame({"time": [1e300], "a": 1.0})), ("1e+300",)),
    "a year of microseconds": (
        lambda: fw.read_log(pd.DataFrame({"time": [0, 3e7], "a": 1.0}), every="1us"),
        ("30,000,000,000,001 rounds", "every"),
    ),
    "no column": (lambda: fw.read_log(FRAME, column="rsrp"), ("'rsrp'", "column")),
    "no device column": (lambda: fw.read_log(pd.DataFrame({"time": [0]})), ("column", "device")),
    "no rows": (lambda: fw.read_log(FRAME.iloc[:0]), ("row",)),
    "a device that is NaN": (
        lambda: fw.read_log(pd.DataFrame({"time": [0, 1], "device": [3.0, np.nan], "snr": [1, 2]})),
        ("name", "device"),
    ),
    "a time that is NaN": (lambda: fw.read_log(pd.DataFrame({"time": [0, np.nan], "a": 1.0})), ("row 2", "nan")),
    "headings of two levels": (
        lambda: fw.read_log(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))),
        ("time", "('a', 1)"),
    ),
    "counts beyond a billion": (
        lambda: fw.read_log(pd.DataFrame({"time": [0, 0], "a": 1e9}), value="count"),
        ("log", "1e+09"),
    ),
    "a device without a name": (
        lambda: fw.read_log(pd.DataFrame({"time": [0], "device": [""], "snr": [1]})),
        ("name", "device"),
    ),
    "an unprintable device": (
        lambda: fw.read_log(pd.DataFrame({"time": [0], "device": ["a\x1b[2J"], "snr": [1]})),
        ("x1b", "printable"),
    ),
    "harq": (lambda: table(["bus"], fading=fw.read_log(FRAME), success="harq"), ("HARQ", "log")),
    "shadowing": (lambda: fw.fading.Shadowing(fading=fw.read_log(FRAME)), ("Shadowing", "LogFading")),
    "not a path": (lambda: fw.read_log(3), ("log", "3", "path")),
    "arrivals as fading": (lambda: table(["bus"], fading=fw.read_log(FRAME, value="count")), ("fading", "LogArrivals")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    call, words = REFUSED[case]
    with pytest.raises(fw.FedwaveError) as error:
        call()
    sentence = str(error.value)
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence
    assert len(sentence) < 500


def test_texts_for_no_value():
    frame = frame_of(a=["N/A", "1", "2147483647"])
    assert fw.read_log(frame).summary.devices["values"].tolist() == [1]


HOSTILE = {
    "empty": (b"", "log.csv"),
    "blank": (b"\n \n\n", "log.csv"),
    "heading only": (b"time,device,snr_db\n", "log.csv"),
    "binary": (bytes(range(256)) * 20, "log.csv"),
    "zeros": (b"\0" * 500, "log.csv"),
    "utf-16": ("time,a\n0,1\n".encode("utf-16"), "log.csv"),
    "one column": (b"time\n0\n1\n", "log.csv"),
    "no columns of numbers": (b"a,b\nx,y\n", "log.csv"),
    "columns twice": (b"time,a,a\n0,1,2\n", "log.csv"),
    "more fields than headings": (b"time,a\n0,1,2,3\n1,2\n", "log.csv"),
    "an open quote": (b'time,a\n0,"1\n1,2\n', "log.csv"),
    "huge": (b"time,a\n0,1e999\n1,2\n", "log.csv"),
    "digits": (b"time,a\n0," + b"9" * 5000 + b"\n", "log.csv"),
    "decimal commas": (b"time;a\n0;1,5\n", "log.csv"),
    "html": (b"<html><body>404</body></html>", "log.csv"),
    "not an archive": (b"PK\x03\x04 nonsense", "log.npz"),
    "no numbers": (b"0 1 x\n", "log.fad"),
    "unequal lines": (b"0 1\n2\n", "log.fad"),
    "nan in a trace": (b"0 nan\n", "log.fad"),
    "a date far away": (b"time,a\n2819-11-28 07:27:46,1\n", "log.csv"),
    "a long heading": (b"time," + b"a" * 200_000 + b"\n0,x\n", "log.csv"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files(tmp_path, case):
    content, name = HOSTILE[case]
    (tmp_path / name).write_bytes(content)
    value = "gain_db" if name.endswith("fad") else "snr_db"
    with pytest.raises(fw.FedwaveError) as error:
        fw.read_log(tmp_path / name, value=value)
    assert str(tmp_path / name) in str(error.value)
    assert len(str(error.value)) < 600
    assert "\n" not in str(error.value)


def test_hostile_archives_and_places(tmp_path):
    np.savez(tmp_path / "pickle.npz", a=np.array([{}], dtype=object))
    np.savez(tmp_path / "three.npz", a=np.zeros((2, 2, 2)))
    np.savez(tmp_path / "lengths.npz", time=np.zeros(2), a=np.zeros(3))
    np.savez(tmp_path / "names.npz", snr=np.zeros((2, 2)), device=["a", "b", "c"])
    np.savez(tmp_path / "times.npz", snr=np.zeros((2, 2)), time=np.zeros(3))
    np.savez(tmp_path / "two.npz", snr=np.zeros((2, 2)), rsrp=np.zeros((2, 2)))
    np.savez(tmp_path / "nothing.npz")
    (tmp_path / "void").mkdir()
    names = ["pickle", "three", "lengths", "names", "times", "two", "nothing"]
    for place in [*(f"{name}.npz" for name in names), "void", "missing.csv", "*.parquet"]:
        with pytest.raises(fw.FedwaveError) as error:
            fw.read_log(tmp_path / place)
        assert place in str(error.value)


def test_a_record_of_a_stranger_is_checked():
    fine = {"record": np.ones((3, 2)), "rounds": np.array([3, 2]), "devices": ("a", "b")}
    assert LogFading(**fine).mean_snr().tolist() == [1, 1]
    wrong = [{"record": np.full((3, 2), np.nan)}, {"record": -np.ones((3, 2))}, {"record": np.ones((3, 2, 2))}]
    wrong += [
        {"rounds": np.array([4, 2])},
        {"rounds": np.array([3])},
        {"rounds": np.array([-1, 2])},
        {"devices": ("a",)},
    ]
    for changed in [*wrong, {"offset": "early"}, {"without": 3}, {"devices": (1, 2)}]:
        with pytest.raises(fw.FedwaveError):
            LogFading(**fine | changed)


def test_a_time_format_that_does_not_exist(tmp_path):
    (tmp_path / "log.csv").write_text("time,device,snr_db\n2020-01-01,a,3\n")
    with pytest.raises(fw.FedwaveError, match="time_format"):
        fw.read_log(tmp_path / "log.csv", ["a"], time_format="%Q")


def test_a_time_far_away_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("time,device,snr_db\n0,a,3\n1,a,4\n900000000,a,5\n")
    with pytest.raises(fw.FedwaveError, match="3 values for 900,000,001 rounds"):
        fw.read_log(tmp_path / "log.csv", ["a"])
    assert len(fw.read_log(tmp_path / "log.csv", ["a"], every="1D").record) == 10_417
