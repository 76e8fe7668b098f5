"""Compiled chains against plain PyTorch: every layer, many sizes, dropout masks, running statistics, threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedwave.learning.backends.cpu.chain import CpuChain
from fedwave.learning.dropout import key_dropout, step_keys
from fedwave.learning.model_rows import Layout, Tensors, carried_state, trained_parameters
from fedwave.learning.models import Cnn
from fedwave.types import Array, IntArray

pytest.importorskip("numba")
pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules", "ignore:Using padding='same'")

IMAGE, CLASSES = (2, 9, 8), 4
RATES = {"eta": 0.1, "prox": 0.3, "l2": 0.02}
KEY = 2**62 + 12345
Made = tuple[CpuChain, nn.Module, Layout, Array, Array]


def _made(model: nn.Module, dtype: Any = np.float64, shape: Sequence[int] = IMAGE, **rates: float) -> Made:
    rng = np.random.default_rng(1)
    images = rng.normal(size=(40, *shape)).astype(dtype)
    labels = rng.integers(0, CLASSES, 40)
    model = model.to(torch.float64 if dtype == np.float64 else torch.float32).train()
    key_dropout(model)
    layout = Layout(model)
    chain = CpuChain.of(model, layout, images, labels, **{**RATES, **rates}, dtype=dtype)
    assert chain is not None
    return chain, model, layout, images, labels


def _steps(sizes: Sequence[int], seed: int = 0) -> list[IntArray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 40, size) for size in sizes]


def _arrays(tensors: Tensors) -> dict[str, Array]:
    return {name: tensor.numpy().copy() for name, tensor in tensors.items()}


def _plain(made: Made, start: Tensors, steps: list[IntArray], key: int = KEY) -> None:
    """Train the model itself, as anybody would write it."""
    _, model, _, images, labels = made
    noise = key_dropout(model)
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=RATES["eta"])
    for number, chosen in enumerate(steps):
        with noise.keyed_by(step_keys(torch.tensor(key), number)):
            outputs = model(torch.as_tensor(images[chosen]))
        loss = F.cross_entropy(outputs, torch.as_tensor(labels[chosen]))
        for name, p in model.named_parameters():
            if p.requires_grad:
                loss = loss + RATES["prox"] / 2 * ((p - start[name]) ** 2).sum()
                loss = loss + RATES["l2"] / 2 * (p**2).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def _compare(made: Made, sizes: Sequence[int], relative: float = 1e-10, key: int = KEY) -> None:
    chain, model, layout, *_ = made
    steps = _steps(sizes)
    w = layout.flat(trained_parameters(model)).numpy()
    rest = _arrays(carried_state(model))
    # The centre of the proximal term is elsewhere than where training begins: the term must be felt in the first step.
    centre = {name: p + 0.1 for name, p in trained_parameters(model).items()}
    before = w.copy()
    chain.train(w, layout.flat(centre).numpy(), rest, steps, key)
    _plain(made, centre, steps, key)
    after = layout.flat(trained_parameters(model)).numpy()
    moved = np.abs(after - before).max()
    assert moved > 1e-4, "nothing was learnt, so nothing is compared"
    assert np.abs(after - w).max() <= relative * max(moved, 1.0)
    for name, tensor in carried_state(model).items():
        assert rest[name].dtype == tensor.numpy().dtype
        np.testing.assert_allclose(rest[name], tensor.numpy(), rtol=10 * relative, atol=relative)


def _small(*layers: nn.Module) -> nn.Module:
    """These layers on images, then a linear one."""
    torch.manual_seed(0)
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(CLASSES))


def _ready(model: nn.Module, shape: Sequence[int] = IMAGE) -> nn.Module:
    """Lazy layers get their sizes; statistics stay as they are."""
    with torch.no_grad():
        model.eval()(torch.zeros(2, *shape))
    return model.train()


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
    made = _made(_ready(_small(*LAYERS[name]())))
    _compare(made, [5, 5, 3, 5, 17, 2])


@pytest.mark.parametrize("size", [1, 2, 8, 33])
def test_batches_of_any_size(size: int) -> None:
    model = _ready(_small(nn.Conv2d(2, 5, 3, padding=1), nn.BatchNorm2d(5), nn.MaxPool2d(2), nn.ReLU()))
    _compare(_made(model), [size] * 4)


@pytest.mark.parametrize(("dtype", "relative"), [(np.float64, 1e-10), (np.float32, 2e-6)])
def test_the_paper_s_model(dtype: Any, relative: float) -> None:
    torch.manual_seed(0)
    _compare(_made(Cnn(), dtype, shape=(1, 28, 28)), [10, 10, 10, 4], relative)


def test_masks_follow_the_key() -> None:
    made = _made(_ready(_small(*LAYERS["dropout"]())))
    chain, model, layout, *_ = made
    found = []
    for key in (1, 1, 2):
        w = layout.flat(trained_parameters(model)).numpy()
        chain.train(w, w.copy(), {}, _steps([5, 5]), key)
        found.append(w)
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    layers = [nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout(0.2)]
    model = _ready(_small(*layers))
    chain, model, layout, *_ = _made(model, np.float32)
    lanes = 7
    steps = [_steps([4] * (lane + 1) + [3], seed=lane) for lane in range(lanes)]
    start = np.stack([layout.flat(trained_parameters(model)).numpy() * (1 + lane) for lane in range(lanes)])

    def trained(count: int) -> tuple[Array, dict[str, Array]]:
        w = start.copy()
        rest = {k: np.stack([a] * lanes) for k, a in _arrays(carried_state(model)).items()}
        chain.train_many(w, start, rest, steps, list(range(lanes)), count)
        return w, rest

    one, many = trained(1), trained(threads)
    assert np.array_equal(one[0], many[0])
    for name in one[1]:
        assert np.array_equal(one[1][name], many[1][name])
    assert one[1]["1.num_batches_tracked"].tolist() == [lane + 2 for lane in range(lanes)]
    alone = start[3].copy()
    rest = _arrays(carried_state(model))
    chain.train(alone, start[3], rest, steps[3], 3)
    assert np.array_equal(alone, one[0][3])


def test_a_diverged_lane_leaves_nothing_behind() -> None:
    """Its infinities lie in the memory that the next lane uses."""
    layers = [nn.Conv2d(2, 5, 3, padding=1, stride=2), nn.BatchNorm2d(5), nn.ReLU(), nn.Conv2d(5, 3, 2)]
    chain, model, layout, *_ = _made(_ready(_small(*layers, nn.MaxPool2d(2, 1))))
    good = layout.flat(trained_parameters(model)).numpy()
    bad = good * 1e200
    first, last = good.copy(), good.copy()
    chain.train(first, good, _arrays(carried_state(model)), _steps([5, 3]), 0)
    chain.train(bad, good, _arrays(carried_state(model)), _steps([5, 3]), 0)
    chain.train(last, good, _arrays(carried_state(model)), _steps([5, 3]), 0)
    assert not np.isfinite(bad).all()
    assert np.array_equal(first, last)


@pytest.mark.parametrize("count", [1, 40, 53])
def test_logits_are_those_of_eval_mode(count: int) -> None:
    layers = [nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.MaxPool2d(2), nn.ReLU(), nn.Dropout(0.5)]
    chain, model, layout, *_ = _made(_ready(_small(*layers)))
    model(torch.randn(20, *IMAGE, dtype=torch.float64) + 1)  # running statistics that are not 0 and 1
    images = np.random.default_rng(5).normal(size=(count, *IMAGE))
    found = chain.logits(layout.flat(trained_parameters(model)).numpy(), _arrays(carried_state(model)), images)
    with torch.no_grad():
        wanted = model.eval()(torch.as_tensor(images)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_batch_norm_refuses_a_single_value_as_torch_does() -> None:
    model = _ready(_small(nn.Conv2d(2, 3, (9, 8)), nn.BatchNorm2d(3)))
    chain, model, layout, *_ = _made(model)
    w = layout.flat(trained_parameters(model)).numpy()
    with pytest.raises(ValueError, match="more than one value"):
        chain.train(w, w.copy(), _arrays(carried_state(model)), _steps([1]), 0)


class _Own(nn.Linear):
    pass


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(2, 4, 3, groups=2)],
        [nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular")],
        [nn.AvgPool2d(2)],
        [nn.Flatten(), _Own(144, 5)],
    ],
)
def test_an_unknown_layer_is_left_to_torch(layers: list[nn.Module]) -> None:
    assert _of(_ready(_small(*layers))) is None


def _of(model: nn.Module, dtype: Any = np.float32) -> CpuChain | None:
    images = np.zeros((3, *IMAGE), np.float32)
    labels = np.zeros(3, np.int64)
    return CpuChain.of(model, Layout(model), images, labels, **RATES, dtype=dtype)


def test_without_numba_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _ready(_small())
    assert _of(model) is not None
    assert _of(model, np.float16) is None  # half precision
    monkeypatch.setitem(sys.modules, "numba", None)
    assert _of(model) is None


_TWO_STEPS = """
import hashlib, numpy as np, torch
from torch import nn
from fedwave.learning.backends.cpu.chain import CpuChain
from fedwave.learning.model_rows import Layout, carried_state, trained_parameters
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).double()
layout, rng = Layout(model), np.random.default_rng(0)
images, labels = rng.standard_normal((20, 1, 8, 8)), rng.integers(0, 3, 20)
chain = CpuChain.of(model, layout, images, labels, eta=0.1, prox=0.1, l2=0.1, dtype=np.float64)
w, rest = layout.flat(trained_parameters(model)).numpy(), {k: p.numpy() for k, p in carried_state(model).items()}
chain.train(w, w.copy(), rest, [np.arange(10), np.arange(5)])
print(hashlib.sha256(w.tobytes() + b"".join(p.tobytes() for p in rest.values())).hexdigest())
"""


@pytest.mark.slow
def test_the_process_that_compiles_gets_the_same_bits_as_those_that_read_its_cache(tmp_path: Path) -> None:
    run = [sys.executable, "-c", _TWO_STEPS]
    told = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, cached = (subprocess.run(run, env=told, check=True, capture_output=True).stdout for _ in range(2))
    assert list(tmp_path.rglob("*.nbc"))
    assert compiled == cached
