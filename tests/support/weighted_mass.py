"""The v-weighted mass of a trace, computed round by round from what happened."""

import numpy as np


def weighted_mass(trace, rates, beta, rate, expected=False):
    """sum over delivered u of v_u r(d_u) x_u, ``[T, I]``; ``expected``: with the mean of x given d."""
    share = rates / rates.sum()
    x, out = np.zeros(trace.delivered.shape[1:]), []
    for t in range(trace.rounds):
        d = trace.delay[t]
        x = trace.arrivals[t] + beta * x
        brought = rates * (1 - beta**d) / (1 - beta) if expected else x
        out.append((trace.delivered[t] * share * rate(d) * brought).sum(axis=1))
        x = np.where(trace.delivered[t], 0.0, x)
    return np.array(out)


def logarithmic(delay):
    return np.maximum(1.0, np.log(delay))


def constant(delay):
    return np.ones(np.shape(delay))
