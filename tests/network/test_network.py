"""The description of a network: its defaults, and what `help` shows of them."""

import inspect

import pytest

import fedwave as fw

ROOMS = (fw.fading, fw.success, fw.arrivals, fw.partition)
PARTS = [kind for room in ROOMS for kind in vars(room).values() if getattr(kind, "__module__", "") == room.__name__]
DESCRIBED = [fw.Network, fw.Device, fw.DeviceTable, fw.random_network, *filter(inspect.isclass, PARTS)]


@pytest.mark.parametrize("devices, slots", [(1, 1), (3, 3), (5, 5), (8, 5)])
def test_slots_are_5_or_all_devices(devices, slots):
    table = fw.DeviceTable(rate=[1.0] * devices, distance_m=100.0)
    assert fw.Network(table).slots == fw.Network(table, slots=None).slots == slots


@pytest.mark.parametrize("described", DESCRIBED, ids=lambda one: one.__name__)
def test_help_shows_the_defaults_that_are_used(described):
    signature = str(inspect.signature(described))
    assert "object at" not in signature
    assert "factory" not in signature
