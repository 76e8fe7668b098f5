"""Device tables: written by hand, read from CSV and YAML, and back again."""

import csv

import numpy as np
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
    return {name: np.asarray(getattr(table, name)).tolist() for name in DEVICE_COLUMNS}


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
    distance_m=[100.1, 2e5, np.pi],
    interference_dbm=[-np.inf, -97.3, -90],
    miss_probability=[0, 1, 0.1],
    buffer_limit=[0, np.inf, 12],
)


def test_a_table_is_read_as_it_was_written_and_cannot_be_changed(tmp_path):
    assert np.asarray(ODD.replace(rate=4).rate).tolist() == [4] * 3  # one value serves all devices
    with open(tmp_path / "devices.CSV", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(DEVICE_COLUMNS)
        writer.writerows(zip(*columns_of(ODD).values(), strict=True))
    rows = [dict(zip(DEVICE_COLUMNS, row, strict=True)) for row in zip(*columns_of(ODD).values(), strict=True)]
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
