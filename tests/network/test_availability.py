"""Devices that are away: nobody picks them, they do not train, and what arrives there is lost or kept."""

import numpy as np
import pytest

import fedwave as fw

ROUNDS = 150  # more than two blocks of the world
MODELS = {
    "on-off": fw.availability.OnOff(mean_on=6, mean_off=3),
    "on-off, kept": fw.availability.OnOff(mean_on=6, mean_off=3, arrivals_while_away=True),
    "timetable": fw.availability.Timetable(period=10, awake=4),
    "timetable, kept": fw.availability.Timetable(period=7, awake=3, staggered=False, arrivals_while_away=True),
    "recorded": fw.availability.RecordedAvailability(np.random.default_rng(0).random((ROUNDS, 25)) < 0.6),
}


def run(model, scheduler="alsa-pi", rounds=ROUNDS, **changes):
    return fw.simulate(fw.paper_network(availability=model, **changes), scheduler, rounds, instances=3, seed=2)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_device_that_is_away_does_nothing(model):
    trace = run(model)
    away = ~trace.available
    assert away.any()
    assert not (trace.scheduled & away).any()
    assert not (trace.accepted[away]).any()
    assert (trace.delay[1:][away[:-1]] == trace.delay[:-1][away[:-1]] + 1).all()
    sent = trace.learned[-1] + trace.final.waiting + trace.lost.sum(axis=0)
    np.testing.assert_array_equal(trace.arrivals.sum(axis=0), sent)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_run_is_continued_as_if_it_had_never_stopped(model, tmp_path):
    whole = run(model)
    for stop in (1, 64, 70):
        begun = fw.Trace.load(run(model, rounds=stop).save(tmp_path / f"{stop}.npz"))
        assert fw.extend(begun, ROUNDS).same_as(whole)


def test_arrivals_of_a_device_that_is_away_are_lost_or_kept():
    everything = run("always").arrivals
    lost, kept = (run(MODELS[name]) for name in ("on-off", "on-off, kept"))
    np.testing.assert_array_equal(lost.available, kept.available)
    np.testing.assert_array_equal(lost.arrivals, everything)
    np.testing.assert_array_equal(lost.lost, np.where(lost.available, 0, everything))
    assert not kept.lost.any()
    for i in range(3):
        for u in range(25):
            held = 0
            for t in range(ROUNDS):
                held += everything[t, i, u]
                assert kept.arrivals[t, i, u] == (held if kept.available[t, i, u] else 0)
                held *= not kept.available[t, i, u]


def test_lost_and_buffer_limit_together():
    trace = run(MODELS["on-off"], buffer_limit=3)
    assert (trace.waiting <= 3).all()
    assert trace.lost[trace.available].any()
    assert trace.lost[~trace.available].any()


def test_the_chain_has_its_means_and_its_memory():
    model = fw.availability.OnOff(mean_on=8, mean_off=2)
    there = fw.simulate(fw.paper_network(availability=model), "random", 2000, instances=8, seed=1).available
    share = there.mean(axis=(0, 2))  # by instance
    assert abs(share.mean() - 0.8) < 4 * share.std(ddof=1) / np.sqrt(8)
    before, after = there[:-1], there[1:]
    for state, leaves in ((True, 1 / 8), (False, 1 / 2)):
        of = before == state
        rate = (of & (after != state)).sum() / of.sum()
        assert abs(rate - leaves) < 4 * np.sqrt(leaves * (1 - leaves) / of.sum())
    assert abs(there[0].mean() - 0.8) < 4 * np.sqrt(0.16 / there[0].size)  # stationary from round 1


def test_instances_are_the_same_whichever_others_run():
    net = fw.paper_network(availability=MODELS["on-off, kept"])
    alone, three = (fw.simulate(net, "age", 90, instances=i) for i in ([2], 3))
    np.testing.assert_array_equal(alone.available[:, 0], three.available[:, 2])
    np.testing.assert_array_equal(alone.arrivals[:, 0], three.arrivals[:, 2])


@pytest.mark.parametrize("name", fw.scheduler_names(standalone=True))
def test_every_scheduler_leaves_out_who_is_away(name):
    for model in (MODELS["on-off"], MODELS["timetable, kept"]):
        trace = run(model, name, rounds=40)
        assert not (trace.scheduled & ~trace.available).any()
        there = trace.available.sum(axis=2)
        most = there if name == "bench" else np.minimum(there, 5)
        np.testing.assert_array_equal(trace.scheduled.sum(axis=2), most)


def test_a_scheduler_may_leave_slots_empty():
    class Picky(fw.Scheduler):
        name = "picky"
        needs = frozenset({"channel"})

        def priority(self, state, seen, draws):
            return np.where(seen.success > 0.9, seen.success, -np.inf)

    class Idle(fw.Scheduler):
        name, idles = "idle", True
        needs = frozenset({"channel"})

        def priority(self, state, seen, draws):
            return seen.success - 0.9

    for scheduler in (Picky(), Idle()):
        trace = fw.simulate(fw.paper_network(slots=20), scheduler, rounds=100, instances=2)
        used = trace.scheduled.sum(axis=2)
        assert used.min() < 20
        assert used.max() <= 20


def test_a_decision_for_a_device_that_is_away_is_refused():
    class Blind(fw.Scheduler):
        name = "blind"

        def priority(self, state, seen, draws):
            raise NotImplementedError

        def decide(self, state, seen, draws):
            transmits = np.zeros(seen.delay.shape, dtype=bool)
            transmits[:, :5] = True
            return fw.Decision(transmits), state

    with pytest.raises(fw.FedwaveError, match=r"blind.*away"):
        run(MODELS["on-off"], Blind())


@pytest.mark.parametrize(
    "make",
    [
        lambda: fw.availability.OnOff(mean_on=0.5),
        lambda: fw.availability.OnOff(mean_off=float("nan")),
        lambda: fw.availability.Timetable(period=0),
        lambda: fw.availability.Timetable(period=5, awake=6),
        lambda: fw.availability.RecordedAvailability([[0, 2]]),
        lambda: fw.paper_network(availability="sometimes"),
        lambda: run(fw.availability.RecordedAvailability(np.ones((5, 25))), rounds=6),
        lambda: run(fw.availability.RecordedAvailability(np.ones((5, 24))), rounds=5),
        lambda: fw.backlog_bound(fw.paper_network(availability="on-off")),
        lambda: fw.mass_bound(fw.paper_network(availability="on-off")),
        lambda: fw.score_bound(fw.paper_network(availability="on-off")),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(fw.FedwaveError):
        make()


@pytest.mark.parametrize("name", ["balsa", "balsa-po"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_posterior_covers_the_rounds_whose_arrivals_it_counts(name, kept):
    trace = fw.simulate(
        fw.paper_network(availability=fw.availability.OnOff(6, 3, arrivals_while_away=kept)),
        name,
        rounds=ROUNDS,
        instances=3,
        seed=2,
        beliefs=True,
    )
    counts = np.ones_like(trace.available) if kept else trace.available  # rounds whose arrivals count
    shards = trace.arrivals if kept else trace.accepted
    observed = trace.available if name == "balsa" else trace.delivered
    for i in range(3):
        for u in range(25):
            last = np.flatnonzero(observed[:-1, i, u])[-1:]  # evidence of the last round arrives after it
            known = slice(0, int(last[0]) + 1) if last.size else slice(0, 0)
            assert trace.beliefs["covered"][-1, i, u] == counts[known, i, u].sum()
            assert trace.beliefs["counted"][-1, i, u] == shards[known, i, u].sum()


def test_rates_are_learned_although_devices_sleep():
    net = fw.paper_network(availability="timetable:period=4,awake=2")
    theta = fw.simulate(net, "balsa", rounds=800, instances=4, seed=1, beliefs=True).beliefs["theta"][-1]
    spread = np.sqrt(net.rates / 400)  # of 400 counted rounds
    assert (np.abs(theta.mean(axis=0) - net.rates) < 4 * spread).all()


@pytest.mark.parametrize("text", ["no", "False", "off", "0.5"])
@pytest.mark.parametrize("part", ["on-off:arrivals_while_away", "timetable:staggered", "timetable:arrivals_while_away"])
def test_a_text_is_not_taken_for_true(part, text):
    with pytest.raises(fw.FedwaveError, match=part.partition(":")[2]):
        fw.paper_network(availability=f"{part}={text}")


def test_a_record_in_a_file_can_keep_arrivals(tmp_path):
    np.save(tmp_path / "there.npy", np.arange(50)[:, None] % 2 * np.ones(25))
    part = f"recorded:path={tmp_path / 'there.npy'},arrivals_while_away=true"
    trace = fw.simulate(fw.paper_network(availability=part), "age", rounds=50, instances=1)
    assert not trace.lost.any()
    assert not trace.arrivals[::2].any()


def test_who_is_away_hears_no_broadcast():
    trace = run(MODELS["on-off"], miss_probability=0.3)
    assert not trace.heard[~trace.available].any()
    assert 0 < trace.heard[trace.available].mean() < 1
