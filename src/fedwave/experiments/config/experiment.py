"""An experiment as a value: what to simulate, what to train, how often, and what to vary.

The text below a field describes it in the JSON schema. Rules on values are checked here, so that they hold however
an object was made. Types are checked where a file is read (schema.py); whether names are known and parts and
networks can be built, when an experiment is read or run (build.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, get_args

from fedwave.errors import FedwaveError, as_int, did_you_mean, is_number, short_repr
from fedwave.experiments.config.parts import PART_LISTS, PARTS, Part
from fedwave.plain_text import visible
from fedwave.schedulers.base import PAPER_SCHEDULERS

# pydantic reads this from the classes, which therefore need not import it.
PYDANTIC: dict[str, Any] = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True}
NetworkKind = Literal["paper", "random", "table"]
PLACES = ("auto", "cpu", "cuda")
PRECISIONS = ("float32", "float64", "bfloat16", "auto")
MOST_DEVICES = 10_000_000
MOST_POINTS = 10_000
MOST_FIRST_INSTANCE = 1_000_000_000  # a netCDF file holds labels of 32 bits
BASE = "alsa-pi"  # the paper's own: differences are taken from it unless another is named
# Which built-in models take the images of a built-in dataset; learning/ could tell, but needs torch.
DATASETS = {"mnist": ("cnn", "logistic"), "cifar10": ("vgg19", "vgg19-plain"), "synthetic": ("cnn", "logistic")}
MODELS = tuple(dict.fromkeys(model for models in DATASETS.values() for model in models))
_MNIST, _IID, _LEE = Part("mnist"), Part("iid"), Part("lee")


@dataclass(frozen=True)
class NetworkConfig:
    """The devices, the radio and the arrivals. What is null is as the kind of network has it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    kind: NetworkKind = "paper"
    """paper: the paper's 25 devices; random: drawn at random; table: read from a file."""
    devices: int | None = None
    """Number of devices of a random network; 100 if null."""
    file: str | None = None
    """Device table (.csv, .yaml) of a network of kind table, as seen from this file's folder."""
    slots: int | tuple[int, ...] | None = None
    """W: uploads that fit in a round; or a list with one W for each round."""
    gamma: float | None = None
    """Cost of a waiting shard."""
    fading: Part | None = None
    """Fading, such as rayleigh, rician:k_factor=6 or {name: rician, k_factor: 6}."""
    success: Part | None = None
    """Success model, such as turbo, harq:tries=3 or {name: harq, tries: 3}."""
    arrivals: Part | None = None
    """Arrivals, such as poisson or negative-binomial:dispersion=2."""
    rate: float | None = None
    """Mean number of shards that arrive at a device in a round, the same for all devices."""
    set: dict[str, float] = field(default_factory=dict)
    """Any other number of the network, or a device column for all devices, such as buffer_limit: 20."""

    def __post_init__(self) -> None:
        _make_parts(self, "network.")
        check_choice("network.kind", self.kind, get_args(NetworkKind))
        check_wholes(self, "network.", 1, "devices")
        check_numbers(self, "network.", "gamma", "rate")
        if isinstance(self.slots, (list, tuple)):
            object.__setattr__(self, "slots", tuple(self.slots))
        elif self.slots is not None:
            object.__setattr__(self, "slots", as_int("network.slots", self.slots, 1))
        self._check_kind()
        for name, value in self.set.items():
            if name in ("kind", "devices", "file", "set"):
                raise FedwaveError(
                    f"network.set.{name} is {short_repr(value)}, but {name} is no number to set: "
                    f"leave it out here, and give network.{name}."
                )
            if vars(self).get(name) is not None:
                raise FedwaveError(
                    f"network.set.{name} is {short_repr(value)}, but network.{name} is given too: keep one."
                )

    def _check_kind(self) -> None:
        for name, kind in (("devices", "random"), ("file", "table")):
            value = getattr(self, name)
            if value is not None and self.kind != kind:
                raise FedwaveError(
                    f"network.{name} is {short_repr(value)}, but goes with network.kind {kind}, not {self.kind}."
                )
        if self.devices is not None and self.devices > MOST_DEVICES:
            raise FedwaveError(f"network.devices is {short_repr(self.devices)}, must be at most {MOST_DEVICES}.")
        if self.kind == "table" and (not self.file or "\0" in self.file):
            raise FedwaveError(
                f"network.file is {short_repr(self.file)}, must be a device table (.csv, .yaml) for kind table."
            )


@dataclass(frozen=True)
class TaskConfig:
    """What is learnt, and how devices train. What is null is as the dataset has it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    dataset: Part = _MNIST
    """Dataset: mnist, cifar10, synthetic (made in memory, for trials), or one of your own."""
    model: Part | None = None
    """Model: cnn or logistic for mnist and synthetic, vgg19 or vgg19-plain for cifar10, or one of your own."""
    partition: Part = _IID
    """How classes are spread over devices: iid, dirichlet:alpha=0.2 (small: few classes each), by-class:held=2."""
    shard_size: int | None = None
    """Samples in a shard."""
    batch: int | None = None
    """Samples in a batch of local training."""
    epochs: int | None = None
    """Epochs of local training."""
    eta: float | None = None
    """Learning rate."""
    aggregation: Part = _LEE
    """What an upload weighs and how an undelivered update ages: lee, lee:beta=0.5, fedasync, fedbuff, sync."""
    prox: float | None = None
    """Weight of the proximal term, which keeps a local model near the central one."""
    l2: float | None = None
    """Weight of the squared norm of the model in the loss."""
    instead_of: str | None = None
    """Dataset that was asked for and is unavailable; written by fedwave, so that results say so."""

    def __post_init__(self) -> None:
        _make_parts(self, "task.")
        dataset, model = self.dataset.name, self.model.name if self.model else None
        fitting = DATASETS.get(dataset)
        if fitting is not None and model in MODELS and model not in fitting:
            raise FedwaveError(
                f"task.model is {model}, which cannot take the images of {dataset}: choose {' or '.join(fitting)}."
            )
        check_wholes(self, "task.", 1, "shard_size", "epochs")
        check_wholes(self, "task.", 2, "batch")  # one sample has no batch statistics
        check_numbers(self, "task.", "prox", "l2")
        check_numbers(self, "task.", "eta", positive=True)


@dataclass(frozen=True)
class TrainingConfig:
    """How models are trained and judged."""

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    tolerance: float = 1e-6
    """Local training that weighs at most this at its delivery is left out; 0 trains everything."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu or cuda."""
    precision: str = "float32"
    """float32, float64, bfloat16 (float32 weights, bfloat16 layers), or auto: bfloat16 for large models on a GPU."""
    lanes: int | None = None
    """Models trained at once; null: as many as a quarter of the memory holds, at most 64 on a CPU."""
    loss_images: int = 2000
    """Training images that the loss is measured on."""
    test_images: int = 10_000
    """Test images that the accuracy is measured on in every round."""
    full_every: int = 0
    """Rounds between measurements on all test images; 0: never."""

    def __post_init__(self) -> None:
        check_choice("training.device", self.device, PLACES)
        check_choice("training.precision", self.precision, PRECISIONS)
        check_wholes(self, "training.", 1, "lanes", "loss_images", "test_images")
        check_wholes(self, "training.", 0, "full_every")
        check_numbers(self, "training.", "tolerance")
        if self.tolerance >= 1:
            raise FedwaveError(f"training.tolerance is {self.tolerance}, must lie in [0, 1): 0 trains everything.")


@dataclass(frozen=True)
class Experiment:
    """Schedulers on common worlds: simulated, and trained if there is a task.

    The fields are those of an experiment's YAML file (docs/experiments.md). ``fw.load_experiment`` reads one.

    >>> import fedwave as fw
    >>> made = fw.Experiment(schedulers=("age", "alpha-fresh:alpha=0.25"), rounds=100, sweep={"network.slots": (3, 5)})
    >>> made.labels, made.base, made.metric
    (('age', 'alpha-fresh:alpha=0.25'), 'age', 'backlog')
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    name: str = "experiment"
    """What the experiment is called in its results."""
    imports: tuple[str, ...] = ()
    """Files (.py, as seen from this file's folder) or modules that register parts of your own."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The devices, the radio and the arrivals."""
    schedulers: tuple[Part, ...] = field(default_factory=lambda: tuple(map(Part, PAPER_SCHEDULERS)))
    """Schedulers, such as alsa-pi, balsa:stage_rule=max1 or {name: balsa, stage_rule: max1}."""
    task: TaskConfig | None = None
    """What is learnt; null: only simulate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Where and how models are trained, and what they are judged by."""
    rounds: int = 500
    """Rounds to play."""
    instances: int = 50
    """Independent repetitions."""
    first_instance: int = 0
    """Number of the first instance; 20 with 10 instances: the lot 20 to 29 of a longer experiment, to be merged."""
    seed: int = 0
    """The same seed gives the same worlds and results."""
    block: int | None = None
    """Instances in one unit of work; null: chosen by the runner."""
    group: int | None = None
    """Schedulers in one unit of work, trained side by side; null: chosen by the runner."""
    against: str | None = None
    """Scheduler that differences are taken from; null: alsa-pi, or the first where it does not run."""
    burn_in: int = 0
    """First rounds that averages leave out."""
    checkpoint_seconds: float = 60.0
    """Time between checkpoints of a unit of work."""
    targets: tuple[float, ...] = ()
    """Accuracies whose rounds are counted."""
    metrics: tuple[Part, ...] = ()
    """Round metrics that are watched beside the built-in ones, or in place of those of the same name."""
    metric: str = ""
    """First in tables, and what the figures of a sweep show; if empty: accuracy with a task, else backlog."""
    sweep: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What is varied: a field with its dots, such as network.slots, and the values it takes."""

    def __post_init__(self) -> None:
        _make_parts(self, "")
        object.__setattr__(self, "imports", tuple(self.imports))
        if not self.name.strip() or visible(self.name) != self.name:
            raise FedwaveError(f"name is {short_repr(self.name)}, must be a text of one line.")
        check_wholes(self, "", 1, "rounds", "instances", "block", "group")
        check_wholes(self, "", 0, "first_instance", "seed", "burn_in")
        check_numbers(self, "", "checkpoint_seconds")
        if self.first_instance > MOST_FIRST_INSTANCE:
            raise FedwaveError(f"first_instance is {self.first_instance}, must be at most {MOST_FIRST_INSTANCE}.")
        if self.burn_in >= self.rounds:
            raise FedwaveError(f"burn_in is {self.burn_in}, must lie between 0 and the {self.rounds} rounds less one.")
        object.__setattr__(self, "imports", tuple(self.imports))
        if not self.metric:
            object.__setattr__(self, "metric", "backlog" if self.task is None else "accuracy")
        self._check_schedulers()
        self._check_results()
        self._check_sweep()

    @property
    def labels(self) -> tuple[str, ...]:
        """The text that names each scheduler in the results."""
        return tuple(str(part) for part in self.schedulers)

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

    def _check_schedulers(self) -> None:
        labels = self.labels
        if not labels:
            raise FedwaveError("schedulers is empty: name at least one, as `fedwave list schedulers` shows them.")
        for i, label in enumerate(labels):
            if label in labels[:i]:
                raise FedwaveError(f"schedulers[{i}] is {short_repr(label)} once more: name each once.")
        if self.against is None:
            return
        against = str(Part.of("scheduler", self.against, "against"))
        if against not in labels:
            raise FedwaveError(
                f"against is {short_repr(self.against)}, not one of the schedulers; {did_you_mean(against, labels)}"
            )
        object.__setattr__(self, "against", against)

    def _check_results(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        for target in self.targets:
            if not (is_number(target) and 0 < target <= 1):
                raise FedwaveError(f"targets holds {short_repr(target)}, must be numbers in (0, 1].")
        names = [part.name for part in self.metrics]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise FedwaveError(f"metrics[{i}] is {short_repr(name)} once more: name each once.")

    def _check_sweep(self) -> None:
        points, swept = 1, {}
        for axis, values in self.sweep.items():
            if not values:
                raise FedwaveError(f"sweep.{axis} is empty: give at least one value, or leave it out.")
            points *= len(values)
            if points > MOST_POINTS:
                raise FedwaveError(f"sweep.{axis} makes {points} points or more, must be at most {MOST_POINTS}.")
            swept[axis] = tuple(_as_part(axis, v, f"sweep.{axis}[{i}]") for i, v in enumerate(values))
            seen = set()
            for value in swept[axis]:
                if _key(value) in seen:
                    raise FedwaveError(f"sweep.{axis} holds {short_repr(value)} twice: give each once.")
                seen.add(_key(value))
        object.__setattr__(self, "sweep", swept)


def _make_parts(config: Any, where: str) -> None:
    """Turn every field that is a part, given as text or mapping, into a Part."""
    for one in fields(config):
        name, value = where + one.name, getattr(config, one.name)
        if name in PART_LISTS:
            family = PARTS[name]
            made: Any = tuple(Part.of(family, v, f"{name}[{i}]") for i, v in enumerate(value))
        else:
            made = _as_part(name, value, name)
        object.__setattr__(config, one.name, made)


def _as_part(name: str, value: Any, where: str) -> Any:
    """A value of a field: a Part where the field is one. Lists of parts stay as they are."""
    if value is None or name in PART_LISTS or name not in PARTS:
        return value
    return Part.of(PARTS[name], value, where)


def _key(value: Any) -> Any:
    """Tells values apart: 1 and 1.0 are the same, 1 and true are not."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)


def check_wholes(config: object, where: str, least: int, *names: str) -> None:
    """Each of these fields is a whole number of at least ``least``; None stands for a default."""
    for name in names:
        value = getattr(config, name)
        if value is not None:
            object.__setattr__(config, name, as_int(where + name, value, least))


def check_numbers(config: object, where: str, *names: str, positive: bool = False) -> None:
    """Each of these fields is a finite number, not negative; None stands for a default."""
    for name in names:
        value = getattr(config, name)
        if value is None or (is_number(value) and (value > 0 or (value == 0 and not positive))):
            continue
        rule = "> 0" if positive else ">= 0"
        raise FedwaveError(f"{where}{name} is {short_repr(value)}, must be a number {rule}.")


def check_choice(where: str, value: Any, known: Iterable[str]) -> None:
    """The value is one of the known names."""
    known = list(known)
    if value not in known:
        raise FedwaveError(f"{where} is {short_repr(value)}, must be {choice_of(known, value)}")


def choice_of(known: Iterable[str], value: Any) -> str:
    """End a sentence about a name that is none of the known ones.

    >>> choice_of(["async", "sync"], "asynch")
    "async or sync; did you mean 'async'?"
    """
    known = list(known)
    text = " or ".join(filter(None, [", ".join(known[:-1]), known[-1]]))
    near = get_close_matches(value, known, n=1, cutoff=0.7) if isinstance(value, str) else []
    return f"{text}; did you mean {near[0]!r}?" if near else f"{text}."
