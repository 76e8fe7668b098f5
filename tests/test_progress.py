"""What a bar shows of a run, on a terminal."""

import pytest

from fedwave.cli.progress import rounds_bar, run_bar


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize("played", [0, 1], ids=["planning", "playing"])
def test_a_bar_counts_the_time_until_the_first_round_is_played(played, capsys) -> None:
    with run_bar("many devices") as watch:
        watch({"event": "started", "finished": 0, "units": 1, "rounds": played, "of": 3})
    run = capsys.readouterr().err
    with rounds_bar("many devices", 3) as count:
        count(played)
    for shown in (run, capsys.readouterr().err):
        last = shown.rpartition("many devices")[2]
        assert ("first round 0:00:00" in last) == (played == 0)
        assert ("time left" in last) == (played == 1)
