"""Contract checks: one list of checks per family, for built-in parts and for users' own.

`check` finds the family and runs its checks: scheduler, fading, success, arrivals, prior, partition, aggregation,
dataset, model, metric each have a file here. What they share is in common.py and statistics.py.
"""

from fedwave.checks.dispatch import check

__all__ = ["check"]
