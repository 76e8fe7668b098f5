"""Compiled chains against plain PyTorch: every layer, many sizes, dropout masks, running statistics, threads."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from chain_reference import trained_alone
from torch import nn

from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.cpu.chain import NumbaBackend
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.dropout import key_dropout
from fedwave.learning.model_rows import Layout, ModelRows
from fedwave.learning.models import Cnn
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task

pytest.importorskip("numba")
pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules", "ignore:Using padding='same'")

IMAGE, CLASSES = (2, 9, 8), 4
RATES = {"eta": 0.1, "prox": 0.3, "l2": 0.02}
KEY = 2**62 + 12345
Made = tuple[NumbaBackend, Task, nn.Module]


def _made(*layers: nn.Module, dtype: torch.dtype = torch.float64, shape: Sequence[int] = IMAGE) -> Made:
    """These layers on images and a linear one behind them: compiled, and as a model in training mode."""
    torch.manual_seed(0)
    model = layers[0] if isinstance(layers[0], Cnn) else nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(CLASSES))
    model.eval()(torch.zeros(2, *shape))  # lazy layers get their sizes; statistics stay as they are
    images = np.random.default_rng(1).normal(size=(40, *shape))
    labels = np.random.default_rng(2).integers(0, CLASSES, 40)
    task = Task(Dataset("noise", images, labels, images, labels), lambda: copy.deepcopy(model), **RATES)
    backend = NumbaBackend.of(task, Precision(torch.device("cpu"), dtype))
    assert backend is not None
    model = model.to(dtype).train()
    key_dropout(model)
    return backend, task, model


def _batches(*lanes: Sequence[int]) -> Batches:
    """Random samples for lanes with steps of these sizes, the longest lane first."""
    rng = np.random.default_rng(0)
    samples = np.full((len(lanes), len(lanes[0]), max(map(max, lanes))), -1)
    for lane, sizes in enumerate(lanes):
        for step, size in enumerate(sizes):
            samples[lane, step, :size] = rng.integers(0, 40, size)
    return Batches(samples, np.count_nonzero(samples >= 0, axis=2))


def _rows(model: nn.Module, count: int = 1) -> ModelRows:
    return ModelRows.of([model], Layout(model)).padded(count)


def _compare(made: Made, sizes: Sequence[int], relative: float = 1e-10) -> None:
    backend, task, model = made
    before, batches, keys = _rows(model), _batches(sizes), np.array([KEY])
    found = backend.train(before, batches, keys)
    data = torch.as_tensor(task.dataset.train_inputs).to(before.w.dtype), torch.as_tensor(task.dataset.train_targets)
    samples, rates = torch.as_tensor(batches.samples).transpose(0, 1), RATES.values()
    state = before.w, before.w, before.rest
    w, rest = trained_alone(model, Layout(model), *state, *data, samples, [len(sizes)], *rates, torch.as_tensor(keys))
    moved = float((w - before.w).abs().max())
    assert moved > 1e-4, "nothing was learnt, so nothing is compared"
    assert float((w - found.w).abs().max()) <= relative * max(moved, 1.0)
    for name, p in rest.items():
        torch.testing.assert_close(found.rest[name], p, rtol=10 * relative, atol=relative)


LAYERS: dict[str, Callable[[], list[nn.Module]]] = {
    "no layer": lambda: [],
    "1 x 1": lambda: [nn.Conv2d(2, 3, 1)],
    "odd kernel, no bias": lambda: [nn.Conv2d(2, 5, (3, 2), bias=False)],
    "many channels": lambda: [nn.Conv2d(2, 17, 3), nn.ReLU(), nn.Conv2d(17, 9, 2)],
    "stride": lambda: [nn.Conv2d(2, 3, 3, stride=2), nn.Conv2d(3, 4, 2, stride=(1, 2))],
    "stride of 3, wider than the kernel": lambda: [nn.Tanh(), nn.Conv2d(2, 3, 2, stride=3)],
    "padding": lambda: [nn.Conv2d(2, 3, 3, padding=(2, 1)), nn.Conv2d(3, 3, 3, padding=1)],
    "same, even kernel": lambda: [nn.Conv2d(2, 3, (2, 4), padding="same"), nn.Conv2d(3, 2, 2)],
    "valid": lambda: [nn.Conv2d(2, 3, 3, padding="valid")],
    "dilation": lambda: [nn.Conv2d(2, 3, 3, dilation=(2, 3)), nn.Conv2d(3, 3, 2, dilation=(3, 1))],
    "everything at once": lambda: [
        nn.Conv2d(2, 4, 3, padding=1),
        nn.Conv2d(4, 6, (2, 3), stride=(2, 3), padding=(1, 2), dilation=(2, 2)),
    ],
    "batch norm": lambda: [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, eps=0.01, momentum=0.3), nn.ReLU()],
    "batch norm first": lambda: [nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3)],
    "pool, tiles": lambda: [nn.Conv2d(2, 3, (2, 3)), nn.MaxPool2d(2)],
    "pool, then relu": lambda: [nn.Conv2d(2, 3, 3), nn.MaxPool2d((7, 2)), nn.ReLU()],
    "relu, then pool": lambda: [nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2)],
    "relu, pool, relu": lambda: [nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.ReLU()],
    "pool, windows overlap": lambda: [nn.Conv2d(2, 3, 2), nn.MaxPool2d(3, stride=2), nn.Tanh()],
    "pool, gaps": lambda: [nn.Conv2d(2, 3, 2), nn.MaxPool2d(2, stride=3)],
    "pool, padding": lambda: [nn.Conv2d(2, 3, 2), nn.MaxPool2d(3, padding=1), nn.ReLU()],
    "pool, ceiling": lambda: [nn.Conv2d(2, 3, 3), nn.MaxPool2d(2, ceil_mode=True)],
    "pool, dilation": lambda: [nn.Conv2d(2, 3, 1), nn.MaxPool2d(2, stride=1, dilation=2)],
    "pool first": lambda: [nn.MaxPool2d(2), nn.Conv2d(2, 3, 2)],
    "relu": lambda: [nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), nn.Conv2d(3, 3, 3)],
    "tanh": lambda: [nn.Conv2d(2, 3, 3), nn.Tanh()],
    "sigmoid": lambda: [nn.Conv2d(2, 3, 3), nn.Sigmoid()],
    "gelu": lambda: [nn.Conv2d(2, 3, 3), nn.GELU()],
    "gelu by tanh": lambda: [nn.Conv2d(2, 3, 3), nn.GELU(approximate="tanh")],
    "identity": lambda: [nn.Identity(), nn.Conv2d(2, 3, 3), nn.Identity()],
    "dropout": lambda: [nn.Dropout(0.3), nn.Conv2d(2, 3, 3), nn.Dropout(0.6), nn.Dropout(0.0)],
    "linear layers": lambda: [
        nn.Flatten(),
        nn.Linear(144, 33, bias=False),
        nn.ReLU(),
        nn.Linear(33, 7),
        nn.Dropout(0.5),
    ],
    "dropout of everything": lambda: [nn.Conv2d(2, 3, 3), nn.Dropout(1.0)],
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_trained_as_by_pytorch(name: str) -> None:
    _compare(_made(*LAYERS[name](), nn.Identity()), [5, 5, 3, 5, 17, 2])


@pytest.mark.parametrize("size", [1, 2, 8, 33])
def test_batches_of_any_size(size: int) -> None:
    made = _made(nn.Conv2d(2, 5, 3, padding=1), nn.BatchNorm2d(5), nn.MaxPool2d(2), nn.ReLU())
    _compare(made, [size] * 4)


@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-10), (torch.float32, 2e-6)])
def test_the_paper_s_model(dtype: torch.dtype, relative: float) -> None:
    torch.manual_seed(0)
    _compare(_made(Cnn(), dtype=dtype, shape=(1, 28, 28)), [10, 10, 10, 4], relative)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    layers = [nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout(0.2)]
    backend, _, model = _made(*layers, dtype=torch.float32)
    lanes, keys = [[4] * (8 - lane) + [3] for lane in range(7)], np.arange(7)
    start = _rows(model, 7)
    start.w *= torch.arange(1, 8)[:, None]
    one, before = backend.train(start, _batches(*lanes), keys), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        many = backend.train(start, _batches(*lanes), keys)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one.w, many.w)
    assert all(torch.equal(p, many.rest[name]) for name, p in one.rest.items())
    assert one.rest["1.num_batches_tracked"].tolist() == [9 - lane for lane in range(7)]
    alone = backend.train(start.rows(slice(3, 4)), _batches(*lanes).rows(slice(3, 4)), keys[3:4])
    assert torch.equal(alone.w[0], one.w[3])


def test_a_diverged_lane_leaves_nothing_behind() -> None:
    """Its infinities lie in the memory that the next lane uses."""
    layers = [nn.Conv2d(2, 5, 3, padding=1, stride=2), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 3, 2)]
    backend, _, model = _made(*layers, nn.MaxPool2d(2, 1))
    start, batches, keys = _rows(model, 3), _batches([5, 3]), np.zeros(3, np.int64)
    start.w[1] *= 1e200
    same = Batches(*(np.repeat(part, 3, axis=0) for part in (batches.samples, batches.sizes)))
    first, bad, last = backend.train(start, same, keys).w
    assert not bad.isfinite().all()
    assert torch.equal(first, last)


@pytest.mark.parametrize("count", [1, 40, 53])
def test_logits_are_those_of_eval_mode(count: int) -> None:
    layers = [nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout(0.5)]
    backend, _, model = _made(*layers)
    model(torch.randn(20, *IMAGE, dtype=torch.float64) + 1)  # running statistics that are not 0 and 1
    images = torch.as_tensor(np.random.default_rng(5).normal(size=(count, *IMAGE)))
    with torch.no_grad():
        torch.testing.assert_close(
            backend.logits(_rows(model), images)[0], model.eval()(images), rtol=1e-10, atol=1e-12
        )


def test_batch_norm_refuses_a_single_value_as_torch_does() -> None:
    backend, _, model = _made(nn.Conv2d(2, 3, (9, 8)), nn.BatchNorm2d(3))
    with pytest.raises(ValueError, match="more than one value"):
        backend.train(_rows(model), _batches([1]), np.zeros(1, np.int64))


_TRAINS = """
import hashlib
import fedwave as fw
trace = fw.simulate(fw.random_network(3, 1, rate=2.0), "age", rounds=2, instances=1)
weights = fw.train(trace, fw.task("synthetic:train=60,test=20", epochs=1)).weights[0]
print(hashlib.sha256(b"".join(array.tobytes() for array in weights.values())).hexdigest())
"""


@pytest.mark.slow
def test_the_process_that_compiles_gets_the_same_bits_as_those_that_read_its_cache(tmp_path: Path) -> None:
    run = [sys.executable, "-c", _TRAINS]
    told = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, cached = (subprocess.run(run, env=told, check=True, capture_output=True).stdout for _ in range(2))
    assert list(tmp_path.rglob("*.nbc"))
    assert compiled == cached
