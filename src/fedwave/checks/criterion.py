"""The contract of a criterion: from outputs and targets a number for each sample, or their mean."""

from __future__ import annotations

from fedwave.checks.shared import Family, Trial
from fedwave.learning.criteria import try_criterion


def _tried(trial: Trial) -> None:
    """Tried on logits of classes, and on numbers; it must work for one of the two."""
    trial.kept += [("mean", mean, None) for mean in try_criterion(trial.part)]


FAMILY = Family(try_part=_tried, trial_name="declaration", shared_checks=("repetition",))
