"""Steps of many models side by side give what single models give by torch's automatic differentiation."""

import pytest
import torch
from chain_reference import flat_models, trained_alone
from half_precision import needs_bfloat16
from torch import nn
from torch.func import functional_call

from fedwave.errors import FedwaveError
from fedwave.learning.gpu.chain_steps import ChainEvaluator, ChainSteps
from fedwave.learning.gpu.lane_plan import segments
from fedwave.learning.gpu.wide_chain import WideChain, parts_of
from fedwave.learning.gpu.wide_ops import Rule, WideOps
from fedwave.learning.layout import Layout
from fedwave.learning.models import Cnn, Logistic, Vgg19

ETA, PROX, L2 = 0.05, 0.1, 0.01
AT_WORK = [5, 5, 3, 1]  # lanes of 4, 3, 3, 2 and 2 steps
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

    def steps(self, **options):
        return ChainSteps(
            self.make().to(self.images),
            self.layout,
            self.images,
            self.labels,
            batch=BATCH,
            eta=ETA,
            prox=PROX,
            l2=L2,
            places=2,
            **options,
        )

    def alone(self, autocast=None):
        return trained_alone(
            self.model,
            self.layout,
            self.w,
            self.start,
            self.rest,
            self.images,
            self.labels,
            self.samples,
            STEPS,
            ETA,
            PROX,
            L2,
            self.keys,
            autocast,
        )

    def check(self, steps, within):
        alone, rest = self.alone()
        before = self.w.clone()
        steps(self.w, self.start, self.rest, self.samples, AT_WORK, self.keys)
        assert (self.w - alone).norm() < within * (alone - before).norm()
        for name, p in rest.items():
            assert torch.allclose(self.rest[name], p, rtol=within, atol=within)


@pytest.mark.parametrize("way", ["wide", "general"])
@pytest.mark.parametrize("make", [normalised, plain])
def test_both_ways_train_as_autograd_does(make, way):
    work = Work(make, short=(make, way) != (normalised, "general"))
    steps = work.steps(way=way)
    assert steps.needs_full_batches == (make is normalised and way == "general")
    work.check(steps, 1e-10)


def test_a_grouped_convolution_gives_the_same():
    work = Work(normalised)
    parts = parts_of(normalised(), (3, 30, 29))
    assert [b.wants_groups for b in parts[0]] == [False, True, False, False]
    chain = WideChain(
        parts,
        work.layout,
        work.images,
        work.labels,
        batch=BATCH,
        rule=Rule.of(ETA, PROX, L2),
        half=None,
        width=3,
        ops=WideOps(),
        group_wide_maps=True,
        record=False,
    )
    work.check(lambda w, start, rest, samples, *_: chain(w, start, rest, samples, STEPS), 1e-10)


def test_random_layers_draw_by_the_keys_of_their_lanes():
    work = Work(dropping)
    steps = work.steps()
    assert steps.way == "general"
    work.check(steps, 1e-10)


def test_known_models_take_the_ways_they_should():
    assert Work(Cnn, (1, 28, 28)).steps().way == "wide"
    assert Work(Logistic, (1, 28, 28)).steps().way == "general"
    with pytest.raises(FedwaveError, match="way 'fused'"):
        Work(Cnn, (1, 28, 28)).steps(way="fused")
    layout = Layout(nn.Linear(3, 2))
    with pytest.raises(FedwaveError, match="no chain"):
        ChainSteps(nn.Linear(3, 2), layout, torch.zeros(4, 3), torch.zeros(4), batch=2, eta=0.1)


def test_half_precision_stays_near_to_the_full_one():
    needs_bfloat16()
    work = Work(plain, dtype=torch.float32)
    alone = work.alone()[0]
    before = work.w.clone()
    steps = work.steps(autocast=torch.bfloat16)
    assert steps.way == "wide"
    steps(work.w, work.start, work.rest, work.samples, AT_WORK)
    assert work.w.dtype == torch.float32
    error = (work.w - alone).norm() / (alone - before).norm()
    assert 1e-5 < error < 0.1


def test_the_memory_of_a_place_is_near_to_the_sum_by_hand():
    images, labels = torch.zeros(50, 3, 32, 32), torch.zeros(50, dtype=torch.int64)
    model = Vgg19()
    steps = ChainSteps(model, Layout(model), images, labels, batch=50, eta=0.1, autocast=torch.bfloat16)
    # A sample has 1.9 million columns, 0.3 million results, and nearly as many after pooling.
    by_hand = (50 * (1.9e6 + 0.3e6 + 0.2e6) + 20e6) * 2
    assert by_hand < steps.bytes_per_place < 1.5 * by_hand
    assert Work(dropping).steps().bytes_per_place is None


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


@pytest.mark.parametrize("make", [normalised, dropping])
def test_the_judge_counts_as_single_models_in_evaluation_mode_do(make):
    work = Work(make)
    judge = ChainEvaluator(make().double(), work.layout, work.images)
    _check_judge(work, judge, 1e-10)


def test_the_wide_way_judges_by_the_running_statistics():
    work = Work(normalised)
    for p in work.rest.values():
        if p.is_floating_point():
            p += torch.rand_like(p)
    steps = work.steps(way="wide")
    logits = steps._wide.logits(work.w, work.rest, work.images)
    for lane in range(LANES):
        assert torch.allclose(logits[lane], _logits(work, lane), atol=1e-10)


def _logits(work, lane):
    state = {k: p[lane] for k, p in work.layout.views(work.w).items()}
    carried = {k: p[lane] for k, p in work.rest.items()}
    return functional_call(work.model.eval(), (state, carried), (work.images,))


def _check_judge(work, judge, within):
    losses, right = judge(work.w, work.rest, work.labels, 5)
    for lane in range(LANES):
        logits = _logits(work, lane)
        loss = nn.functional.cross_entropy(logits, work.labels)
        assert abs(float(losses[lane]) - float(loss)) < within
        hits = work.labels[logits.argmax(1) == work.labels]
        assert right[lane].tolist() == torch.bincount(hits, minlength=5).tolist()


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
class TestOnGpu:
    @pytest.fixture(autouse=True)
    def _exact_products(self):
        kept = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        yield
        torch.backends.cudnn.allow_tf32 = kept

    @pytest.mark.parametrize(
        ("make", "image", "way"),
        [
            (Cnn, (1, 28, 28), "fused"),
            (Logistic, (1, 28, 28), "fused"),
            (normalised, (3, 30, 29), "wide"),
            (plain, (3, 30, 29), "wide"),
            (dropping, (3, 30, 29), "general"),
        ],
    )
    def test_float32_trains_and_judges_as_autograd_does(self, make, image, way):
        work = Work(make, image, torch.float32, short=True, device="cuda")
        steps = work.steps()
        assert steps.way == way
        work.check(steps, 1e-4)
        classes = 10 if way == "fused" else 5
        judge = ChainEvaluator(make().cuda(), work.layout, work.images)
        losses, right = judge(work.w, work.rest, work.labels, classes)
        logits = torch.stack([_logits(work, lane) for lane in range(LANES)])
        wanted = (logits.argmax(2) == work.labels).sum(1)
        assert right.sum(1).tolist() == wanted.tolist()
        each = [nn.functional.cross_entropy(one, work.labels) for one in logits]
        assert torch.allclose(losses, torch.stack(each), rtol=1e-4)

    @pytest.mark.parametrize("make", [normalised, plain, Vgg19])
    def test_bfloat16_errs_as_autocast_does(self, make):
        image = (3, 32, 32) if make is Vgg19 else (3, 30, 29)
        work = Work(make, image, torch.float32, device="cuda")
        work.model = work.model.double()
        kept = work.w, work.start, work.images, work.rest
        work.w, work.start, work.images = (t.double() for t in kept[:3])
        work.rest = {k: p.double() if p.is_floating_point() else p for k, p in kept[3].items()}
        exact = work.alone()[0]
        work.w, work.start, work.images, work.rest = kept
        work.model = work.model.float()
        usual = work.alone(torch.bfloat16)[0]
        steps = work.steps(autocast=torch.bfloat16)
        assert steps.way == "wide"
        steps(work.w, work.start, work.rest, work.samples, AT_WORK)
        assert (work.w - exact).norm() < 1.6 * (usual - exact).norm()

    @pytest.mark.parametrize(("make", "autocast"), [(Cnn, None), (Vgg19, torch.bfloat16)])
    def test_the_same_work_again_gives_the_same_bits(self, make, autocast):
        image = (1, 28, 28) if make is Cnn else (3, 32, 32)
        work = Work(make, image, torch.float32, device="cuda")
        steps = work.steps(autocast=autocast)
        first = work.w.clone(), {k: p.clone() for k, p in work.rest.items()}
        for w, rest in ((work.w, work.rest), first):
            steps(w, work.start, rest, work.samples, AT_WORK)
        assert torch.equal(work.w, first[0])
        assert all(torch.equal(p, first[1][k]) for k, p in work.rest.items())
