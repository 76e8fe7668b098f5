"""Simulates federated learning over a wireless network, and compares who should transmit when.

>>> import fedwave as fw
>>> net = fw.paper_network(fading="rician:k_factor=6")
>>> trace = fw.simulate(net, "max-weight", rounds=50, instances=4)
>>> trace.backlog.shape
(50, 4)

The public names, in the order in which a user meets them. Everything else is private and may move.

Describe a network:

    paper_network       the 25 devices of the paper
    random_network      devices with random rates and distances
    read_devices        a device table from a CSV or YAML file
    read_log            measured SNRs, gains or arrivals, as a part of a network
    Network             devices, slots, radio and arrivals
    Device              one device
    DeviceTable         all devices of a network, as columns

Run schedulers on it, all at once or one by one with every round kept:

    scheduler_names     the schedulers to choose from
    scheduler           a scheduler by name, with parameters
    compare             runs schedulers on the same worlds
    Comparison          what compare returns: means, intervals, paired differences and a verdict
    slots_needed        the least number of slots that keeps the backlog below a limit
    SlotsNeeded         what slots_needed returns
    simulate            runs one scheduler
    Trace               what simulate returns: every round, instance and device
    extend              continues a trace
    remake              runs the simulation of a trace again

Decide in production:

    Live                a scheduler that is told what was measured, and says who transmits

Learn to decide, or write a round loop of your own:

    environment         a network for reinforcement learning, in many copies that are stepped together
    Environment         what environment returns
    rl                  a module: environments for Gymnasium, and learned models as schedulers
    World               what no decision can change: gains, luck and arrivals, round by round
    dynamics            a module: what a decision does to the counts

Train a model on a trace, or predict the outcome:

    task                a dataset, a model and the settings of local training
    Task                what task returns
    Dataset             images with labels
    train               trains a task on traces
    train_in_lock_step  simulates and trains together, for schedulers that use the models
    Curves              what train returns: loss and accuracy of every round
    EvaluationSizes     the number of images that models are evaluated on
    predict             ranks schedulers by expected accuracy, without training
    Prediction          what predict returns

Run an experiment into a folder:

    run                 runs an experiment: results, figures and tables
    load                reads the results of a run folder
    describe            writes the simulation setup of an experiment or a run, for a paper
    merge               merges runs with different instances
    load_experiment     reads an experiment from YAML
    Experiment          an experiment as a value

Compare with what no scheduler can exceed:

    backlog_bound       a lower bound on the mean backlog
    score_bound         an upper bound on the mean score
    mass_bound          an upper bound on the delivered mass
    theory              a module: small networks solved exactly

Make figures and tables of your own; these are modules:

    figures             looks of schedulers, panels, and the figures of results
    tables              Markdown and LaTeX
    statistics          means over instances, and their intervals

Add parts of your own:

    register            makes a part known by its name
    check               checks that a part keeps the contract of its family
    Scheduler           the base class of schedulers
    Observation         what a scheduler sees in a round
    Decision            who transmits in a round
    Draws               a scheduler's random numbers
    Problem             what a scheduler knows before the first round
    State               the type of what a scheduler or metric remembers
    Metric              the base class of round metrics
    PlayedRound         what a metric sees of a round

Choose parts; each of these modules also has the base class of its family:

    fading              models of the channel gain
    success             models of the success probability of an upload
    arrivals            models of the shards that arrive
    availability        models of the rounds in which devices are there
    priors              priors of arrival rates
    posterior           posteriors of arrival rates
    rates               index schedulers with known or learned rates
    partition           the classes that each device holds
    aggregation         rules that weigh uploads
    optimizers          how a step of local training uses its gradient
    metrics             round metrics

Catch errors, and tell versions apart:

    FedwaveError        raised for bad input, with one sentence
    __version__         the version of fedwave
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from fedwave import aggregation, metrics
from fedwave.checks import check
from fedwave.environment import Environment, environment
from fedwave.errors import FedwaveError
from fedwave.errors import extra_for as _extra_for
from fedwave.live import Live
from fedwave.metrics import Metric
from fedwave.network import arrivals, availability, dynamics, fading, partition, success
from fedwave.network.devices import Device, DeviceTable, read_devices
from fedwave.network.logs import read_log
from fedwave.network.network import Network, paper_network, random_network
from fedwave.network.world import World
from fedwave.parts.registry import register
from fedwave.rng import Draws
from fedwave.schedulers import posterior, priors, rates
from fedwave.schedulers.base import Scheduler, scheduler, scheduler_names
from fedwave.simulation import extend, remake, simulate
from fedwave.trace import Trace
from fedwave.types import Decision, Observation, PlayedRound, Problem, State
from fedwave.version import __version__

if TYPE_CHECKING:
    from fedwave import theory
    from fedwave.adapters import gymnasium as rl
    from fedwave.experiments.analysis import statistics, tables
    from fedwave.experiments.analysis.prediction import Prediction, predict
    from fedwave.experiments.analysis.slots import SlotsNeeded, slots_needed
    from fedwave.experiments.api import compare, run
    from fedwave.experiments.config.experiment import Experiment
    from fedwave.experiments.config.read import load_experiment
    from fedwave.experiments.merge import merge
    from fedwave.experiments.report import figures
    from fedwave.experiments.report.comparison import Comparison
    from fedwave.experiments.report.setup import describe
    from fedwave.experiments.store.load import load
    from fedwave.learning import optimizers
    from fedwave.learning.curves import Curves
    from fedwave.learning.datasets.dataset import Dataset
    from fedwave.learning.evaluation import EvaluationSizes
    from fedwave.learning.lockstep import train_in_lock_step
    from fedwave.learning.task import Task, task
    from fedwave.learning.train import train
    from fedwave.theory.bound import backlog_bound, mass_bound, score_bound

# Names that need large libraries are imported at their first use, so that `import fedwave` stays light.
_ON_DEMAND = {
    "Comparison": "fedwave.experiments.report.comparison",
    "Curves": "fedwave.learning.curves",
    "Dataset": "fedwave.learning.datasets.dataset",
    "EvaluationSizes": "fedwave.learning.evaluation",
    "Experiment": "fedwave.experiments.config.experiment",
    "Task": "fedwave.learning.task",
    "backlog_bound": "fedwave.theory.bound",
    "compare": "fedwave.experiments.api",
    "describe": "fedwave.experiments.report.setup",
    "figures": "fedwave.experiments.report.figures",
    "load": "fedwave.experiments.store.load",
    "load_experiment": "fedwave.experiments.config.read",
    "mass_bound": "fedwave.theory.bound",
    "optimizers": "fedwave.learning.optimizers",
    "merge": "fedwave.experiments.merge",
    "predict": "fedwave.experiments.analysis.prediction",
    "Prediction": "fedwave.experiments.analysis.prediction",
    "rl": "fedwave.adapters.gymnasium",
    "run": "fedwave.experiments.api",
    "score_bound": "fedwave.theory.bound",
    "slots_needed": "fedwave.experiments.analysis.slots",
    "SlotsNeeded": "fedwave.experiments.analysis.slots",
    "statistics": "fedwave.experiments.analysis.statistics",
    "tables": "fedwave.experiments.analysis.tables",
    "task": "fedwave.learning.task",
    "theory": "fedwave.theory",
    "train": "fedwave.learning.train",
    "train_in_lock_step": "fedwave.learning.lockstep",
}
_MODULES = {"figures", "optimizers", "rl", "statistics", "tables", "theory"}

# In the order of the table above.
__all__ = ["paper_network", "random_network", "read_devices", "read_log", "Network", "Device", "DeviceTable"]
__all__ += ["scheduler_names", "scheduler", "compare", "Comparison", "slots_needed", "SlotsNeeded"]
__all__ += ["simulate", "Trace", "extend", "remake"]
__all__ += ["Live"]
__all__ += ["environment", "Environment", "rl", "World", "dynamics"]
__all__ += ["task", "Task", "Dataset", "train", "train_in_lock_step", "Curves", "EvaluationSizes"]
__all__ += ["predict", "Prediction"]
__all__ += ["run", "load", "describe", "merge", "load_experiment", "Experiment"]
__all__ += ["backlog_bound", "score_bound", "mass_bound", "theory"]
__all__ += ["figures", "tables", "statistics"]
__all__ += ["register", "check", "Scheduler", "Observation", "Decision", "Draws", "Problem", "State", "Metric"]
__all__ += ["PlayedRound", "fading", "success", "arrivals", "availability", "priors", "posterior", "rates", "partition"]
__all__ += ["aggregation", "optimizers", "metrics"]
__all__ += ["FedwaveError", "__version__"]


def __getattr__(name: str) -> object:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'fedwave' has no attribute {name!r}")
    with _extra_for(f"fw.{name}"):
        module = _import_module(_ON_DEMAND[name])
    return module if name in _MODULES else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
