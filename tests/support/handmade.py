"""Situations written by hand, for schedulers that are asked without a round loop around them."""

import numpy as np

from fedwave.types import Observation, Problem

QUARTILES = (0.28768207, 0.69314718, 1.38629436)  # of an exponential gain with mean 1


def problem(instances=1, devices=4, family="poisson"):
    return Problem(instances, devices, family, QUARTILES)


def observation(devices=4, instances=1, slots=2, round_=5, **fields):
    """All devices alike unless ``fields`` says otherwise; only the given fields can be seen."""
    shape = (instances, devices)
    known = {
        "delay": np.ones(shape, np.int64),
        "delivered": np.zeros(shape, np.bool_),
        "reported": np.zeros(shape, np.int64),
    }
    for name, value in fields.items():
        # Rates are one per device; all else is one per instance and device.
        value = np.asarray(value)
        known[name] = value if name == "rates" else np.broadcast_to(value, shape)
    return Observation(problem=problem(instances, devices), round=round_, slots=slots, **known)
