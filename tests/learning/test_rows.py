"""Models as rows of one tensor, and gradients that wait in slots."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import with_batch_norm
from torch import nn

from fedwave.learning.model_rows import Layout, ModelRows, carried_state, trained_parameters
from fedwave.learning.models import Cnn
from fedwave.learning.undelivered import Undelivered


class Scaled(nn.Module):
    """With a parameter that is a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.linear = nn.Linear(3, 5)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)


@pytest.mark.parametrize("make", [Cnn, with_batch_norm, Scaled])
def test_a_vector_has_every_parameter_at_its_place(make: type[nn.Module]) -> None:
    model = make()
    layout, trained = Layout(model), trained_parameters(model)
    vector = layout.flat(trained)
    assert vector.shape == (layout.size,)
    whole = sum(float(p.double().sum()) for p in trained.values())
    assert float(vector.double().sum()) == pytest.approx(whole)
    assert layout.views(vector).keys() == trained.keys()
    for name, view in layout.views(vector).items():
        assert torch.equal(view, trained[name])
    several = vector.repeat(2, 3, 1)
    for name, view in layout.views(several).items():
        assert view.shape == (2, 3, *trained[name].shape)
        view[1, 2] = 7
    assert torch.equal(several[0], vector.repeat(3, 1))
    assert float(several[1, 2].sum()) == 7 * sum(p.numel() for p in trained.values())
    assert torch.equal(layout.flat(layout.views(several)), several)


def test_rows_are_taken_put_and_padded() -> None:
    nets = [with_batch_norm() for _ in range(3)]
    layout = Layout(nets[0])
    models = ModelRows.of(nets, layout)
    two = models.rows(np.array([2, 0]))
    assert torch.equal(two.w, models.w[[2, 0]])
    two.w.zero_()
    assert models.w.any(dim=1).all()  # a copy
    models.put(np.array([1]), two.rows(slice(1)))
    assert not models.w[1].any()
    for name, tensor in carried_state(nets[2]).items():
        assert torch.equal(models.rest[name][1], tensor)
    more = models.padded(5)
    assert torch.equal(more.w[3], models.w[2])
    assert len(more) == 5


def waiting() -> Undelivered:
    made = Undelivered(2, 3, torch.zeros(1, 4, dtype=torch.float64))
    made.add(np.array([0, 1, 1]), np.array([2, 0, 1]), torch.eye(4, dtype=torch.float64)[:3])
    return made


def test_gradients_wait_decay_and_add_up() -> None:
    psi = waiting()
    psi.decay(0.5)
    psi.add(np.array([1, 0]), np.array([0, 1]), torch.full((2, 4), 1.0, dtype=torch.float64))
    assert psi.held.tolist() == [[False, True, True], [True, True, False]]
    assert psi.rows(np.array([1, 0, 0]), np.array([0, 2, 0])).tolist() == [
        [1.0, 1.5, 1.0, 1.0],
        [0.5, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0],
    ]
    np.testing.assert_allclose(psi.norms(), [[0, 2, 0.5], [np.sqrt(5.25), 0.5, 0]])
    psi.decay(0.0)
    assert not psi.held.any()


def test_what_is_delivered_is_summed_by_run_and_waits_no_longer() -> None:
    psi = waiting()
    who = np.array([[True, False, True], [True, False, False]])
    weights = np.array([[9.0, 9.0, 2.0], [3.0, 9.0, 9.0]])
    assert psi.delivered(who, weights).tolist() == [[2, 0, 0, 0], [0, 3, 0, 0]]
    assert psi.held.tolist() == [[False, False, False], [False, True, False]]


def test_an_infinite_gradient_stays_in_its_run() -> None:
    psi = waiting()
    psi.add(np.array([0]), np.array([2]), torch.full((1, 4), torch.inf, dtype=torch.float64))
    total = psi.delivered(np.ones((2, 3), np.bool_), np.ones((2, 3)))
    assert total[0].isinf().all()
    assert total[1].tolist() == [0, 1, 1, 0]
    # Its slot is used again, by another.
    psi.decay(0.5)
    psi.add(np.array([1]), np.array([2]), torch.ones(1, 4, dtype=torch.float64))
    assert psi.rows(np.array([1]), np.array([2])).tolist() == [[1.0] * 4]


def test_adding_none_changes_nothing() -> None:
    """As after a checkpoint in which nothing waits: CUDA refuses to add no rows."""
    made = Undelivered(2, 3, torch.zeros(1, 4))
    nobody = np.zeros(0, np.int64)
    made._values = None  # type: ignore[assignment]
    made.add(nobody, nobody, torch.zeros(0, 4))
    assert not made.held.any()
