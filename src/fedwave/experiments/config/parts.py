"""The parts of an experiment's configuration: its network, its task and its training.

The text below a field describes it in the JSON schema. Rules on values are checked here, so that they hold
however an object was made; types are checked where a file is read (validation.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from fedwave import registry
from fedwave.errors import FedwaveError, whole
from fedwave.experiments.config.rules import (
    PYDANTIC,
    check_choice,
    check_numbers,
    check_wholes,
    shown,
)

NetworkKind = Literal["paper", "random", "table"]
PLACES = ("auto", "cpu", "cuda")
PRECISIONS = ("float32", "float64", "bfloat16")
MOST_DEVICES = 10_000_000
CLASSES = 10  # of every dataset
# Which models take the images of a dataset. learning/ has the same names, but needs torch to tell them.
DATASETS = {
    "mnist": ("cnn", "logistic"),
    "cifar10": ("vgg19", "vgg19-plain"),
    "synthetic": ("cnn", "logistic"),
}
MODELS = tuple(dict.fromkeys(model for models in DATASETS.values() for model in models))


@dataclass(frozen=True)
class NetworkConfig:
    """The devices, the radio and the arrivals. What is null is as the kind of network has it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    kind: NetworkKind = "paper"
    """paper: the paper's 25 devices; random: drawn at random; table: read from a file."""
    devices: int | None = None
    """Number of devices of a random network; 100 if null."""
    file: str | None = None
    """Device table (.csv, .yaml) of a network of kind table, as seen from the current folder."""
    slots: int | tuple[int, ...] | None = None
    """W: uploads that fit in a round; or a list with one W for each round."""
    gamma: float | None = None
    """Cost of a waiting shard."""
    fading: str | None = None
    """Fading by name, such as rayleigh or rician:k_factor=6."""
    success: str | None = None
    """Error model by name, such as turbo or harq:tries=3."""
    arrivals: str | None = None
    """Arrivals by name, such as poisson or negative-binomial:dispersion=2."""
    rate: float | None = None
    """Mean number of shards that arrive at a device in a round, the same for all devices."""
    set: dict[str, float] = field(default_factory=dict)
    """Any other number of the network, or a device column for all devices, such as buffer_limit: 20."""

    def __post_init__(self) -> None:
        check_choice("network.kind", self.kind, get_args(NetworkKind))
        check_wholes(self, "network.", 1, "devices")
        check_numbers(self, "network.", "gamma", "rate")
        if isinstance(self.slots, (list, tuple)):
            object.__setattr__(self, "slots", tuple(self.slots))
        elif self.slots is not None:
            object.__setattr__(self, "slots", whole("network.slots", self.slots, 1))
        self._check_kind()
        for name in self.set:
            if name in ("kind", "devices", "file", "set"):
                raise FedwaveError(
                    f"network.set.{name} is {shown(self.set[name])}, but {name} is no number to set: "
                    f"leave it out here, and give network.{name}."
                )
            if vars(self).get(name) is not None:
                raise FedwaveError(
                    f"network.set.{name} is {shown(self.set[name])}, but network.{name} is given too: keep one."
                )

    def _check_kind(self) -> None:
        for name, kind in (("devices", "random"), ("file", "table")):
            value = getattr(self, name)
            if value is not None and self.kind != kind:
                raise FedwaveError(
                    f"network.{name} is {shown(value)}, but goes with network.kind {kind}, not {self.kind}."
                )
        if self.devices is not None and self.devices > MOST_DEVICES:
            raise FedwaveError(
                f"network.devices is {shown(self.devices)}, must be at most {MOST_DEVICES}."
            )
        if self.kind == "table" and (not self.file or "\0" in self.file):
            raise FedwaveError(
                f"network.file is {shown(self.file)}, must be a device table (.csv, .yaml) for kind table."
            )


@dataclass(frozen=True)
class TaskConfig:
    """What is learnt, and how devices train. What is null is as the dataset has it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    dataset: str = "mnist"
    """mnist, cifar10, or synthetic (made in memory, for trials)."""
    model: str | None = None
    """cnn or logistic for mnist and synthetic, vgg19 or vgg19-plain for cifar10."""
    skew: float | None = None
    """Label skew: the classes of each device are Dirichlet(skew); small means few. None: all alike."""
    classes_per_device: int | None = None
    """Label skew: each device holds this many classes. Not together with skew."""
    shard_size: int | None = None
    """Samples in a shard."""
    batch: int | None = None
    """Samples in a batch of local training."""
    epochs: int | None = None
    """Epochs of local training."""
    eta: float | None = None
    """Learning rate."""
    aggregation: str | None = None
    """Aggregation rule by name, such as lee:beta=0.5, fedbuff:size=10 or sync."""
    prox: float | None = None
    """Weight of the proximal term, which keeps a local model near the central one."""
    l2: float | None = None
    """Weight of the squared norm of the model in the loss."""
    instead_of: str | None = None
    """Dataset that was wanted and could not be had; written by fedwave, so that results say so."""

    def __post_init__(self) -> None:
        check_choice("task.dataset", self.dataset, DATASETS)
        if self.instead_of is not None:
            check_choice("task.instead_of", self.instead_of, DATASETS)
        if self.model is not None:
            check_choice("task.model", self.model, MODELS)
            if self.model not in DATASETS[self.dataset]:
                raise FedwaveError(
                    f"task.model is {self.model}, which cannot take the images of {self.dataset}: "
                    f"choose {' or '.join(DATASETS[self.dataset])}."
                )
        check_wholes(self, "task.", 1, "classes_per_device", "shard_size", "epochs")
        check_wholes(self, "task.", 2, "batch")  # one sample has no batch statistics
        check_numbers(self, "task.", "prox", "l2")
        check_numbers(self, "task.", "skew", "eta", positive=True)
        if self.aggregation is not None:
            try:
                registry.build("aggregation", self.aggregation)
            except FedwaveError as error:
                raise FedwaveError(f"task.aggregation: {error}") from None
        held = self.classes_per_device
        if held is not None and held > CLASSES:
            raise FedwaveError(
                f"task.classes_per_device is {held}, but {self.dataset} has only {CLASSES} classes."
            )
        if held is not None and self.skew is not None:
            raise FedwaveError(
                f"task.classes_per_device is {held} and task.skew is {self.skew}: keep one of the two."
            )


@dataclass(frozen=True)
class TrainingConfig:
    """How models are trained and judged."""

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    tolerance: float = 1e-6
    """Local training that weighs less at its delivery is left out; 0 trains everything."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu or cuda."""
    precision: str = "float32"
    """float32, float64, or bfloat16: float32 weights, bfloat16 layers."""
    lanes: int | None = None
    """Models trained at once; null: 64 on a CPU, 1024 on a GPU."""
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
            raise FedwaveError(
                f"training.tolerance is {self.tolerance}, must lie in [0, 1): 0 trains everything."
            )
