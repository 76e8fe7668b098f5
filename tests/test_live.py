"""A live scheduler: the decisions of a simulation from its measurements alone; odd measurements; files."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import fedwave as fw

NET = fw.random_network(9, slots=2, seed=3)
SMALL = fw.random_network(3, slots=1, seed=3)
NAMES = [
    name for name in fw.scheduler_names() if name not in ("bench", "update-aware", "mass-labels", "mass-labels-po")
]


def feed(live, trace, t):
    """Round t of a trace: who is chosen, and then what arrived."""
    snr = dict(zip(live.names, (live.network.mean_snr * trace.gain[t, 0]).tolist(), strict=True))
    waiting = dict(zip(live.names, trace.waiting[t, 0].tolist(), strict=True))
    available = dict(zip(live.names, trace.available[t, 0].tolist(), strict=True))
    chosen = live.choose(snr=snr, waiting=waiting, available=available)
    brought = (trace.waiting + trace.accepted)[t, 0]
    live.delivered({live.names[u]: int(brought[u]) for u in np.flatnonzero(trace.delivered[t, 0])})
    return [name in chosen for name in live.names]


@pytest.mark.parametrize("name", NAMES)
def test_it_decides_as_a_simulation(name, tmp_path):
    net = SMALL if name.startswith("dp") else NET
    trace = fw.simulate(net, name, rounds=200, instances=1, seed=5)
    live = fw.Live(net, name, seed=5)
    for t in range(200):
        assert feed(live, trace, t) == trace.scheduled[t, 0].tolist(), t
        if t in (3, 99):
            live = fw.Live.load(live.save(tmp_path / "live.npz"))
    assert live.round == 200


@pytest.mark.parametrize("name", ["balsa", "balsa-po", "lagrangian-bayes", "round-robin"])
@pytest.mark.parametrize("kept", [True, False])
def test_also_where_devices_are_away(name, kept):
    net = NET.replace(availability=fw.availability.OnOff(6, 3, arrivals_while_away=kept))
    trace = fw.simulate(net, name, rounds=120, instances=1, seed=5)
    live = fw.Live(net, name, seed=5)
    for t in range(120):
        assert feed(live, trace, t) == trace.scheduled[t, 0].tolist(), t


def test_an_open_round_survives_a_restart(tmp_path):
    live = fw.Live(NET, "balsa")
    chosen = live.choose(snr_db=dict.fromkeys(live.names, 10.0), waiting=dict.fromkeys(live.names, 1))
    again = fw.Live.load(live.save(tmp_path / "live.npz"))
    assert again.chosen == chosen
    for one in (live, again):
        one.delivered({chosen[0]: 3})
    now = {"snr_db": dict.fromkeys(live.names, 3.0), "waiting": dict.fromkeys(live.names, 2)}
    assert live.choose(**now) == again.choose(**now)


def test_who_does_not_report_is_not_picked():
    live = fw.Live(NET, "max-weight")
    snr_db = {"1": 20.0, "2": np.nan, "3": None, "4": 15.0, "5": 30.0}
    chosen = live.choose(snr_db=snr_db, waiting={"1": 1, "2": 50, "3": 50, "4": 2})
    assert sorted(chosen) == ["1", "4"]
    live.delivered({})
    assert live.choose(snr_db=snr_db, waiting={"1": 1, "4": 2, "5": 9}, available=["5", "6"]) == ["5"]
    live.delivered({"5": 9})
    assert live.choose(snr_db={}, waiting={}) == []


@pytest.mark.parametrize("name", ["balsa", "lagrangian-bayes"])
@pytest.mark.parametrize("silent", ["all", "snr_db", "available"])
def test_what_arrived_while_a_device_was_silent_is_learned(name, silent):
    """Device "1" is there in every fifth round; its shards go on arriving."""
    live, rng = fw.Live(NET, name), np.random.default_rng(1)
    held, arrived = dict.fromkeys(live.names, 0), np.zeros(9, int)
    for t in range(1, 102):
        now = {"snr_db": dict.fromkeys(live.names, 10.0), "waiting": dict(held), "available": {"1": True}}
        if t % 5 != 1:
            for key in now if silent == "all" else [silent]:
                now[key]["1"] = None if key != "available" else False
        chosen = live.choose(**now)
        if t == 101:
            break
        shards = rng.poisson(2, 9)
        arrived += shards
        held = {one: held[one] + int(count) for one, count in zip(live.names, shards, strict=True)}
        live.delivered({one: held[one] for one in chosen})
        held |= dict.fromkeys(chosen, 0)
    assert live.beliefs["counted"].tolist() == arrived.tolist()
    assert live.beliefs["covered"].tolist() == [100] * 9


def test_a_restarted_device_is_accepted_with_a_warning():
    live = fw.Live(NET, "lagrangian-bayes")
    snr_db = dict.fromkeys(live.names, 10.0)
    chosen = live.choose(snr_db=snr_db, waiting=dict.fromkeys(live.names, 8))
    with pytest.warns(UserWarning, match=chosen[0]) as told:
        live.delivered({chosen[0]: 0})
    assert told[0].filename == __file__
    lost = next(name for name in live.names if name not in chosen)
    with pytest.warns(UserWarning, match=lost) as told:
        live.choose(snr_db=snr_db, waiting=dict.fromkeys(live.names, 8) | {lost: 0})
    assert told[0].filename == __file__
    assert (live.beliefs["counted"] >= 0).all()


@pytest.mark.parametrize("name", ["lagrangian-bayes", "balsa-po", "age", "round-robin", "proportional-fair"])
def test_devices_are_added(name):
    live = fw.Live(NET.replace(slots=3), name)
    for _ in range(5):
        live.choose(snr_db=dict.fromkeys(live.names, 10.0), waiting=dict.fromkeys(live.names, 1))
        live.delivered({})
    more = live.with_devices([fw.Device(2, 200, name="new")])
    assert more.names == (*live.names, "new")
    for key, before in live.beliefs.items():
        if before.shape == (9,):
            np.testing.assert_array_equal(more.beliefs[key][:9], before)
    assert more.choose(snr_db={"new": 10.0}, waiting={"new": 1}) == ["new"]
    with pytest.raises(fw.FedwaveError, match="two devices"):
        live.with_devices([fw.Device(2, 200, name="1")])


def test_beliefs_cannot_be_changed():
    live = fw.Live(NET, "balsa")
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            live.beliefs["theta"][0] = 9
        live.choose(snr_db={}, waiting={})
        live.delivered({})


OPEN = {"snr_db": {"1": 3.0}, "waiting": {"1": 1}}


@pytest.mark.parametrize(
    "call",
    [
        lambda live: live.choose(waiting={"1": 1}),
        lambda live: live.choose(snr={"1": 1}, snr_db={"1": 1}, waiting={"1": 1}),
        lambda live: live.choose(snr={"1": 1}),
        lambda live: live.choose(snr={"1": -3}, waiting={"1": 1}),
        lambda live: live.choose(snr={"1": np.inf}, waiting={"1": 1}),
        lambda live: live.choose(snr_db={"1": "loud"}, waiting={"1": 1}),
        lambda live: live.choose(snr_db={"1": 1e9}, waiting={"1": 1}),
        lambda live: live.choose(snr_db={"one": 1}, waiting={"1": 1}),
        lambda live: live.choose(snr_db=[1.0] * 9, waiting={"1": 1}),
        lambda live: live.choose(snr_db={"1": 1}, waiting={"1": -1}),
        lambda live: live.choose(snr_db={"1": 1}, waiting={"1": 1.5}),
        lambda live: live.choose(snr_db={"1": 1}, waiting={"1": 1e300}),
        lambda live: live.choose(snr_db={"1": 1}, waiting={"1": "many"}),
        lambda live: live.choose(snr_db={"1": np.array([1.0, 2.0])}, waiting={"1": 1}),
        lambda live: live.choose(snr_db={"1": pd.NA}, waiting={"1": 1}),
        lambda live: live.choose(snr_db={"1": 1}, waiting={"1": Decimal("sNaN")}),
        lambda live: live.choose(**OPEN, available={"x": True}),
        lambda live: live.choose(**OPEN, available={"1": "no"}),
        lambda live: live.choose(**OPEN, available={"1": np.nan}),
        lambda live: live.choose(**OPEN, available={"1": np.array([True, False])}),
        lambda live: live.choose(**OPEN, available=[["1"]]),
        lambda live: live.choose(**OPEN, available="1"),
        lambda live: live.delivered({}),
        lambda live: (live.choose(**OPEN), live.choose(**OPEN)),
        lambda live: (live.choose(**OPEN), live.delivered({"2": 1})),
        lambda live: (live.choose(**OPEN), live.delivered({"1": -1})),
        lambda live: (live.choose(**OPEN), live.delivered(None)),
        lambda live: (live.choose(**OPEN), live.with_devices([fw.Device(1, 100)])),
        lambda live: live.save("live.txt"),
    ],
)
def test_a_bad_call_is_refused_and_changes_nothing(call):
    live, untouched = fw.Live(NET, "balsa"), fw.Live(NET, "balsa")
    with pytest.raises(fw.FedwaveError):
        call(live)
    if live.round == 0:
        now = {"snr_db": dict.fromkeys(live.names, 3.0), "waiting": dict.fromkeys(live.names, 2)}
        assert live.choose(**now) == untouched.choose(**now)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fw.Live(NET, "bench"),
        lambda: fw.Live(NET, "update-aware"),
        lambda: fw.Live(NET, "mass-labels"),
        lambda: fw.Live("paper", "age"),
        lambda: fw.Live(NET.replace(slots=[1, 2]), "age"),
        lambda: fw.Live(NET, "age", seed=-1),
        lambda: fw.Live.load("nowhere.npz"),
    ],
)
def test_what_cannot_run_live_is_refused(make):
    with pytest.raises(fw.FedwaveError):
        make()


def test_a_file_that_is_not_one_is_refused(tmp_path):
    path = fw.Live(NET, "balsa").save(tmp_path / "live.npz")
    whole = path.read_bytes()
    other = fw.simulate(NET, "age", rounds=2, instances=1).save(tmp_path / "trace.npz").read_bytes()
    for damaged in (b"", b"text", whole[:-40], whole[: len(whole) // 2] + b"x" + whole[len(whole) // 2 + 1 :], other):
        path.write_bytes(damaged)
        with pytest.raises(fw.FedwaveError):
            fw.Live.load(path)


def test_columns_of_ones_own_are_needed_of_new_devices():
    live = fw.Live(fw.Network([{"rate": 1, "snr_db": 9, "name": "a", "battery_j": 5.0}], slots=1), "age")
    with pytest.raises(fw.FedwaveError, match="battery_j"):
        live.with_devices([fw.Device(rate=1, snr_db=9, name="b")])
    more = live.with_devices([{"rate": 1, "snr_db": 9, "name": "b", "battery_j": 3.0}])
    assert more.network.table.column("battery_j").tolist() == [5, 3]


@pytest.mark.parametrize("snr_db", [-95.0, 700.0])
def test_an_snr_in_another_unit_is_accepted_with_a_warning(snr_db):
    live = fw.Live(NET, "age")
    with pytest.warns(UserWarning, match="'2'"):
        live.choose(snr_db={"1": 5.0, "2": snr_db})


def test_a_scheduler_made_of_a_function_is_given_again(tmp_path):
    mine = fw.scheduler(lambda seen: seen.success, needs={"channel"}, name="mine")
    live = fw.Live(NET, mine)
    live.choose(snr_db=dict.fromkeys(live.names, 3.0))
    path = live.save(tmp_path / "live.npz")
    again = fw.Live.load(path, scheduler=mine)
    assert again.chosen == live.chosen
    for other in (None, fw.scheduler("age")):
        with pytest.raises(fw.FedwaveError):
            fw.Live.load(path, scheduler=other)
