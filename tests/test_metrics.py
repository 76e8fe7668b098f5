"""Numbers watched in every round: the built-in ones against a full trace, and those of a user's own."""

from dataclasses import dataclass

import numpy as np
import pytest
from refusals import refused

import fedwave as fw
from fedwave.aggregation import FedBuff, Lee, Sync, delivered_mass, uploads_of_rounds
from fedwave.metrics import Mass, Metric, describe, jain, metric_names

NETWORK = fw.paper_network(buffer_limit=6, miss_probability=0.3)


def run(rounds=40, scheduler="balsa", **options):
    return fw.simulate(NETWORK, scheduler, rounds, instances=3, seed=4, **options)


class BusyDevices(Metric):
    """Devices that got data in the round, and how many rounds that was so, as a memory."""

    name, label, over_rounds = "busy", "devices with new data", "last"

    def start(self, problem):
        return {"rounds": np.zeros(problem.instances)}

    def measure(self, state, played):
        busy = np.count_nonzero(played.world.arrivals, axis=1)
        rounds = state["rounds"] + (busy > 12)
        return {"rounds": rounds}, rounds


class LongestWait(Metric):
    name, over_rounds, per_device = "longest_wait", "max", True

    def measure(self, state, played):
        return state, played.before.delay


class MeanWait(LongestWait):
    name, over_rounds = "mean_wait", "mean"


def test_shares_and_fairness_follow_from_the_record():
    trace = run()
    learned, arrived = trace.learned.sum(axis=2), np.cumsum(trace.arrivals.sum(axis=2), axis=0)
    np.testing.assert_array_equal(trace.series["delivered_share"], learned / arrived)
    lost = np.cumsum(trace.lost.sum(axis=2), axis=0)
    np.testing.assert_array_equal(trace.series["lost_share"], lost / arrived)
    uploads = np.cumsum(trace.delivered, axis=0)
    np.testing.assert_array_equal(trace.series["jain"], jain(uploads))
    by_device = np.cumsum(trace.arrivals, axis=0)
    shares = np.where(by_device > 0, trace.learned / np.maximum(by_device, 1), 1.0)
    np.testing.assert_array_equal(trace.series["worst_device"], shares.min(axis=2))
    np.testing.assert_array_equal(trace.totals["device_uploads"], uploads[-1])
    np.testing.assert_array_equal(trace.totals["device_shards"], trace.learned[-1])


@pytest.mark.parametrize("rule", [Lee(), Lee(beta=0.9, cap=3.0), Sync(), FedBuff(size=7)], ids=lambda rule: repr(rule))
def test_the_mass_is_that_of_the_whole_schedule(rule):
    trace = run(metrics=[Mass(rule)])
    uploads = uploads_of_rounds(rule, trace.delivered, trace.learned, trace.delay, trace.accepted)
    np.testing.assert_allclose(trace.series["mass"], delivered_mass(rule, uploads), rtol=1e-12)
    assert trace.series["mass"].sum() > 0


@pytest.mark.filterwarnings("ignore::fedwave.network.plausible.ImplausibleWarning")
def test_the_mass_by_hand():
    """One device of rate 1 and one slot: with beta 1/2 every delivery brings m_t + m_{t-1} / 2 + ..."""
    arrivals = fw.arrivals.RecordedArrivals([[4], [2], [6]])
    never_then_always = fw.fading.RecordedGains([[1e-9], [1e-9], [1e9]])
    net = fw.Network([fw.Device(1, 100)], slots=1, arrivals=arrivals, fading=never_then_always)
    trace = fw.simulate(net, "random", 3, 1, metrics=["mass:aggregation=constant:beta=0.5"])
    assert trace.series["mass"][:, 0].tolist() == [0, 0, 6 + 0.5 * (2 + 0.5 * 4)]


def test_a_metric_of_ones_own_is_recorded_saved_and_goes_on(tmp_path):
    for kind in (BusyDevices, LongestWait, MeanWait):
        fw.register(kind)
    own = ["busy", "longest_wait", "mean_wait"]
    whole = run(metrics=own)
    busy = np.count_nonzero(whole.arrivals, axis=2) > 12
    np.testing.assert_array_equal(whole.series["busy"], np.cumsum(busy, axis=0))
    np.testing.assert_array_equal(whole.totals["longest_wait"], whole.delay.max(axis=0))
    np.testing.assert_allclose(whole.totals["mean_wait"], whole.delay.mean(axis=0), rtol=1e-15)
    assert whole.metrics["busy"].label == "devices with new data"
    path = run(17, metrics=own).save(tmp_path / "begun.npz")
    assert fw.extend(fw.Trace.load(path), 40).same_as(whole)
    assert fw.remake(whole).same_as(whole)


def test_an_unregistered_metric_of_a_file_is_passed_in_to_go_on(tmp_path):
    whole = run(10, metrics=[BusyDevices()])
    begun = fw.Trace.load(whole.save(tmp_path / "t.npz"))
    assert begun.metrics["busy"].label == "devices with new data"
    assert begun.same_as(whole)
    with refused("BusyDevices"):
        fw.extend(begun, 20)
    again = fw.extend(begun, 20, metrics=[BusyDevices()])
    assert again.same_as(run(20, metrics=[BusyDevices()]))


@pytest.mark.parametrize(
    ("declared", "tokens"),
    [
        ({"name": "my metric"}, ("my metric",)),
        ({"name": "accuracy"}, ("accuracy", "training")),
        ({"name": "mine", "over_rounds": "median"}, ("over_rounds", "median")),
        ({"name": "round"}, ("round", "results")),
        ({"name": "delivered"}, ("delivered", "results")),
        ({"name": "accuracy_class_3"}, ("accuracy_class_3", "results")),
        ({}, ("name",)),
    ],
)
def test_a_bad_declaration_is_refused(declared, tokens):
    kind = type("Mine", (Metric,), {"measure": lambda self, state, played: (state, 0), **declared})
    with refused(*tokens):
        fw.register(kind)


def test_every_metric_is_described():
    for name in metric_names(training=True):
        about = describe(name)
        assert about.label
        assert about.over_rounds in ("mean", "last", "max", "sum")
    assert not describe("accuracy").per_device
    with refused("backlogs", "backlog"):
        describe("backlogs")


def test_parameters_of_a_metric_are_kept():
    @dataclass(frozen=True)
    class Above(Metric):
        level: int = 3
        name = "above"

        def measure(self, state, played):
            return state, np.count_nonzero(played.after.waiting > self.level, axis=1)

    fw.register(Above)
    trace = run(12, metrics=["above:level=1"])
    assert fw.extend(trace, 24).same_as(run(24, metrics=[Above(1)]))
    assert not np.array_equal(trace.series["above"], run(12, metrics=["above"]).series["above"])


class GrowsIntoFractions(Metric):
    name = "fractions"

    def measure(self, state, played):
        count = played.accepted.shape[0]
        first = played.world.round == 1
        return state, np.zeros(count, dtype=int) if first else np.full(count, 1.8)


@dataclass
class Small(Metric):
    """Per device, in a type too narrow for a sum, and an array that is changed afterwards."""

    name, over_rounds, per_device = "small", "sum", True
    kind: str

    def measure(self, state, played):
        return state, np.full(played.accepted.shape, 100 if self.kind == "uint8" else 1, self.kind)


def test_fractions_after_whole_numbers_are_not_cut():
    assert run(3, metrics=[GrowsIntoFractions()]).series["fractions"][:, 0].tolist() == [0, 1.8, 1.8]


@pytest.mark.parametrize(("kind", "total"), [("bool", 10), ("uint8", 1000), ("float32", 10.0)])
def test_sums_over_rounds_do_not_overflow(kind, total):
    assert (run(10, metrics=[Small(kind)]).totals["small"] == total).all()


def test_a_trace_goes_on_with_the_metrics_that_it_began_with():
    with refused("metrics"):
        fw.extend(run(5), 10, metrics=[BusyDevices()])
    with refused("metrics"):
        fw.extend(run(5, metrics=[BusyDevices()]), 10, metrics=[])


def made(name, measured, first=()):
    return type(
        "Made",
        (Metric,),
        {"name": name, "start": lambda *_: dict(first), "measure": lambda _, state, round_: measured(state, round_)},
    )()


@pytest.mark.parametrize(
    ("metrics", "tokens"),
    [
        ([made("wrong", lambda state, played: (state, played.before.delay))], ("wrong", "(3, 25)", "(3,)")),
        ([made("alone", lambda state, played: played.score)], ("alone", "pair")),
        (
            [made("wide", lambda state, played: (state, played.score), {"a": np.zeros(2)})],
            ("wide", "start", "instance"),
        ),
        ([made("jain", lambda state, played: (state, played.score))], ("'jain'", "built-in")),
        (["mass:aggregation=lee", "mass:aggregation=fedbuff"], ("mass", "twice")),
    ],
    ids=lambda given: str(given[0]) if isinstance(given, tuple) else "",
)
def test_metrics_that_break_their_contract_are_refused(metrics, tokens):
    with refused(*tokens):
        run(2, metrics=metrics)
