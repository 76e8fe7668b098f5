"""Parts that break the contract of their family in one way each: (part, failing check, what the message names)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import broken as schedulers
import numpy as np
import torch
import torch.utils.checkpoint
from small_models import images as small_images
from torch import nn

from fedwave.aggregation import Aggregation
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.datasets.synthetic import synthetic
from fedwave.learning.optimizers import Momentum
from fedwave.metrics import Jain, Metric
from fedwave.network.arrivals import Poisson
from fedwave.network.availability import Availability, OnOff
from fedwave.network.fading import Fading, GaussMarkov, Rayleigh
from fedwave.network.partition import Dirichlet
from fedwave.network.success import Harq, Soft, SuccessModel
from fedwave.schedulers.priors import Gamma, Truncated

Case = tuple[Any, str, tuple[object, ...]]
_from_outside = itertools.count()


def outside() -> np.random.Generator:
    """Random numbers that no seed decides."""
    return np.random.default_rng(next(_from_outside))


def put(part: Any, name: str, value: Any) -> Any:
    """Write into a frozen object."""
    object.__setattr__(part, name, value)
    return part


def altered(array: Any, value: Any) -> Any:
    """Write into an array in place."""
    array[...] = value
    return array


def broken(kind: Any, **own: Any) -> Any:
    """A class derived from ``kind`` with attributes and methods of its own."""
    return type("Broken", (kind,), own)


def spoiled(kind: Any, method: str) -> list[Case]:
    """A part of a family, broken in each of the ways that all families share."""

    def counting(self: Any, *given: Any) -> Any:
        put(self, "asked", getattr(self, "asked", 0) + 1)
        return getattr(kind, method)(self, *given)

    return [
        (broken(kind, name=""), "declaration", ("name",)),
        (broken(kind, __hash__=None), "equality", ("hashed",)),
        (broken(kind, **{method: counting}), "parameters", ("asked",)),
        (put(broken(kind)(), "kept_aside", 2.0), "saving", ("kept_aside",)),  # an attribute that is not a field
    ]


# Availability


def there(draw: Any, **own: Any) -> Any:
    """A model of who is there, from ``draw(block)``."""
    return broken(Availability, name="broken", sample=lambda self, block, carry: (draw(block), None), **own)


AVAILABILITY = [
    *spoiled(OnOff, "sample"),
    (there(lambda block: np.ones((block.rounds, block.devices), bool)), "values", ("shape",)),
    (there(lambda block: np.full(shape_of(block), 2)), "values", ("2",)),
    (there(lambda block: np.full(shape_of(block), 0.5)), "values", ("float64",)),
    (there(lambda block: outside().random(shape_of(block)) < 0.5), "repetition", ("block",)),
    (
        there(lambda block: np.arange(block.ids.size)[None, :, None] + np.zeros(shape_of(block), int) == 0),
        "instances",
        (),
    ),
    (
        there(lambda block: block.draw(lambda rng, shape: np.repeat(rng.random((1, shape[1])) < 0.5, shape[0], 0))),
        "declared",
        ("independent",),
    ),
    (there(lambda block: block.draw(lambda rng, shape: rng.random(shape) < 0.5), shared=True), "declared", ("shared",)),
]


# Fading


@dataclass(frozen=True)
class FadingOf(Rayleigh):
    """Gains of another form."""

    form: Any = None

    def sample(self, block, carry):
        return self.form(super().sample(block, carry)[0]), None


@dataclass(frozen=True)
class WritesCarry(GaussMarkov):
    def sample(self, block, carry):
        gains, after = super().sample(block, carry)
        if carry is not None:
            carry *= 2
        return gains, after


def correlated_in_block(self, block, carry):
    """A memory within the block only, undeclared."""
    gains = Rayleigh.sample(self, block, carry)[0]
    return np.concatenate([gains[:1], (gains[1:] + gains[:-1]) / 2]), None


@dataclass
class NotFrozen(Fading):
    name = "not-frozen"
    scale: float = 1.0
    sample, fresh = Rayleigh.sample, Rayleigh.fresh


@dataclass(frozen=True)
class KeepsASet(Rayleigh):
    table: Any = frozenset({1})


@dataclass(frozen=True, eq=False)
class NeverEqual(Rayleigh):
    scale: float = 1.0

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 0


def not_a_field(self, scale=1.0):
    put(self, "scale", scale)


def shape_of(block):
    return block.rounds, block.ids.size, block.devices


def drawn(draw: Any) -> Any:
    """Gains from ``draw(block)``."""
    return broken(Rayleigh, sample=lambda self, block, carry: (draw(block), None))


# A fixed seed: every instance is the same.
SAME_FOR_ALL = drawn(
    lambda block: block.draw(lambda rng, shape: np.random.default_rng(block.first).exponential(size=shape))
)
FADING = [
    (broken(Rayleigh, __init__=not_a_field)(2.0), "declaration", ("scale", "dataclass")),
    *spoiled(Rayleigh, "sample"),
    (broken(Fading, name="no-gains"), "declaration", ("abstract", "built")),
    (FadingOf(lambda g: g[:, 0]), "values", ("(1, 3)", "(1, 3, 3)")),
    (WritesCarry, "values", ("array",)),
    (drawn(lambda block: outside().exponential(size=shape_of(block))), "repetition", ("generators", "seed")),
    (drawn(lambda b: b.generators[0].exponential(size=shape_of(b))), "instances", ("instance 2", "gains")),
    (broken(GaussMarkov, independent=True), "values", ("independent",)),
    (
        broken(Rayleigh, sample=correlated_in_block, fresh=lambda self, rng, shape: rng.standard_gamma(2, shape) / 2),
        "independence",
        (1, "independent"),
    ),
    (
        broken(Rayleigh, fresh=lambda self, rng, shape: 1.2 * rng.standard_exponential(shape)),
        "fresh",
        ("distributions", "marginal"),
    ),
    (SAME_FOR_ALL, "fresh", ("distributions",)),
    (
        broken(Rayleigh, fresh=lambda self, rng, shape: outside().standard_exponential(shape)),
        "repetition",
        ("fresh", "rng"),
    ),
    (broken(Rayleigh, quartiles=lambda self: (0.1, 1.0, 2.0)), "quartiles", ("gains", "25%", 0.1)),
    (broken(Rayleigh, quartiles=lambda self: (1.0, 0.5, 2.0)), "quartiles", ("quartiles", "decrease")),
    (
        broken(Rayleigh, sum_quantiles=lambda self, tries, p: tries * Rayleigh.sum_quantiles(self, 1, p)),
        "sums",
        ("sum_quantiles", 3, 0.05),
    ),
    (
        broken(Rayleigh, sum_exceeds=lambda self, tries, level: 1 - Rayleigh.sum_exceeds(self, tries, level)),
        "sums",
        ("sum_exceeds", 1),
    ),
    (KeepsASet, "saving", ("rebuilt",)),
    (NotFrozen, "equality", ("dataclass", "hashed")),
    (NeverEqual, "equality", ("parameters", "equal")),
]


# Success


@dataclass(frozen=True)
class Chance(SuccessModel):
    """What the others spoil."""

    name = "chance"

    def probability(self, snr):
        return snr / (1 + snr)


@dataclass(frozen=True)
class ChanceOf(Chance):
    form: Any = None

    def probability(self, snr):
        return self.form(snr)


def writes_snr(self, snr):
    p = Soft.probability(self, snr)
    if np.size(snr) == 60:
        snr += 1
    return p


def random_chance(self, snr, mean_snr, fading):
    return np.minimum(1, self.probability(snr) * (1 - 1e-10 * outside().random(snr.shape)))


SUCCESS = [
    *spoiled(Chance, "probability"),
    (broken(SuccessModel, name="no-chance"), "declaration", ("built",)),
    (ChanceOf(lambda snr: np.log10(np.maximum(snr, 1e-9))), "values", (-9, 0, 1)),
    (ChanceOf(lambda snr: np.exp(-snr)), "monotony", ("SNR", "falls")),
    (ChanceOf(lambda snr: snr / (np.max(snr) + 1)), "elements", ("SNRs", "element")),
    (broken(Soft, probability=writes_snr), "values", ("array",)),
    (broken(Chance, expected=random_chance), "repetition", ("random",)),
    # Expects no later try to fail.
    (
        broken(Harq, expected=lambda self, snr, mean_snr, fading: self.probability(snr + 3 * mean_snr)),
        "expected",
        (1, "probability"),
    ),
    (
        broken(Chance, expected=lambda self, snr, mean_snr, fading: 0.9 * self.probability(snr)),
        "expected",
        ("later", 0),
    ),
    (broken(Chance, later_tries=0.5), "expected", ("later_tries", 0.5)),
]


# Arrivals


@dataclass(frozen=True)
class CountsOf(Poisson):
    form: Any = None

    def sample(self, block, rates):
        return self.form(super().sample(block, rates))


@dataclass(frozen=True)
class WritesRates(Poisson):
    def sample(self, block, rates):
        counts = super().sample(block, rates)
        rates += 1
        return counts


def chances_of(form: Any) -> Any:
    return broken(Poisson, chances=lambda self, rates, most: form(Poisson.chances(self, rates, most)))


def at_rates(form: Any, *methods: str) -> Any:
    """Poisson whose methods see other rates."""

    def sample(self, block, rates):
        return Poisson.sample(self, block, form(rates))

    def chances(self, rates, most):
        return Poisson.chances(self, form(rates), most)

    own = {"sample": sample, "chances": chances}
    return broken(Poisson, **{name: own[name] for name in methods})


ARRIVALS = [
    *spoiled(Poisson, "sample"),
    (CountsOf(lambda m: m.astype(float)), "values", ("float64", "numbers")),
    (WritesRates, "values", ("array",)),
    (
        broken(Poisson, sample=lambda self, block, rates: outside().poisson(rates, shape_of(block))),
        "repetition",
        ("arrivals", "draw"),
    ),
    (
        broken(Poisson, sample=lambda self, block, rates: block.generators[0].poisson(rates, shape_of(block))),
        "instances",
        ("instance 2", "arrivals"),
    ),
    (chances_of(lambda p: p[..., 0]), "values", ("chances", "(2, 2, 6)")),
    (chances_of(lambda p: p / 2), "chances", ("0.500000", 1)),
    (chances_of(lambda p: p / p.sum(axis=-1, keepdims=True)), "chances", ("most",)),
    # A little even at rate 0, and honest about it.
    (at_rates(lambda rates: np.maximum(rates, 0.02), "sample", "chances"), "means", (0, 0.02)),
    (at_rates(lambda rates: 1.3 * rates, "sample"), "frequencies", (0.3, "chances")),
    (at_rates(lambda rates: 1.3 * rates, "sample", "chances"), "means", ("counts", 0.3, 0.39)),
    (broken(Poisson, distribution="lomax"), "distribution", ("lomax", "poisson")),
    (broken(Poisson, distribution=3), "distribution", ("distribution", 3)),
]


# Priors


def density_of(form: Any, kind: Any = Gamma) -> Any:
    """A prior whose density is ``form(theta, the right one)``."""
    return broken(kind, log_density=lambda self, theta: form(theta, kind.log_density(self, theta)))


def writes_theta(theta, density):
    theta += 1
    return density


@dataclass(frozen=True)
class HalfOpen(Gamma):
    """Bounded below, and nobody above: drawn without a bound."""

    low: float = 0.5


@dataclass(frozen=True)
class Shapeless(Gamma):
    shape: float = 0.0

    def __post_init__(self):
        pass


PRIOR = [
    *spoiled(Gamma, "log_density"),
    (Shapeless, "values", ("shape", 0.0)),
    (density_of(lambda theta, d: d.ravel()), "values", ("(40,)", "(4, 10)")),
    # Cut off, but its density does not say so.
    (density_of(lambda theta, d: 0.5 * np.log(theta), Truncated), "density", ("[0.05, 40.0]", "[0.1, 20.0]")),
    (density_of(writes_theta), "values", ("array",)),
    (density_of(lambda theta, d: d + 1e-9 * outside().random(d.shape)), "repetition", ("random",)),
    (density_of(lambda theta, d: -(np.log(theta) ** 2)), "conjugacy", ("shape", "theta")),
    (HalfOpen, "sampling", ("ConjugatePosterior", "[0.5, inf]")),
]


# Partitions


@dataclass(frozen=True)
class SharesOf(Dirichlet):
    form: Any = None

    def class_shares(self, seed, instance, device, classes):
        return self.form(super().class_shares(seed, instance, device, classes))


def masked(shares):
    """Shares that add up only as long as what is masked does not count."""
    hidden = np.eye(len(shares))[1]
    return np.ma.array(np.eye(len(shares))[0] + hidden, mask=hidden)


PARTITION = [
    *spoiled(Dirichlet, "class_shares"),
    (SharesOf(form=lambda s: s[:-1]), "values", ("(3, 9)", "(3, 10)")),
    (SharesOf(form=lambda s: s * 2), "shares", (2, "divide")),
    (SharesOf(form=lambda s: np.append(s[1:] + 1, s[0] - len(s) + 1)), "values", (">= 0",)),
    # Adds up to 1 for the number of classes asked about first, and not for others.
    (SharesOf(form=lambda s: np.full(len(s), 1 / 10)), "shares", (2.3,)),
    (SharesOf(form=lambda s: outside().dirichlet(np.ones(len(s)))), "repetition", ("skew",)),
    (SharesOf(form=masked), "shares", (2,)),
]


# Datasets


def small_but(**changes: Any) -> Any:
    """A function that returns a small dataset; a change may be a function of what it replaces."""

    def make():
        data = small_images((1, 4, 4))
        return replace(data, **{name: change(getattr(data, name)) for name, change in changes.items()})

    return make


def one_more(labels):
    return labels + 1


DATASET = [
    (lambda: np.zeros((3, 1, 4, 4)), "declaration", ("ndarray", "Dataset")),
    (3, "declaration", ("function",)),
    (lambda: synthetic(train=0), "declaration", ("synthetic", "train", 0)),
    (small_but(train_targets=one_more, test_targets=one_more), "labels", ("label 0",)),
    (
        lambda: Dataset("one", np.zeros((4, 1, 2, 2)), [0] * 4, np.zeros((2, 1, 2, 2)), [0, 0]),
        "labels",
        ("classes", "two"),
    ),
    (small_but(test_inputs=lambda found: outside().random(found.shape)), "repetition", ("test_inputs",)),
    (small_but(name=lambda found: f"try-{next(_from_outside)}"), "repetition", ("name",)),
]


# Criteria and optimizers


def too_long(outputs, targets):
    return torch.cat([outputs[:, 0], outputs[:1, 0]])


def drawn_anew(outputs, targets):
    return outputs.mean() * float(outside().random())


CRITERION = [
    (too_long, "declaration", ("(5,)", "(4,)")),
    (lambda outputs, targets: 1.0, "declaration", ("float",)),
    (lambda outputs, targets: outputs.log().mean(), "declaration", ("nan",)),
    (lambda outputs: outputs.mean(), "declaration", ("TypeError",)),
    (drawn_anew, "repetition", ("random",)),
]


def over_all_models(self, memory, gradient, number):
    """Scales by the norm of all models together."""
    return memory, gradient / np.abs(gradient).max()


def writes_into_gradient(self, memory, gradient, number):
    gradient *= 0.5
    return memory, gradient


def at_random(self, memory, gradient, number):
    return memory, gradient * outside().random()


OPTIMIZER = [
    *[case for case in spoiled(Momentum, "step") if case[1] != "saving"],
    (broken(Momentum, step=over_all_models), "models", ("by itself",)),
    (broken(Momentum, step=lambda self, memory, gradient, number: (memory, gradient[:1])), "values", ("(1, 4)",)),
    (broken(Momentum, step=writes_into_gradient), "values", ("array",)),
    (broken(Momentum, step=at_random), "repetition", ("random",)),
]


# Models, for images of 1 x 3 x 4 and three classes


class Linear(nn.Module):
    """What the others spoil."""

    def __init__(self, outputs=3):
        super().__init__()
        self.out = nn.Linear(12, outputs)
        self.begin()

    def begin(self):
        """What a broken one does beside that."""

    def forward(self, x):
        return self.out(x.flatten(1))


def computing(forward: Any, **own: Any) -> Any:
    """A model that computes ``forward(self, x, what it should)``."""
    return broken(Linear, forward=lambda self, x: forward(self, x, Linear.forward(self, x)), **own)


def beginning(begin: Any, **own: Any) -> Any:
    """A model that does something more when it is made."""
    return broken(Linear, begin=begin, **own)


def remembers(self, x, out):
    """Keeps its last output outside its buffers."""
    out = out + self.last
    self.last = out.detach().mean()
    return out


def updates_buffer(self, x):
    if self.training:
        self.mean = 0.9 * self.mean + 0.1 * x.flatten(1).mean(dim=0)
    return self.out(x.flatten(1) - self.mean)


def freezes_in_train(self, mode=True):
    nn.Module.train(self, mode)
    self.out.bias.requires_grad_(False)
    return self


def checkpointed(self, x):
    """Computes again in the backward pass."""
    run = torch.utils.checkpoint.checkpoint
    return run(lambda y: torch.tanh(self.out(y)), x.flatten(1), use_reentrant=False)


def grows(self, x, out):
    if not hasattr(self, "scale"):
        self.scale = nn.Parameter(torch.ones(1))
    return self.scale * out


_shared, _backbone = Linear(), nn.Linear(12, 12)
MODEL = [
    (lambda: 3, "declaration", ("int", "nn.Module")),
    (_shared, "declaration", ("function",)),
    (lambda: _shared, "images", ("share",)),
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(5, 3)), "images", ("images", "(1, 3, 4)")),
    (lambda: Linear(2), "images", ("(2, 2)", "(2, 3)")),
    # Looks at the whole batch in eval() too.
    (broken(Linear, forward=lambda self, x: Linear.forward(self, x - x.mean(dim=0))), "images", ("depend", "images")),
    (computing(lambda self, x, out: out / 0), "images", ("NaN", "infinite")),
    (beginning(lambda self: nn.init.constant_(self.out.weight, float(outside().random()))), "images", ("out.weight",)),
    (
        broken(Linear, forward=lambda self, x: Linear.forward(self, nn.functional.dropout(x, 0.5))),
        "images",
        ("torch", "eval", "self.training"),
    ),
    # Draws from a generator that no seed of a run reaches.
    (computing(lambda self, x, out: out + (np.random.normal() if self.training else 0)), "images", ("generator",)),  # noqa: NPY002
    (computing(remembers, last=0.0), "images", ("(last)", "buffer")),
    (broken(Linear, train=freezes_in_train), "images", ("freeze",)),
    # Random numbers that are no buffer: another module has others.
    (
        beginning(
            lambda self: setattr(self, "turn", torch.randn(12, 12)),
            forward=lambda self, x: self.out(x.flatten(1) @ self.turn.to(x.dtype)),
        ),
        "images",
        ("computes", "weights"),
    ),
    (broken(Linear, forward=checkpointed), "images", ("torch.utils.checkpoint",)),
    (computing(grows), "images", ("__init__",)),
    (
        beginning(lambda self: self.out.weight.register_post_accumulate_grad_hook(lambda p: p.grad.clamp_(-1, 1))),
        "images",
        ("out.weight", "hook"),
    ),
    (lambda: nn.Sequential(nn.Flatten(), _backbone, nn.Linear(12, 3)), "images", ("deepcopy", "weights")),
    (
        beginning(lambda self: self.register_buffer("mean", torch.zeros(12)), forward=updates_buffer),
        "images",
        ("self.mean.copy_",),
    ),
    (computing(lambda self, x, out: (out, x)), "images", ("tuple", "tensor")),
    (computing(lambda self, x, out: out.detach()), "images", ("gradient", "detach")),
    (beginning(lambda self: self.requires_grad_(False)), "images", ("requires_grad",)),
    (
        beginning(lambda self: setattr(self, "turn", nn.Parameter(torch.zeros(1, dtype=torch.complex64)))),
        "images",
        ("turn", "complex"),
    ),
    (
        beginning(lambda self: self.out.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))),
        "images",
        ("out.weight", "hook"),
    ),
    (beginning(lambda self: setattr(self, "spare", nn.Linear(2, 2))), "gradients", ("spare.weight", "loss")),
    # Its gradient is infinite where its output is 0.
    (computing(lambda self, x, out: torch.sqrt(torch.abs(out * 0)) + out), "gradients", ("out.weight", "NaN")),
    # Two models with the same weights do not compute the same.
    (
        beginning(
            lambda self: setattr(self, "factor", 1 + float(outside().random())),
            forward=lambda self, x: self.factor * Linear.forward(self, x),
        ),
        "images",
        ("computes", "weights"),
    ),
]


# Aggregation rules


@dataclass(frozen=True)
class Equal(Aggregation):
    """What the others spoil: the mean of what arrived, smoothed by the server."""

    name = "equal"
    cap: float | None = None

    def weights(self, uploads):
        count = uploads.delivered.sum(axis=-1, keepdims=True)
        return uploads.delivered / np.maximum(count, 1)

    def start(self, zero):
        return {"mean": zero}

    def server_step(self, memory, update, uploads):
        mean = 0.5 * memory["mean"] + 0.5 * update
        return {"mean": mean}, mean


@dataclass(frozen=True)
class WeightsOf(Equal):
    form: Any = None

    def weights(self, uploads):
        return self.form(super().weights(uploads), uploads)


@dataclass(frozen=True)
class CountsSteps(Equal):
    steps: int = 0

    def server_step(self, memory, update, uploads):
        put(self, "steps", self.steps + 1)
        return memory, update


def stepping(step: Any) -> Any:
    """A rule whose server step is ``step(memory, update)``."""
    return broken(Equal, server_step=lambda self, memory, update, uploads: step(memory, update))


AGGREGATION = [
    *spoiled(Equal, "weights"),
    (broken(Aggregation, name="no-weights"), "declaration", ("built",)),
    (WeightsOf(form=lambda a, up: -a), "values", ("weights", ">= 0")),
    (WeightsOf(form=lambda a, up: (a, altered(up.mass[..., 0], 1))[0]), "values", ("array",)),
    (WeightsOf(form=lambda a, up: a * outside().random()), "repetition", ("weights",)),
    (WeightsOf(form=lambda a, up: a / (1 + up.delivered.sum())), "rounds", ("alone", "axis=-1")),
    (WeightsOf(form=lambda a, up: a * np.arange(a.shape[-1])), "devices", ("order", "devices")),
    (broken(Equal, age=lambda self, mass, shards: shards + 2 * mass), "ageing", ("shards", "beta")),
    (stepping(lambda memory, update: (memory, altered(memory["mean"], update))), "values", ("array",)),
    (broken(Equal, start=lambda self, zero: {"thing": "text"}), "values", ("memory['thing']", "str")),
    (broken(Equal, start=lambda self, zero: []), "values", ("memory", "list")),
    (
        stepping(lambda memory, update: ({**memory, f"round{len(memory)}": update}, update)),
        "values",
        ("shapes", "stay"),
    ),
    (stepping(lambda memory, update: (memory, update[:1])), "values", ("server steps", "(3,)")),
    (CountsSteps, "parameters", ("steps",)),
    (
        stepping(lambda memory, update: (memory, update * (1 if isinstance(update, np.ndarray) else 2))),
        "tensors",
        ("torch", "arrays"),
    ),
]


# Metrics


def value_of(form: Any, **own: Any) -> Any:
    """A metric whose value is ``form(played)``."""
    return broken(Metric, measure=lambda self, state, played: (state, form(played)), **{"name": "value_of", **own})


def starting_with(memory: Any) -> Any:
    return value_of(lambda played: played.score, start=lambda self, problem: memory)


def writes_uploads(self, state, played):
    state["uploads"][:] += played.after.delivered
    return state, state["uploads"].sum(axis=1)


def mixes_instances(self, state, played):
    return {"mean": np.full(played.score.size, played.score.mean())}, played.score


METRIC = [
    *(case for case in spoiled(Jain, "measure") if case[1] != "equality"),
    (value_of(None, over_rounds="median"), "declaration", ("over_rounds", "median")),
    (value_of(None, name="two words"), "declaration", ("identifier",)),
    (value_of(lambda r: r.score.mean()), "values", ("()", "(3,)")),
    (value_of(lambda r: r.score, per_device=True), "values", ("instance", "(3, 4)")),
    (value_of(lambda r: [str(x) for x in r.score]), "values", ("<U5",)),
    (
        value_of(lambda r: r.score if r.world.round > 1 else np.zeros(len(r.score), np.int64)),
        "values",
        ("int64", "float64", 1, 2),
    ),
    (value_of(lambda r: np.where(r.accepted.any(axis=1), 1.0, np.nan)), "values", ("nan", 3)),
    (starting_with([1]), "values", ("memory", "list")),
    (starting_with({"a": np.zeros(2)}), "values", ("memory['a']", "(2,)")),
    (value_of(lambda r: altered(r.score, 0)), "values", ("array",)),
    (broken(Jain, measure=writes_uploads), "values", ("array",)),
    (value_of(lambda r: outside().random(len(r.score))), "repetition", ("state", "played")),
    (value_of(lambda r: r.score - r.score.mean()), "instances", ("instance 2", "values")),
    (
        broken(
            Metric,
            name="memory_mixes",
            start=lambda self, problem: {"mean": np.zeros(problem.instances)},
            measure=mixes_instances,
        ),
        "instances",
        ("rows",),
    ),
]

BROKEN: dict[str, list[Case]] = {
    "scheduler": schedulers.BROKEN,
    "fading": FADING,
    "success": SUCCESS,
    "arrivals": ARRIVALS,
    "availability": AVAILABILITY,
    "prior": PRIOR,
    "partition": PARTITION,
    "dataset": DATASET,
    "model": MODEL,
    "aggregation": AGGREGATION,
    "criterion": CRITERION,
    "optimizer": OPTIMIZER,
    "metric": METRIC,
}
