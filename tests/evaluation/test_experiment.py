"""Budgets as text, and the steps that fit into them."""

from dataclasses import replace

import pytest

from bitr.data.poses import Pairs
from bitr.errors import InputError
from bitr.evaluation import experiment
from bitr.evaluation.experiment import Budget, Pace, fit_steps, measure_pace
from bitr.training.stream import Source
from tests.training.cases import config, pair, write_folder


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("full", None)]
)
def test_times_are_read(text, seconds):
    assert Budget.of(text) == Budget(text, seconds)


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "-1m", "0m", "10 m", "1d"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InputError, match="expected a time as 90s, 10m or 1h, or full"):
        Budget.of(text)


def test_several_runs_share_a_budget():
    assert Budget.of("10m").shared(4) == 150
    assert Budget.of("full").shared(4) is None


def test_steps_validations_and_the_start_fit_into_the_time():
    pace = Pace(step=0.5, validation=2.0, start=10.0)
    steps = pace.steps(600.0)
    assert 0.9 * 600 < 10 + 10 * 2 + steps * 0.5 <= 600
    assert pace.steps(1.0) == 1


def test_a_slow_first_epoch_is_paid_once():
    pace = Pace(step=1.0, validation=0.0, start=0.0, first=3.0, epoch=50)
    assert pace.steps(100 / 0.95) == 25
    assert pace.steps(1000 / 0.95) == 50 + 800


def test_what_is_computed_once_a_pair_is_told_from_what_is_computed_each_time(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(experiment.time, "perf_counter", lambda: clock[0])

    class Slow(Pairs):
        """Slow in the first epoch that it is opened for, as where surfaces are read once."""

        def __getitem__(self, i):
            clock[0] += 0.5 if self.seed == 1 else 0.1
            return pair(i)

    class Opened(Source):
        def open(self, seed):
            return Slow("slow", "train", seed, pair, range(100))

    assert experiment._share_done_once(Opened("", "", "train", None)) == pytest.approx(0.8)


def test_a_config_gets_the_steps_that_fit_and_no_more_than_it_has(tmp_path, monkeypatch):
    long = config(write_folder(tmp_path / "pairs", 3), run_steps=1000)
    monkeypatch.setattr(experiment, "measure_pace", lambda config, kind: Pace(1.0, 0.0, 0.0))
    found = fit_steps(long, 200.0)
    assert found.run.steps <= 190  # less by what the timing itself took
    assert found.run.validate_every == found.run.checkpoint_every == -(-found.run.steps // 10)
    assert replace(found, run=long.run) == long
    assert fit_steps(long, 1e6).run.steps == 1000


def test_a_pace_is_measured_by_the_loop_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "PROBE", 8)
    settings = config(write_folder(tmp_path / "pairs", 3))
    pace = measure_pace(settings)
    assert pace.step > 0
    assert pace.validation >= 0
    assert pace.start > 0
