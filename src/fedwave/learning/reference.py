"""The reference trainer: one device after another, as in the paper's Algorithm 1.

It is slow and simple. Every faster path is tested against it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from fedwave.learning.curves import Evaluation
from fedwave.learning.dropout import StepMasks, device_key, key_dropout, seeded, step_keys
from fedwave.learning.evaluation import Evaluator
from fedwave.learning.model_rows import Tensors, as_tensor, carried_state, trained_parameters
from fedwave.learning.sampling import device_batches
from fedwave.learning.schedule import TrainingRun
from fedwave.learning.server_steps import initial_memory, server_step
from fedwave.learning.task import Task
from fedwave.types import IntArray


def train_run(
    run: TrainingRun, task: Task, evaluator: Evaluator, dtype: torch.dtype = torch.float32
) -> tuple[list[Evaluation], Tensors]:
    """Train one run; returns the evaluation after every round, and the final parameters."""
    rule = task.aggregation
    model = task.new_model(run.seed, run.instance).to(dtype)
    sampler = task.sampler(run.shards.shape[1])
    masks = key_dropout(model)
    w, b = trained_parameters(model), carried_state(model)
    memory, all_uploads = initial_memory(rule, _vector(w)), run.uploads(rule)
    devices = range(run.shards.shape[1])
    psi = [_zeros(w) for _ in devices]  # gradients not delivered yet
    own = [(w, b) for _ in devices]  # where a device starts if it misses the broadcast
    stored: list[list[IntArray]] = [[] for _ in devices]  # samples since the last delivery
    results = []
    for t in range(run.rounds):
        trained_buffers: dict[int, Tensors] = {}
        for u in devices:
            start, start_buffers = (w, b) if run.heard[t, u] else own[u]
            m = int(run.shards[t, u])
            samples = sampler.shards(run.seed, run.instance, t + 1, u, m, int(run.shards[:t, u].sum()))
            if rule.waits:
                stored[u].append(samples)
                samples = np.concatenate(stored[u]) if run.scheduled[t, u] else samples[:0]
            if len(samples) > 0:
                order = device_batches(samples, task.batch, task.epochs, run.seed, run.instance, t + 1, u)
                key = device_key(run.seed, run.instance, t + 1, u)
                local, local_buffers = _train_locally(model, start, start_buffers, order, task, dtype, masks, key)
                gradient = {k: (start[k] - local[k]) / task.eta for k in w}
                own[u] = (local, local_buffers)
                trained_buffers[u] = local_buffers
            else:
                gradient = _zeros(w)
                if run.heard[t, u]:
                    own[u] = (w, b)
            psi[u] = {k: gradient[k] + rule.beta * psi[u][k] for k in w}
        uploads = all_uploads.at(t)
        a, c = rule.coefficients(uploads).tolist(), uploads.shares.tolist()
        update = _zeros(w)
        shift = _zeros({k: p for k, p in b.items() if p.is_floating_point()})
        # Whole numbers count something, such as batches: the largest delivered count is the central one.
        counts = {k: p for k, p in b.items() if k not in shift}
        for u in devices:
            if not run.delivered[t, u]:
                continue
            update = {k: update[k] + a[u] * psi[u][k] for k in w}
            if u in trained_buffers:
                # Running statistics are averages, not gradients: they bypass psi and the rule.
                local = trained_buffers[u]
                shift = {k: shift[k] + c[u] * (local[k] - b[k]) for k in shift}
                counts = {k: torch.maximum(counts[k], local[k]) for k in counts}
            psi[u] = _zeros(w)
            stored[u] = []
        memory, vector = server_step(rule, memory, _vector(update), uploads)
        pieces = torch.split(vector, [p.numel() for p in w.values()])
        step = {k: piece.view_as(p) for (k, p), piece in zip(w.items(), pieces, strict=True)}
        w = {k: w[k] - task.eta * step[k] for k in w}
        b = {k: b[k] + shift[k] if k in shift else counts[k] for k in b}
        results.append(evaluator(model, w, b, full=evaluator.full_in(t + 1, run.rounds)))
    return results, w


def _train_locally(
    model: nn.Module,
    start: Tensors,
    buffers: Tensors,
    order: list[IntArray],
    task: Task,
    dtype: torch.dtype,
    masks: StepMasks,
    key: int,
) -> tuple[Tensors, Tensors]:
    model.train()
    w = {name: p.clone().requires_grad_() for name, p in start.items()}
    buffers = {name: p.clone() for name, p in buffers.items()}  # batch norm writes into them
    memory = [task.optimizer.start(p.detach()) for p in w.values()]
    for step, chosen in enumerate(order):
        inputs = as_tensor(task.dataset.train_inputs[chosen], dtype)
        targets = as_tensor(task.dataset.train_targets[chosen], dtype)
        step_key = step_keys(torch.tensor(key), step)
        with seeded(int(step_key)), masks.keyed_by(step_key):
            loss = task.loss(functional_call(model, (w, buffers), (inputs,)), targets)
        for name in w:
            loss = loss + task.prox / 2 * ((w[name] - start[name]) ** 2).sum()
            loss = loss + task.l2 / 2 * (w[name] ** 2).sum()
        gradient = torch.autograd.grad(loss, list(w.values()))
        with torch.no_grad():
            for k, (p, g) in enumerate(zip(w.values(), gradient, strict=True)):
                memory[k], direction = task.optimizer.step(memory[k], g, step + 1)
                p -= task.eta * direction
    return {name: p.detach() for name, p in w.items()}, buffers


def _vector(tensors: Tensors) -> torch.Tensor:
    return torch.cat([p.flatten() for p in tensors.values()])


def _zeros(like: Tensors) -> Tensors:
    return {name: torch.zeros_like(p) for name, p in like.items()}
