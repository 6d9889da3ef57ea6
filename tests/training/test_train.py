"""The loop: the same config gives the same weights, also after a stop; what goes wrong is said."""

import json
import math
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch

import bitr
from bitr.errors import InputError
from bitr.model import BITR, BITRConfig
from bitr.model.checkpoint import load
from bitr.settings import from_file, to_mapping
from bitr.training import TrainConfig, TrainingError, train
from bitr.training.distributed import Group
from bitr.training.folder import FREE, Step, check_same_run, read, read_log
from bitr.training.step import Objective, Trainer
from bitr.training.stream import Stream, batches, numbers, sources
from bitr.training.train import HeldOut
from tests.training.cases import (
    MODEL,
    TIMES,
    Heard,
    assert_same_tensors,
    changed,
    checkpoints,
    config,
    weights,
    write_folder,
)

ALONE = Group(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pairs"), 6)


@pytest.fixture(scope="module")
def settings(folder):
    return config(folder, run_log_every=2, data_noise=0.01)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, settings):
    """An uninterrupted run: its folder, its result and what was heard of it."""
    out, heard = tmp_path_factory.mktemp("run") / "finished", Heard()
    return out, train(settings, out, listener=heard), heard


def rows(run):
    """The log without its times."""
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_log(run)]


def assert_same_run(actual, expected):
    """The same files with the same content, but for times."""
    assert_same_tensors(weights(actual / "model.safetensors"), weights(expected / "model.safetensors"))
    ours, theirs = checkpoints(actual), checkpoints(expected)
    assert (len(ours), ours[-1].name) == (len(theirs), theirs[-1].name)
    assert_same_tensors(weights(ours[-1]), weights(theirs[-1]))
    assert rows(actual) == rows(expected)
    results = [json.loads((run / "result.json").read_text()) for run in (actual, expected)]
    assert results[0] | {"seconds": 0} == results[1] | {"seconds": 0}
    for name in ("config.toml", "split.json"):
        assert (actual / name).read_text() == (expected / name).read_text()


def stopping_at(monkeypatch, step, notice=signal.SIGTERM):
    """Has the process hear a notice while it computes a step."""
    real = Trainer.step

    def heard(self, batch, number, stop):
        if number == step:
            signal.raise_signal(notice)
        return real(self, batch, number, stop)

    monkeypatch.setattr(Trainer, "step", heard)


def objective_with(monkeypatch, change):
    """Changes what the model that is trained makes of a batch: ``change(errors, batch, model)``."""

    class Changed(Objective):
        def forward(self, batch):
            errors = super().forward(batch)
            return change(errors, batch, self.model) if self.model.training else errors

    monkeypatch.setattr("bitr.training.step.Objective", Changed)


def test_the_same_config_gives_the_same_weights_bit_for_bit(tmp_path, settings, finished):
    train(settings, tmp_path / "again")
    assert_same_run(tmp_path / "again", finished[0])


def test_another_seed_gives_other_weights(tmp_path, settings, finished):
    train(changed(settings, "run", seed=1, steps=1), tmp_path / "other")
    ours, theirs = (weights(run / "model.safetensors") for run in (tmp_path / "other", finished[0]))
    assert not any(torch.equal(ours[name], theirs[name]) for name in theirs if theirs[name].numel() > 3)


@pytest.mark.parametrize(("step", "notice"), [(0, signal.SIGTERM), (1, signal.SIGINT), (3, signal.SIGTERM)])
def test_a_run_that_is_stopped_and_goes_on_ends_as_if_it_had_not_been(
    tmp_path, settings, finished, monkeypatch, step, notice
):
    stopping_at(monkeypatch, step, notice)
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "run")
    assert checkpoints(tmp_path / "run")[-1].name == f"step-{step + 2:09d}.safetensors"
    monkeypatch.undo()
    heard = Heard()
    train(settings, tmp_path / "run", resume=True, listener=heard)
    assert heard.begun == [(step + 2, 6)]
    assert_same_run(tmp_path / "run", finished[0])


def test_a_run_that_goes_on_from_an_older_checkpoint_ends_the_same(tmp_path, settings, finished):
    """As after a kill: the log and the weights of the validation are ahead of the checkpoint."""
    run = Path(copytree(finished[0], tmp_path / "run"))
    (run / "checkpoints" / "step-000000006.safetensors").unlink()
    (run / "result.json").unlink()
    unfinished = run / "checkpoints" / ".step-000000006-abcdefgh.safetensors"
    unfinished.write_bytes(b"half of i")
    heard = Heard()
    train(settings, run, resume=True, listener=heard)
    assert heard.begun == [(4, 6)]
    assert not unfinished.exists()
    assert_same_run(run, finished[0])


def test_a_damaged_checkpoint_is_passed_over_and_said(tmp_path, settings, finished):
    run = Path(copytree(finished[0], tmp_path / "run"))
    newest = checkpoints(run)[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    heard = Heard()
    train(settings, run, resume=True, listener=heard)
    assert len(heard.notes) == 1
    assert f"{newest}: damaged" in heard.notes[0]
    assert heard.begun == [(4, 6)]
    assert_same_run(run, finished[0])


def test_a_finished_run_that_goes_on_stays_as_it_is(tmp_path, settings, finished):
    out, result, _ = finished
    before = weights(out / "model.safetensors")
    again = train(settings, out, resume=True)
    assert again == result
    assert_same_tensors(weights(out / "model.safetensors"), before)


def test_resume_without_a_checkpoint_begins(tmp_path, settings):
    heard = Heard()
    train(changed(settings, "run", steps=1), tmp_path / "new", resume=True, listener=heard)
    assert heard.begun == [(0, 1)]


def test_a_second_notice_ends_it_at_once(tmp_path, settings, monkeypatch):
    def insist(self, batch, number, stop):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "step", insist)
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "run")
    assert checkpoints(tmp_path / "run") == []


def test_a_folder_with_a_run_is_not_begun_in_again(settings, finished):
    before = {path: path.read_bytes() for path in finished[0].rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="holds a run already; go on with --resume"):
        train(settings, finished[0])
    assert {path: path.read_bytes() for path in finished[0].rglob("*") if path.is_file()} == before


def test_a_run_goes_on_with_the_settings_it_began_with(settings, finished):
    newest = checkpoints(finished[0])[-1].read_bytes()
    with pytest.raises(InputError, match=r"was begun with optimizer\.rate = 0\.004, and 0\.1 is asked for"):
        train(changed(settings, "optimizer", rate=0.1), finished[0], resume=True)
    assert checkpoints(finished[0])[-1].read_bytes() == newest
    free = changed(changed(settings, "run", keep=3, device="cpu"), "data", root="/elsewhere")
    train(free, finished[0], resume=True)
    train(settings, finished[0], resume=True)


def test_every_setting_that_makes_a_difference_is_compared(settings, tmp_path):
    begun = to_mapping(settings)
    check_same_run(begun, begun, tmp_path)
    for table, values in begun.items():
        for key, value in values.items():
            asked = begun | {table: values | {key: ["another", value]}}
            if f"{table}.{key}" in FREE:
                check_same_run(begun, asked, tmp_path)
            else:
                with pytest.raises(InputError, match=rf"was begun with {table}\.{key} = "):
                    check_same_run(begun, asked, tmp_path)
    assert len(FREE) == 7


@pytest.mark.slow
def test_the_loss_of_a_few_pairs_falls(tmp_path):
    for split in ("train", "val"):
        write_folder(tmp_path / "data" / split, 2)
    run = {"run_steps": 40, "run_log_every": 5, "run_validate_every": 40, "run_checkpoint_every": 40}
    settings = changed(config(tmp_path / "data", **run), "optimizer", rate=0.02, warmup=3)
    heard = Heard()
    train(settings, tmp_path / "run", listener=heard)
    losses = [record.loss for record in heard.records]
    assert losses[-1] < losses[0] / 10


@pytest.mark.slow
def test_steps_that_are_not_finite_are_left_out_counted_and_named(tmp_path, settings, monkeypatch):
    seen = []

    def spoil(errors, batch, model):
        seen.append(batch.ids)
        return replace(errors, loss=errors.loss * math.nan) if len(seen) == 2 else errors

    objective_with(monkeypatch, spoil)
    heard, settings = Heard(), changed(settings, "run", steps=4, checkpoint_every=1, keep=9)
    result = train(settings, tmp_path / "run", listener=heard)
    assert result["skipped"] == 1
    assert result["steps"] == 4
    assert len(heard.notes) == 1
    assert heard.notes[0].startswith("step 2: loss or gradient not finite, step left out")
    assert heard.notes[0].endswith(", ".join(seen[1]))
    before, after, later = (weights(path) for path in checkpoints(tmp_path / "run")[:3])
    assert_same_tensors(after, before)
    assert any(not torch.equal(later[name], before[name]) for name in before)
    assert [record.skipped for record in heard.records] == [1, 1, 1]
    assert all(math.isfinite(record.loss) and math.isfinite(record.gradient_norm) for record in heard.records)


def test_a_gradient_that_is_not_finite_counts_as_well(tmp_path, settings, monkeypatch):
    def spoil(errors, batch, model):
        steep = (next(model.parameters()).flatten()[0] * 0).sqrt()  # 0 with an infinite slope
        return replace(errors, loss=errors.loss + steep)

    objective_with(monkeypatch, spoil)
    first = Trainer(settings, BITR(MODEL), ALONE)
    before = {name: value.clone() for name, value in first.parts.average.state_dict().items()}
    step = first.step(batch_of(settings), 0, stop=False)
    assert not step.taken
    assert step.means.isfinite().all()
    assert_same_tensors(dict(first.parts.model.state_dict()), before)
    assert_same_tensors(dict(first.parts.average.state_dict()), before)
    assert not any(each.state for each in first.parts.optimizers)


def batch_of(settings):
    stream = Stream.of(sources(settings.data)[0], settings)
    return next(batches(stream, numbers(0, 1, settings.run.batch, 0, 1), 0))


def test_too_many_in_a_row_stop_the_run_with_an_explanation_and_a_checkpoint(tmp_path, settings, monkeypatch):
    count = []

    def spoil(errors, batch, model):
        count.append(batch.ids)
        return replace(errors, loss=errors.loss * math.inf) if len(count) not in (1, 3) else errors

    objective_with(monkeypatch, spoil)
    heard = Heard()
    settings = changed(settings, "run", steps=9, skips=2, checkpoint_every=9, log_every=9, validate_every=9)
    with pytest.raises(
        TrainingError, match=r"2 steps in a row had a loss or gradient that is not finite"
    ) as e:
        train(settings, tmp_path / "run", listener=heard)
    assert ", ".join(count[4]) in str(e.value)
    assert "kept at step 5" in str(e.value)
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step-000000005.safetensors"]
    assert len(heard.notes) == 3


def test_steps_that_were_all_left_out_have_no_mean(tmp_path, settings, monkeypatch):
    objective_with(monkeypatch, lambda errors, batch, model: replace(errors, loss=errors.loss * math.nan))
    heard = Heard()
    train(changed(settings, "run", steps=2), tmp_path / "run", listener=heard)
    assert [math.isnan(record.loss) for record in heard.records] == [True]
    assert math.isnan(read_log(tmp_path / "run")[0]["loss"])


def scripted(monkeypatch, losses, quick=True):
    """Has the validations find these losses; quick steps do nothing."""
    found = iter(losses)
    if quick:
        done = Step(torch.ones(4, dtype=torch.float64), 1.0, taken=True, stop=False)
        monkeypatch.setattr(Trainer, "step", lambda self, batch, number, stop: done)
    rest = {"rotation_deg": 1.0, "median_deg": 2.0, "displacement": 3.0, "nearest_deg": 1.0}
    monkeypatch.setattr(HeldOut, "errors", lambda self, objective: {"loss": next(found), **rest})


def test_the_best_weights_are_those_of_the_best_validation(tmp_path, settings, monkeypatch):
    scripted(monkeypatch, [3.0, 1.0, 2.0], quick=False)
    settings = changed(settings, "run", validate_every=2, keep=9)
    result = train(settings, tmp_path / "run")
    assert (result["best_step"], result["val"]["loss"]) == (4, 1.0)
    at_four = weights(tmp_path / "run" / "checkpoints" / "step-000000004.safetensors")
    average = {name.removeprefix("average/"): v for name, v in at_four.items() if name.startswith("average/")}
    model = bitr.load(tmp_path / "run")
    assert_same_tensors(dict(model.state_dict()), average)
    assert model.config == MODEL
    assert not model.training


def test_training_ends_when_patience_does(tmp_path, settings, monkeypatch):
    scripted(monkeypatch, [3.0, 1.0, 2.0, 1.0, 0.0])
    settings = changed(settings, "run", validate_every=1, patience=2, checkpoint_every=1)
    result = train(settings, tmp_path / "run")
    assert (result["steps"], result["best_step"]) == (4, 2)
    monkeypatch.undo()
    assert train(settings, tmp_path / "run", resume=True)["steps"] == 4


def test_an_improvement_renews_the_patience(tmp_path, settings, monkeypatch):
    scripted(monkeypatch, [3.0, 4.0, 2.0, 4.0, 1.0, 4.0])
    result = train(changed(settings, "run", validate_every=1, patience=2), tmp_path / "run")
    assert (result["steps"], result["best_step"]) == (6, 5)


def test_validations_that_are_never_finite_leave_no_weights_and_are_said(tmp_path, settings, monkeypatch):
    scripted(monkeypatch, [math.nan])
    with pytest.raises(TrainingError, match="held-out pairs was never finite"):
        train(changed(settings, "run", steps=1), tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert len(checkpoints(tmp_path / "run")) == 1


def test_shipped_weights_are_a_start(tmp_path, folder):
    settings = config(folder, model=BITRConfig(), run_init_from="default", run_steps=1, run_batch=1)
    settings = changed(settings, "optimizer", rate=0.0)
    result = train(settings, tmp_path / "run")
    shipped = load("default")
    assert_same_tensors(dict(bitr.load(tmp_path / "run").state_dict()), dict(shipped.state_dict()))
    assert result["config"]["model"] == to_mapping(shipped.config)
    assert from_file(TrainConfig, tmp_path / "run" / "config.toml").model == shipped.config


def test_ones_own_weights_are_a_start_and_their_model_must_be_the_one_asked_for(tmp_path, settings, finished):
    start = changed(settings, "run", init_from=str(finished[0]), steps=1)
    train(changed(start, "optimizer", rate=0.0), tmp_path / "run")
    ours, theirs = (weights(run / "model.safetensors") for run in (tmp_path / "run", finished[0]))
    assert_same_tensors(ours, theirs)
    with pytest.raises(InputError, match="its model is not the one that"):
        train(replace(start, model=replace(MODEL, channels=4)), tmp_path / "other")
    with pytest.raises(InputError, match="no such file or folder"):
        train(changed(settings, "run", init_from="nothing"), tmp_path / "other")


def test_half_precision_runs_on_the_processor_and_differs(tmp_path, settings, finished):
    result = train(changed(settings, "run", precision="bfloat16", steps=2), tmp_path / "run")
    assert result["skipped"] == 0
    ours = rows(tmp_path / "run")[0]
    assert ours["loss"] == pytest.approx(rows(finished[0])[0]["loss"], rel=0.2)
    assert ours["loss"] != rows(finished[0])[0]["loss"]


def test_the_folder_of_a_run_tells_all_about_it(settings, finished):
    out, result, heard = finished
    assert sorted(path.name for path in out.iterdir()) == [
        "checkpoints",
        "config.toml",
        "log.csv",
        "model.safetensors",
        "result.json",
        "split.json",
        "tensorboard",
    ]
    assert [path.name for path in checkpoints(out)] == [f"step-{step:09d}.safetensors" for step in (4, 6)]
    assert from_file(TrainConfig, out / "config.toml") == settings
    assert read(checkpoints(out)[0].read_bytes(), out)[0]["config"] == to_mapping(settings)
    assert json.loads((out / "result.json").read_text()) == result
    split = json.loads((out / "split.json").read_text())
    assert split["sha256"] == result["split_sha256"]
    assert sorted(split["train"]["ids"] + split["val"]["ids"]) == [f"pair-{i}" for i in range(6)]
    assert result["config"] == to_mapping(settings)
    assert result["val"]["loss"] == min(r.val_loss for r in heard.records if r.val_loss is not None)
    assert (result["steps"], result["skipped"], result["processes"]) == (6, 0, 1)
    assert result["data"] == settings.data.name


def test_the_log_has_a_row_for_each_record(finished):
    out, _, heard = finished
    found = read_log(out)
    assert [row["step"] for row in found] == [2, 3, 4, 6]
    assert [row["epoch"] for row in found] == [1.0, 1.5, 2.0, 3.0]
    assert [row["val_loss"] is not None for row in found] == [False, True, False, True]
    for row, record in zip(found, heard.records, strict=True):
        assert row == {name: getattr(record, name) for name in row}
    assert all(row["seconds"] > 0 and 0 <= row["waiting"] <= 1 for row in found)
    assert heard.begun == [(0, 6)]
    assert heard.notes == []


def test_tensorboard_has_the_same_values(finished):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(finished[0] / "tensorboard"))
    events.Reload()
    logged = {event.step: event.value for event in events.Scalars("loss")}
    assert logged == {row["step"]: pytest.approx(row["loss"], rel=1e-6) for row in read_log(finished[0])}
    assert [event.step for event in events.Scalars("val_rotation_deg")] == [3, 6]


def test_it_runs_without_tensorboard(tmp_path, settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    train(changed(settings, "run", steps=1), tmp_path / "run")
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert len(read_log(tmp_path / "run")) == 1


@pytest.mark.parametrize(("broken", "says"), [("train", "one of"), ("val", "held out, one of")])
def test_a_pair_that_the_model_cannot_take_is_named(tmp_path, broken, says):
    for split in ("train", "val"):
        write_folder(tmp_path / "data" / split, 1)
    name = tmp_path / "data" / broken / "pair-0" / "source.npy"
    np.save(name, 1e8 + 2e-8 * np.load(name))  # far away and tiny: a shape that rounding has eaten
    with pytest.raises(InputError, match=f"{says} {broken}/pair-0: source: all points of a cloud are equal"):
        train(config(tmp_path / "data", run_steps=1, run_batch=1), tmp_path / "run")


def test_there_must_be_a_pair_for_each_process(tmp_path, settings, monkeypatch):
    @contextmanager
    def three(device):
        yield replace(ALONE, world=3)

    monkeypatch.setattr(sys.modules["bitr.training.train"], "join", three)
    with pytest.raises(InputError, match=r"run\.batch = 2 is less than the 3 processes"):
        train(settings, tmp_path / "run")
