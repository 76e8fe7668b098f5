"""What tables and figures need to know of the numbers that are watched in every round."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Description:
    """A metric for tables and figures; it is stored with the numbers."""

    name: str
    label: str
    over_rounds: str = "mean"
    better: str = ""
    per_device: bool = False


_KNOWN = (
    Description("score", "score", better="higher"),
    Description("backlog", "backlog (shards)", better="lower"),
    Description("arrived", "shards arrived"),
    Description("lost", "shards lost", better="lower"),
    Description("uploads", "uploads that arrived", better="higher"),
    Description("mean_age", "mean age (rounds)", better="lower"),
    Description("worst_age", "largest age (rounds)", "max", "lower"),
    Description("delivered_share", "share of shards delivered", "last", "higher"),
    Description("lost_share", "share of shards lost", "last", "lower"),
    Description("jain", "Jain index of uploads", "last", "higher"),
    Description("worst_device", "share delivered by the worst device", "last", "higher"),
    Description("mass", "delivered mass (shards)", better="higher"),
    Description("device_uploads", "uploads that arrived", "sum", per_device=True),
    Description("device_shards", "shards delivered", "sum", per_device=True),
    Description("accuracy", "test accuracy", "last", "higher"),
    Description("loss", "training loss", "last", "lower"),
    Description("accuracy_on_all", "accuracy on all test images", "last", "higher"),
    Description("worst_class", "accuracy of the worst class", "last", "higher"),
)


def describe(name: str) -> Description:
    """The description of a metric."""
    return next(about for about in _KNOWN if about.name == name)
