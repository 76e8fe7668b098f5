"""Parts that break the contract of their family in one way each: (part, failing check, what the message names)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.utils.checkpoint
from small_models import images as small_images
from torch import nn

from fedwave.aggregation import Aggregation
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.datasets.synthetic import synthetic
from fedwave.metrics import Jain, Metric
from fedwave.network.arrivals import Poisson
from fedwave.network.fading import Fading, GaussMarkov, Rayleigh
from fedwave.network.partition import Dirichlet
from fedwave.network.success import Harq, Soft, SuccessModel
from fedwave.schedulers.priors import Gamma, Truncated

_from_outside = itertools.count()


def outside() -> np.random.Generator:
    """Random numbers that no seed decides."""
    return np.random.default_rng(next(_from_outside))


def put(part: Any, name: str, value: Any) -> None:
    """Write into a frozen object."""
    object.__setattr__(part, name, value)


def spoiled(kind: Any, method: str) -> list[tuple[Any, str, tuple[object, ...]]]:
    """A part of a family, broken in each of the ways that all families share."""

    def counting(self: Any, *given: Any) -> Any:
        put(self, "asked", getattr(self, "asked", 0) + 1)
        return getattr(kind, method)(self, *given)

    lost = type("Lost", (kind,), {})()
    put(lost, "kept_aside", 2.0)  # an attribute that is not a field
    return [
        (type("Nameless", (kind,), {"name": ""}), "declaration", ("name",)),
        (type("Unhashable", (kind,), {"__hash__": None}), "equality", ("hashed",)),
        (type("Counts", (kind,), {method: counting}), "parameters", ("asked",)),
        (lost, "saving", ("kept_aside",)),
    ]


class NotAField(Rayleigh):
    def __init__(self, scale=1.0):
        put(self, "scale", scale)


# Fading


class NoGains(Fading):
    name = "no-gains"


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


@dataclass(frozen=True)
class RandomGains(Rayleigh):
    def sample(self, block, carry):
        return outside().exponential(size=(block.rounds, block.ids.size, block.devices)), None


@dataclass(frozen=True)
class SharedGenerator(Rayleigh):
    """All instances from the generator of the first."""

    def sample(self, block, carry):
        shape = (block.rounds, block.ids.size, block.devices)
        return block.generators[0].exponential(size=shape), None


@dataclass(frozen=True)
class ForgetsToSay(GaussMarkov):
    independent: ClassVar[bool] = True


@dataclass(frozen=True)
class CorrelatedInBlock(Rayleigh):
    """A memory within the block only, undeclared."""

    def sample(self, block, carry):
        gains = super().sample(block, carry)[0]
        return np.concatenate([gains[:1], (gains[1:] + gains[:-1]) / 2]), None

    def fresh(self, rng, shape):
        return rng.standard_gamma(2, shape) / 2


@dataclass(frozen=True)
class OtherFresh(Rayleigh):
    def fresh(self, rng, shape):
        return 1.2 * rng.standard_exponential(shape)


@dataclass(frozen=True)
class SameGainsForAll(Rayleigh):
    """A fixed seed: every instance is the same."""

    def sample(self, block, carry):
        return block.draw(lambda rng, s: np.random.default_rng(block.first).exponential(size=s)), None


@dataclass(frozen=True)
class FreshFromOutside(Rayleigh):
    def fresh(self, rng, shape):
        return outside().standard_exponential(shape)


@dataclass(frozen=True)
class WrongQuartiles(Rayleigh):
    def quartiles(self):
        return 0.1, 1.0, 2.0


@dataclass(frozen=True)
class FallingQuartiles(Rayleigh):
    def quartiles(self):
        return 1.0, 0.5, 2.0


@dataclass(frozen=True)
class WrongSums(Rayleigh):
    def sum_quantiles(self, tries, probability):
        return tries * super().sum_quantiles(1, probability)


@dataclass(frozen=True)
class WrongExceeds(Rayleigh):
    def sum_exceeds(self, tries, level):
        return 1 - super().sum_exceeds(tries, level)


@dataclass(frozen=True)
class KeepsASet(Rayleigh):
    table: Any = frozenset({1})


@dataclass
class NotFrozen(Fading):
    name = "not-frozen"

    scale: float = 1.0

    def sample(self, block, carry):
        return block.draw(self.fresh), None

    def fresh(self, rng, shape):
        return rng.standard_exponential(shape)


@dataclass(frozen=True, eq=False)
class NeverEqual(Rayleigh):
    scale: float = 1.0

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 0


FADING = [
    (NotAField(2.0), "declaration", ("scale", "dataclass")),
    *spoiled(Rayleigh, "sample"),
    (NoGains, "declaration", ("abstract", "built")),
    (FadingOf(lambda g: g.astype(np.float32)), "values", ("float32", "float64")),
    (FadingOf(lambda g: g[:, 0]), "values", ("(1, 3)", "(1, 3, 3)")),
    (FadingOf(lambda g: -g), "values", ("gains", "finite")),
    (FadingOf(lambda g: np.full_like(g, np.nan)), "values", ("gains", "nan")),
    (WritesCarry, "inputs", ("array",)),
    (RandomGains, "repetition", ("generators", "seed")),
    (SharedGenerator, "instances", ("instance 2", "gains")),
    (ForgetsToSay, "values", ("independent",)),
    (CorrelatedInBlock, "independence", (1, "independent")),
    (OtherFresh, "fresh", ("distributions", "marginal")),
    (SameGainsForAll, "fresh", ("distributions",)),
    (FreshFromOutside, "repetition", ("fresh", "rng")),
    (WrongQuartiles, "quartiles", ("gains", "25%", 0.1)),
    (FallingQuartiles, "quartiles", ("quartiles", "decrease")),
    (WrongSums, "sums", ("sum_quantiles", 3, 0.05)),
    (WrongExceeds, "sums", ("sum_exceeds", 1)),
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


class NoChance(SuccessModel):
    name = "no-chance"


@dataclass(frozen=True)
class ChanceOf(Chance):
    form: Any = None

    def probability(self, snr):
        return self.form(snr)


@dataclass(frozen=True)
class Relative(Chance):
    def probability(self, snr):
        return snr / (np.max(snr) + 1)


@dataclass(frozen=True)
class WritesSnr(Soft):
    name = "writes-snr"

    def probability(self, snr):
        p = super().probability(snr)
        if np.size(snr) == 60:
            snr += 1
        return p


@dataclass(frozen=True)
class RandomChance(Chance):
    def expected(self, snr, mean_snr, fading):
        return np.minimum(1, self.probability(snr) * (1 - 1e-10 * outside().random(snr.shape)))


@dataclass(frozen=True)
class Optimist(Harq):
    """Expects no later try to fail."""

    name = "optimist"

    def expected(self, snr, mean_snr, fading):
        return self.probability(snr + 3 * mean_snr)


@dataclass(frozen=True)
class OtherExpectation(Chance):
    def expected(self, snr, mean_snr, fading):
        return 0.9 * self.probability(snr)


@dataclass(frozen=True)
class HalfATry(Chance):
    later_tries = 0.5


SUCCESS = [
    *spoiled(Chance, "probability"),
    (NoChance, "declaration", ("built",)),
    (ChanceOf(lambda snr: (snr > 1).astype(np.float32)), "values", ("float32", "float64")),
    (ChanceOf(lambda snr: np.atleast_1d(snr / (snr + 1))[:1]), "values", ("float64", "shape")),
    (ChanceOf(lambda snr: np.log10(np.maximum(snr, 1e-9))), "values", (-9, 0, 1)),
    (ChanceOf(lambda snr: np.where(snr > 0, 0.5, np.nan)), "values", ("nan", 0, 1)),
    (ChanceOf(lambda snr: np.exp(-snr)), "monotony", ("SNR", "falls")),
    (Relative, "elements", ("SNRs", "element")),
    (WritesSnr, "inputs", ("snr",)),
    (RandomChance, "repetition", ("random",)),
    (Optimist, "expected", (1, "probability")),
    (OtherExpectation, "expected", ("later", 0)),
    (HalfATry, "expected", ("later_tries", 0.5)),
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


@dataclass(frozen=True)
class RandomCounts(Poisson):
    def sample(self, block, rates):
        return outside().poisson(rates, (block.rounds, block.ids.size, block.devices))


@dataclass(frozen=True)
class OneGenerator(Poisson):
    def sample(self, block, rates):
        return block.generators[0].poisson(rates, (block.rounds, block.ids.size, block.devices))


@dataclass(frozen=True)
class ChancesOf(Poisson):
    form: Any = None

    def chances(self, rates, most):
        return self.form(super().chances(rates, most))


@dataclass(frozen=True)
class Leaks(Poisson):
    """A little even at rate 0, and honest about it."""

    def sample(self, block, rates):
        return super().sample(block, np.maximum(rates, 0.02))

    def chances(self, rates, most):
        return super().chances(np.maximum(rates, 0.02), most)


@dataclass(frozen=True)
class More(Poisson):
    def sample(self, block, rates):
        return super().sample(block, 1.3 * rates)


@dataclass(frozen=True)
class MoreInChances(More):
    def chances(self, rates, most):
        return super().chances(1.3 * rates, most)


@dataclass(frozen=True)
class OwnDistribution(Poisson):
    distribution: ClassVar[str] = "lomax"


@dataclass(frozen=True)
class NumberedDistribution(Poisson):
    distribution: ClassVar[Any] = 3


ARRIVALS = [
    *spoiled(Poisson, "sample"),
    (CountsOf(lambda m: m.astype(float)), "values", ("float64", "numbers")),
    (CountsOf(lambda m: m[0]), "values", ("(3, 3)", "(1, 3, 3)")),
    (CountsOf(lambda m: m - 1), "values", ("counts", -1)),
    (WritesRates, "inputs", ("rates",)),
    (RandomCounts, "repetition", ("arrivals", "draw")),
    (OneGenerator, "instances", ("instance 2", "arrivals")),
    (ChancesOf(lambda p: p[..., 0]), "values", ("chances", "(2, 2, 6)")),
    (ChancesOf(lambda p: p / 2), "chances", ("0.500000", 1)),
    (ChancesOf(lambda p: p / p.sum(axis=-1, keepdims=True)), "chances", ("most",)),
    (ChancesOf(lambda p: np.where(p > 0, p, np.nan)), "values", ("chances", "nan")),
    (Leaks, "silence", ("shards", 0)),
    (More, "frequencies", (0.3, "chances")),
    (MoreInChances, "means", ("counts", 0.3, 0.39)),
    (OwnDistribution, "distribution", ("lomax", "poisson")),
    (NumberedDistribution, "distribution", ("distribution", 3)),
]


# Priors


@dataclass(frozen=True)
class DensityOf(Gamma):
    form: Any = None

    def log_density(self, theta):
        return self.form(super().log_density(theta))


@dataclass(frozen=True)
class WritesTheta(Gamma):
    def log_density(self, theta):
        out = super().log_density(theta)
        theta += 1
        return out


@dataclass(frozen=True)
class OpenEnded(Truncated):
    """Cut off, but its density does not say so."""

    def log_density(self, theta):
        return (self.shape - 1) * np.log(theta)


@dataclass(frozen=True)
class OtherDensity(Gamma):
    def log_density(self, theta):
        return -(np.log(theta) ** 2)


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
    (DensityOf(form=lambda d: np.full_like(d, -np.inf)), "values", ("finite",)),
    (DensityOf(form=lambda d: d.ravel()), "values", ("(40,)", "(4, 10)")),
    (OpenEnded, "density", ("[0.05, 40.0]", "[0.1, 20.0]")),
    (WritesTheta, "inputs", ("theta",)),
    (DensityOf(form=lambda d: d + 1e-9 * outside().random(d.shape)), "repetition", ("random",)),
    (OtherDensity, "conjugacy", ("shape", "theta")),
    (HalfOpen, "sampling", ("ConjugatePosterior", "[0.5, inf]")),
]


# Partitions


@dataclass(frozen=True)
class SharesOf(Dirichlet):
    form: Any = None

    def class_shares(self, seed, instance, device, classes):
        return self.form(super().class_shares(seed, instance, device, classes))


@dataclass(frozen=True)
class RandomShares(Dirichlet):
    def class_shares(self, seed, instance, device, classes):
        return outside().dirichlet(np.ones(classes))


@dataclass(frozen=True)
class NearlyOne(Dirichlet):
    """Adds up to 1 for the number of classes asked about first, and not for others."""

    def class_shares(self, seed, instance, device, classes):
        return np.full(classes, 1 / 10)


@dataclass(frozen=True)
class Spread(Dirichlet):
    """Shares that add up only as long as what is masked does not count."""

    def class_shares(self, seed, instance, device, classes):
        hidden = np.eye(classes)[1]
        return np.ma.array(np.eye(classes)[0] + hidden, mask=hidden)


PARTITION = [
    *spoiled(Dirichlet, "class_shares"),
    (SharesOf(form=lambda s: s[:-1]), "values", ("(3, 9)", "(3, 10)")),
    (SharesOf(form=lambda s: s * 2), "shares", (2, "divide")),
    (SharesOf(form=lambda s: np.append(s[1:] + 1, s[0] - len(s) + 1)), "values", (">= 0",)),
    (NearlyOne, "shares", (2.3,)),
    (RandomShares, "repetition", ("skew",)),
    (Spread, "shares", (2,)),
]


# Datasets


def not_a_dataset():
    return np.zeros((3, 1, 4, 4))


def random_dataset():
    data = small_images((1, 4, 4))
    return replace(data, test_images=outside().random(data.test_images.shape))


def labels_from_one():
    data = small_images((1, 4, 4))
    return replace(data, train_labels=data.train_labels + 1, test_labels=data.test_labels + 1)


def one_class():
    return Dataset("one", np.zeros((4, 1, 2, 2)), [0] * 4, np.zeros((2, 1, 2, 2)), [0, 0])


def renamed():
    return replace(small_images((1, 4, 4)), name=f"try-{next(_from_outside)}")


DATASET = [
    (not_a_dataset, "declaration", ("ndarray", "Dataset")),
    (3, "declaration", ("function",)),
    (lambda: synthetic(train=0), "declaration", ("synthetic", "train", 0)),
    (labels_from_one, "labels", ("label 0",)),
    (one_class, "labels", ("classes", "two")),
    (random_dataset, "repetition", ("test_images",)),
    (renamed, "repetition", ("name",)),
]


# Models, for images of 1 x 3 x 4 and three classes


class Linear(nn.Module):
    """What the others spoil."""

    def __init__(self, outputs=3):
        super().__init__()
        self.out = nn.Linear(12, outputs)

    def forward(self, x):
        return self.out(x.flatten(1))


_shared = Linear()


class Contrast(Linear):
    """Looks at the whole batch in eval() too."""

    def forward(self, x):
        return super().forward(x - x.mean(dim=0))


class Infinite(Linear):
    def forward(self, x):
        return super().forward(x) / 0


class OwnWeights(Linear):
    def __init__(self):
        super().__init__()
        nn.init.constant_(self.out.weight, float(outside().random()))


class DropsAlways(Linear):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.5))


class OutsideNoise(Linear):
    """Draws from a generator that no seed of a run reaches."""

    def forward(self, x):
        return super().forward(x) + (np.random.normal() if self.training else 0)  # noqa: NPY002


class Remembers(Linear):
    """Keeps its last output outside its buffers."""

    last = 0.0

    def forward(self, x):
        out = super().forward(x) + self.last
        self.last = out.detach().mean()
        return out


class NewBuffer(Linear):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(12))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.flatten(1).mean(dim=0)
        return self.out(x.flatten(1) - self.mean)


class Counter(Linear):
    """Counts its passes outside its buffers, and changes after the sixth."""

    passes = 0

    def forward(self, x):
        self.passes += self.training
        return super().forward(x) * (1 if self.passes < 6 else 2)


class OwnGenerator(Linear):
    """Draws rarely, from a generator of its own."""

    def __init__(self):
        super().__init__()
        self.chance = np.random.default_rng(3)

    def forward(self, x):
        flip = self.training and self.chance.random() < 0.01
        return super().forward(x.flip(-1) if flip else x)


class FreezesInTrain(Linear):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(12, 12)

    def train(self, mode=True):
        super().train(mode)
        self.hidden.requires_grad_(False)
        return self

    def forward(self, x):
        return self.out(self.hidden(x.flatten(1)))


class MergesInEval(Linear):
    """An adapter that is added to the weights in eval mode, as in low-rank adaptation."""

    def __init__(self):
        super().__init__()
        self.more = nn.Linear(12, 3, bias=False)

    def train(self, mode=True):
        if mode != self.training:
            self.out.weight.data += self.more.weight.data if not mode else -self.more.weight.data
        return super().train(mode)

    def forward(self, x):
        out = super().forward(x)
        return out + self.more(x.flatten(1)) if self.training else out


class FirstWeights(Linear):
    """Stays near its first weights, which it keeps for itself."""

    first = None

    def forward(self, x):
        if self.first is None:
            self.first = self.out.weight.detach().clone()
        return super().forward(x) * (1 + ((self.out.weight - self.first) ** 2).sum())


class RandomFeatures(Linear):
    """Random numbers that are no buffer: another module has others."""

    def __init__(self):
        super().__init__()
        self.turn = torch.randn(12, 12)

    def forward(self, x):
        return self.out(x.flatten(1) @ self.turn.to(x.dtype))


class Checkpointed(Linear):
    """Computes again in the backward pass."""

    def forward(self, x):
        run = torch.utils.checkpoint.checkpoint
        return run(lambda y: torch.tanh(self.out(y)), x.flatten(1), use_reentrant=False)


class GrowsInForward(Linear):
    def forward(self, x):
        if not hasattr(self, "scale"):
            self.scale = nn.Parameter(torch.ones(1))
        return self.scale * super().forward(x)


class AfterGradient(Linear):
    def __init__(self):
        super().__init__()
        self.out.weight.register_post_accumulate_grad_hook(lambda p: p.grad.clamp_(-1, 1))


_backbone = nn.Linear(12, 12)


def shared_backbone():
    return nn.Sequential(nn.Flatten(), _backbone, nn.Linear(12, 3))


class Pair(Linear):
    def forward(self, x):
        return super().forward(x), x


class Detached(Linear):
    def forward(self, x):
        return super().forward(x).detach()


class Frozen(Linear):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)


class Complex(Linear):
    def __init__(self):
        super().__init__()
        self.turn = nn.Parameter(torch.zeros(1, dtype=torch.complex64))


class GradientHook(Linear):
    def __init__(self):
        super().__init__()
        self.out.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))


class OwnFactor(Linear):
    """Two models with the same weights do not compute the same."""

    def __init__(self):
        super().__init__()
        self.factor = 1 + float(outside().random())

    def forward(self, x):
        return self.factor * super().forward(x)


class Unused(Linear):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(2, 2)


class Cusp(Linear):
    """Its gradient is infinite where its output is 0."""

    def forward(self, x):
        return torch.sqrt(torch.abs(super().forward(x) * 0)) + super().forward(x)


MODEL = [
    (lambda: 3, "declaration", ("int", "nn.Module")),
    (_shared, "declaration", ("function",)),
    (lambda: _shared, "images", ("share",)),
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(5, 3)), "images", ("images", "(1, 3, 4)")),
    (lambda: Linear(2), "images", ("(2, 2)", "(2, 3)")),
    (Contrast, "images", ("depend", "images")),
    (Infinite, "images", ("NaN", "infinite")),
    (OwnWeights, "images", ("out.weight",)),
    (DropsAlways, "images", ("torch", "eval", "self.training")),
    (OutsideNoise, "images", ("generator",)),
    (Remembers, "images", ("(last)", "buffer")),
    (Counter, "images", ("(passes)",)),
    (OwnGenerator, "images", ("(chance)",)),
    (FreezesInTrain, "images", ("freeze",)),
    (MergesInEval, "images", ("model",)),
    (FirstWeights, "images", ("computes", "weights")),
    (RandomFeatures, "images", ("computes", "weights")),
    (Checkpointed, "images", ("torch.utils.checkpoint",)),
    (GrowsInForward, "images", ("__init__",)),
    (AfterGradient, "images", ("out.weight", "hook")),
    (shared_backbone, "images", ("deepcopy", "weights")),
    (NewBuffer, "images", ("self.mean.copy_",)),
    (Pair, "images", ("tuple", "tensor")),
    (Detached, "images", ("gradient", "detach")),
    (Frozen, "images", ("requires_grad",)),
    (Complex, "images", ("turn", "complex")),
    (GradientHook, "images", ("out.weight", "hook")),
    (Unused, "gradients", ("spare.weight", "loss")),
    (Cusp, "gradients", ("out.weight", "NaN")),
    (OwnFactor, "images", ("computes", "weights")),
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


class NoWeights(Aggregation):
    name = "no-weights"


@dataclass(frozen=True)
class WeightsOf(Equal):
    form: Any = None

    def weights(self, uploads):
        return self.form(super().weights(uploads), uploads)


@dataclass(frozen=True)
class WritesMass(Equal):
    def weights(self, uploads):
        uploads.mass[..., 0] = 1
        return super().weights(uploads)


@dataclass(frozen=True)
class Quickens(Equal):
    def age(self, mass, shards):
        return shards + 2 * mass


@dataclass(frozen=True)
class Uncapped(Equal):
    def coefficients(self, uploads):
        return self.weights(uploads)


@dataclass(frozen=True)
class Overstretched(Equal):
    stretch: float | None = None

    def coefficients(self, uploads):
        return replace(self, stretch=None).coefficients(uploads) if self.stretch else super().coefficients(uploads)


@dataclass(frozen=True)
class WritesMemory(Equal):
    def server_step(self, memory, update, uploads):
        memory["mean"][:] = update
        return memory, update


@dataclass(frozen=True)
class RemembersA(Equal):
    thing: Any = "text"

    def start(self, zero):
        return {"thing": self.thing} if self.thing else []


@dataclass(frozen=True)
class Grows(Equal):
    def server_step(self, memory, update, uploads):
        return {**memory, f"round{len(memory)}": update}, update


@dataclass(frozen=True)
class ShortStep(Equal):
    def server_step(self, memory, update, uploads):
        return memory, update[:1]


@dataclass(frozen=True)
class CountsSteps(Equal):
    steps: int = 0

    def server_step(self, memory, update, uploads):
        put(self, "steps", self.steps + 1)
        return memory, update


class Tagged(np.ndarray):
    """An array with something beside its numbers, which no file keeps."""

    age = 0


@dataclass(frozen=True)
class RemembersMore(Equal):
    def server_step(self, memory, update, uploads):
        age = getattr(memory["mean"], "age", 0) + 1
        mean = np.array(update).view(Tagged)
        mean.age = age
        return {"mean": mean}, update * age


@dataclass(frozen=True)
class DependsOnKind(Equal):
    def server_step(self, memory, update, uploads):
        return memory, update * (1 if isinstance(update, np.ndarray) else 2)


@dataclass(frozen=True)
class RandomWeights(Equal):
    def weights(self, uploads):
        return super().weights(uploads) * outside().random()


AGGREGATION = [
    *spoiled(Equal, "weights"),
    (NoWeights, "declaration", ("built",)),
    (WeightsOf(form=lambda a, up: a[0]), "values", ("weights", "float64")),
    (WeightsOf(form=lambda a, up: -a), "values", ("weights", "finite")),
    (WritesMass, "inputs", ("uploads",)),
    (RandomWeights, "repetition", ("weights",)),
    (WeightsOf(form=lambda a, up: a / (1 + up.delivered.sum())), "rounds", ("alone", "axis=-1")),
    (WeightsOf(form=lambda a, up: a * np.arange(a.shape[-1])), "devices", ("order", "devices")),
    (Quickens, "ageing", ("shards", "beta")),
    (Uncapped, "cap", ("coefficients",)),
    (Overstretched, "stretch", ("coefficients",)),
    (WritesMemory, "inputs", ("memory",)),
    (RemembersA(thing="text"), "values", ("memory['thing']", "str")),
    (RemembersA(thing=()), "values", ("memory", "list")),
    (Grows, "values", ("shapes", "stay")),
    (ShortStep, "values", ("server steps", "(3,)")),
    (CountsSteps, "parameters", ("steps",)),
    (RemembersMore, "stopping", ("restored", 17)),
    (DependsOnKind, "tensors", ("torch", "arrays")),
]


# Metrics


class ValueOf(Metric):
    """What the others spoil: a value of some form."""

    name = "value_of"
    form: ClassVar[Any] = None

    def measure(self, state, played):
        return state, type(self).form(played)


def value_of(form: Any, **declared: Any) -> type[Metric]:
    return type("Valued", (ValueOf,), {"form": staticmethod(form), **declared})


@dataclass
class MemoryOf(ValueOf):
    content: Any = ()
    form = staticmethod(lambda played: played.score)

    def start(self, problem):
        return self.content


class WritesScore(Metric):
    name = "writes_score"

    def measure(self, state, played):
        played.score[:] = 0
        return state, played.score


class WritesUploads(Jain):
    name = "writes_uploads"

    def measure(self, state, played):
        state["uploads"][:] += played.after.delivered
        return state, state["uploads"].sum(axis=1)


class MemoryMixesInstances(Metric):
    name = "memory_mixes"

    def start(self, problem):
        return {"mean": np.zeros(problem.instances)}

    def measure(self, state, played):
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
    (MemoryOf([1]), "values", ("memory", "list")),
    (MemoryOf({"a": np.zeros(2)}), "values", ("memory['a']", "(2,)")),
    (WritesScore, "inputs", ("array",)),
    (WritesUploads, "inputs", ("state",)),
    (value_of(lambda r: outside().random(len(r.score))), "repetition", ("state", "played")),
    (value_of(lambda r: r.score - r.score.mean()), "instances", ("instance 2", "values")),
    (MemoryMixesInstances, "instances", ("rows",)),
]

BROKEN: dict[str, list[tuple[Any, str, tuple[object, ...]]]] = {
    "fading": FADING,
    "success": SUCCESS,
    "arrivals": ARRIVALS,
    "prior": PRIOR,
    "partition": PARTITION,
    "dataset": DATASET,
    "model": MODEL,
    "aggregation": AGGREGATION,
    "metric": METRIC,
}
