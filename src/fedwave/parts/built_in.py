"""The parts that come with fedwave, by family and name: where each is found.

They are imported on demand: naming a model must not load torch.
"""

from __future__ import annotations

# By family and module: name=Class, or the function that makes it.
_PLACES = {
    "scheduler": {
        "schedulers.balsa": "alsa-pi=AlsaPi balsa=Balsa balsa-po=BalsaPo",
        "schedulers.baselines": (
            "bench=Bench round-robin=RoundRobin w-max=WMax random=Random proportional-fair=ProportionalFair"
        ),
        "schedulers.greedy": (
            "age=Age max-weight=MaxWeight sqrt-rule=SqrtRule fresh=Fresh alpha-fresh=AlphaFresh "
            "update-aware=UpdateAware"
        ),
        "schedulers.index": (
            "lagrangian=Lagrangian whittle=Whittle lagrangian-bayes=LagrangianBayes whittle-bayes=WhittleBayes "
            "lagrangian-po=LagrangianPo"
        ),
        "schedulers.mass": "mass=MassScheduler mass-bayes=MassBayes mass-po=MassPo",
        "schedulers.mass_labels": "mass-labels=MassLabels mass-labels-po=MassLabelsPo",
        "schedulers.mass_index": "mass-index=MassIndex mass-index-bayes=MassIndexBayes mass-index-po=MassIndexPo",
        "schedulers.exact": "dp=Dp dp-ts=DpTs",
    },
    "fading": {
        "network.fading": (
            "rayleigh=Rayleigh rician=Rician gauss-markov=GaussMarkov shadowing=Shadowing recorded=RecordedGains"
        )
    },
    "success": {
        "network.success": "turbo=Turbo threshold=Threshold soft=Soft uncoded=Uncoded arq=Arq harq=Harq table=Table"
    },
    "arrivals": {
        "network.arrivals": (
            "poisson=Poisson negative-binomial=NegativeBinomial zero-inflated-poisson=ZeroInflatedPoisson "
            "recorded=RecordedArrivals"
        )
    },
    "prior": {"schedulers.priors": "jeffreys=Jeffreys gamma=Gamma truncated=Truncated"},
    "partition": {"network.partition": "iid=Iid dirichlet=Dirichlet by-class=ByClass"},
    "aggregation": {"aggregation": "lee=Lee constant=Constant fedasync=FedAsync fedbuff=FedBuff sync=Sync"},
    "dataset": {
        "learning.datasets.mnist_cifar": "mnist=mnist cifar10=cifar10",
        "learning.datasets.synthetic": "synthetic=synthetic",
    },
    "model": {"learning.models": "cnn=Cnn vgg19=Vgg19 vgg19-plain=vgg19_plain logistic=Logistic"},
    "metric": {
        "metrics": (
            "score=Score backlog=Backlog arrived=Arrived lost=Lost uploads=UploadCount mean_age=MeanAge "
            "worst_age=WorstAge delivered_share=DeliveredShare lost_share=LostShare jain=Jain "
            "worst_device=WorstDevice mass=Mass device_uploads=DeviceUploads device_shards=DeviceShards"
        )
    },
}
BUILT_IN: dict[str, dict[str, str]] = {
    family: {
        name: f"fedwave.{module}:{attribute}"
        for module, text in places.items()
        for name, _, attribute in (pair.partition("=") for pair in text.split())
    }
    for family, places in _PLACES.items()
}
