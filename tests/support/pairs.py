"""Two devices for one slot, networks at the edges of what a planning scheduler can meet, and what it ranks by."""

import numpy as np
from handmade import observation

import fedwave as fw
from fedwave.rng import Draws

CONSTANT = fw.success.Table((0.0, 1.0), (0.3, 0.3))  # p = 0.7 whatever the gain


def pair(success=CONSTANT, **changes):
    devices = [fw.Device(rate=1, distance_m=100), fw.Device(rate=5, distance_m=400)]
    return fw.Network(devices=devices, slots=1, success=success).replace(**changes)


EDGES = {
    "nothing": pair(rate=0.0),
    "all-slots": pair(rate=[1e-300, 2.0], slots=2),
    "never-or-always": pair(fw.success.Threshold(), distance_m=[100.0, 5000.0]),
    "always": pair(fw.success.Threshold(), distance_m=1.0),
    "rates-apart": pair(fw.success.Turbo(), rate=[0.001, 3000.0]),
    "correlated": pair(fading=fw.fading.GaussMarkov(0.9)),
    "shadowed": pair(fading=fw.fading.Shadowing(correlation=1.0)),
    "recorded-gains": pair(fading=fw.fading.RecordedGains(np.ones((6, 2)))),
    "recorded-arrivals": pair(arrivals=fw.arrivals.RecordedArrivals(np.ones((6, 2))), buffer_limit=3.0),
    "slots-vary": pair(slots=[0, 2, 1, 0, 1, 2]),
}


def priority(scheduler, network, state=None, *, theta=None, **fields):
    """What a scheduler ranks by in a situation that is put together by hand; ``theta`` are sampled rates."""
    scheduler = fw.scheduler(scheduler)
    seen = observation(network.size, slots=network.slots, **{"rates": network.rates, "waiting": 0} | fields)
    seen.planning = network.planning
    state = dict(scheduler.start(seen.problem)) | (state or {})
    if theta is not None:
        state |= {"theta": np.array([theta]), "covered": np.ones((1, network.size), int)}
    return scheduler.priority(state, seen, Draws(0, [0]).at(seen.round))[0]
