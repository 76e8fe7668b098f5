"""Two devices for one slot, and networks at the edges of what a planning scheduler can meet."""

import numpy as np

import fedwave as fw

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


def runs_at_the_edge(text, edge):
    """Simulate a scheduler on one of them: it fills the slots of the first round."""
    network = EDGES[edge]
    trace = fw.simulate(network, fw.scheduler(text), rounds=6, instances=2)
    assert (np.count_nonzero(trace.scheduled[0], axis=1) == network.slots_in(1)).all()
