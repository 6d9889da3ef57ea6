"""Budgets as text, and the steps that fit into them."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from bitr.data.poses import Pairs
from bitr.errors import InputError
from bitr.evaluation import experiment
from bitr.evaluation.experiment import fit_steps, seconds_of
from bitr.training.stream import Source
from tests.training.cases import config, pair, write_folder


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), ("full", None)]
)
def test_times_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "-1m", "0m", "10 m", "1d"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InputError, match="expected a time as 90s, 10m or 1h, or full"):
        seconds_of(text)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A config, and a machine on which starting, a step and a validation take so many seconds."""
    clock = [0.0]
    monkeypatch.setattr(experiment.time, "perf_counter", lambda: clock[0])
    long = config(write_folder(tmp_path / "pairs", 3), run_steps=10**6)

    def make(start=0.0, step=1.0, validation=0.0, waiting=0.0, once=0.0, epoch=2):
        def train(short, folder, listener, kind):
            clock[0] += start + short.run.steps * step + validation
            seconds = [step * (k + 1) for k in range(short.run.steps)]
            seconds[-1] += validation
            rows = [{"seconds": each, "waiting": waiting} for each in seconds]
            monkeypatch.setattr(experiment, "read_log", lambda folder: rows)

        monkeypatch.setattr(experiment, "train", train)
        monkeypatch.setattr(experiment, "sources", lambda data: [range(epoch * long.run.batch)])
        monkeypatch.setattr(experiment, "_share_done_once", lambda source: once)
        monkeypatch.setattr(experiment.tempfile, "TemporaryDirectory", lambda: nullcontext("nowhere"))
        return long

    return make


def test_steps_validations_the_start_and_the_timing_fit_into_the_time(machine):
    steps = fit_steps(machine(start=10.0, step=0.5, validation=2.0), 600.0).run.steps
    timing = 10 + (2 + experiment.PROBE) * 0.5 + 2
    assert 0.9 * 600 < timing + 10 + 10 * 2 + steps * 0.5 <= 600
    assert fit_steps(machine(step=0.5), 1.0).run.steps == 1


def test_a_slow_first_epoch_is_paid_once(machine):
    slow = machine(step=4.0, waiting=0.9, once=5 / 6, epoch=50)  # three seconds of each step are once
    timing = 4 * experiment.PROBE
    assert fit_steps(slow, timing + 100 / 0.95).run.steps == 25
    assert fit_steps(slow, timing + 1000.1 / 0.95).run.steps == 50 + 800


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


def test_a_config_gets_the_steps_that_fit_and_no_more_than_it_has(machine):
    long = machine()
    found = fit_steps(long, 200.0)
    assert 100 < found.run.steps <= 190  # less by what the timing itself took
    assert found.run.validate_every == found.run.checkpoint_every == -(-found.run.steps // 10)
    assert replace(found, run=long.run) == long
    assert fit_steps(long, 1e9).run.steps == 10**6


@pytest.mark.slow
def test_the_loop_itself_is_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "PROBE", 8)
    settings = config(write_folder(tmp_path / "pairs", 3), run_steps=10**6)
    assert 1 <= fit_steps(settings, 20.0).run.steps < 10**5
