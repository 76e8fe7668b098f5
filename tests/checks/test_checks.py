"""The contract checker: everything of ours passes, and every way to break the contract is told."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from broken import BROKEN, LovesTheFirst, Sound
from refusals import refused

import fedwave as fw
from fedwave.parts import registry

ALL = (
    "declaration",
    "information",
    "priorities",
    "decision",
    "slots",
    "state",
    "completion",
    "inputs",
    "parameters",
    "repetition",
    "instances",
    "devices",
    "saving",
)
WITHOUT_DEVICES = tuple(name for name in ALL if name != "devices")


@pytest.mark.parametrize("name", registry.names("scheduler"))
def test_every_registered_scheduler_keeps_the_contract(name):
    expected = WITHOUT_DEVICES if name == "round-robin" else ALL
    assert fw.check(name, family="scheduler").passed == expected


@pytest.mark.parametrize("rule", ["max1", "per-device"])
@pytest.mark.parametrize("prior", [fw.priors.Gamma(), fw.priors.Truncated()])
def test_learning_schedulers_keep_it_with_other_parameters(rule, prior):
    for name in ("balsa", "balsa-po"):
        assert fw.check(fw.scheduler(name, stage_rule=rule, prior=prior)).passed == ALL


@pytest.mark.parametrize(
    "scheduler, check, tokens", [pytest.param(*case, id=f"{i}-{case[1]}") for i, case in enumerate(BROKEN)]
)
def test_a_broken_scheduler_is_told_which_check_failed_and_why(scheduler, check, tokens):
    with refused(f"'{check}'", *tokens) as told:
        fw.check(scheduler)
    assert "\n" not in str(told.value)


def test_every_check_has_a_scheduler_that_fails_it():
    assert {check for _, check, _ in BROKEN} == set(ALL)


def test_the_sound_one_that_the_broken_ones_spoil_passes():
    assert fw.check(Sound).passed == ALL
    assert fw.check(Sound()).passed == ALL


def test_the_answer_is_a_sentence():
    report = fw.check(Sound)
    assert str(report) == repr(report) == f"scheduler 'sound': {len(ALL)} checks passed"


def test_a_name_that_is_not_known_is_told_so():
    with refused("balsa_po", "balsa-po"):
        fw.check("balsa_po")
    with refused(3, "Scheduler"):
        fw.check(3)


def test_a_scheduler_of_ten_lines_is_checked_found_by_name_and_simulated():
    @fw.register
    @dataclass(frozen=True)
    class Patient(fw.Scheduler):
        """Wait for a good channel, the less the longer it has been."""

        patience: float = 2.0
        name = "patient"
        needs = frozenset({"channel"})

        def priority(self, state, seen, draws):
            return seen.gain + seen.delay / self.patience

    assert fw.check("patient").passed == ALL
    assert "patient" in fw.scheduler_names()
    trace = fw.simulate(fw.paper_network(), "patient", rounds=20, instances=2)
    assert (np.count_nonzero(trace.scheduled, axis=2) == 5).all()
    other = fw.simulate(fw.paper_network(), fw.scheduler("patient:patience=9"), rounds=20, instances=2)
    assert not other.same_as(trace)


def test_numbers_of_its_own_kind_from_a_generator_cannot_follow_the_devices():
    class Shuffles(fw.Scheduler):
        name = "shuffles"

        def priority(self, state, seen, draws):
            rows, devices = seen.delay.shape
            return np.stack([draws.generator(i).permutation(devices) for i in range(rows)])

    assert fw.check(Shuffles).passed == WITHOUT_DEVICES


def test_what_is_only_derived_from_the_parameters_may_be_kept_in_the_object():
    class Caches(Sound):
        @cached_property
        def table(self):
            return np.linspace(0, 1, 5)

        def priority(self, state, seen, draws):
            return self.table[-1] * seen.success

    assert fw.check(Caches()).passed == ALL


def test_a_scheduler_may_be_declared_to_care_about_device_numbers():
    class OnPurpose(LovesTheFirst):
        symmetric = False

    assert fw.check(OnPurpose).passed == WITHOUT_DEVICES
