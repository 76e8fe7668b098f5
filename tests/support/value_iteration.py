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


def mass_by_value_iteration(p, price, reward, sweeps=100_000):
    """g, h and the service rate of the mass problem; p equally likely, ``reward`` is R(1), ..., R(last).

    At the last delay time stands still. Damped, so that certain uploads do not make it alternate.
    """
    value = np.zeros(len(reward))
    for _ in range(sweeps):
        waiting = np.append(value[1:], value[-1])
        surplus = p[:, None] * (reward + value[0] - waiting) - price
        new = waiting + np.maximum(surplus, 0).mean(axis=0)
        change = new - value
        value = value + 0.5 * (change - change[0])
        if np.ptp(change) < 1e-12:
            break
    gains = (p[:, None] * (surplus > 0)).mean(axis=0)
    alive = np.cumprod(np.append(1, 1 - gains[:-1]))
    alive[-1] /= max(gains[-1], 1e-12)  # rounds spent at the last delay
    service = ((surplus > 0).mean(axis=0) * alive).sum() / alive.sum()
    return change[0], value - value[0], service
