"""The log of a run: whole lines, cut back to where a run goes on from."""

import math
from dataclasses import replace

import pytest
import torch

from bitr.training.folder import Meter, Record, RunLog, Step, draw_curves, read_log

PLAIN = Record(2, 0.5, 1.25, 0.5, 90.0, 0.1, 80.0, 1e-3, 2.0, 30.0, 0.25, 0)
VALIDATED = Record(
    4, 1.0, 2.5, 0.1 + 0.2, 45.0, 0.05, 40.0, 1e-05, 1.0, 31.0, 0.5, 1, 0.25, 30.0, 20.0, 0.04, 25.0
)


@pytest.fixture(autouse=True)
def _no_board(monkeypatch):
    monkeypatch.setattr("bitr.training.folder._board", lambda folder, step: None)


@pytest.fixture
def written(tmp_path):
    log = RunLog(tmp_path, 0)
    for record in (PLAIN, VALIDATED):
        log.add(record)
    return tmp_path


def as_row(record):
    return {name: getattr(record, name) for name in Record.__dataclass_fields__}


def test_what_was_written_comes_back_exactly(written):
    assert read_log(written) == [as_row(PLAIN), as_row(VALIDATED)]


def test_a_mean_of_nothing_comes_back_too(written):
    RunLog(written, 4).add(replace(PLAIN, step=6, loss=math.nan))
    assert math.isnan(read_log(written)[2]["loss"])


@pytest.mark.parametrize(("step", "left"), [(0, []), (1, []), (2, [2]), (3, [2]), (4, [2, 4]), (99, [2, 4])])
def test_a_run_that_goes_on_forgets_what_came_after(written, step, left):
    RunLog(written, step)
    assert [row["step"] for row in read_log(written)] == left


def test_a_line_that_was_cut_off_anywhere_is_forgotten(written):
    """As a full disk leaves it."""
    path = written / "log.csv"
    whole = path.read_bytes()
    header, first, last = whole.splitlines(keepends=True)
    for cut in range(len(last)):
        path.write_bytes(header + first + last[:cut])
        assert [row["step"] for row in read_log(written)] == [2]
    for cut in (0, 7, len(header) - 1):
        path.write_bytes(header[:cut])
        RunLog(written, 9).add(PLAIN)
        assert read_log(written) == [as_row(PLAIN)]


def step(loss, taken=True):
    return Step(
        torch.tensor([loss, 2 * loss, 3 * loss, loss / 2], dtype=torch.float64), 4 * loss, taken, stop=False
    )


def test_a_meter_tells_means_of_the_steps_that_were_taken():
    meter = Meter()
    for made in (step(1.0), step(math.nan, taken=False), step(3.0)):
        meter.add(made)
    means = meter.means()
    assert (means["loss"], means["rotation_deg"], means["displacement"]) == (2, 4, 6)
    assert means["gradient_norm"] == 8
    assert meter.steps == 3
    assert math.isnan(Meter().means()["loss"])


def test_a_meter_goes_on_with_what_another_had_counted():
    first, whole = Meter(), Meter()
    for loss in (0.1, 0.2):
        first.add(step(loss))
        whole.add(step(loss))
    with first.waiting():
        pass
    second = Meter(first.state())
    assert second.waited == first.waited
    assert second.seconds >= first.waited
    second.add(step(0.4))
    whole.add(step(0.4))
    assert second.means()["loss"] == whole.means()["loss"]
    assert second.steps == 3


def test_curves_are_a_picture_also_of_a_run_without_a_validation(tmp_path):
    pytest.importorskip("matplotlib")
    log = RunLog(tmp_path, 0)
    log.add(PLAIN)
    assert draw_curves(tmp_path, "one").read_bytes().startswith(b"\x89PNG")
    log.add(VALIDATED)
    assert draw_curves(tmp_path, "two").stat().st_size > 10_000
