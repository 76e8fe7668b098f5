"""A channel with memory: a run that goes on has its carry, and does not draw its past again."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import fedwave as fw
from fedwave.network.world import World

SHADOWED = fw.fading.Shadowing(6.0, 0.8, fw.fading.GaussMarkov(0.9))
RECORD = np.random.default_rng(0).random((300, 25))
WITH_MEMORY = {
    "gauss-markov": fw.fading.GaussMarkov(0.9),
    "shadowing": fw.fading.Shadowing(6.0, 0.5),
    "one obstacle": fw.fading.Shadowing(6.0, 1.0),
    "shadowed gauss-markov": SHADOWED,
    "recorded": fw.fading.RecordedGains(RECORD),
}


def net(fading):
    return fw.paper_network(fading=fading)


@pytest.fixture
def blocks(monkeypatch):
    """The first round of every block whose gains are drawn."""
    drawn = []
    for kind in (fw.fading.GaussMarkov, fw.fading.Shadowing, fw.fading.RecordedGains):

        def sample(self, block, carry, draw=kind.sample):
            drawn.append(block.first)
            return draw(self, block, carry)

        monkeypatch.setattr(kind, "sample", sample)
    return drawn


@pytest.mark.parametrize("name", WITH_MEMORY)
def test_a_run_in_pieces_is_the_run_in_one(name, tmp_path):
    network = net(WITH_MEMORY[name])
    whole = fw.simulate(network, "balsa", 200, 3, seed=5)
    trace = fw.simulate(network, "balsa", 1, 3, seed=5)
    for until in (2, 63, 64, 65, 127, 128, 192, 199, 200):  # blocks have 64 rounds
        trace = fw.extend(trace, until)
        assert trace.same_as(fw.simulate(network, "balsa", until, 3, seed=5))
        trace = fw.Trace.load(trace.save(tmp_path / "t.npz"))
    assert trace.same_as(whole)


@pytest.mark.parametrize("name", ["gauss-markov", "one obstacle", "recorded"])
def test_a_round_more_draws_one_block(name, blocks):
    trace = fw.simulate(net(WITH_MEMORY[name]), "w-max", 1, 2)
    blocks.clear()
    for until in range(2, 300):
        trace = fw.extend(trace, until)
    # One block each time, that of the new round: not one for every 64 rounds that were played.
    assert blocks == [1 + (until - 1) // 64 * 64 for until in range(2, 300)]


def test_a_trace_without_the_carry_goes_on_from_round_1(blocks):
    network = net(WITH_MEMORY["gauss-markov"])
    trace = fw.simulate(network, "w-max", 150, 2)
    assert trace.channel[0].shape == (2, 25)
    bare = replace(trace, channel=())
    blocks.clear()
    longer = fw.extend(bare, 200)
    assert blocks == [1, 65, 129, 193]
    assert longer.same_as(fw.extend(trace, 200))


def test_worlds_of_any_rounds_are_cut_from_one_whole():
    network, ids = net(SHADOWED), np.arange(2)
    whole = [w.gain for w in World(network, 0, ids).rounds(1, 300)]
    world = World(network, 0, ids)
    for first, last in ((250, 300), (1, 10), (150, 160), (129, 140), (65, 300)):
        part = [w.gain for w in world.rounds(first, last)]
        assert np.array_equal(part, whole[first - 1 : last])
    one, other = world.rounds(1, 300), world.rounds(100, 300)  # in turns
    for k in range(200):
        assert np.array_equal(next(one).gain, whole[k])
        assert np.array_equal(next(other).gain, whole[99 + k])


@pytest.mark.parametrize("form", ["dict", "list", "text", "one for all instances"])
def test_any_other_carry_is_followed_from_round_1(form):
    @dataclass(frozen=True)
    class Odd(fw.fading.Rayleigh):
        name = "odd"
        independent: ClassVar[bool] = False

        def sample(self, block, carry):
            gains, _ = super().sample(block, None)
            before = 1 if carry is None else int(carry["n"] if form == "dict" else len(carry))
            after = {
                "dict": {"n": np.array(before + 1)},
                "list": [0] * (before + 1),
                "text": "x" * (before + 1),
                "one for all instances": np.zeros(before + 4),
            }[form]
            return gains * (1 + before), after

    network = net(Odd())
    trace = fw.simulate(network, "w-max", 150, 3)
    assert trace.channel == ()
    longer = fw.extend(trace, 260, network=network)
    assert longer.same_as(fw.simulate(network, "w-max", 260, 3))


def test_a_file_keeps_a_carry(tmp_path):
    z, amplitude = np.arange(6.0).reshape(2, 3), np.full((2, 3), 1j)
    trace = fw.simulate(net(SHADOWED), "w-max", 70, 2)
    for carry in (None, z, (z,), (z, None), (None, (z, None, amplitude)), ((None,), None, (z, (z,)))):
        kept = replace(trace, channel=(carry,))
        loaded = fw.Trace.load(kept.save(tmp_path / "t.npz"))
        assert repr(loaded.channel) == repr((carry,))
        assert loaded.same_as(kept)


def test_a_carry_of_another_model_is_a_sentence():
    trace = replace(fw.simulate(net(SHADOWED), "w-max", 70, 3), channel=(np.ones((3, 25)),))
    with pytest.raises(fw.FedwaveError, match="cannot be continued"):
        fw.extend(trace, 140)
