"""The CUDA kernel of small chains, compiled for the CPU: its threads take turns there (thread_block.cpp)."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from chain_reference import flat_models, trained_alone
from small_models import images
from torch import nn
from torch.func import functional_call

from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.gpu import backends
from fedwave.learning.backends.gpu.backends import FusedBackend
from fedwave.learning.backends.gpu.blocks import ChainBlocks
from fedwave.learning.backends.gpu.fused_chain import FusedChain
from fedwave.learning.backends.torch import TorchBackend
from fedwave.learning.chain_spec import ChainSpec
from fedwave.learning.model_rows import Layout, ModelRows
from fedwave.learning.models import Cnn, vgg19_plain
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task

HARNESS = Path(__file__).parents[1] / "support" / "thread_block.cpp"
ETA, PROX, L2 = 0.05, 0.1, 0.01
STEPS, LANES, BATCH = 3, 3, 6


def odd_sizes() -> nn.Sequential:
    """No two sizes are the same, windows do not fill the maps, and some layers have no bias."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 3),
        nn.ReLU(),
        nn.MaxPool2d(3),
        nn.Conv2d(6, 7, 2, bias=False),
        nn.Conv2d(7, 4, 3),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 13, bias=False),
        nn.ReLU(),
        nn.Linear(13, 9),
        nn.Linear(9, 5),
    )


def only_linear() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(2 * 25 * 24, 5))


def blocks(model: nn.Module, image: tuple[int, ...]) -> ChainBlocks | None:
    spec = ChainSpec.of(model, image)
    assert spec is not None
    return ChainBlocks.of(spec)


class OnCpu:
    """Runs the kernels of a fused chain on the CPU."""

    def __init__(self, fused: FusedChain, folder: Path) -> None:
        source, library = folder / "kernels.cu", folder / "kernels.so"
        source.write_text(fused.source.replace("extern __shared__ __align__(16) float shared[];", ""))
        numbers = fused.shared_bytes // 4
        flags = ["-O0", "-w", "-std=c++17", "-shared", "-fPIC", f'-DKERNEL="{source}"']
        call = ["g++", *flags, f"-DSHARED={numbers}", "-o", str(library), str(HARNESS)]
        subprocess.run(call, check=True)
        self._library, self._fused = ctypes.CDLL(str(library)), fused

    def __call__(self, name, *arguments):
        scratch = torch.full((64 * self._fused.scratch_bytes // 4 + 1,), float("nan"))
        first, second, *others = arguments
        sizes = (first, second) if name == "run_judge" else (first,)
        given = [*sizes, scratch, *others] if name == "run_judge" else [first, scratch, second, *others]
        getattr(self._library, name)(*map(_given, given))


def _given(value):
    if isinstance(value, torch.Tensor):
        assert value.is_contiguous()
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_float(value)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(
    ("make", "memory"),
    [(odd_sizes, 200_000), (odd_sizes, 20_000), (only_linear, 200_000)],
    ids=["in shared memory", "with scratch memory", "linear"],
)
def test_the_kernels_train_and_judge_as_autograd_does(make, memory, tmp_path):
    torch.manual_seed(0)
    layout = Layout(make())
    fused = FusedChain.of(blocks(make(), (2, 25, 24)), layout, BATCH, memory)
    assert fused is not None
    assert (fused.scratch_bytes > 0) == (memory < 100_000)
    pictures, labels = torch.randn(30, 2, 25, 24), torch.randint(0, 5, (30,))
    w = flat_models(make, layout, LANES, torch.float32)[0]
    start = flat_models(make, layout, LANES, torch.float32)[0]
    samples = torch.randint(0, 30, (STEPS, LANES, BATCH), dtype=torch.int32)
    samples[0, 1, -2:] = -1  # a short batch
    steps = torch.tensor([3, 2, 0], dtype=torch.int32)
    before = w.clone()
    run = OnCpu(fused, tmp_path)
    rule = ETA, ETA * L2, ETA * PROX
    run("run_train", LANES, w, start, pictures, labels, samples, steps, LANES, *rule)
    wide = [before.double(), start.double(), {}, pictures.double(), labels, samples]
    alone = trained_alone(make().double(), layout, *wide, steps.tolist(), ETA, PROX, L2)[0]
    assert torch.equal(w[2], before[2])
    for lane in range(2):
        moved = (alone[lane] - before[lane]).norm()
        assert (w[lane] - alone[lane]).norm() < 1e-4 * moved
    logits = torch.full((LANES, 30, 5), float("nan"))
    run("run_judge", LANES, 2, w, pictures, 30, 18, logits)
    for lane in range(LANES):
        state = {k: p[lane] for k, p in layout.views(w).items()}
        assert torch.allclose(logits[lane], functional_call(make(), state, (pictures,)), atol=1e-5)


class Launched:
    """In place of the compiled kernels: launches them on the CPU."""

    def __init__(self, run: OnCpu) -> None:
        self._run = run

    def launch(self, name, grid, threads, scratch, *arguments, shared):
        sizes = grid if name == "judge" else grid[:1]
        self._run(f"run_{name}", *sizes, *arguments)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_the_backend_trains_and_evaluates_as_torch_does(tmp_path, monkeypatch):
    monkeypatch.setattr(backends, "_can_use_kernels", lambda precision: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: None)
    task = Task(images((1, 3, 4)), lambda: nn.Sequential(nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3)))
    precision = Precision(torch.device("cpu"), torch.float32)
    fused, usual = FusedBackend.of(task, precision, task.batch), TorchBackend(task, precision)
    assert fused is not None
    fused._chain.__dict__["_kernels"] = Launched(OnCpu(fused._chain, tmp_path))
    model = task.new_model(0, 0)
    rows = ModelRows.of([model], Layout(model)).padded(LANES)
    samples = np.random.default_rng(0).integers(0, 200, (LANES, STEPS, task.batch))
    samples[1, 1, 4:] = samples[2, 1:] = -1
    work = rows, Batches(samples, (samples >= 0).sum(2)), np.zeros(LANES, np.int64)
    trained, expected = (backend.train(*work) for backend in (fused, usual))
    torch.testing.assert_close(trained.w, expected.w, rtol=1e-4, atol=1e-6)
    assert not torch.equal(trained.w, rows.w)
    some = torch.as_tensor(task.dataset.test_inputs)
    torch.testing.assert_close(fused.logits(trained, some), usual.logits(trained, some), rtol=1e-4, atol=1e-5)


def test_only_small_chains_of_plain_layers_are_fused():
    def fused(model, image=(1, 28, 28), batch=10):
        found = blocks(model, image)
        return found and FusedChain.of(found, Layout(model), batch, 232_448)

    assert fused(Cnn()) is not None
    assert fused(Cnn(), batch=64) is None
    assert fused(vgg19_plain(), (3, 32, 32)) is None
    flat = [nn.Flatten(), nn.Linear(4 * 26 * 26, 5)]
    assert fused(nn.Sequential(nn.Conv2d(1, 4, 3), *flat)) is not None
    assert fused(nn.Sequential(nn.Conv2d(1, 4, 5, padding=1), *flat)) is None
    assert fused(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), *flat)) is None
    assert fused(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), *flat)) is None
