"""Device tables: written by hand, read from CSV and YAML, and back again."""

import csv

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import fedwave as fw
from fedwave.files.yaml_text import write_yaml
from fedwave.network.devices import DEVICE_COLUMNS, Device, DeviceTable


@pytest.fixture
def table_from(tmp_path):
    def table_from(text, suffix="csv"):
        path = tmp_path / f"devices.{suffix}"
        path.write_text(text, encoding="utf-8")
        return fw.read_devices(path)

    return table_from


def columns_of(table):
    columns = {name: np.asarray(getattr(table, name)) for name in DEVICE_COLUMNS}
    return {name: column.tolist() for name, column in columns.items() if not np.isnan(column).all()}


WRITTEN = "rate,distance_m,tx_power_dbm,interference_dbm,miss_probability,buffer_limit\n"
DEFAULTS = {
    "rate": [1, 3],
    "distance_m": [100, 200],
    "tx_power_dbm": [23, 23],
    "interference_dbm": [-np.inf, -np.inf],
    "miss_probability": [0, 0],
    "buffer_limit": [np.inf, np.inf],
}
EVERY = DEFAULTS | {"tx_power_dbm": [20, 23], "interference_dbm": [-90, -np.inf], "buffer_limit": [7, np.inf]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WRITTEN + "1,100,20,-90,0,7\n3,200,23,-inf,0,inf\n", EVERY),
        ("distance_m,rate\n100,1\n200,3\n", DEFAULTS),
        ("\ufeffrate,distance_m\r\n1,100\r\n3,200\r\n", DEFAULTS),  # as spreadsheets write it
        ("# measured in spring\n\n rate , distance_m , buffer_limit\n 1 , 100 , \n\n3,200,\n", DEFAULTS),
    ],
    ids=["every column", "defaults", "a spreadsheet's", "comments and blanks"],
)
def test_csv(table_from, text, expected):
    assert columns_of(table_from(text)) == expected


def test_count_stands_for_several_devices_alike(table_from):
    table = table_from("rate,distance_m,count\n1,100,3\n5,200,\n7,300,0\n9,400,2\n")
    assert np.asarray(table.rate).tolist() == [1, 1, 1, 5, 9, 9]
    assert np.asarray(table.distance_m).tolist() == [100, 100, 100, 200, 400, 400]
    assert len(table) == 6


@pytest.mark.parametrize("head", ["", "devices:\n"])
@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_yaml_as_a_list_or_under_devices(table_from, head, suffix):
    text = head + "- {rate: 1, distance_m: 100, count: 2}\n- rate: 5.5\n  distance_m: 4e2\n"
    table = table_from(text, suffix)
    assert np.asarray(table.rate).tolist() == [1, 1, 5.5]
    assert np.asarray(table.distance_m).tolist() == [100, 100, 400]
    assert np.asarray(table.tx_power_dbm).tolist() == [23, 23, 23]


def test_devices_by_hand_as_records_mappings_or_columns():
    by_record = fw.DeviceTable.of([fw.Device(1, 100), fw.Device(2, 200, buffer_limit=3)])
    by_mapping = fw.DeviceTable.of([{"rate": 1, "distance_m": 100}, {"rate": 2, "distance_m": 200, "buffer_limit": 3}])
    by_column = fw.DeviceTable(rate=[1, 2], distance_m=[100, 200], buffer_limit=[np.inf, 3])
    assert columns_of(by_record) == columns_of(by_mapping) == columns_of(by_column)
    assert fw.DeviceTable.of(by_column) is by_column


ODD = fw.DeviceTable(
    rate=[0.1, 1 / 3, 1e-12],
    distance_m=[100.1, 2e4, np.pi],
    interference_dbm=[-np.inf, -97.3, -90],
    miss_probability=[0, 1, 0.1],
    buffer_limit=[0, np.inf, 12],
)


def test_a_table_is_read_as_it_was_written_and_cannot_be_changed(tmp_path):
    assert np.asarray(ODD.replace(rate=4).rate).tolist() == [4] * 3  # one value serves all devices
    with open(tmp_path / "devices.CSV", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns_of(ODD))
        writer.writerows(zip(*columns_of(ODD).values(), strict=True))
    rows = [dict(zip(columns_of(ODD), row, strict=True)) for row in zip(*columns_of(ODD).values(), strict=True)]
    (tmp_path / "devices.yaml").write_text(write_yaml({"devices": rows}))
    trace = fw.simulate(fw.Network(devices=ODD, slots=1), "random", rounds=2, instances=1).save(tmp_path / "trace.npz")
    read = [fw.read_devices(tmp_path / name) for name in ("devices.CSV", "devices.yaml")]
    for table in [*read, fw.Trace.load(trace).network.table]:
        assert columns_of(table) == columns_of(ODD)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(ODD.rate)[0] = 9.0


def test_devices_have_names(tmp_path) -> None:
    file = tmp_path / "named.csv"
    file.write_text("name,count,rate,distance_m\nsensor,2,1,100\n,1,1,200\ngate,1,8,300\n")
    table = fw.read_devices(file)
    assert table.name == ("sensor 1", "sensor 2", "3", "gate")
    assert table.replace(rate=2).name == table.name
    assert "<td>gate</td>" in table._repr_html_()
    by_hand = DeviceTable.of([Device(1, 100, name="a"), {"rate": 1, "distance_m": 50, "name": "b"}])
    trace = fw.simulate(fw.Network(by_hand, slots=1), "age", 3, 1)
    assert trace.device_names == by_hand.name == ("a", "b")
    assert trace.to_xarray()["device"].values.tolist() == ["a", "b"]
    assert fw.Trace.load(trace.save(tmp_path / "t.npz")).network.table.name == ("a", "b")
    assert fw.paper_network().table.name == ()
    with refused("'a'", "two"):
        DeviceTable.of([Device(1, 100, name="a"), Device(1, 100, name="a")])
    for names, tokens in ((("a",), ("names", 1, 2)), ("ab", ("'ab'", "list"))):
        with refused(*tokens):
            DeviceTable(np.ones(2), np.ones(2), name=names)


def test_a_mean_snr_instead_of_a_distance(table_from):
    table = table_from("rate,distance_m,snr_db,interference_dbm\n1,100,,\n3,,12.5,\n3,,12.5,-96\n")
    net = fw.Network(table, slots=1)
    far = fw.Network([fw.Device(1, 100)], slots=1)
    # Interference as strong as the noise halves the ratio.
    np.testing.assert_allclose(net.mean_snr, [far.mean_snr[0], 10**1.25, 10**1.25 / 2], rtol=1e-12)
    assert fw.simulate(net, "alsa-pi", rounds=5, instances=2).scheduled.any()


def test_columns_of_ones_own(table_from, tmp_path):
    table = table_from("name,rate,distance_m,power_class,battery_j,m\na,1,100,6,100,1\nb,3,200,3,50,2.5\n")
    assert table.tx_power_dbm.tolist() == [14, 23]
    assert table.column("m").tolist() == [1, 2.5]
    assert table.replace(rate=2).column("battery_j").tolist() == [100, 50]

    class Careful(fw.Scheduler):
        name = "careful"

        def priority(self, state, seen, draws):
            return np.broadcast_to(seen.problem.column("battery_j"), seen.delay.shape)

    class Spent(fw.Metric):
        name, label = "spent", "battery of those that transmitted"

        def measure(self, state, played):
            return state, (played.decision.transmits * played.network.table.column("battery_j")).sum(axis=1)

    net = fw.Network(table, slots=1)
    trace = fw.simulate(net, Careful(), rounds=3, instances=2, metrics=[Spent()])
    assert trace.scheduled[..., 0].all()
    assert (trace.series["spent"] == 100).all()
    loaded = fw.Trace.load(trace.save(tmp_path / "trace.npz"))
    assert loaded.network.table.column("m").tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("text", "mentioned"),
    [
        ("rate,distance_m,snr_db\n1,100,3\n", "distance_m"),
        ("rate,distance_m,tx_power_dmb\n1,100,3\n", "tx_power_dbm"),
        ("rate,distance_m,power_class\n1,100,4\n", "power_class"),
        ("rate,distance_m,power_class,tx_power_dbm\n1,100,3,20\n", "power_class"),
        ("rate,distance_m,m\n1,100,many\n", "m is"),
        ("rate,distance_m,m\n1,100,1\n1,100,\n", "m is missing"),
        ("rate,snr_db\n1,inf\n", "snr_db"),
    ],
)
def test_columns_that_are_refused(table_from, text, mentioned):
    with pytest.raises(fw.FedwaveError, match=mentioned):
        table_from(text)


def test_a_log_of_measured_snrs_needs_no_distance():
    channel = fw.read_log(pd.DataFrame([[3.0, 9.0], [5.0, 1.0]]), 2, time=None)
    net = fw.Network([{"rate": 1, "count": 2}], slots=1, fading=channel)
    assert fw.simulate(net, "age", rounds=4, instances=1).scheduled.sum() == 4
    with pytest.raises(fw.FedwaveError, match="distance_m"):
        net.replace(fading="rayleigh")


def test_columns_of_a_network_stay_hidden_from_schedulers():
    class Curious(fw.Scheduler):
        name = "curious"

        def priority(self, state, seen, draws):
            return np.broadcast_to(seen.problem.column("rate"), seen.delay.shape)

    with pytest.raises(fw.FedwaveError, match="rate"):
        fw.simulate(fw.paper_network(), Curious(), rounds=1, instances=1)
