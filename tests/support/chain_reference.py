"""Local training of many models as single models, by torch's automatic differentiation."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from fedwave.learning.dropout import key_dropout, step_keys
from fedwave.learning.model_rows import Layout, Tensors, carried_state, trained_parameters


def flat_models(
    make: Callable[[], nn.Module], layout: Layout, count: int, dtype: torch.dtype
) -> tuple[Tensor, Tensors]:
    """The parameters [model, P] and the rest of the state of some new models."""
    models = [make().to(dtype) for _ in range(count)]
    trained, carried = (
        {k: torch.stack([one[k] for one in states]) for k in states[0]}
        for states in ([trained_parameters(m) for m in models], [carried_state(m) for m in models])
    )
    return layout.flat(trained), carried


def trained_alone(
    model: nn.Module,
    layout: Layout,
    w: Tensor,
    start: Tensor,
    rest: Tensors,
    images: Tensor,
    labels: Tensor,
    samples: Tensor,
    steps: list[int],
    eta: float,
    prox: float,
    l2: float,
    keys: Tensor | None = None,
    autocast: torch.dtype | None = None,
) -> tuple[Tensor, Tensors]:
    """Copies of the state after ``steps`` steps of each lane; samples below zero are left out."""
    w, rest = w.clone(), {k: p.clone() for k, p in rest.items()}
    noise = key_dropout(model.train())
    for lane, count in enumerate(steps):
        own, pulls = layout.views(w[lane]), layout.views(start[lane])
        for step in range(count):
            chosen = samples[step, lane].long()
            chosen = chosen[chosen >= 0]
            trained = {k: p.detach().clone().requires_grad_() for k, p in own.items()}
            key = torch.tensor(0) if keys is None else step_keys(keys[lane], step)
            with noise.keyed_by(key), torch.autocast(w.device.type, autocast, enabled=autocast is not None):
                state = trained, {k: p[lane] for k, p in rest.items()}
                logits = functional_call(model, state, (images[chosen],))
            loss = F.cross_entropy(logits.float() if autocast else logits, labels[chosen])
            for k, p in trained.items():
                loss = loss + prox / 2 * ((p - pulls[k]) ** 2).sum() + l2 / 2 * (p**2).sum()
            found = torch.autograd.grad(loss, list(trained.values()))
            for p, gradient in zip(own.values(), found, strict=True):
                p -= eta * gradient
    return w, rest
