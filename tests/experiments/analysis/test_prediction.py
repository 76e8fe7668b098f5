"""`fw.predict`: the order of schedulers, and accuracies from one training."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import mentions, refused

import fedwave as fw
from fedwave.aggregation import Constant, Lee
from fedwave.experiments.analysis.prediction import Calibration, Prediction
from fedwave.learning.curves import Curves
from fedwave.theory.useful_mass import ScheduleMass

NET = fw.paper_network()
NAMES = ("round-robin", "fresh", "alsa-pi")
TRACES = {name: fw.simulate(NET, name, rounds=60, instances=4, seed=2) for name in NAMES}


def curves(label: str, accuracy: np.ndarray, rule: str | None = None) -> Curves:
    nothing = np.full((*accuracy.shape, 2), np.nan)
    settings = {} if rule is None else {"aggregation": rule}
    return Curves(label, 1 - accuracy, accuracy, nothing, settings, np.full(accuracy.shape, np.nan))


def test_of_a_trace_it_is_the_useful_mass_of_every_instance() -> None:
    found = fw.predict(TRACES["fresh"], "constant:beta=1")
    useful = ScheduleMass.of(TRACES["fresh"], Constant(1.0)).useful
    np.testing.assert_allclose(found, useful.sum(axis=0))
    assert found.shape == (4,)


def test_of_several_it_is_their_order_with_paired_differences() -> None:
    found = fw.predict(TRACES, "mnist")
    assert found.schedulers == ("fresh", "alsa-pi", "round-robin")
    assert fw.predict(list(TRACES.values())).schedulers == found.schedulers
    own, best = (fw.predict(TRACES[name]) for name in ("alsa-pi", "fresh"))
    assert found.estimate("alsa-pi").mean == pytest.approx(own.mean())
    assert found.difference("alsa-pi").mean == pytest.approx((own - best).mean())
    half = 3.182446 * (own - best).std(ddof=1) / 2  # Student's t of 3 degrees of freedom
    assert found.difference("alsa-pi").half_width == pytest.approx(half, rel=1e-6)
    assert np.isnan(found.accuracy("fresh"))
    table = found.to_pandas()
    assert table["scheduler"].tolist() == list(found.schedulers)
    text = repr(found)
    assert text.index("fresh") < text.index("round-robin")
    assert mentions(text, "60 rounds", "lee", "4 instances")
    assert "accuracy" not in text


def test_the_rule_is_that_of_the_task() -> None:
    with_task = fw.predict(TRACES, fw.task("synthetic", aggregation="constant:beta=1"))
    for given in ("constant:beta=1", {"name": "constant", "beta": 1}, Constant(1.0)):
        found = fw.predict(TRACES, given)
        assert found.rule.startswith("constant:beta=1")
        np.testing.assert_array_equal(found.of("fresh"), with_task.of("fresh"))
    assert fw.predict(TRACES).rule == fw.predict(TRACES, "cifar10").rule == "lee"
    assert fw.predict(TRACES, Lee(0.5)).rule == "lee:beta=0.5"


def test_accuracies_within_the_trained_rounds_are_those_of_the_curve() -> None:
    useful = {"slow": np.full((20, 2), 1.0), "fast": np.full((20, 2), 4.0)}
    mean = np.linspace(0.1, 0.9, 20)
    trained = curves("fast", np.stack([mean - 0.01, mean + 0.01], axis=1))
    found = Prediction(useful, "lee").calibrated(trained)
    assert found.accuracy("fast") == pytest.approx(mean[-1])
    assert found.accuracy("slow") == pytest.approx(mean[4])  # 20 shards, as fast has after 5 rounds
    assert "beyond" not in found.note()
    assert "| accuracy |" in repr(found)


def test_beyond_the_trained_rounds_the_error_falls_by_a_power_law() -> None:
    useful = {"long": np.full((100, 3), 2.0)}
    mass = 2.0 * np.arange(1, 31)
    wrong = 0.9 * mass**-0.4
    trained = curves("long", np.repeat(1 - wrong[:, None], 3, axis=1))
    found = Prediction(useful, "lee").calibrated(trained)
    assert found.calibration is not None
    assert found.calibration.exponent == pytest.approx(0.4, rel=1e-6)
    assert found.accuracy("long") == pytest.approx(1 - 0.9 * 200.0**-0.4, rel=1e-9)
    assert mentions(found.note(), "power law")


def test_a_curve_that_does_not_rise_promises_nothing() -> None:
    flat = Calibration("a", np.arange(1.0, 11), np.full(10, 0.1))
    assert flat.exponent == 0
    assert flat.at(1e6) == pytest.approx(0.1)
    nothing = Calibration("a", np.zeros(10), np.full(10, 0.1))
    assert nothing.at(5.0) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "traces, task, complaint",
    [
        (3, None, ("traces", 3)),
        ([], None, ("traces", "empty")),
        ([TRACES["fresh"]] * 2, None, ("two", "fresh")),
        ({"a": 1}, None, ("traces", 1)),
        (TRACES, "lea", ("'lea'",)),
        (TRACES, 7, ("task", 7)),
        ({**TRACES, "x": fw.simulate(NET, "age", 5, 4)}, None, ("rounds", "instances")),
        (fw.simulate(NET, "age", 5, 2, record="summary"), None, ("summary",)),
    ],
)
def test_what_cannot_be_predicted_is_refused(traces, task, complaint) -> None:  # type: ignore[no-untyped-def]
    with refused(*complaint):
        fw.predict(traces, task)
    with refused("labels", "fw.partition.Labels"):
        fw.predict(TRACES["fresh"], labels=[0.1])  # type: ignore[call-overload]


def test_traces_of_other_worlds_are_not_compared() -> None:
    net = fw.paper_network()
    same = fw.simulate(net, "age", 10, 2, seed=1)
    for other in (
        fw.simulate(net, "fresh", 10, 2, seed=2),
        fw.simulate(fw.random_network(10, 2), "fresh", 10, 2, seed=1),
    ):
        with refused("worlds", "arrivals"):
            fw.predict([same, other])


@pytest.mark.parametrize(
    "task, given, complaint",
    [
        ("lee", curves("other", np.full((5, 4), 0.5)), ("other",)),
        ("lee", curves("fresh", np.full((61, 4), 0.5)), ("61 rounds", "4 instances")),
        ("lee", curves("fresh", np.full((5, 2), 0.5)), ("5 rounds", "2 instances")),
        ("lee", curves("fresh", np.full((5, 4), np.nan)), ("diverged",)),
        ("lee", curves("fresh", np.full((1, 4), 0.5)), ("1 round", 3)),
        ("constant:beta=1", curves("fresh", np.full((4, 4), 0.5), "lee"), ("lee", "constant")),
        ("skewed", curves("fresh", np.full((4, 4), 0.5), "lee"), ("iid", "dirichlet")),
    ],
)
def test_curves_of_something_else_are_refused(task: str, given: Curves, complaint: tuple[object, ...]) -> None:
    if task == "skewed":
        found = fw.predict(TRACES, labels=fw.partition.Labels("dirichlet:alpha=0.2"))
        assert mentions(found.note(), "dirichlet:alpha=0.2")
    else:
        found = fw.predict(TRACES, task)
        assert "classes" not in found.note()
    with refused(*complaint):
        found.calibrated(given)
