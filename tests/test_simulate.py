"""The round loop and its record: repeatable, independent of company, saved and continued without a seam."""

from dataclasses import dataclass

import numpy as np
import pytest
from refusals import refused

import fedwave as fw

# Everything with a memory that a continued run must pick up where it stopped.
NETWORKS = {
    "default": {},
    "gauss-markov": {"fading": fw.fading.GaussMarkov(0.9)},
    "shadowed gauss-markov": {"fading": fw.fading.Shadowing(6.0, 0.8, fw.fading.GaussMarkov(0.9))},
    "harq": {"success": fw.success.Harq(fw.success.Threshold(), 3)},
    "negative binomial": {"arrivals": fw.arrivals.NegativeBinomial(2.0)},
    "recorded": {
        "fading": fw.fading.RecordedGains(np.random.default_rng(0).random((90, 25))),
        "arrivals": fw.arrivals.RecordedArrivals(np.random.default_rng(1).integers(0, 5, (90, 3, 25))),
    },
    "buffers, misses, slots": {"buffer_limit": 6, "miss_probability": 0.3, "slots": [3, 0, 25] * 30},
}


def run(scheduler="balsa", rounds=90, instances=3, *, network="default", seed=4, **options):
    net = fw.paper_network(**NETWORKS[network])
    return fw.simulate(net, scheduler, rounds, instances, seed, **options)


# Every scheduler is checked by fw.check (tests/checks); these differ in what they remember.
STAGES = [f"balsa:stage_rule={rule},prior=truncated:low=0.5;high=12" for rule in ("max1", "per-device")]
SCHEDULERS = ["random", "round-robin", "balsa-po", "mass-po", *STAGES]


# --- repeatable -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULERS)
def test_an_instance_is_the_same_in_any_company_and_a_short_run_the_beginning_of_a_long_one(name):
    alone, company = run(name, 20, [2]), run(name, 70, 5)
    for group in ("devices", "series"):
        for field, rows in getattr(alone, group).items():
            np.testing.assert_array_equal(rows[:, 0], getattr(company, group)[field][:20, 2])


def test_every_scheduler_meets_the_same_world():
    one, other = run("alsa-pi"), run("w-max")
    np.testing.assert_array_equal(one.gain, other.gain)
    np.testing.assert_array_equal(one.arrivals, other.arrivals)
    both = one.scheduled & other.scheduled
    np.testing.assert_array_equal(one.delivered[both], other.delivered[both])
    assert both.any()
    assert not one.same_as(other)


@pytest.mark.parametrize("record", ["full", "summary"])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_trace_can_be_made_again_from_itself(network, record):
    trace = run(network=network, record=record, beliefs=True)
    again = fw.remake(trace)
    assert again.same_as(trace)
    assert again.setup.packed()[0] == trace.setup.packed()[0]


# --- saved and continued --------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
def test_what_is_saved_is_what_is_loaded(tmp_path, network):
    trace = run(network=network, beliefs=True)
    loaded = fw.Trace.load(trace.save(tmp_path / "deep" / "down" / "trace.npz"))
    assert loaded.same_as(trace)
    assert loaded.setup.packed()[0] == trace.setup.packed()[0]
    assert repr(loaded) == repr(trace)
    assert loaded.scheduler == trace.scheduler
    assert fw.remake(loaded).same_as(trace)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler_goes_on_without_a_seam(tmp_path, name):
    for options in ({"beliefs": True}, {"record": "summary"}):
        undisturbed = run(name, **options)
        for stop in (1, 40, 64):
            stopped = run(name, stop, **options).save(tmp_path / "trace.npz")
            assert fw.extend(fw.Trace.load(stopped), 90).same_as(undisturbed)


@pytest.mark.parametrize("name", ["balsa", "balsa-po", "proportional-fair"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_goes_on_without_a_seam(tmp_path, network, name):
    undisturbed = run(name, network=network)
    stopped = run(name, 40, network=network)
    halfway = fw.extend(fw.Trace.load(stopped.save(tmp_path / "trace.npz")), 70)
    assert fw.extend(halfway, 90).same_as(undisturbed)
    assert stopped.same_as(run(name, 40, network=network))  # the shorter trace is left alone


def test_the_meter_is_told_of_every_round():
    told = []
    trace = run(rounds=7, meter=told.append)
    fw.extend(trace, 10, meter=told.append)
    assert told == [1] * 10


# --- a scheduler of one's own ---------------------------------------------------------------------


@dataclass(frozen=True)
class Loyal(fw.Scheduler):
    """Always the same devices, from ``first`` on: not registered."""

    first: int = 0
    name = "loyal"

    def priority(self, state, seen, draws):
        wait = (np.arange(seen.problem.devices) - self.first) % seen.problem.devices
        return -np.broadcast_to(wait, seen.delay.shape).astype(float)


def test_a_scheduler_that_is_not_registered_is_passed_in_to_go_on(tmp_path):
    loyal = Loyal(first=20)
    path = run(loyal, 10).save(tmp_path / "trace.npz")
    trace = fw.Trace.load(path)
    assert trace.label == "loyal:first=20"
    assert np.all(trace.scheduled[..., 20:])
    assert trace.to_xarray().sizes["device"] == trace.network.size == 25
    assert fw.extend(trace, 20, scheduler=loyal).same_as(run(loyal, 20))
    assert fw.remake(trace, scheduler=loyal).same_as(run(loyal, 10))
    assert fw.Trace.load(trace.save(tmp_path / "again.npz")).same_as(trace)
    for needs_it in (lambda: fw.extend(trace, 20), lambda: fw.remake(trace), lambda: trace.scheduler):
        with refused("Loyal"):
            needs_it()


def test_a_trace_goes_on_with_the_parts_that_made_it():
    trace = fw.simulate(fw.paper_network(), "alsa-pi", 5, 2)
    for other, what in (
        ({"scheduler": fw.scheduler("random")}, "scheduler"),
        ({"network": fw.paper_network(gamma=5.0)}, "network"),
        ({"network": fw.paper_network(buffer_limit=3)}, "network"),
    ):
        with refused(what):
            fw.extend(trace, 10, **other)
    same = fw.extend(trace, 10, network=fw.paper_network(), scheduler=fw.scheduler("alsa-pi"))
    assert same.same_as(fw.extend(trace, 10))


# --- what users' parts may not do unnoticed --------------------------------------------------------


class CountsInPlace(fw.Scheduler):
    """Replaces an entry of the state that it is given."""

    name = "counts-in-place"

    def start(self, problem):
        return {"rounds": np.zeros(problem.instances)}

    def remember(self, state, seen, decision):
        state["rounds"] = state["rounds"] + 1
        return state

    def priority(self, state, seen, draws):
        return np.sin(seen.delay * (1 + state["rounds"][:, None]))


def test_a_state_that_is_changed_in_place_leaves_the_trace_alone():
    begun = run(CountsInPlace(), 20)
    assert fw.extend(begun, 40).same_as(run(CountsInPlace(), 40))
    assert (begun.state["rounds"] == 20).all()
    assert begun.same_as(run(CountsInPlace(), 20))


def test_a_trace_cannot_be_written_into():
    trace = run("balsa", 70, beliefs=True, network="gauss-markov")
    arrays = [trace.score, trace.gain, trace.beliefs["theta"], trace.accumulated["device_uploads"]]
    arrays += [trace.final.waiting, trace.state["theta"], trace.memories["jain.uploads"], trace.channel[0]]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


@dataclass(frozen=True)
class StartsWith(fw.Scheduler):
    name = "starts-with"
    first: object

    def start(self, problem):
        return self.first

    def priority(self, state, seen, draws):
        return seen.delay


ODD = [None, [1], {"a": 1.0}, {"a": np.zeros(2)}, {"a": np.array(1)}, {"a": np.array(["x"] * 3)}, {1: np.zeros(3)}]


@pytest.mark.parametrize("first", ODD, ids=range(len(ODD)))
def test_a_state_that_is_not_named_arrays_is_refused(first):
    with refused("starts-with", "start", "instance"):
        run(StartsWith(first), 5)


@dataclass(frozen=True)
class Bursts(fw.arrivals.Poisson):
    """Poisson at the rates that planning once probed, and bursts at all others."""

    name = "bursts"

    def chances(self, rates, most):
        found = super().chances(rates, most)
        usual = np.isin(rates, [0.1, 1.0, 10.0, 100.0])[..., None]
        return np.where(usual, found, super().chances(rates / 2, most))


def test_planning_tells_networks_with_other_arrivals_apart():
    plain, bursts = fw.paper_network(rate=3.0), fw.paper_network(rate=3.0, arrivals=Bursts())
    one, other = (fw.simulate(net, "whittle", 30, 2) for net in (plain, bursts))
    assert not np.array_equal(one.scheduled, other.scheduled)


@dataclass  # without frozen=True it has an equality but no hash
class Unhashable(fw.fading.Fading):
    name = "unhashable"
    power: float = 1.0

    def sample(self, block, carry):
        return block.draw(lambda rng, shape: rng.weibull(self.power, shape)), None

    def fresh(self, rng, shape):
        return rng.weibull(self.power, shape)

    def quartiles(self):
        return (0.3, 0.7, 1.4)


def test_a_part_of_a_network_can_be_hashed():
    with refused("Unhashable", "frozen"):
        fw.paper_network(fading=Unhashable())
