"""An experiment as a value: what to simulate, what to train, how often, and what to vary.

Written as YAML, read by config_text.py, turned into objects by build.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedwave.errors import FedwaveError, did_you_mean, is_number
from fedwave.experiments.config.build import labels_of, schedulers_from
from fedwave.experiments.config.build_network import check_network
from fedwave.experiments.config.parts import NetworkConfig, TaskConfig, TrainingConfig
from fedwave.experiments.config.rules import (
    PYDANTIC,
    check_choice,
    check_numbers,
    check_wholes,
    shown,
)
from fedwave.schedulers.base import PAPER_SCHEDULERS

__all__ = ["Experiment", "NetworkConfig", "TaskConfig", "TrainingConfig"]

# What a figure of a sweep can show; the second kind only where something is learnt.
METRICS = (
    "score", "backlog", "arrived", "lost", "uploads", "mean_age", "worst_age", "delivered_share", "lost_share", "jain",
)  # fmt: skip
LEARNT_METRICS = ("accuracy", "loss", "accuracy_on_all", "worst_class")
BASE = "alsa-pi"  # the paper's own: differences are taken from it unless told otherwise
MOST_POINTS = 10_000


@dataclass(frozen=True)
class Experiment:
    """Schedulers on common worlds: simulated, and trained if there is a task."""

    __pydantic_config__: ClassVar[dict[str, Any]] = PYDANTIC

    name: str = "experiment"
    """What the experiment is called in its results."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The devices, the radio and the arrivals."""
    schedulers: tuple[str, ...] = PAPER_SCHEDULERS
    """Schedulers by name, with parameters: balsa:stage_rule=max1 or {name: balsa, stage_rule: max1}."""
    task: TaskConfig | None = None
    """What is learnt; null: only simulate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """Where and how models are trained, and what they are judged by."""
    rounds: int = 500
    """Rounds to play."""
    instances: int = 50
    """Independent repetitions."""
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
    """Accuracies whose rounds are counted (figure 5)."""
    metric: str = "backlog"
    """What the figure of a sweep shows."""
    sweep: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What is varied: a field with its dots, such as network.slots, and the values it takes."""

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise FedwaveError(f"name is {shown(self.name)}, must be a text of one line.")
        check_wholes(self, "", 1, "rounds", "instances", "block", "group")
        check_wholes(self, "", 0, "seed", "burn_in")
        check_numbers(self, "", "checkpoint_seconds")
        if self.burn_in >= self.rounds:
            raise FedwaveError(
                f"burn_in is {self.burn_in}, must lie between 0 and the {self.rounds} rounds less one."
            )
        self._check_schedulers()
        self._check_results()
        self._check_sweep()
        check_network(self.network, self.rounds, self.instances)

    @property
    def base(self) -> str:
        """The scheduler that differences are taken from."""
        if self.against is not None:
            return self.against
        return BASE if BASE in self.schedulers else self.schedulers[0]

    def _check_schedulers(self) -> None:
        object.__setattr__(self, "schedulers", labels_of(self.schedulers))
        for label, chosen in schedulers_from(self.schedulers).items():
            if "learner" in chosen.needs and self.task is None:
                raise FedwaveError(
                    f"schedulers: {label!r} looks at the models, but task is null: leave it out, or give a "
                    "task and use `fedwave train`."
                )
        if self.against is not None and self.against not in self.schedulers:
            raise FedwaveError(
                f"against is {shown(self.against)}, which is not among the schedulers; "
                f"{did_you_mean(self.against, self.schedulers)}"
            )

    def _check_results(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        for target in self.targets:
            if not (is_number(target) and 0 < target <= 1):
                raise FedwaveError(f"targets holds {shown(target)}, must be numbers in (0, 1].")
        check_choice("metric", self.metric, (*METRICS, *LEARNT_METRICS))
        if self.metric in LEARNT_METRICS and self.task is None:
            raise FedwaveError(
                f"metric is {self.metric}, but task is null, so nothing is learnt: choose another, or give a task."
            )

    def _check_sweep(self) -> None:
        points = 1
        for axis, values in self.sweep.items():
            if not values:
                raise FedwaveError(
                    f"sweep.{axis} is empty: give at least one value, or leave it out."
                )
            points *= len(values)
            if points > MOST_POINTS:
                raise FedwaveError(
                    f"sweep.{axis} makes {points} points or more, must be at most {MOST_POINTS}."
                )
            seen = set()
            for value in values:
                key = _key(value)
                if key in seen:
                    raise FedwaveError(f"sweep.{axis} holds {shown(value)} twice: give each once.")
                seen.add(key)
        swept = {axis: tuple(values) for axis, values in self.sweep.items()}
        object.__setattr__(self, "sweep", swept)


def _key(value: Any) -> Any:
    """Tells values apart: 1 and 1.0 are the same, 1 and true are not."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
