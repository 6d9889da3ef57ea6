"""``bitr train``: one clear line for whatever goes wrong, and the checkpoint before it is intact."""

import errno
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bitr.cli import main
from bitr.cli.train import Records
from bitr.errors import InputError
from bitr.settings import from_file, to_toml
from bitr.training import TrainConfig
from bitr.training.config import DataConfig, config_file
from bitr.training.folder import LOCK, Record, own_folder, read
from bitr.training.step import Trainer
from bitr.training.stream import sources
from tests.training.cases import assert_same_tensors, changed, checkpoints, config, weights, write_folder

RECORD = Record(2, 0.5, 1.25, 0.5, 90.0, 0.1, 80.0, 1e-3, 2.0, 30.0, 0.25, 0)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("pairs"), 3)


@pytest.fixture
def toml(tmp_path, pairs):
    path = tmp_path / "tiny.toml"
    path.write_text(to_toml(config(pairs, run_steps=2, run_checkpoint_every=1, run_log_every=1)))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, pairs):
    """A config and the run that it made."""
    folder = tmp_path_factory.mktemp("finished")
    settings = config(pairs, run_steps=2, run_checkpoint_every=1, run_log_every=1)
    (folder / "tiny.toml").write_text(to_toml(settings))
    assert main(["train", str(folder / "tiny.toml"), "--output", str(folder / "run"), "--quiet"]) == 0
    return folder / "tiny.toml", folder / "run"


def refused(capsys, *arguments, status=2):
    """The one line that is said."""
    assert main(["train", *map(str, arguments)]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("bitr: ")
    return err


def assert_intact(run, count):
    found = checkpoints(run)
    assert len(found) == count
    for path in found:
        read(path.read_bytes(), path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run = 3", "tiny.toml: found run = 3, expected a table"),
        ("[run]\nstps = 3", "tiny.toml: unknown setting run.stps; did you mean run.steps?"),
        ("[run]\nsteps = 0", "tiny.toml: run.steps = 0: expected 1 to 1e+09"),
        ("[model]\nchannels = 3", "tiny.toml: channels = 3 is not a multiple of num_heads = 2"),
        ("[run", "tiny.toml: not TOML"),
        ('[run]\ndevice = "toaster"', "run.device = 'toaster': expected auto, cpu, cuda or cuda:0"),
    ],
)
def test_a_bad_config_is_one_line(capsys, tmp_path, text, says):
    (tmp_path / "tiny.toml").write_text(text)
    assert says in refused(capsys, tmp_path / "tiny.toml", "-o", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_config_that_is_not_there_is_one_line_that_names_those_that_come_with_bitr(capsys, tmp_path):
    said = refused(capsys, tmp_path / "none.toml")
    assert "none.toml: no such file" in said
    assert "bunny" in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("run.steps", "--set run.steps: expected a.b=value"),
        ("run.steps=many", "found run.steps = 'many', expected a whole number"),
        ("steps=3", "unknown setting steps; expected one of data, model, loss, optimizer, run"),
    ],
)
def test_a_bad_change_is_one_line(capsys, toml, change, says):
    assert says in refused(capsys, toml, "--set", change)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "bunny",
            "bunny: not found, the variable BITR_DATA names no folder of data sets; to get it: bitr data",
        ),
        ("bunyn", "bunyn: no such data set, expected one of"),
        ("none/of/these", "none/of/these: no such data set"),
    ],
)
def test_missing_data_is_one_line(capsys, monkeypatch, tmp_path, name, says):
    monkeypatch.delenv("BITR_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, "--set", f"data.name={name}")
    assert list(tmp_path.iterdir()) == []


def test_one_pair_alone_is_one_line(capsys, tmp_path):
    write_folder(tmp_path / "pairs", 1)
    said = refused(capsys, "--set", f"data.name={tmp_path / 'pairs'}", "-o", tmp_path / "run")
    assert "1 pair to train with, expected at least 2: one is held out" in said


@pytest.mark.slow
def test_a_pair_that_a_worker_finds_damaged_is_one_line_that_names_its_file(tmp_path, toml, pairs):
    copy = Path(shutil.copytree(pairs, tmp_path / "pairs"))
    learned = sources(DataConfig(name=str(copy)))[0]
    for row in learned.rows:
        np.save(copy / f"pair-{row}" / "reference.npy", np.ones((2, 3)))
    changes = ["--set", f"data.name={copy}", "--set", "data.workers=1"]
    done = bitr("train", toml, *changes, "-o", tmp_path / "run")
    assert done.returncode == 2
    assert re.search(r"\nbitr: \S+/pair-\d/reference\.npy: only 2 points with.*\n\Z", done.stderr)


def test_a_file_in_the_way_is_one_line(capsys, tmp_path, toml):
    (tmp_path / "file").write_text("mine")
    assert "is a file, expected a folder" in refused(capsys, toml, "-o", tmp_path / "file")
    below = refused(capsys, toml, "-o", tmp_path / "file" / "run")
    assert "cannot be made (Not a directory); choose another --output" in below
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_is_one_line(capsys, tmp_path, toml):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "cannot be made (Permission denied)" in refused(capsys, toml, "-o", tmp_path / "locked" / "run")
    (tmp_path / "open" / "checkpoints").mkdir(parents=True)
    (tmp_path / "open").chmod(0o500)
    assert "cannot be written to" in refused(capsys, toml, "-o", tmp_path / "open")


def test_a_run_that_is_there_is_not_begun_again(capsys, finished):
    toml, run = finished
    assert "holds a run already; go on with --resume, or choose another" in refused(
        capsys, toml, "--output", run
    )
    assert_intact(run, 2)


def test_a_second_training_in_one_folder_is_refused_and_names_the_first(capsys, tmp_path, finished):
    toml, made = finished
    run = Path(shutil.copytree(made, tmp_path / "run"))
    with own_folder(run, resume=True):
        for option in ([], ["--resume"]):
            said = refused(capsys, toml, "--output", run, *option)
            assert f"{run}: process {os.getpid()} on {socket.gethostname()} is training here" in said
    assert not (run / LOCK).exists()


@pytest.mark.slow
def test_a_lock_that_a_killed_process_left_is_nobodys(capsys, tmp_path, finished):
    toml, made = finished
    run = Path(shutil.copytree(made, tmp_path / "run"))
    holder = "from bitr.training.folder import own_folder; from pathlib import Path; import os, sys\n"
    holder += "with own_folder(Path(sys.argv[1]), True): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", holder, run]).returncode == -signal.SIGKILL
    assert (run / LOCK).exists()
    for text in ((run / LOCK).read_text(), f"process {os.getpid()} on another-host\n", ""):
        (run / LOCK).write_text(text)
        assert main(["train", str(toml), "--output", str(run), "--resume", "--quiet"]) == 0
        assert not (run / LOCK).exists()


def test_without_locks_the_process_that_is_named_decides(monkeypatch, tmp_path):
    monkeypatch.setattr("bitr.files._lock", lambda file: None)
    (tmp_path / LOCK).write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
    with pytest.raises(InputError, match="is training here"), own_folder(tmp_path, resume=True):
        pass
    (tmp_path / LOCK).write_text(f"process 4194305 on {socket.gethostname()}\n")  # beyond Linux's largest
    with own_folder(tmp_path, resume=True):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()


def test_a_terminal_that_is_gone_does_not_end_training(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(sys, "stderr", Gone())
    Records(None).recorded(RECORD)


def test_other_settings_do_not_go_on(capsys, finished):
    toml, run = finished
    said = refused(capsys, toml, "--output", run, "--resume", "--set", "run.batch=3")
    assert "was begun with run.batch = 2, and 3 is asked for" in said
    assert_intact(run, 2)


def test_a_corrupt_checkpoint_is_a_line_and_the_one_before_is_taken(capsys, tmp_path, finished):
    toml, made = finished
    run = Path(shutil.copytree(made, tmp_path / "run"))
    newest = checkpoints(run)[-1]
    newest.write_bytes(newest.read_bytes()[:-9])
    assert main(["train", str(toml), "--output", str(run), "--resume", "--quiet"]) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith(f"{newest}: damaged")
    assert err[1].startswith("training on ")
    assert err[2] == "going on from step 1 of 2"
    assert_intact(run, 2)
    assert_same_tensors(weights(run), weights(made))


def test_checkpoints_that_are_all_corrupt_are_one_line_and_left_alone(capsys, tmp_path, finished):
    toml, made = finished
    run = Path(shutil.copytree(made, tmp_path / "run"))
    for path in checkpoints(run):
        path.write_bytes(b"nothing")
    assert "none of its 2 checkpoints can be read" in refused(capsys, toml, "--output", run, "--resume")
    assert [path.read_bytes() for path in checkpoints(run)] == [b"nothing"] * 2


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(
    capsys, monkeypatch, tmp_path, finished
):
    toml, made = finished
    run = tmp_path / "run"

    def full(handle):
        if (run / "checkpoints" / "step-000000001.safetensors").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bitr.files.os.fsync", full)
    assert main(["train", str(toml), "--output", str(run), "--quiet"]) == 1
    err = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in err[1:-1]] == ["step 1"]
    assert err[-1].startswith(f"bitr: {run}: no space left on the disk; the checkpoints there are whole")
    assert_intact(run, 1)
    monkeypatch.undo()
    assert main(["train", str(toml), "--output", str(run), "--quiet", "--resume"]) == 0
    assert_same_tensors(weights(run), weights(made))
    assert_intact(run, 2)


def test_a_disk_that_is_full_from_the_start_is_one_line(capsys, monkeypatch, tmp_path, toml):
    def full(handle):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr("bitr.files.os.fsync", full)
    said = refused(capsys, toml, "-o", tmp_path / "run", status=1)
    assert "no space left on the disk" in said


def test_a_picture_that_finds_no_room_is_no_failure(capsys, monkeypatch, tmp_path, toml):
    def full(folder, title):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bitr.training.folder.draw_curves", full)
    assert main(["train", str(toml), "--output", str(tmp_path / "run"), "--set", "run.steps=1"]) == 0
    out, err = capsys.readouterr()
    assert err.endswith("no curves.png: No space left on device\n")
    assert "curves" not in out


def bitr(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "bitr", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        **options,
    )


def own_mount(folder, options, *commands):
    """Runs the commands where a small file system of its own is mounted on the folder."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"]).returncode:
        pytest.skip("file systems cannot be mounted here")
    folder.mkdir()
    mount = f"mount -t tmpfs -o {options} tmpfs {folder} || exit 77"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", "\n".join([mount, *commands])],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if done.returncode == 77:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    return done


@pytest.mark.slow
@pytest.mark.parametrize("room", [1.4, 1.9])
def test_a_small_file_system_that_gets_full_is_one_line(tmp_path, finished, room):
    """With room for one checkpoint and not for the weights beside it, and for one with the weights."""
    toml, made = finished
    run, size = tmp_path / "small" / "run", round(room * checkpoints(made)[0].stat().st_size)
    command = f"{sys.executable} -m bitr train {toml} --set run.validate_every=2 --output {run} --quiet"
    done = own_mount(
        tmp_path / "small", f"size={size}", f"{command}; status=$?; cp -r {run} {tmp_path}; exit $status"
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert [line for line in lines if not line.startswith("step ")] == [lines[0], lines[-1]]
    assert lines[-1].startswith(f"bitr: {run}: no space left on the disk; the checkpoints there are whole")
    assert_intact(tmp_path / "run", 1)


@pytest.mark.slow
def test_a_file_system_that_is_read_only_is_one_line(tmp_path, toml):
    run = tmp_path / "locked" / "run"
    done = own_mount(
        tmp_path / "locked", "size=100k,ro", f"{sys.executable} -m bitr train {toml} --output {run}"
    )
    assert done.returncode == 2
    assert done.stderr == f"bitr: {run}: cannot be made (Read-only file system); choose another --output\n"


def test_the_effective_config_reads_back_to_the_same(capsys, tmp_path, toml):
    changes = [
        "--set",
        "optimizer.rate=0.5",
        "--set",
        "data.noise=0.25",
        "--init-from",
        "default",
        "--compile",
    ]
    assert main(["train", str(toml), *changes, "--dump-config"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    (tmp_path / "dumped.toml").write_text(out)
    expected = changed(from_file(TrainConfig, toml), "run", init_from="default", compile=True)
    expected = changed(changed(expected, "optimizer", rate=0.5), "data", noise=0.25)
    assert from_file(TrainConfig, tmp_path / "dumped.toml") == expected
    assert main(["train", str(tmp_path / "dumped.toml"), "--dump-config"]) == 0
    assert capsys.readouterr().out == out


def test_without_a_config_there_are_the_defaults(capsys, tmp_path):
    assert main(["train", "--dump-config"]) == 0
    (tmp_path / "dumped.toml").write_text(capsys.readouterr().out)
    assert from_file(TrainConfig, tmp_path / "dumped.toml") == TrainConfig()


@pytest.mark.parametrize("path", sorted(config_file("bunny").parent.glob("*.toml")), ids=lambda p: p.stem)
def test_every_config_that_comes_with_bitr_can_be_used_by_its_name(capsys, path):
    assert main(["train", path.stem, "--dump-config"]) == 0
    assert capsys.readouterr().out == to_toml(from_file(TrainConfig, path))


@pytest.mark.slow
def test_json_is_one_object_and_lines_are_for_people(capsys, tmp_path, toml):
    assert main(["train", str(toml), "--output", str(tmp_path / "run"), "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["steps"] == 2
    lines = err.splitlines()
    assert re.fullmatch(r"training on \S+: 2 pairs, 1 held out", lines[0])
    assert [line.split("  ")[0] for line in lines[1:]] == ["step 1", "step 2"]
    assert "held out" not in lines[1]
    assert "held out: loss" in lines[2]
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_end_tells_figures_weights_curves_and_what_is_next(capsys, monkeypatch, tmp_path, toml, pairs):
    monkeypatch.chdir(tmp_path)
    assert main(["train", toml.name, "--set", "run.steps=1"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert re.match(rf"{pairs}: held-out Δr mean \d+\.\d°, median \d+\.\d° \(chance 126\.5°\)", first)
    assert second == "weights: runs/tiny/model.safetensors; curves: runs/tiny/curves.png"
    assert third == "next: bitr assemble SRC REF --model runs/tiny"
    assert_intact(tmp_path / "runs" / "tiny", 1)


def test_without_matplotlib_there_is_a_line_in_place_of_curves(capsys, monkeypatch, tmp_path, toml):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["train", str(toml), "--output", str(tmp_path / "run"), "--set", "run.steps=1"]) == 0
    assert 'pip install -e ".[viz]"' in capsys.readouterr().err
    assert not (tmp_path / "run" / "curves.png").exists()


def notice_at(monkeypatch, step, *notices):
    real = Trainer.step

    def heard(self, batch, number, stop):
        for notice in notices if number == step else ():
            signal.raise_signal(notice)
        return real(self, batch, number, stop)

    monkeypatch.setattr(Trainer, "step", heard)


@pytest.mark.parametrize("notice", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_is_a_line_and_status_130(capsys, monkeypatch, tmp_path, toml, notice):
    notice_at(monkeypatch, 0, notice, notice)
    before = signal.signal(
        notice, signal.SIG_DFL
    )  # under nohup the tests would not hear it, nor would a training
    try:
        assert main(["train", str(toml), "--output", str(tmp_path / "run"), "--set", "run.steps=9"]) == 130
    finally:
        signal.signal(notice, before)
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"bitr: stopped; {tmp_path / 'run'} has a checkpoint, go on with --resume"
    assert_intact(tmp_path / "run", 2)


def test_a_stop_before_the_first_checkpoint_promises_none(capsys, monkeypatch, tmp_path, toml):
    notice_at(monkeypatch, 0, signal.SIGINT, signal.SIGINT)
    assert main(["train", str(toml), "--output", str(tmp_path / "run")]) == 130
    said = capsys.readouterr().err.splitlines()
    assert said[1:] == [f"bitr: stopped; {tmp_path / 'run'} has no checkpoint yet"]


@pytest.mark.slow
def test_a_notice_to_all_processes_of_a_run_leaves_a_checkpoint(tmp_path, toml):
    """As a scheduler's, or Ctrl-C in a terminal: the workers hear it too."""
    run = tmp_path / "run"
    changes = [
        "run.steps=100000",
        "data.workers=1",
        "run.checkpoint_every=100000",
        "run.validate_every=100000",
    ]
    command = [sys.executable, "-m", "bitr", "train", toml, "--output", run, "--quiet"]
    command += [part for change in changes for part in ("--set", change)]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    log = run / "log.csv"
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 3):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    err = process.communicate(timeout=120)[1].splitlines()
    assert process.returncode == 130, err
    assert [line for line in err if not line.startswith(("step ", "training on "))] == [
        f"bitr: stopped; {run} has a checkpoint, go on with --resume"
    ]
    assert_intact(run, 1)


def test_too_many_steps_that_are_not_finite_are_a_line_and_status_1(capsys, monkeypatch, tmp_path, toml):
    real = Trainer.step
    monkeypatch.setattr(
        Trainer, "step", lambda self, batch, n, stop: replace(real(self, batch, n, stop), taken=False)
    )
    options = ["--set", "run.skips=2", "--set", "run.steps=9", "--set", "run.log_every=9", "--quiet"]
    assert main(["train", str(toml), "--output", str(tmp_path / "run"), *options]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["step 1", "step 2", "bitr"]
    assert lines[3].startswith("bitr: 2 steps in a row had a loss or gradient that is not finite")
    assert_intact(tmp_path / "run", 2)


def test_beside_a_bar_validations_and_notes_are_lines(capsys):
    counts = []
    listener = Records(lambda step, steps: counts.append((step, steps)))
    listener.started(4, 10, "training on a, a stand-in for b")
    listener.recorded(RECORD)
    listener.noted("a note [with] brackets\nand a break")
    held_out = {"val_loss": 0.25, "val_rotation_deg": 30.0, "val_median_deg": 20.0, "val_displacement": 0.04}
    listener.recorded(replace(RECORD, step=6, **held_out))
    data, first, note, last = capsys.readouterr().err.splitlines()
    assert data == "training on a, a stand-in for b"
    assert first == "going on from step 4 of 10"
    assert note == "a note [with] brackets\\nand a break"
    assert last.startswith("step 6 ")
    assert last.endswith(
        "held out: loss 0.250  Δr 30.0° (median 20.0°)  displacement 0.040 of the pair's size"
    )
    assert counts == [(2, 10), (6, 10)]


STAND_IN = ["--set", "data.name=bunny", "--set", "data.stand_in=bunny-stand-in", "--set", "run.steps=1"]


@pytest.mark.slow
def test_a_stand_in_is_said_at_the_start_in_the_summary_and_in_the_record_and_measured_on(
    capsys, monkeypatch, tmp_path, toml
):
    monkeypatch.delenv("BITR_DATA", raising=False)
    run = tmp_path / "run"
    assert main(["train", str(toml), *STAND_IN, "--set", "data.val_pairs=2", "--output", str(run)]) == 0
    out, err = capsys.readouterr()
    assert err.splitlines()[0] == (
        "training on bunny-stand-in, a stand-in for bunny, which is not here: 1000 pairs, 2 held out; to get "
        "bunny: bitr data fetch bunny"
    )
    assert out.startswith("bunny-stand-in (stand-in for bunny): held-out")
    assert out.splitlines()[-1] == f"next: bitr evaluate {run} bunny-stand-in"
    for record in ("result.json", "split.json"):
        assert json.loads((run / record).read_text())["data"] == "bunny-stand-in (stand-in for bunny)"
    assert main(["evaluate", str(run), "bunny", "--fast", "--limit", "1", "--samplings", "1"]) == 0
    out, err = capsys.readouterr()
    assert "dataset bunny-stand-in" in out
    note = f"stand-in for bunny, which is not here; {run} was trained on it too"
    assert f"note {note}" in out
    assert err == f"bitr: bunny-stand-in: {note}; to get bunny: bitr data fetch bunny\n"


def test_a_run_does_not_go_on_from_its_stand_in_to_the_data_itself(capsys, tmp_path, toml, real_data):
    run = tmp_path / "run"
    begin = [toml, *STAND_IN, "--set", f"data.root={tmp_path}", "--set", "data.val_pairs=2", "--output", run]
    assert main(["train", *map(str, begin)]) == 0
    capsys.readouterr()
    begin[begin.index(f"data.root={tmp_path}")] = f"data.root={real_data}"
    said = refused(capsys, *begin, "--resume")
    assert "was begun on bunny-stand-in (stand-in for bunny), and bunny is what is here now" in said


def test_pairs_that_were_trained_on_are_no_test_wherever_they_lie(capsys, tmp_path, finished, pairs):
    _, run = finished
    copy = Path(shutil.copytree(pairs, tmp_path / "elsewhere"))
    (copy / "pair-0").rename(copy / "renamed")
    assert main(["evaluate", str(run), str(copy), "--fast", "--json"]) == 0
    out, err = capsys.readouterr()
    note = "2 of 3 pairs left out, which the weights were trained on; 1 of the 1 others chose the weights"
    assert err == f"bitr: {copy}: {note}\n"
    found = json.loads(out)
    held_out = json.loads((run / "split.json").read_text())["val"]["ids"]
    assert found["note"] == note
    scores = found["rows"][0]["samplings"][0]["scores"]
    assert [score["id"].replace("renamed", "pair-0") for score in scores] == held_out
    shutil.rmtree(copy / scores[0]["id"])
    assert main(["evaluate", str(run), str(copy), "--fast"]) == 2
    assert "trained on all of its 2 pairs, expected others to measure on" in capsys.readouterr().err


@pytest.mark.slow
def test_new_pairs_are_measured_on_and_what_first_weights_were_trained_on_is_known(
    capsys, tmp_path, finished, pairs
):
    toml, run = finished
    others = write_folder(tmp_path / "others", 3, first=10)
    changes = ["--set", f"data.name={others}", "--init-from", str(run), "--set", "run.steps=1"]
    assert main(["train", str(toml), *changes, "--output", str(tmp_path / "second")]) == 0
    capsys.readouterr()
    for folder, left in ((pairs, 1), (others, 1)):
        assert main(["evaluate", str(tmp_path / "second"), str(folder), "--fast", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert len(found["rows"][0]["samplings"][0]["scores"]) == left
    assert main(["evaluate", str(run), str(others), "--fast", "--json"]) == 0
    out, err = capsys.readouterr()
    assert (err, "note" in json.loads(out)) == ("", False)


def test_the_help_has_an_example(capsys):
    assert main(["train", "--help"]) == 0
    assert "example: bitr train configs/bunny.toml" in re.sub(r"\s+", " ", capsys.readouterr().out)
