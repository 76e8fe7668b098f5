"""The parts that come with fedwave, by family and name: where each is found.

They are imported on demand: naming a model must not load torch.
"""

from __future__ import annotations

_SCHEDULERS = "fedwave.schedulers."
BUILT_IN: dict[str, dict[str, str]] = {
    "scheduler": {
        "alsa-pi": _SCHEDULERS + "greedy:AlsaPi",
        "balsa": _SCHEDULERS + "balsa:Balsa",
        "balsa-po": _SCHEDULERS + "balsa:BalsaPo",
        "bench": _SCHEDULERS + "baselines:Bench",
        "round-robin": _SCHEDULERS + "baselines:RoundRobin",
        "w-max": _SCHEDULERS + "baselines:WMax",
        "random": _SCHEDULERS + "baselines:Random",
        "proportional-fair": _SCHEDULERS + "baselines:ProportionalFair",
        "age": _SCHEDULERS + "greedy:Age",
        "max-weight": _SCHEDULERS + "greedy:MaxWeight",
        "sqrt-rule": _SCHEDULERS + "greedy:SqrtRule",
        "fresh": _SCHEDULERS + "greedy:Fresh",
        "alpha-fresh": _SCHEDULERS + "greedy:AlphaFresh",
        "update-aware": _SCHEDULERS + "learning_aware:UpdateAware",
        "lagrangian": _SCHEDULERS + "index:Lagrangian",
        "whittle": _SCHEDULERS + "index:Whittle",
        "lagrangian-bayes": _SCHEDULERS + "index:LagrangianBayes",
        "whittle-bayes": _SCHEDULERS + "index:WhittleBayes",
        "lagrangian-po": _SCHEDULERS + "index:LagrangianPo",
        "dp": _SCHEDULERS + "exact:Dp",
        "dp-ts": _SCHEDULERS + "exact:DpTs",
    },
    "fading": {
        "rayleigh": "fedwave.network.fading:Rayleigh",
        "rician": "fedwave.network.fading:Rician",
        "gauss-markov": "fedwave.network.fading:GaussMarkov",
        "shadowing": "fedwave.network.fading:Shadowing",
        "recorded": "fedwave.network.fading:RecordedGains",
    },
    "success": {
        "turbo": "fedwave.network.success:Turbo",
        "threshold": "fedwave.network.success:Threshold",
        "soft": "fedwave.network.success:Soft",
        "uncoded": "fedwave.network.success:Uncoded",
        "arq": "fedwave.network.success:Arq",
        "harq": "fedwave.network.success:Harq",
        "table": "fedwave.network.success:Table",
    },
    "arrivals": {
        "poisson": "fedwave.network.arrivals:Poisson",
        "negative-binomial": "fedwave.network.arrivals:NegativeBinomial",
        "zero-inflated-poisson": "fedwave.network.arrivals:ZeroInflatedPoisson",
        "recorded": "fedwave.network.arrivals:RecordedArrivals",
    },
    "prior": {
        "jeffreys": _SCHEDULERS + "priors:Jeffreys",
        "gamma": _SCHEDULERS + "priors:Gamma",
        "truncated": _SCHEDULERS + "priors:Truncated",
    },
    "partition": {
        "iid": "fedwave.learning.partition:Iid",
        "dirichlet": "fedwave.learning.partition:Dirichlet",
        "by-class": "fedwave.learning.partition:ByClass",
    },
    "aggregation": {
        "lee": "fedwave.aggregation:Lee",
        "constant": "fedwave.aggregation:Constant",
        "fedasync": "fedwave.aggregation:FedAsync",
        "fedbuff": "fedwave.aggregation:FedBuff",
        "sync": "fedwave.aggregation:Sync",
    },
    "dataset": {
        "mnist": "fedwave.learning.data.dataset:mnist",
        "cifar10": "fedwave.learning.data.dataset:cifar10",
        "synthetic": "fedwave.learning.data.dataset:synthetic",
    },
    "model": {
        "cnn": "fedwave.learning.models:Cnn",
        "vgg19": "fedwave.learning.models:Vgg19",
        "vgg19-plain": "fedwave.learning.models:vgg19_plain",
        "logistic": "fedwave.learning.models:Logistic",
    },
    "metric": {
        "score": "fedwave.metrics:Score",
        "backlog": "fedwave.metrics:Backlog",
        "arrived": "fedwave.metrics:Arrived",
        "lost": "fedwave.metrics:Lost",
        "uploads": "fedwave.metrics:UploadCount",
        "mean_age": "fedwave.metrics:MeanAge",
        "worst_age": "fedwave.metrics:WorstAge",
        "delivered_share": "fedwave.metrics:DeliveredShare",
        "lost_share": "fedwave.metrics:LostShare",
        "jain": "fedwave.metrics:Jain",
        "worst_device": "fedwave.metrics:WorstDevice",
        "mass": "fedwave.metrics:Mass",
        "device_uploads": "fedwave.metrics:DeviceUploads",
        "device_shards": "fedwave.metrics:DeviceShards",
    },
}
