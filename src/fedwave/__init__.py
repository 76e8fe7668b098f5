"""fedwave: who should transmit now? Federated learning over a wireless network, simulated and scheduled.

Everything that outside code may rely on is listed here; the rest is private and may move.
"""

from fedwave.checks.scheduler import check_scheduler
from fedwave.components import scheduler_from_text
from fedwave.errors import FedwaveError
from fedwave.network.arrivals import (
    NegativeBinomial,
    Poisson,
    RecordedArrivals,
    ZeroInflatedPoisson,
)
from fedwave.network.devices import Device, DeviceTable, read_devices
from fedwave.network.fading import GaussMarkov, Rayleigh, RecordedGains, Rician, Shadowing
from fedwave.network.network import Network, paper_network, random_network
from fedwave.network.success import Arq, Harq, Soft, Table, Threshold, Turbo, Uncoded
from fedwave.schedulers.base import Scheduler
from fedwave.schedulers.grid_posterior import GridPosterior
from fedwave.schedulers.posterior import ConjugatePosterior, GammaPrior, Jeffreys, TruncatedPrior
from fedwave.schedulers.registry import names as scheduler_names
from fedwave.schedulers.registry import register, scheduler
from fedwave.simulate import extend, network_of, remake, simulate
from fedwave.trace import Trace
from fedwave.version import __version__

# What needs large libraries is imported when it is first asked for: `import fedwave` stays light.
_ON_DEMAND = {
    "backlog_bound": "fedwave.theory.bound",
    "score_bound": "fedwave.theory.bound",
    "load": "fedwave.experiments.results.dataset",
    "load_experiment": "fedwave.experiments.config.read",
    "run_experiment": "fedwave.experiments.run.runner",
    "task": "fedwave.learning.task",
    "Task": "fedwave.learning.task",
    "train": "fedwave.learning.replay",
    "train_in_lock_step": "fedwave.learning.lockstep",
    "Curves": "fedwave.learning.curves",
    "Dataset": "fedwave.learning.data.dataset",
    "Iid": "fedwave.learning.partition",
    "Dirichlet": "fedwave.learning.partition",
    "ByClass": "fedwave.learning.partition",
}


def __getattr__(name: str) -> object:
    if name in _ON_DEMAND:
        from importlib import import_module

        return getattr(import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module 'fedwave' has no attribute {name!r}")
