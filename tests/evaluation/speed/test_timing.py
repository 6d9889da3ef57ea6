from types import SimpleNamespace

import pytest

from bitr.evaluation.speed import timing
from bitr.evaluation.speed.timing import Patience, Times, take_turns, times_faster


class Clock:
    """A clock that jobs move, so that no test waits or depends on the machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def job(self, seconds):
        left = iter(seconds)
        return lambda: setattr(self, "now", self.now + next(left))


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_jobs_take_turns():
    calls = []
    take_turns([lambda: calls.append("a"), lambda: calls.append("b")], Patience(rounds=4, seconds=60.0))
    assert calls == ["a", "b"] * 5


def test_the_fastest_turn_and_the_median_count_and_the_first_turn_does_not(clock):
    times = take_turns(
        [clock.job([0.5, 4.0, 2.0, 9.0]), clock.job([90.0, 1.0, 1.0, 1.0])], Patience(rounds=3, seconds=1e9)
    )
    assert times == [Times(fastest=2.0, median=4.0), Times(fastest=1.0, median=1.0)]


def test_patience_ends_the_turns_but_not_before_the_least(clock):
    patience = Patience(rounds=99, seconds=0.1, least=2)
    assert take_turns([clock.job([1.0, 7.0, 5.0])], patience) == [Times(5.0, 6.0)]


def test_times_faster_is_of_the_same_kind_of_times():
    assert times_faster(Times(1.0, 2.0), Times(5.0, 6.0)) == (5, 3)
