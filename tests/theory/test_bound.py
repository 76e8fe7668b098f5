"""The bound: its published value, closed forms, its error, and that no scheduler beats it."""

import numpy as np
import pytest
from refusals import refused
from scipy import stats
from weighted_mass import constant, logarithmic, weighted_mass

import fedwave as fw
from fedwave.paper.regret import LevelFading
from fedwave.parts import registry
from fedwave.theory import bound as bounds
from fedwave.theory.bound import backlog_bound, score_bound

CERTAIN = fw.success.Table((0.0, 1.0), (0.0, 0.0))  # every upload arrives
CONSTANT = fw.success.Table((0.0, 1.0), (0.3, 0.3))  # with a chance of 0.7


def alike(count, slots=1, success=CERTAIN, **changes):
    devices = [fw.Device(rate=1, distance_m=200)] * count
    return fw.Network(devices=devices, slots=slots, success=success).replace(**changes)


@pytest.fixture(scope="module")
def paper():
    return backlog_bound(fw.paper_network())


def test_the_papers_network(paper):
    assert float(paper) == paper.value == backlog_bound(fw.paper_network(miss_probability=0.5)).value
    assert len(repr(paper)) < 80
    assert paper.value == pytest.approx(100.128, abs=0.01)
    assert paper.error < 0.0001 * paper.value
    assert paper.value <= 100.1285 <= paper.value + paper.error + 0.001
    assert paper.price == pytest.approx(25.61, abs=0.1)
    assert paper.service.sum() == pytest.approx(5, abs=0.02)
    assert paper.cost.sum() - 5 * paper.price == pytest.approx(paper.value, rel=1e-9)
    assert paper.service.shape == paper.cost.shape == (25,)
    # The faster and the nearer, the more often a device is served.
    assert paper.service[24] > paper.service[22] > paper.service[18] > paper.service[14]


def test_the_score_is_bounded_through_the_backlog(paper):
    net = fw.paper_network()
    assert score_bound(net) == pytest.approx(67 - 0.01 * paper.value, rel=1e-12)
    assert score_bound(net.replace(gamma=0.0)) == 67


@pytest.mark.parametrize("count, slots", [(4, 1), (6, 2), (5, 5), (12, 3)])
def test_it_is_exact_where_devices_take_turns(count, slots):
    """Backlogs unseen, uploads certain: turns of U / W rounds leave 0, ..., U / W - 1 shards behind."""
    net = alike(count, slots=slots)
    found = backlog_bound(net, hidden=True)
    turns = count / slots
    assert found.value == pytest.approx(count * (turns - 1) / 2, abs=1e-3 * count)
    assert found.value <= count * (turns - 1) / 2 + 1e-9
    trace = fw.simulate(net, "round-robin", 4000, 4, record="summary")
    assert trace.backlog[200:].mean() == pytest.approx(count * (turns - 1) / 2, rel=0.03)


@pytest.mark.parametrize(
    "success", [fw.success.Turbo(), fw.success.Soft(), fw.success.Uncoded(bits=8)], ids=["turbo", "soft", "uncoded"]
)
def test_finer_steps_stay_within_the_error(success, monkeypatch):
    net = fw.random_network(12, 3, seed=4, success=success, arrivals=fw.arrivals.NegativeBinomial(1.0))
    monkeypatch.setattr(bounds, "_EVALUATIONS", 12 * 4096)
    rough = backlog_bound(net)
    monkeypatch.setattr(bounds, "_EVALUATIONS", 12 << 16)
    fine = backlog_bound(net)
    assert rough.value <= fine.value + 1e-6 * fine.value
    assert fine.value + fine.error <= (rough.value + rough.error) * (1 + 1e-5)
    assert fine.error < rough.error / 3
    # An upper bound: the same with the other sign.
    alike_arrivals = net.replace(arrivals="poisson")
    for rule in ("lee", "constant:beta=0.9"):
        most = {}
        for evaluations in (12 * 4096, 12 << 16):
            monkeypatch.setattr(bounds, "_EVALUATIONS", evaluations)
            most[evaluations] = fw.mass_bound(alike_arrivals, rule)
        rough, fine = most.values()
        assert fine.value <= rough.value * (1 + 1e-6)
        assert fine.value - fine.error >= (rough.value - rough.error) * (1 - 1e-5)
        assert fine.error < rough.error / 2


def test_sampled_gains_make_it_lower_and_the_error_larger():
    """A Rician factor of 0 is Rayleigh fading, but its quantiles come from a sample."""
    sure, sampled = (
        backlog_bound(alike(6, slots=2, success=fw.success.Soft(), fading=f))
        for f in (fw.fading.Rayleigh(), fw.fading.Rician(0.0))
    )
    assert sampled.value < sure.value < sampled.value + sampled.error
    assert sampled.error < 0.03 * sampled.value


def test_many_different_devices_find_a_good_price_from_a_sample(monkeypatch):
    net = fw.random_network(60, 6)
    whole = backlog_bound(net)
    monkeypatch.setattr("fedwave.planning.backlog_objective._SAMPLE", 10)
    assert backlog_bound(net).value == pytest.approx(whole.value, rel=2e-6)


def test_hidden_backlogs_can_only_be_larger(paper):
    hidden = backlog_bound(fw.paper_network(), hidden=True)
    assert hidden.value > paper.value + 5
    # The arrivals' family makes no difference to somebody who cannot see them.
    bursty = fw.paper_network(arrivals=fw.arrivals.NegativeBinomial())
    assert backlog_bound(bursty, hidden=True).value == pytest.approx(hidden.value, rel=1e-9)


def test_slots_that_change_count_by_their_mean(paper):
    assert backlog_bound(fw.paper_network(slots=[4, 6, 5])).value == pytest.approx(paper.value)
    never = backlog_bound(fw.paper_network(slots=[0, 0]))
    assert never.value == np.inf
    assert not never.service.any()
    assert fw.mass_bound(fw.paper_network(slots=[4, 6, 5])).value == pytest.approx(
        fw.mass_bound(fw.paper_network()).value
    )
    never = fw.mass_bound(fw.paper_network(slots=[0, 0]))
    assert (never.value, never.price) == (0, np.inf)


def test_edges():
    nothing = backlog_bound(alike(3, rate=0.0))
    assert (nothing.value, nothing.error, nothing.price) == (0, 0, 0)
    some = backlog_bound(alike(3, rate=[0.0, 2.0, 1e-300], success=CONSTANT))
    assert some.value == pytest.approx(2 * 0.3 / 0.7, rel=1e-3)
    assert some.cost[0] == some.cost[2] == 0
    everybody = backlog_bound(alike(3, slots=3, success=CONSTANT))
    assert everybody.value == pytest.approx(3 * 0.3 / 0.7, rel=1e-3)
    never = backlog_bound(alike(2, success=fw.success.Threshold(), distance_m=9000.0))
    assert never.value > 1000
    assert never.error == np.inf


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"fading": fw.fading.GaussMarkov()}, ("GaussMarkov", "independent")),
        ({"fading": fw.fading.Shadowing()}, ("Shadowing", "independent")),
        ({"fading": fw.fading.RecordedGains(np.ones((3, 25)))}, ("RecordedGains",)),
        ({"arrivals": fw.arrivals.RecordedArrivals(np.ones((3, 25)))}, ("arrivals", "RecordedArrivals")),
        ({"buffer_limit": [np.inf, 7.0] + [np.inf] * 23}, ("device 2", "buffer", 7)),
    ],
)
def test_what_they_cannot_bound_is_refused_in_one_sentence(changes, text):
    for bound in (backlog_bound, fw.mass_bound):
        with refused("network", "'paper'"):
            bound("paper")
        if bound is backlog_bound or "buffer" not in text:
            with refused(*text) as error:
                bound(fw.paper_network(**changes))
            assert "\n" not in str(error.value)
    for rule, words in (("lee:beta=1", ("beta", 1, "'lee'")), ("fedasync", ("'fedasync'",))):
        with refused(*words):
            fw.mass_bound(fw.paper_network(), rule)


def drawn(seed: int) -> fw.Network:
    rng = np.random.default_rng(seed)
    devices = 3 if seed % 10 == 0 else 2
    gains = tuple(rng.uniform(0.3, 2.0, int(rng.integers(1, 3))).tolist())
    most = 3.0 if devices == 2 else 0.6  # three devices with long backlogs would take minutes to solve
    table = fw.DeviceTable(rate=rng.uniform(0.1, most, devices), distance_m=rng.uniform(150.0, 400.0, devices))
    families = (fw.arrivals.Poisson(), fw.arrivals.NegativeBinomial(dispersion=2.0))
    arrivals = families[int(rng.integers(2))] if devices == 2 else families[0]
    slots = int(rng.integers(1, devices))
    return fw.Network(table, slots, fading=LevelFading(gains), success=fw.success.Soft(), arrivals=arrivals)


@pytest.mark.parametrize("seed", range(0, 50, 2))
def test_no_bound_exceeds_the_optimum(seed: int) -> None:
    network = drawn(seed)
    levels = len(network.fading.levels)  # type: ignore[attr-defined]
    best = fw.theory.value_iteration(fw.theory.exact_problem(network, levels=levels), 1e-6)
    bound = backlog_bound(network)
    assert bound.value <= best.backlog + best.error + 1e-6
    # And it says something: the optimum of so few devices is not far above it.
    assert bound.value > 0.5 * best.backlog


# --- the bound on the delivered mass --------------------------------------------------------------

RATES = {"lee": logarithmic, "constant": constant}


@pytest.fixture(scope="module")
def paper_mass():
    return fw.mass_bound(fw.paper_network())


def test_the_mass_of_the_papers_network(paper_mass):
    assert float(paper_mass) == paper_mass.value
    assert len(repr(paper_mass)) < 80
    assert paper_mass.value == pytest.approx(3.69, abs=0.005)  # of the specification
    capped = fw.mass_bound(fw.paper_network(), fw.aggregation.Lee(cap=2.0))
    assert paper_mass.value == capped.value  # a cap is ignored, and the rule is "lee" unless it is given
    assert paper_mass.error < 1e-4
    assert paper_mass.mass.sum() + 5 * paper_mass.price == pytest.approx(paper_mass.value, rel=1e-9)
    assert paper_mass.service.shape == paper_mass.mass.shape == (25,)
    assert not paper_mass.service[:15].any()  # slow devices are not worth a slot
    assert (paper_mass.service[15:] > 0).all()


@pytest.mark.parametrize("count, slots, beta", [(4, 1, 0.5), (6, 2, 0.9), (5, 5, 0.9), (12, 3, 0)])
def test_its_mass_is_exact_where_devices_take_turns(count, slots, beta):
    """Certain uploads, a concave mass: turns of U / W rounds are best, and each brings 1 + beta + ... shards."""
    found = fw.mass_bound(alike(count, slots), f"constant:beta={beta}")
    turns = count // slots
    exact = slots / count * sum(beta**j for j in range(turns))
    assert found.value == pytest.approx(exact, rel=1e-5)
    assert found.value >= exact * (1 - 1e-12)


@pytest.mark.parametrize(
    "rule, rounds, instances",
    [
        ("lee:beta=0.001", 200, 12),
        ("constant:beta=0.9", 200, 12),
        pytest.param("constant:beta=0.5", 800, 60, marks=pytest.mark.slow),
        pytest.param("lee:beta=0.8", 800, 60, marks=pytest.mark.slow),
    ],
)
def test_no_scheduler_that_does_not_see_the_arrivals_beats_it(rule, rounds, instances):
    devices = [
        fw.Device(rate=r, distance_m=d)
        for r, d in ((1, 100), (1, 450), (4, 300), (9, 420), (2, 500), (5, 350), (3, 200))
    ]
    net = fw.Network(devices=devices, slots=2, success=fw.success.Soft())
    made = registry.build("aggregation", rule)
    value, means = fw.mass_bound(net, made).value, {}
    for kind in fw.scheduler_names(standalone=True):
        scheduler = fw.scheduler(kind)
        if "backlog" in scheduler.needs or scheduler.ideal:
            continue
        trace = fw.simulate(net, scheduler.with_aggregation(made), rounds, instances, seed=1)
        mass = weighted_mass(trace, net.rates, made.beta, RATES[made.name])[50:].mean(axis=0)
        means[kind] = mass.mean()
        reach = stats.t.ppf(0.999, instances - 1) * stats.sem(mass)
        assert mass.mean() - reach < value, kind
        assert reach < 0.1 * value
    assert len(means) > 10
    assert means["mass-index"] > 0.95 * value
    assert means["w-max"] < 0.9 * value


def test_arrivals_of_any_distribution_have_one_bound(paper_mass):
    """Somebody who cannot see them can only expect their mean."""
    for changes in ({"arrivals": fw.arrivals.NegativeBinomial()}, {"buffer_limit": 5.0}):
        assert fw.mass_bound(fw.paper_network(**changes)).value == paper_mass.value


def test_edges_of_the_mass():
    nothing = fw.mass_bound(alike(3, rate=0.0))
    assert (nothing.value, nothing.error, nothing.price) == (0, 0, 0)
    some = fw.mass_bound(alike(3, rate=[0.0, 2.0, 1e-300]), "constant:beta=0.5")
    assert some.value == pytest.approx(2.0)
    assert some.mass[0] == 0
    never = fw.mass_bound(alike(2, success=fw.success.Threshold(), distance_m=9000.0))
    assert 0 <= never.value < 1e-3
    assert never.value - never.error <= 1e-12


def test_with_beta_one_and_a_constant_rate_every_shard_counts_once():
    net = fw.paper_network()
    for rule in ("constant:beta=1", "sync"):
        found = fw.mass_bound(net, rule)
        assert found.value == pytest.approx((net.rates**2).sum() / net.rates.sum())
        assert (found.error, found.price) == (0, 0)
    near = fw.mass_bound(net, "constant:beta=0.99999")
    assert near.value == pytest.approx(found.value, rel=1e-3)
    assert near.value < found.value
