"""A user's part cannot write into what it is given, and what it returns is checked while it runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from broken_parts import ChanceOf, CountsOf, FadingOf, SharesOf, WeightsOf, WritesCarry, WritesRates
from killing import command
from tiny import blobs, linear

import fedwave as fw
from fedwave.aggregation import Aggregation, FedBuff
from fedwave.metrics import Mass, Metric
from fedwave.network.arrivals import Poisson
from fedwave.network.fading import Rayleigh
from fedwave.network.partition import Iid, Labels
from fedwave.network.success import Soft

NETWORK = fw.paper_network()
# In its rounds no array is None.
FULL = NETWORK.replace(buffer_limit=3.0, miss_probability=0.3, success="harq:tries=2")


def play(network: fw.Network = NETWORK, scheduler: Any = "age", *metrics: Any, **more: Any) -> Any:
    return fw.simulate(network, scheduler, 6, 2, metrics=metrics, **more)


def train(rule: Aggregation) -> None:
    task = fw.task(dataset=blobs(), model=linear, epochs=1, batch=4, shard_size=4, aggregation=rule)
    fw.train(play(), task, sizes=fw.EvaluationSizes(10, 10))


def spoil(array: Any) -> Any:
    array[:] = 0
    return array


# --- what a part is given -------------------------------------------------------------------------

COUNTS = ("waiting", "learned", "lost", "delay", "delivered", "reported")
WORLD = ("gain", "snr", "success", "luck", "later_snr", "arrivals", "heard")
PLAYED = [
    "score",
    "accepted",
    "decision.transmits",
    "sums.waiting",
    *(f"world.{n}" for n in WORLD),
    *(f"{when}.{n}" for when in ("before", "after") for n in COUNTS),
]


class Measures(Metric):
    """Counts rounds in its state, and calls a function with every round and its new state."""

    name = "measures"
    call: ClassVar[Any] = None

    def start(self, problem: Any) -> Any:
        return {"own": np.zeros(problem.instances)}

    def measure(self, state: Any, played: Any) -> Any:
        if type(self).call is not None:
            type(self).call(state, played)
        return {"own": state["own"] + 1}, state["own"]


def calling(monkeypatch: pytest.MonkeyPatch, call: Callable[[Any, Any], Any]) -> None:
    monkeypatch.setattr(Measures, "call", staticmethod(call))


@pytest.mark.parametrize("name", PLAYED)
def test_a_metric_cannot_write_into_a_round(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calling(monkeypatch, lambda state, played: spoil(attrgetter(name)(played)))
    with pytest.raises(ValueError, match="read-only"):
        play(FULL, "age", Measures())


@dataclass
class Writes(fw.Scheduler):
    """Writes into one of the arrays that its methods are given."""

    name = "writes"
    needs = frozenset({"rates", "planning"})
    when: str
    which: Callable[..., Any]

    def write(self, when: str, *given: Any) -> None:
        if when == self.when:
            spoil(self.which(*given))

    def start(self, problem: Any) -> Any:
        return {"own": np.zeros((problem.instances, 1))}

    def learn(self, state: Any, seen: Any, draws: Any) -> Any:
        self.write("learn", state, seen)
        return {"own": state["own"] + 1}

    def priority(self, state: Any, seen: Any, draws: Any) -> Any:
        self.write("priority", state, seen)
        return seen.delay

    def remember(self, state: Any, seen: Any, decision: Any) -> Any:
        self.write("remember", state, decision)
        return {"own": state["own"] + 1}

    def beliefs(self, state: Any) -> Any:
        self.write("beliefs", state)
        return state


@pytest.mark.parametrize(
    "when, which",
    [
        ("learn", lambda state, seen: state["own"]),
        ("learn", lambda state, seen: seen.reported),
        ("priority", lambda state, seen: state["own"]),
        ("priority", lambda state, seen: seen.rates),
        ("priority", lambda state, seen: seen.planning.mean_snr),
        ("remember", lambda state, decision: decision.transmits),
        ("remember", lambda state, decision: state["own"]),
        ("beliefs", lambda state: state["own"]),
    ],
)
def test_a_scheduler_cannot_write_into_what_it_is_given(when: str, which: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="read-only"):
        play(NETWORK, Writes(when, which), beliefs=True)


class WritesSnr(Soft):
    def probability(self, snr: Any) -> Any:
        return super().probability(spoil(snr))


@pytest.mark.parametrize(
    "part", [{"fading": WritesCarry()}, {"success": WritesSnr()}, {"arrivals": WritesRates()}], ids=str
)
def test_a_part_of_the_network_cannot_write_into_what_it_is_given(part: Any) -> None:
    with pytest.raises(ValueError, match="read-only"):
        fw.simulate(NETWORK.replace(**part), "age", 70, 2)  # a second block has a carry


@dataclass(frozen=True)
class WritesUploads(FedBuff):
    which: str = "sum"
    when: str = "weights"

    def weights(self, uploads: Any) -> Any:
        if self.when == "weights":
            spoil(getattr(uploads, self.which))
        return super().weights(uploads)

    def server_step(self, memory: Any, update: Any, uploads: Any) -> Any:
        if self.when == "server_step":
            spoil(memory[self.which] if self.which in memory else getattr(uploads, self.which))
        return super().server_step(memory, update, uploads)


@pytest.mark.parametrize("when", ["weights", "server_step"])
@pytest.mark.parametrize("which", ["delivered", "learned", "delay", "mass", "trainings"])
def test_a_rule_cannot_write_into_the_uploads(which: str, when: str) -> None:
    rule = WritesUploads(which=which, when=when)
    with pytest.raises(ValueError, match="read-only"):
        play(NETWORK, "age", Mass(rule))
    with pytest.raises(ValueError, match="read-only"):
        train(rule)


def test_a_rule_cannot_write_into_the_memory_of_the_mass() -> None:
    with pytest.raises(ValueError, match="read-only"):
        play(NETWORK, "age", Mass(WritesUploads(when="server_step")))


# --- what a part returns --------------------------------------------------------------------------


@dataclass(frozen=True)
class NegativeTries(Rayleigh):
    def fresh(self, rng: Any, shape: Any) -> Any:
        return -super().fresh(rng, shape)


@dataclass(frozen=True)
class OneRateMore(Poisson):
    def mean_rates(self, rates: Any) -> Any:
        return np.append(rates, 1.0)


NETWORKS: dict[str, tuple[dict[str, Any], str]] = {
    "negative gains": ({"fading": FadingOf(lambda g: g - 1)}, r"value -0\.\d+, must be numbers >= 0"),
    "NaN as a gain": ({"fading": FadingOf(lambda g: g * np.nan)}, "value nan"),
    "gains without instances": ({"fading": FadingOf(lambda g: g[:, 0])}, r"must be .* of shape \(64, 2, 25\)"),
    "negative later gains": ({"fading": NegativeTries(), "success": "harq"}, "of new tries"),
    "negative counts": ({"arrivals": CountsOf(lambda m: m - 5)}, "value -5, must be whole"),
    "counts of one device": ({"arrivals": CountsOf(lambda m: m[..., :1])}, r"shape \(64, 2, 1\)"),
    "one rate more": ({"arrivals": OneRateMore()}, r"must be .* of shape \(25,\)"),
    "p above 1": ({"success": ChanceOf(lambda snr: 1 + snr)}, "must be numbers from 0 to 1"),
    "NaN as p": ({"success": ChanceOf(lambda snr: snr * np.nan)}, "value nan"),
    "p of one round": ({"success": ChanceOf(lambda snr: 0 * snr[0])}, r"shape \(2, 25\)"),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_a_part_of_the_network_that_breaks_its_contract_is_named(name: str) -> None:
    parts, text = NETWORKS[name]
    word = next(iter(parts))
    with pytest.raises(fw.FedwaveError, match=f"{word} '.*' returned .*{text}.*run fw.check on it"):
        play(NETWORK.replace(**parts), "alsa-pi")


@pytest.mark.parametrize(
    "parts",
    [
        {"fading": FadingOf(lambda g: np.ones(g.shape, int))},
        {"arrivals": CountsOf(lambda m: m.astype(np.uint64))},
        {"arrivals": CountsOf(lambda m: m > 1)},
        {"success": ChanceOf(lambda snr: snr > 0.5)},
    ],
)
def test_numbers_of_another_type_are_converted(parts: Any) -> None:
    trace = play(NETWORK.replace(**parts), "alsa-pi")
    assert (trace.gain.dtype, trace.final.waiting.dtype) == (np.float64, np.int64)


@pytest.mark.parametrize(
    "form, text",
    [
        (lambda a: a * 1j, "type complex128"),
        (lambda a: a * np.nan, "value nan"),
        (lambda a: a - 1, "value -1, must be numbers >= 0"),
        (lambda a: a.sum(axis=-1, keepdims=True), r"shape \(\d, 1\)"),
    ],
)
@pytest.mark.parametrize("cap", [None, 2.0])
def test_a_rule_that_breaks_its_contract_is_named(form: Any, text: str, cap: float | None) -> None:
    rule, text = WeightsOf(cap, lambda a, _: form(a)), f"aggregation 'equal' returned weights .*{text}"
    with pytest.raises(fw.FedwaveError, match=text):
        play(NETWORK, "age", Mass(rule))
    with pytest.raises(fw.FedwaveError, match=text):
        train(rule)


@pytest.mark.parametrize("form", [lambda c: -c, lambda c: c / 2, lambda c: c[0]])
def test_label_counts_that_break_their_contract_are_refused(form: Any) -> None:
    class Own(Labels):
        def counts(self, *given: Any) -> Any:
            return form(super().counts(*given))

    with pytest.raises(fw.FedwaveError, match="'Own' returned label counts"):
        play(NETWORK, "mass-labels", labels=Own(Iid()))


@pytest.mark.parametrize("shares", [[0.5, 0.5j], ["a", "b"], [np.nan, 1.0], [0.5, 0.6], [1.0], 1.0])
@pytest.mark.parametrize("kind", [list, np.asarray])
def test_class_shares_that_break_their_contract_are_refused(shares: Any, kind: Any) -> None:
    partition = SharesOf(form=lambda _: shares if kind is list else np.asarray(shares))
    with pytest.raises(fw.FedwaveError, match="partition 'dirichlet'"):
        play(NETWORK, "mass-labels", labels=Labels(partition, classes=2))


FILE = """
import fedwave as fw

@fw.register
class Sorts(fw.metrics.Metric):
    name = "sorts"

    def measure(self, state, played):
        waiting = played.after.waiting
        waiting.sort(axis=1)
        return state, waiting[:, -1]

@fw.register
class Writes(fw.Scheduler):
    name = "writes"

    def remember(self, state, seen, decision):
        decision.transmits[:] = True
        return state

    def priority(self, state, seen, draws):
        return seen.delay

@fw.register
class Debts(fw.arrivals.Poisson):
    name = "debts"

    def sample(self, block, rates):
        return super().sample(block, rates) - 9
"""
NEGATIVE = "arrivals 'debts' returned counts with the value -9, must be whole numbers"


@pytest.mark.parametrize(
    "words, status, text",
    [
        (
            ("run", "metrics=[sorts]"),
            1,
            ", line 10, in Sorts.measure: ValueError: sort array is read-only; change a copy",
        ),
        (("predict", "schedulers=[writes]"), 1, ", line 18, in Writes.remember: ValueError: assignment destination"),
        (("run", "network.arrivals=debts"), 1, NEGATIVE),
        (("predict", "network.arrivals=debts"), 2, NEGATIVE),
    ],
)
def test_the_command_line_says_it_in_one_sentence(
    words: tuple[str, str], status: int, text: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    verb, change = words
    size = ("schedulers=[age]", change, "-r", "4", "-i", "2", *(["--out", "it"] if verb == "run" else []))
    given = command(verb, "paper", "--import", "mine.py", *size)
    done = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert text in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
