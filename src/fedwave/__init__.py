"""fedwave: who should transmit now? Federated learning over a wireless network, simulated and scheduled.

Everything that outside code may rely on is listed here; the rest is private and may move.
"""

from fedwave.checks.scheduler import check_scheduler
from fedwave.errors import FedwaveError
from fedwave.network import arrivals, fading, success
from fedwave.network.devices import Device, DeviceTable, read_devices
from fedwave.network.network import Network, paper_network, random_network
from fedwave.registry import register
from fedwave.schedulers import posterior, priors
from fedwave.schedulers.base import Scheduler, scheduler, scheduler_names
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
    "partition": "fedwave.learning",
}


def __getattr__(name: str) -> object:
    if name == "partition":
        from fedwave.learning import partition

        return partition
    if name in _ON_DEMAND:
        from importlib import import_module

        return getattr(import_module(_ON_DEMAND[name]), name)
    raise AttributeError(f"module 'fedwave' has no attribute {name!r}")
