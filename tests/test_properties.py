"""Any network, any scheduler: what must hold along every path."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import fedwave as fw

ROUNDS = 8
SCHEDULERS = (
    *fw.scheduler_names(standalone=True),
    "balsa:stage_rule=per-device,prior=truncated",
    "balsa-po:stage_rule=max1,prior=gamma",
    "alpha-fresh:alpha=-1",
)
PLANNING = ("lagrangian-bayes", "lagrangian-po", "whittle-bayes")
# Those that solve a problem for every device in every case.
COSTLY = ("lagrangian", "whittle", "mass-index", "mass-index-bayes", "mass-index-po")
# Derandomised: the same cases in every run. No deadline: the first use of a fading draws its quartiles.
USUAL = settings(
    max_examples=80, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
FEWER = settings(USUAL, max_examples=25)


def numbers(low, high):
    return st.floats(low, high, allow_nan=False, allow_infinity=False)


devices = st.builds(
    fw.Device,
    rate=st.sampled_from([0.0, 0.0, 1.0]) | numbers(0, 20),
    distance_m=numbers(1, 3000),
    tx_power_dbm=numbers(-10, 40),
    interference_dbm=st.just(-np.inf) | numbers(-120, -60),
    miss_probability=st.sampled_from([0.0, 1.0]) | numbers(0, 1),
    buffer_limit=st.just(np.inf) | st.integers(0, 12).map(float),
)
simple_fadings = (
    st.builds(fw.fading.Rayleigh)
    | st.builds(fw.fading.Rician, st.sampled_from([0.0, 4.0, 100.0]))
    | st.builds(fw.fading.GaussMarkov, st.sampled_from([0.0, 0.9, 1.0]))
)
fadings = simple_fadings | st.builds(
    fw.fading.Shadowing, st.sampled_from([0.0, 8.0]), st.sampled_from([0.0, 0.5, 1.0]), simple_fadings
)
curves = (
    st.builds(fw.success.Turbo, blocks=st.sampled_from([1, 683]))
    | st.builds(fw.success.Threshold, numbers(0.01, 10))
    | st.builds(fw.success.Soft, numbers(0.01, 10))
    | st.builds(fw.success.Uncoded, st.integers(1, 4096), st.sampled_from(["bpsk", "qpsk"]))
    | st.just(fw.success.Table((-5.0, 0.0, 3.0), (1.0, 0.5, 0.0)))
)
success_models = (
    curves
    | st.builds(fw.success.Arq, curves, st.integers(1, 4))
    | st.builds(fw.success.Harq, curves, st.integers(1, 3))
)
arrivals = (
    st.builds(fw.arrivals.Poisson)
    | st.builds(fw.arrivals.NegativeBinomial, st.sampled_from([0.1, 2.0]))
    | st.builds(fw.arrivals.ZeroInflatedPoisson, st.sampled_from([0.0, 0.5, 0.95]))
)


@st.composite
def recorded_gains(draw, size):
    """Measured gains, exact zeros among them."""
    values = st.sampled_from([0.0, 1.0]) | numbers(0, 5)
    gains = draw(st.lists(values, min_size=ROUNDS * size, max_size=ROUNDS * size))
    return fw.fading.RecordedGains(np.array(gains).reshape(ROUNDS, size))


@st.composite
def networks(draw):
    table = draw(st.lists(devices, min_size=1, max_size=8))
    size = len(table)
    per_round = st.lists(st.integers(0, size), min_size=ROUNDS, max_size=ROUNDS)
    try:
        return fw.Network(
            devices=table,
            slots=draw(st.integers(1, size) | per_round),
            gamma=draw(st.sampled_from([0.0, 0.01, 1.0])),
            fading=draw(fadings | recorded_gains(size)),
            success=draw(success_models),
            arrivals=draw(arrivals),
        )
    except fw.FedwaveError as error:
        if "HARQ" not in str(error):  # the only parts that do not go together are its later tries
            raise
        reject()  # and a fading that remembers


# Those that plan with beliefs solve a new problem in every case.
@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=pytest.mark.slow) if text in PLANNING else text for text in SCHEDULERS]
)
def test_what_holds_along_every_path(text):
    @(FEWER if text in COSTLY else USUAL)
    @given(network=networks(), seed=st.integers(0, 2**40))
    def holds(network, seed):
        trace = fw.simulate(network, fw.scheduler(text), ROUNDS, instances=2, seed=seed)
        assert_numbers(trace)
        assert_slots(network, trace)
        assert_counts(network, trace)
        assert_score(network, trace)

    holds()


def assert_numbers(trace):
    counts = {name: getattr(trace.final, name) for name in trace.final.__slots__}
    for group in (trace.series, trace.devices, trace.state, counts):
        for name, values in group.items():
            assert not np.isnan(values).any(), name
            if name not in ("score", "log_likelihood"):
                assert (values >= 0).all(), name


def assert_slots(network, trace):
    everybody = trace.scheduler.name == "bench"
    slots = [network.size if everybody else network.slots_in(t) for t in range(1, ROUNDS + 1)]
    assert (np.count_nonzero(trace.scheduled, axis=2) == np.array(slots)[:, None]).all()
    assert not (trace.delivered & ~trace.scheduled).any()
    if everybody:
        assert trace.delivered.all()


def assert_counts(network, trace):
    """Arrivals so far = learned + waiting + lost, after every round and for every device."""
    accepted = trace.arrivals.astype(np.int64) - trace.lost
    learned = np.where(trace.delivered, trace.waiting + accepted, 0).cumsum(axis=0)
    waiting_after = np.concatenate([trace.waiting[1:], trace.final.waiting[None]])
    so_far = trace.arrivals.cumsum(axis=0)
    assert np.array_equal(so_far, learned + waiting_after + trace.lost.cumsum(axis=0))
    assert np.array_equal(learned[-1], trace.final.learned)
    assert np.array_equal(trace.lost.sum(axis=0), trace.final.lost)
    assert (waiting_after <= network.table.buffer_limit).all()
    assert (trace.waiting[0] == 0).all()
    assert not waiting_after[trace.delivered].any()
    assert not trace.arrivals[:, :, network.rates == 0].any()
    assert np.array_equal(trace.delivered.sum(axis=0), trace.totals["device_uploads"])
    series = {"uploads": trace.delivered, "arrived": trace.arrivals, "lost": trace.lost}
    for name, rows in series.items():
        assert np.array_equal(trace.series[name], rows.sum(axis=2))
    # Delays count the rounds since the last delivery.
    assert (trace.delay[0] == 1).all()
    assert np.array_equal(trace.delay[1:], np.where(trace.delivered, 1, trace.delay + 1)[:-1])
    assert np.array_equal(trace.series["worst_age"], trace.delay.max(axis=2))
    np.testing.assert_allclose(trace.series["mean_age"], trace.delay.mean(axis=2), rtol=1e-14)


def assert_score(network, trace):
    held = trace.waiting + trace.arrivals.astype(np.int64) - trace.lost
    brought = np.where(trace.delivered, held, 0).sum(axis=2)
    left = np.where(trace.delivered, 0, held).sum(axis=2)
    np.testing.assert_allclose(trace.score, brought - network.gamma * left, rtol=1e-12, atol=1e-9)
    assert np.array_equal(trace.backlog, left)
    # Section 4, exactly: mean score = mean arrivals - gamma * mean backlog - (B_T - B_0) / T.
    accepted = (trace.arrivals.astype(np.int64) - trace.lost).sum(axis=2)
    mean = accepted.mean(axis=0) - network.gamma * left.mean(axis=0) - left[-1] / ROUNDS
    np.testing.assert_allclose(trace.score.mean(axis=0), mean, rtol=1e-12, atol=1e-9)
