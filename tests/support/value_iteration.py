"""The single-device problem solved the plain way."""

import numpy as np


def by_value_iteration(p, theta, price, arrivals, last=150, sweeps=4000):
    """The equation as printed, iterated; p equally likely, ``arrivals`` the chances of m."""
    n = np.arange(last + 1)
    slope = (1 - p.mean()) / p.mean()
    value = slope * n
    for _ in range(sweeps):
        beyond = value[-1] + slope * np.arange(1, len(arrivals))
        ahead = np.convolve(np.concatenate([value, beyond]), arrivals[::-1], mode="valid")
        worth = n + theta + ahead
        new = worth - np.maximum(p[:, None] * worth - price, 0).mean(axis=0)
        cost, value_before, value = new[0], value, new - new[0]
        if np.abs(value - value_before).max() < 1e-11:
            break
    return cost, value, worth
