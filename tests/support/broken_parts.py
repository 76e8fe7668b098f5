"""Parts that break the contract of their family in one way each: (part, check that must fail, what it must say)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.utils.checkpoint
from small_models import images as small_images
from torch import nn

from fedwave.aggregation import Aggregation, FedBuff, Lee
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
class CountsBlocks(Rayleigh):
    blocks: int = 0

    def sample(self, block, carry):
        put(self, "blocks", self.blocks + 1)
        return super().sample(block, carry)


class NotAField(Rayleigh):
    def __init__(self, scale=1.0):
        put(self, "scale", scale)


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
    (NoGains, "declaration", "cannot be built: .*abstract"),
    (FadingOf(lambda g: g.astype(np.float32)), "gains", "type float32 .*must be a float64 array .*block.draw"),
    (FadingOf(lambda g: g[:, 0]), "gains", r"shape \(1, 3\), must be .*\(1, 1, 3\)"),
    (FadingOf(lambda g: -g), "gains", "a gain is -.*must be a finite number >= 0"),
    (FadingOf(lambda g: np.full_like(g, np.nan)), "gains", "a gain is nan"),
    (WritesCarry, "inputs", "alters `carry` in place: return a new array"),
    (RandomGains, "repetition", "two runs with one seed .*only from the generators of the block"),
    (SharedGenerator, "instances", "instance 2 has different gains when it runs alone.*block.draw"),
    (ForgetsToSay, "carry", "round 128 depend on .*declare `independent = False`"),
    (CorrelatedInBlock, "independence", "1 rounds apart are correlated: declare `independent = False`"),
    (OtherFresh, "fresh", "different distributions .*same marginal"),
    (SameGainsForAll, "fresh", "different distributions"),
    (FreshFromOutside, "fresh", "draw only from `rng`"),
    (WrongQuartiles, "quartiles", "25% of the gains lie below 0.1, but 9% do"),
    (FallingQuartiles, "quartiles", "three finite numbers that do not decrease"),
    (WrongSums, "sums", r"sum_quantiles\(3, 0.05\) is .*leave it to the base class"),
    (WrongExceeds, "sums", r"sum_exceeds\(1, .*leave it to the base class"),
    (CountsBlocks, "parameters", "changes its attribute 'blocks': keep what evolves in the carry"),
    (NotAField(2.0), "saving", "attribute 'scale' differs after saving and loading: keep parameters in the fields"),
    (KeepsASet, "saving", "cannot be rebuilt .*fields are numbers, text"),
    (NotFrozen, "equality", r"cannot be hashed .*@dataclass\(frozen=True\)"),
    (NeverEqual, "equality", "same parameters are not equal"),
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


@dataclass(frozen=True)
class CountsCalls(Chance):
    calls: int = 0

    def probability(self, snr):
        put(self, "calls", self.calls + 1)
        return super().probability(snr)


class LostSlope(Chance):
    def __init__(self, slope=1.0):
        put(self, "slope", slope)


class UnhashableChance(Chance):
    __hash__ = None


SUCCESS = [
    (NoChance, "declaration", "cannot be built"),
    (ChanceOf(lambda snr: (snr > 1).astype(np.float32)), "probabilities", "type float32 .*must return float64"),
    (ChanceOf(lambda snr: np.atleast_1d(snr / (snr + 1))[:1]), "probabilities", "float64 of the same shape"),
    (ChanceOf(lambda snr: np.log10(np.maximum(snr, 1e-9))), "probabilities", "is -9.0 at SNR 0, must lie"),
    (ChanceOf(lambda snr: np.where(snr > 0, 0.5, np.nan)), "probabilities", "nan at SNR 0, must lie .*at SNR 0 too"),
    (ChanceOf(lambda snr: np.exp(-snr)), "monotony", "falls as the SNR rises beyond .*must never fall"),
    (Relative, "elements", "depends on the other SNRs .*element by element"),
    (WritesSnr, "inputs", "alters `snr` in place"),
    (RandomChance, "repetition", "must not be random, the World draws the luck"),
    (Optimist, "expected", "mean over 1 later tries is .*must be the mean of `probability`"),
    (OtherExpectation, "expected", "mean over 0 later tries"),
    (HalfATry, "expected", "later_tries is 0.5, must be a whole number"),
    (CountsCalls, "parameters", "changes its attribute 'calls'"),
    (LostSlope(2.0), "saving", "attribute 'slope' differs"),
    (UnhashableChance, "equality", "cannot be hashed"),
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


@dataclass(frozen=True)
class CountsSamples(Poisson):
    samples: int = 0

    def sample(self, block, rates):
        put(self, "samples", self.samples + 1)
        return super().sample(block, rates)


class LostScale(Poisson):
    def __init__(self, scale=1.0):
        put(self, "scale", scale)


class UnhashableArrivals(Poisson):
    __hash__ = None


@dataclass(frozen=True)
class NamelessArrivals(Poisson):
    name = ""


ARRIVALS = [
    (NamelessArrivals, "declaration", "has no `name`"),
    (CountsOf(lambda m: m.astype(float)), "counts", "type float64 .*must be an array of whole numbers"),
    (CountsOf(lambda m: m[0]), "counts", r"shape \(1, 3\)"),
    (CountsOf(lambda m: m - 1), "counts", "a count is -1, must be >= 0"),
    (WritesRates, "inputs", "alters `rates` in place"),
    (RandomCounts, "repetition", "different arrivals: draw random numbers only from"),
    (OneGenerator, "instances", "instance 2 has different arrivals when it runs alone"),
    (ChancesOf(lambda p: p[..., 0]), "chances", r"must be \[..., most \+ 1\]"),
    (ChancesOf(lambda p: p / 2), "chances", "add up to 0.500000, must add up to 1"),
    (ChancesOf(lambda p: p / p.sum(axis=-1, keepdims=True)), "chances", "depend on `most`"),
    (ChancesOf(lambda p: np.where(p > 0, p, np.nan)), "chances", "NaN or negative"),
    (Leaks, "silence", "rate 0 gets shards"),
    (More, "frequencies", "at rate 0.3 the counts do not follow `chances`"),
    (MoreInChances, "means", "at rate 0.3 the mean of the counts is 0.39, but mean_rates says 0.3"),
    (OwnDistribution, "distribution", "schedulers that learn rates cannot run on it .*'lomax'.*'poisson' for example"),
    (NumberedDistribution, "distribution", "`distribution` is 3"),
    (CountsSamples, "parameters", "changes its attribute 'samples'"),
    (LostScale(2.0), "saving", "attribute 'scale' differs"),
    (UnhashableArrivals, "equality", "cannot be hashed"),
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
class CountsDensities(Gamma):
    asked: int = 0

    def log_density(self, theta):
        put(self, "asked", self.asked + 1)
        return super().log_density(theta)


class LostWidth(Gamma):
    def __init__(self, shape=1.0, rate=1.0, width=1.0):
        put(self, "shape", shape)
        put(self, "rate", rate)
        put(self, "width", width)


@dataclass(frozen=True)
class Shapeless(Gamma):
    shape: float = 0.0

    def __post_init__(self):
        pass


class UnhashablePrior(Gamma):
    __hash__ = None


@dataclass(frozen=True)
class NamelessPrior(Gamma):
    name = ""


PRIOR = [
    (NamelessPrior, "declaration", "has no `name`"),
    (Shapeless, "interval", "shape is 0.0 .*shape > 0"),
    (DensityOf(form=lambda d: np.full_like(d, -np.inf)), "density", "must be finite"),
    (DensityOf(form=lambda d: d.ravel()), "density", "keep the shape"),
    (OpenEnded, "density", r"not -inf at \[0.05, 40.0\], outside \[0.1, 20.0\]"),
    (WritesTheta, "inputs", "alters `theta` in place"),
    (DensityOf(form=lambda d: d + 1e-9 * outside().random(d.shape)), "repetition", "must not be random"),
    (OtherDensity, "conjugacy", r"not \(shape - 1\) ln\(theta\)"),
    (HalfOpen, "sampling", r"ConjugatePosterior draws the rate .*must lie in \[0.5, inf\]"),
    (CountsDensities, "parameters", "changes its attribute 'asked'"),
    (LostWidth(width=2.0), "saving", "attribute 'width' differs"),
    (UnhashablePrior, "equality", "cannot be hashed"),
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
class CountsDevices(Dirichlet):
    asked: int = 0

    def class_shares(self, seed, instance, device, classes):
        put(self, "asked", self.asked + 1)
        return super().class_shares(seed, instance, device, classes)


class LostSkew(Dirichlet):
    def __init__(self, alpha=0.2, skew=1.0):
        put(self, "alpha", alpha)
        put(self, "skew", skew)


class UnhashablePartition(Dirichlet):
    __hash__ = None


class Shareless(Dirichlet):
    name = ""


@dataclass(frozen=True)
class Spread(Dirichlet):
    """Shares that add up only as long as what is masked does not count."""

    def class_shares(self, seed, instance, device, classes):
        hidden = np.eye(classes)[1]
        return np.ma.array(np.eye(classes)[0] + hidden, mask=hidden)


PARTITION = [
    (Shareless, "declaration", "has no `name`"),
    (SharesOf(form=lambda s: s[:-1]), "shares", r"shape \(9,\) for 10 classes"),
    (SharesOf(form=lambda s: s * 2), "shares", "add up to 2, must be >= 0 and add up to 1: divide them"),
    (SharesOf(form=lambda s: np.append(s[1:] + 1, s[0] - len(s) + 1)), "shares", "must be >= 0"),
    (NearlyOne, "shares", "add up to 2.3"),
    (RandomShares, "repetition", r"called again .*stream\(seed, \"skew\", instance, device\)"),
    (Spread, "sampling", "the class shares of partition 'dirichlet' are .*, must sum to 1"),
    (CountsDevices, "parameters", "changes its attribute 'asked'"),
    (LostSkew(skew=2.0), "saving", "attribute 'skew' differs"),
    (UnhashablePartition, "equality", "cannot be hashed"),
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
    (not_a_dataset, "declaration", r"returns a ndarray, must return a Dataset: Dataset\(name"),
    (3, "declaration", "not a function"),
    (lambda: synthetic(train=0), "declaration", "synthetic train is 0"),
    (labels_from_one, "labels", "no training image has the label 0, .*number the classes from 0"),
    (one_class, "labels", "two classes or more"),
    (random_dataset, "repetition", "test_images differ between two calls: .*fixed seed"),
    (renamed, "repetition", "its name changes from 'try-"),
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
    (lambda: 3, "declaration", "makes a int, must make an nn.Module"),
    (_shared, "declaration", "Linear object, must be a function"),
    (lambda: _shared, "images", "share layers"),
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(5, 3)), "images", r"cannot take images of shape \(1, 3, 4\)"),
    (lambda: Linear(2), "images", r"\(2, 2\) .*\(2, 3\) or wider"),
    (Contrast, "images", "depend on the other images"),
    (Infinite, "images", "NaN or infinite before any training"),
    (OwnWeights, "images", "two models made under one seed differ in 'out.weight'"),
    (DropsAlways, "images", "draws from torch's generator in eval mode, .*training=self.training"),
    (OutsideNoise, "images", "torch's generator alone"),
    (Remembers, "images", r"keeps something .*\(last\)"),
    (Counter, "images", r"keeps something .*\(passes\)"),
    (OwnGenerator, "images", r"keeps something .*\(chance\)"),
    (FreezesInTrain, "images", "computes something else .*must not freeze"),
    (MergesInEval, "images", "keeps something|computes something else"),
    (FirstWeights, "images", "computes something else when its weights are put into another module"),
    (RandomFeatures, "images", "computes something else when its weights are put into another module"),
    (Checkpointed, "images", "computes something else .*no torch.utils.checkpoint"),
    (GrowsInForward, "images", "computes something else .*__init__ makes"),
    (AfterGradient, "images", "'out.weight' .*has a hook"),
    (shared_backbone, "images", "two models that share layers or weights: .*deepcopy"),
    (NewBuffer, "images", r"computes something else .*self\.mean\.copy_"),
    (Pair, "images", "returns a tuple"),
    (Detached, "images", "no gradient.*do not detach"),
    (Frozen, "images", "no parameter to train: .*requires_grad=True"),
    (Complex, "images", "'turn' .*is complex"),
    (GradientHook, "images", "'out.weight' .*has a hook"),
    (Unused, "gradients", "'spare.weight' does not enter the loss"),
    (Cusp, "gradients", "gradient of 'out.weight' is NaN"),
    (OwnFactor, "images", "computes something else when its weights are put into another module"),
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
class CountsWeights(Lee):
    asked: int = 0

    def weights(self, uploads):
        put(self, "asked", self.asked + 1)
        return super().weights(uploads)


class LostPower(Aggregation):
    name = "lost-power"

    def __init__(self, power=1.0):
        self.power = power

    def weights(self, uploads):
        return uploads.shares**self.power


class UnhashableRule(FedBuff):
    __hash__ = None


@dataclass(frozen=True)
class RandomWeights(Equal):
    def weights(self, uploads):
        return super().weights(uploads) * outside().random()


AGGREGATION = [
    (NoWeights, "declaration", "cannot be built"),
    (WeightsOf(form=lambda a, up: a[0]), "weights", "must be one float64 per upload"),
    (WeightsOf(form=lambda a, up: -a), "weights", "a weight is -.*must be a finite number >= 0"),
    (WeightsOf(form=lambda a, up: a + 0.1), "weights", "did not arrive has a weight"),
    (WritesMass, "inputs", "alters `uploads` in place"),
    (RandomWeights, "repetition", "two calls with the same counts"),
    (WeightsOf(form=lambda a, up: a / (1 + up.delivered.sum())), "rounds", r"when it is computed alone.*\(axis=-1\)"),
    (WeightsOf(form=lambda a, up: a * np.arange(a.shape[-1])), "devices", "order of the devices.*not from device"),
    (Quickens, "ageing", r"not shards \+ beta \* mass.*set beta"),
    (Uncapped, "cap", "leave the cap to `coefficients`"),
    (Overstretched, "stretch", "leave the stretch to `coefficients`"),
    (WritesMemory, "memory", "alters `memory` in place"),
    (RemembersA(thing="text"), "memory", r"memory\['thing'\] is a str, must be a number"),
    (RemembersA(thing=()), "memory", "the memory is a list, must be a mapping"),
    (Grows, "memory", "its names and shapes must stay"),
    (ShortStep, "memory", "of the shape of the update"),
    (CountsSteps, "stopping", "changes its attribute 'steps': keep what evolves in the memory"),
    (RemembersMore, "stopping", "restored after round 17: keep all that evolves in the memory"),
    (DependsOnKind, "tensors", "torch tensors and for arrays: use plain arithmetic"),
    (CountsWeights, "parameters", "changes its attribute 'asked'"),
    (LostPower(2.0), "saving", "attribute 'power' differs"),
    (UnhashableRule, "equality", "cannot be hashed"),
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


class MemoryOf(ValueOf):
    form = staticmethod(lambda played: played.score)

    def __init__(self, content=()):
        self.content = content

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


class CountsRounds(Metric):
    name = "counts_rounds"

    def __init__(self):
        self.rounds = 0

    def measure(self, state, played):
        self.rounds += 1
        return state, played.score


class MemoryMixesInstances(Metric):
    name = "memory_mixes"

    def start(self, problem):
        return {"mean": np.zeros(problem.instances)}

    def measure(self, state, played):
        return {"mean": np.full(played.score.size, played.score.mean())}, played.score


class LostWeight(Metric):
    name = "lost_weight"

    def __init__(self, weight=1.0):
        self.weight = weight

    def measure(self, state, played):
        return state, self.weight * played.score


METRIC = [
    (value_of(None, over_rounds="median"), "declaration", "over_rounds 'median'"),
    (value_of(None, name="two words"), "declaration", "must be a valid Python identifier"),
    (value_of(lambda r: r.score.mean()), "values", r"shape \(\) in round 1, must be numbers of shape \(3,\)"),
    (value_of(lambda r: r.score, per_device=True), "values", r"of shape \(3, 4\): one per instance and device"),
    (value_of(lambda r: [str(x) for x in r.score]), "values", "returns type <U"),
    (
        value_of(lambda r: r.score if r.world.round > 1 else np.zeros(len(r.score), np.int64)),
        "values",
        "int64 in round 1 but float64 in round 2: return one type",
    ),
    (value_of(lambda r: np.where(r.accepted.any(axis=1), 1.0, np.nan)), "values", "NaN or infinity in round"),
    (MemoryOf([1]), "memory", "the memory is a list, must be a mapping"),
    (MemoryOf({"a": np.zeros(2)}), "memory", r"memory\['a'\] is of type float64 and shape \(2,\)"),
    (WritesScore, "inputs", "writes into an array that it was given: change a copy"),
    (WritesUploads, "inputs", "alters `state` in place"),
    (value_of(lambda r: outside().random(len(r.score))), "repetition", "may depend on `state` and `played` only"),
    (value_of(lambda r: r.score - r.score.mean()), "instances", "instance 2 has different values when it runs alone"),
    (MemoryMixesInstances, "instances", "keep the rows of every array apart"),
    (CountsRounds, "parameters", "changes its attribute 'rounds': keep what evolves in the memory"),
    (LostWeight(2.0), "saving", "attribute 'weight' differs"),
]

BROKEN: dict[str, list[tuple[Any, str, str]]] = {
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
