"""How to train: refused where it cannot be, and told in the results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from refusals import refused
from tiny import blobs, linear, trace
from torch import nn

import fedwave as fw
from fedwave.learning.settings import Settings
from fedwave.learning.task import Task


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("precision", "float16"),
        ("tolerance", -0.1),
        ("tolerance", 1),
        ("tolerance", float("nan")),
        ("tolerance", "none"),
        ("lanes", 0),
        ("lanes", 2.5),
    ],
)
def test_settings_that_cannot_be(setting: str, value: Any) -> None:
    with refused(setting, value):
        Settings(**{setting: value})


@pytest.mark.parametrize(
    ("device", "precision", "gigabytes", "chosen"),
    [
        # 1,000 or 2,000,000 parameters, three copies of each, of a quarter of the memory.
        ("cpu", "auto", 24, [("float32", 64), ("float32", 64)]),
        ("cpu", "float64", 24, [("float64", 64), ("float64", 64)]),
        ("cpu", "auto", 1, [("float32", 64), ("float32", 10)]),
        ("cuda", "auto", 96, [("float32", 8192), ("bfloat16", 1000)]),
        ("cuda", "float64", 96, [("float64", 8192), ("float64", 500)]),
        ("cuda", "bfloat16", 0.01, [("bfloat16", 208), ("bfloat16", 1)]),
    ],
)
def test_lanes_and_precision_are_chosen_by_the_model(
    device: str, precision: str, gigabytes: float, chosen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, int(gigabytes * 1e9)))
    monkeypatch.setattr("fedwave.learning.settings.limit", lambda: gigabytes * 1e9)
    open_ = Settings(device=device, precision=precision)
    models = nn.Linear(1000, 1, bias=False), nn.Linear(1000, 2000, bias=False)
    found = [open_.for_model(model) for model in models]
    assert [(one.precision, one.lanes) for one in found] == chosen
    given = Settings(device=device, precision="float32", lanes=7)
    assert given.for_model(models[1]) == given


def two_rounds(**numbers: Any) -> Any:
    return trace([[1, 1], [1, 1]], [[1, 0], [0, 1]]), Task(blobs(), linear, epochs=1, **numbers)


def test_traces_of_different_length_are_not_trained_together() -> None:
    short, task = two_rounds()
    long = trace([[1, 1]] * 3, [[1, 0]] * 3)
    with pytest.raises(fw.FedwaveError, match="same number"):
        fw.train({"short": short, "long": long}, task)


def test_the_curves_tell_how_they_were_made() -> None:
    made, task = two_rounds(eta=0.5)
    curves = fw.train({"mine": made}, task, tolerance=0.25, lanes=3)["mine"]
    assert curves.label == "mine"
    wanted = {"tolerance": 0.25, "lanes": 3, "aggregation": "lee:beta=0.001", "dataset": "blobs", "eta": 0.5}
    assert wanted.items() <= curves.settings.items()
    alone = fw.train(made, task, tolerance=0.25, lanes=3)
    assert alone.label == "by hand"
    assert (alone.loss == curves.loss).all()
    assert curves.class_accuracy.shape == (2, 1, 3)
    # Sixty test images, twenty of each class.
    assert curves.class_accuracy.mean(axis=2) == pytest.approx(curves.accuracy)


def test_a_batch_that_no_device_can_fill_is_short() -> None:
    """Whether one can fill it is luck: a run must not be refused for it when others of its experiment are done."""
    made, task = two_rounds(shard_size=10, batch=11)
    whole = fw.train(made, replace(task, batch=10))
    assert (fw.train(made, task).loss == whole.loss).all()


# --- what may stand for a trace, a task and the sizes -----------------------------------------------


def test_several_traces_and_a_task_by_name() -> None:
    made, task = two_rounds()
    alone = fw.train(made, task)
    several = fw.train([made, replace(made, setup=replace(made.setup, label="b"))], task)
    assert list(several) == ["by hand", "b"]
    assert (several["b"].loss == alone.loss).all()
    sizes = fw.EvaluationSizes(50, 50)
    named = fw.train(made, "synthetic:train=60,test=60", sizes=sizes, tolerance=0.5)
    assert named.settings["dataset"] == "synthetic"


def test_progress_is_shown_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    made, task = two_rounds()
    ticks: list[int] = []
    fw.train(made, task, meter=ticks.append)
    assert (ticks, capsys.readouterr().err) == ([1, 1], "")
    fw.train(made, task, progress=True)
    assert capsys.readouterr().err == "by hand: round 1 of 2\nby hand: round 2 of 2\n"
    fw.train({"a": made, "b": made}, task, progress=True)
    assert "2 traces: round 2 of 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("traces", "tokens"),
    [
        ({}, ("traces", "empty")),
        ("age", ("traces", "'age'")),
        ([3], ("traces", 3)),
        ({"a": None}, ("traces", None)),
        (dict.fromkeys([1, "1"], two_rounds()[0]), ("'1'", "two")),
        ([two_rounds()[0]] * 2, ("'by hand'", "two")),
    ],
)
def test_what_is_no_trace(traces: Any, tokens: tuple[object, ...]) -> None:
    with refused(*tokens):
        fw.train(traces, two_rounds()[1])


def test_sizes_that_cannot_be() -> None:
    for name, value in (("loss_images", 0), ("test_images", 2.5), ("full_every", -1), ("full_every", "never")):
        with refused(name, repr(value)):
            fw.EvaluationSizes(**{name: value})  # type: ignore[arg-type]
    with refused("sizes", 100):
        fw.train(*two_rounds(), sizes=100)  # type: ignore[call-overload]
