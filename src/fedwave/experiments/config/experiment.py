"""An experiment as a value: its network, schedulers, task, rounds, instances and sweep.

The type of a field says its rules, and the text below a field describes it in the JSON schema. Every object is checked
when it is made. Whether names are known, and parts and networks can be built, is checked when an experiment is read or
run (build.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Lt

from fedwave.errors import FedwaveError, did_you_mean, short_repr
from fedwave.experiments.config.parts import Part, plain
from fedwave.experiments.config.schema import Amount, AnyNumber, Checked, Count, Positive, Share, Whole, as_value
from fedwave.plain_text import visible
from fedwave.schedulers.base import PAPER_SCHEDULERS

MOST_DEVICES = 10_000_000
MOST_POINTS = 10_000
MOST_FIRST_INSTANCE = 1_000_000_000  # a netCDF file holds labels of 32 bits
BASE = "alsa-pi"  # the paper's own: differences are taken from it unless another is named
# Which built-in models take the images of a built-in dataset; learning/ could tell, but needs torch.
DATASETS = {"mnist": ("cnn", "logistic"), "cifar10": ("vgg19", "vgg19-plain"), "synthetic": ("cnn", "logistic")}
MODELS = tuple(dict.fromkeys(model for models in DATASETS.values() for model in models))
_PAPER = tuple(map(Part, PAPER_SCHEDULERS))
_MNIST, _IID, _LEE = Part("mnist"), Part("iid"), Part("lee")


@dataclass(frozen=True)
class NetworkConfig(Checked):
    """The devices, the radio and the arrivals. The kind of network gives the default of a field that is left out."""

    prefix = "network."

    kind: Literal["paper", "random", "table"] = "paper"
    """paper: the paper's 25 devices; random: drawn at random; table: read from a file."""
    devices: Annotated[int, Ge(1), Le(MOST_DEVICES)] | None = None
    """Number of devices of a random network; 100 by default."""
    file: str | None = None
    """Device table (.csv, .yaml) of a network of kind table, as seen from this file's folder."""
    slots: Count | tuple[Whole, ...] | None = None
    """W: uploads that fit in a round; or a list with one W for each round."""
    gamma: Amount | None = None
    """Cost of a waiting shard."""
    fading: Part | None = None
    """Fading, such as rayleigh, rician:k_factor=6 or {name: rician, k_factor: 6}."""
    success: Part | None = None
    """Success model, such as turbo, harq:tries=3 or {name: harq, tries: 3}."""
    arrivals: Part | None = None
    """Arrivals, such as poisson or negative-binomial:dispersion=2."""
    availability: Part | None = None
    """Rounds in which devices are there, such as on-off:mean_on=20,mean_off=5; left out: always."""
    rate: Amount | None = None
    """Mean number of shards that arrive at a device in a round, the same for all devices."""
    set: dict[str, AnyNumber] = field(default_factory=dict)
    """Any other number of the network, or a device column for all devices, such as buffer_limit: 20."""

    def check(self) -> None:
        for name, kind in (("devices", "random"), ("file", "table")):
            value = getattr(self, name)
            if value is not None and self.kind != kind:
                raise FedwaveError(
                    f"network.{name} is {short_repr(value)}, but goes with network.kind {kind}, not {self.kind}."
                )
        if self.kind == "table" and (not self.file or "\0" in self.file):
            raise FedwaveError(
                f"network.file is {short_repr(self.file)}, must be a device table (.csv, .yaml) for kind table."
            )
        for name, value in self.set.items():
            if name in ("kind", "devices", "file", "set"):
                raise FedwaveError(
                    f"network.set.{name} is {short_repr(value)}: {name} cannot be set here; give network.{name}."
                )
            if vars(self).get(name) is not None:
                raise FedwaveError(
                    f"network.set.{name} is {short_repr(value)}, but network.{name} is given too: keep one."
                )


@dataclass(frozen=True)
class TaskConfig(Checked):
    """The task, and how devices train. The dataset gives the default of a field that is left out."""

    prefix = "task."

    dataset: Part = _MNIST
    """Dataset: mnist, cifar10, synthetic (made in memory, for trials), or one of your own."""
    model: Part | None = None
    """Model: cnn or logistic for mnist and synthetic, vgg19 or vgg19-plain for cifar10, or one of your own."""
    partition: Part = _IID
    """What devices hold: iid, dirichlet:alpha=0.2 (small: few classes each), by-class:held=2, owner: a user each."""
    shard_size: Count | None = None
    """Samples in a shard."""
    batch: Annotated[int, Ge(2)] | None = None
    """Samples in a batch of local training."""
    epochs: Count | None = None
    """Epochs of local training."""
    eta: Positive | None = None
    """Learning rate."""
    aggregation: Part = _LEE
    """Weight of an upload, and ageing of an undelivered update: lee, lee:beta=0.5, fedasync, fedbuff, sync."""
    prox: Amount | None = None
    """Weight of the proximal term, which keeps a local model near the central one."""
    l2: Amount | None = None
    """Weight of the squared norm of the model in the loss."""
    loss: Part | None = None
    """What devices train on: cross-entropy (default), mse, mae, or one of your own."""
    metric: Part | None = None
    """What models are tested by: accuracy, mse, mae, or one of your own; by default accuracy, or another loss."""
    optimizer: Part | None = None
    """How a step uses its gradient: sgd (default), momentum:momentum=0.9 or adam."""
    instead_of: str | None = None
    """Dataset that was asked for and is unavailable; written by fedwave, so that results say so."""

    @property
    def metric_name(self) -> str:
        """What the metric is called in results."""
        usual = self.loss if self.loss is not None and self.loss.name != "cross-entropy" else None
        chosen = self.metric or usual
        return chosen.name.replace("-", "_") if chosen else "accuracy"

    def check(self) -> None:
        dataset, model = self.dataset.name, self.model.name if self.model else None
        fitting = DATASETS.get(dataset)
        if fitting is not None and model in MODELS and model not in fitting:
            raise FedwaveError(
                f"task.model is {model}, which cannot take the images of {dataset}: choose {' or '.join(fitting)}."
            )


@dataclass(frozen=True)
class TrainingConfig(Checked):
    """How models are trained and evaluated."""

    prefix = "training."

    tolerance: Annotated[float, Ge(0), Lt(1)] = 1e-6
    """Local training that weighs at most this at its delivery is left out; 0 trains everything."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto (a GPU if there is one), cpu or cuda."""
    precision: Literal["float32", "float64", "bfloat16", "auto"] = "float32"
    """float32, float64, bfloat16 (float32 weights, bfloat16 layers), or auto: bfloat16 for large models on a GPU."""
    lanes: Count | None = None
    """Models trained at once; by default as many as a quarter of the memory holds, at most 64 on a CPU."""
    loss_images: Count = 2000
    """Training images that the loss is measured on."""
    test_images: Count = 10_000
    """Test images that the accuracy is measured on in every round."""
    full_every: Whole = 0
    """Rounds between measurements on all test images; 0: never."""


@dataclass(frozen=True)
class Experiment(Checked):
    """Schedulers on common worlds: simulated, and trained if there is a task.

    The fields are those of an experiment's YAML file (docs/experiments.md). ``fw.load_experiment`` reads one.

    >>> import fedwave as fw
    >>> made = fw.Experiment(schedulers=("age", "alpha-fresh:alpha=0.25"), rounds=100, sweep={"network.slots": (3, 5)})
    >>> made.labels, made.base, made.metric
    (('age', 'alpha-fresh:alpha=0.25'), 'age', 'backlog')
    """

    name: str = "experiment"
    """Name of the experiment in its results."""
    imports: tuple[str, ...] = ()
    """Files (.py, as seen from this file's folder) or modules that register parts of your own."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The devices, the radio and the arrivals."""
    schedulers: tuple[Part, ...] = field(default_factory=lambda: _PAPER)
    """Schedulers, such as alsa-pi, balsa:stage_rule=max1 or {name: balsa, stage_rule: max1, as: label in results}."""
    task: TaskConfig | None = None
    """Dataset, model and local training; without a task, the experiment only simulates."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Device, precision and evaluation of training."""
    rounds: Count = 500
    """Rounds to play."""
    instances: Count = 50
    """Independent repetitions."""
    first_instance: Annotated[int, Ge(0), Le(MOST_FIRST_INSTANCE)] = 0
    """Number of the first instance; 20 with 10 instances: the lot 20 to 29 of a longer experiment, to be merged."""
    seed: Whole = 0
    """The same seed gives the same worlds and results."""
    block: Count | None = None
    """Instances in one unit of work; by default chosen by the runner."""
    group: Count | None = None
    """Schedulers in one unit of work, trained side by side; by default chosen by the runner."""
    against: str | None = None
    """Scheduler that differences are taken from; by default alsa-pi, or the first where it does not run."""
    burn_in: Whole = 0
    """First rounds that averages leave out."""
    checkpoint_seconds: Amount = 60.0
    """Time between checkpoints of a unit of work."""
    targets: tuple[Share, ...] = ()
    """Accuracies whose rounds are counted."""
    metrics: tuple[Part, ...] = ()
    """Round metrics that are watched beside the built-in ones, or in place of those of the same name."""
    metric: str = ""
    """Primary metric; if empty: that of the task (accuracy), else backlog."""
    sweep: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Fields to vary, by dotted name, such as network.slots, and the values of each."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The text that names each scheduler in the results."""
        return tuple(map(str, self.schedulers))

    @property
    def instance_numbers(self) -> range:
        """The numbers of its instances: they choose the worlds, whatever other instances run."""
        return range(self.first_instance, self.first_instance + self.instances)

    @property
    def base(self) -> str:
        """The scheduler that differences are taken from, by its label."""
        if self.against is not None:
            return self.against
        return BASE if BASE in self.labels else self.labels[0]

    def check(self) -> None:
        if not self.name.strip() or visible(self.name) != self.name:
            raise FedwaveError(f"name is {short_repr(self.name)}, must be a text of one line.")
        if self.burn_in >= self.rounds:
            raise FedwaveError(f"burn_in is {self.burn_in}, must be less than rounds, which is {self.rounds}.")
        if not self.metric:
            object.__setattr__(self, "metric", "backlog" if self.task is None else self.task.metric_name)
        if self.targets and self.task is not None and self.task.metric_name != "accuracy":
            raise FedwaveError(
                f"targets are accuracies, but the metric of the task is {self.task.metric_name}: leave targets out."
            )
        if not self.schedulers:
            raise FedwaveError("schedulers is empty: name at least one, as `fedwave list schedulers` shows them.")
        _check_once("schedulers", self.labels)
        _check_once("metrics", [part.name for part in self.metrics])
        self._check_against()
        self._check_sweep()

    def _check_against(self) -> None:
        if self.against is None or self.against in self.labels:
            return
        against = str(Part.of("scheduler", self.against, "against"))  # alpha=0.50 is alpha=0.5
        if against not in self.labels:
            known = did_you_mean(against, self.labels)
            raise FedwaveError(f"against is {short_repr(self.against)}, not one of the schedulers; {known}")
        object.__setattr__(self, "against", against)

    def _check_sweep(self) -> None:
        points, swept = 1, {}
        for axis, values in self.sweep.items():
            if not values:
                raise FedwaveError(f"sweep.{axis} is empty: give at least one value, or leave it out.")
            points *= len(values)
            if points > MOST_POINTS:
                raise FedwaveError(f"sweep.{axis} makes {points} points or more, must be at most {MOST_POINTS}.")
            swept[axis] = tuple(as_value(axis, value, f"sweep.{axis}[{i}]") for i, value in enumerate(values))
            _check_once(f"sweep.{axis}", swept[axis])
        object.__setattr__(self, "sweep", swept)


def _check_once(field: str, values: Sequence[Any]) -> None:
    seen = set()
    for i, value in enumerate(values):
        # 1 and 1.0 are the same, 1 and true are not.
        key = value if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
        if key in seen:
            raise FedwaveError(f"{field}[{i}] is {short_repr(plain(value))} again: name each once.")
        seen.add(key)
