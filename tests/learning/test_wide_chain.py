"""The wide chain gives what single models give by torch's automatic differentiation."""

import pytest
import torch
from chain_reference import flat_models, trained_alone
from half_precision import needs_bfloat16
from torch import nn
from torch.func import functional_call

from fedwave.learning.backends.base import Precision
from fedwave.learning.backends.choose import choose
from fedwave.learning.backends.gpu.backends import WideBackend
from fedwave.learning.backends.gpu.blocks import ChainBlocks
from fedwave.learning.backends.gpu.wide_chain import WideChain, segments
from fedwave.learning.backends.gpu.wide_ops import SgdRule, WideOps
from fedwave.learning.chain_spec import ChainSpec
from fedwave.learning.datasets.dataset import Dataset
from fedwave.learning.dropout import key_dropout
from fedwave.learning.model_rows import Layout, ModelRows
from fedwave.learning.models import Cnn, Logistic, Vgg19
from fedwave.learning.sampling import Batches
from fedwave.learning.task import Task

ETA, PROX, L2 = 0.05, 0.1, 0.01
STEPS = [4, 3, 3, 2, 2]
LANES, BATCH, IMAGES = 5, 6, 40
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


def normalised() -> nn.Sequential:
    """Wide maps, odd sizes, a stride, layers with and without bias and pooling."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.BatchNorm2d(16, momentum=0.3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 24, 3, padding=1, bias=False),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 8, 3, stride=2),
        nn.BatchNorm2d(8, eps=1e-3),
        nn.Flatten(),
        nn.Linear(72, 16),
        nn.ReLU(),
        nn.Linear(16, 5),
    )


def plain() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(16, 8, 5, bias=False),
        nn.Flatten(),
        nn.Linear(880, 5, bias=False),
    )


def dropping() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(2610, 20), nn.Tanh(), nn.Dropout(0.4), nn.Linear(20, 5))


class Work:
    """Some lanes of a model, and what single models make of them."""

    def __init__(self, make, image=(3, 30, 29), dtype=torch.float64, short=False, device="cpu"):
        torch.manual_seed(3)
        self.make, self.layout = make, Layout(make())
        self.images = torch.randn(IMAGES, *image, dtype=dtype).to(device)
        self.labels = torch.randint(0, 5, (IMAGES,)).to(device)
        self.w, self.rest = flat_models(make, self.layout, LANES, dtype)
        self.start = flat_models(make, self.layout, LANES, dtype)[0].to(device)
        self.w, self.rest = self.w.to(device), {k: p.to(device) for k, p in self.rest.items()}
        self.samples = torch.randint(0, IMAGES, (4, LANES, BATCH), dtype=torch.int32).to(device)
        if short:
            self.samples[1, 2, 4:] = -1
        self.keys = torch.arange(LANES).to(device) + 7
        self.model = make().to(device, dtype)

    def backends(self, half=None):
        """Those that are chosen on this device: one trains, one evaluates."""
        return choose(self.task(), self.precision(half))

    def wide(self, half=None, grouped=False):
        """The wide chain by torch, two lanes (grouped: three) side by side."""
        return WideChain(
            blocks(self.make(), tuple(self.images.shape[1:])),
            self.layout,
            self.images,
            self.labels,
            batch=BATCH,
            rule=SgdRule.of(ETA, PROX, L2),
            half=half,
            width=3 if grouped else 2,
            ops=WideOps(),
            group_wide_maps=grouped,
            record=False,
        )

    def task(self):
        data = self.images.float().cpu().numpy(), self.labels.cpu().numpy()
        return Task(Dataset("random", *data, *data), self.make, batch=BATCH, eta=ETA, prox=PROX, l2=L2)

    def precision(self, half=None):
        return Precision(self.images.device, self.images.dtype, half)

    def train(self, trains):
        """All steps of all lanes, in place."""
        if isinstance(trains, WideChain):
            trains(self.w, self.start, self.rest, self.samples, STEPS)
            return
        samples = self.samples.transpose(0, 1).cpu().numpy().astype("int64")
        for lane, count in enumerate(STEPS):
            samples[lane, count:] = -1
        trained = trains.train(
            ModelRows(self.w, self.rest), Batches(samples, (samples >= 0).sum(2)), self.keys.cpu().numpy()
        )
        self.w.copy_(trained.w)
        for name, p in self.rest.items():
            p.copy_(trained.rest[name])

    def alone(self, autocast=None):
        state, data = (self.w, self.start, self.rest), (self.images, self.labels, self.samples)
        rates = ETA, PROX, L2, self.keys
        return trained_alone(self.model, self.layout, *state, *data, STEPS, *rates, autocast)

    def check(self, trains, within):
        alone, rest = self.alone()
        before = self.w.clone()
        self.train(trains)
        assert (self.w - alone).norm() < within * (alone - before).norm()
        for name, p in rest.items():
            assert torch.allclose(self.rest[name], p, rtol=within, atol=within)


def blocks(model, image):
    key_dropout(model)
    return ChainBlocks.of(ChainSpec.of(model, image))


@pytest.mark.parametrize("make", [normalised, plain])
@pytest.mark.parametrize("grouped", [False, True])
def test_it_trains_as_autograd_does(make, grouped):
    work = Work(make, short=True)
    found = blocks(make(), (3, 30, 29))
    assert [b.wants_groups for b in found.convolutions][1]
    work.check(work.wide(grouped=grouped), 1e-10)


def test_only_chains_of_convolutions_are_wide():
    assert WideChain.supports(blocks(Cnn(), (1, 28, 28)))
    assert not WideChain.supports(blocks(Logistic(), (1, 28, 28)))
    assert blocks(dropping(), (3, 30, 29)) is None


def test_half_precision_stays_near_to_the_full_one():
    needs_bfloat16()
    work = Work(plain, dtype=torch.float32)
    alone = work.alone()[0]
    before = work.w.clone()
    work.train(work.wide(torch.bfloat16))
    assert work.w.dtype == torch.float32
    error = (work.w - alone).norm() / (alone - before).norm()
    assert 1e-5 < error < 0.1


@pytest.mark.parametrize("width", [1, 2, 3, 7, 50])
def test_a_plan_runs_every_step_of_every_lane_once_and_in_order(width):
    steps = [9, 9, 7, 5, 5, 5, 2, 1, 1, 0]
    done = [0] * len(steps)
    for segment in segments(steps, width):
        assert 0 < len(segment.lanes) <= width
        for lane, first in zip(segment.lanes, segment.first, strict=True):
            assert done[lane] == first
            done[lane] += segment.count
    assert done == steps


def test_it_evaluates_by_the_running_statistics():
    work = Work(normalised)
    for p in work.rest.values():
        if p.is_floating_point():
            p += torch.rand_like(p)
    logits = work.wide().logits(work.w, work.rest, work.images)
    for lane in range(LANES):
        assert torch.allclose(logits[lane], _logits(work, lane), atol=1e-10)


def _logits(work, lane):
    state = {k: p[lane] for k, p in work.layout.views(work.w).items()}
    carried = {k: p[lane] for k, p in work.rest.items()}
    return functional_call(work.model.eval(), (state, carried), (work.images,))


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
class TestOnGpu:
    @pytest.fixture(autouse=True)
    def _exact_products(self):
        kept = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        yield
        torch.backends.cudnn.allow_tf32 = kept

    @pytest.mark.parametrize("make", [normalised, plain, Vgg19])
    def test_bfloat16_errs_as_autocast_does(self, make):
        image = (3, 32, 32) if make is Vgg19 else (3, 30, 29)
        work = Work(make, image, torch.float32, device="cuda")
        work.start = work.w.clone()
        work.model = work.model.double()
        kept = work.w, work.start, work.images, work.rest
        work.w, work.start, work.images = (t.double() for t in kept[:3])
        work.rest = {k: p.double() if p.is_floating_point() else p for k, p in kept[3].items()}
        exact = work.alone()[0]
        work.w, work.start, work.images, work.rest = kept
        work.model = work.model.float()
        usual = work.alone(torch.bfloat16)[0]
        trains, _ = work.backends(torch.bfloat16)
        assert isinstance(trains, WideBackend)
        work.train(trains)
        assert (work.w - exact).norm() < 1.6 * (usual - exact).norm()

    @pytest.mark.parametrize(("make", "half"), [(Cnn, None), (Vgg19, torch.bfloat16)])
    def test_the_same_work_again_gives_the_same_bits(self, make, half):
        image = (1, 28, 28) if make is Cnn else (3, 32, 32)
        work = Work(make, image, torch.float32, device="cuda")
        trains, _ = work.backends(half)
        first = work.w.clone(), {k: p.clone() for k, p in work.rest.items()}
        work.train(trains)
        once = work.w.clone(), {k: p.clone() for k, p in work.rest.items()}
        work.w, work.rest = first
        work.train(trains)
        assert torch.equal(work.w, once[0])
        assert all(torch.equal(p, once[1][k]) for k, p in work.rest.items())
