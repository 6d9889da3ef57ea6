"""A run that is killed at any moment and goes on ends with the same weights, bit for bit, and log."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bitr.settings import to_toml
from bitr.training import train
from bitr.training.folder import read, read_log
from tests.training.cases import TIMES, assert_same_tensors, checkpoints, config, weights, write_folder

ENV = os.environ | {"OMP_NUM_THREADS": "1"}
ROOT = Path(__file__).parents[2]


def rows(run):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_log(run)]


def assert_same_end(run, expected):
    for path in checkpoints(run):
        read(path.read_bytes(), path)
    last = checkpoints(run)[-2:]  # one more is there if it was killed before it removed the oldest
    assert [path.name for path in last] == [path.name for path in checkpoints(expected)]
    for ours, theirs in zip(last, checkpoints(expected), strict=True):
        assert_same_tensors(weights(ours), weights(theirs))
    assert_same_tensors(weights(run / "model.safetensors"), weights(expected / "model.safetensors"))
    assert rows(run) == rows(expected)
    results = [json.loads((path / "result.json").read_text()) for path in (run, expected)]
    assert results[0] | {"seconds": 0} == results[1] | {"seconds": 0}


@pytest.mark.slow
def test_killed_three_times_and_resumed_it_ends_as_if_it_had_not_been(tmp_path):
    settings = config(
        write_folder(tmp_path / "pairs", 4), run_steps=40, run_checkpoint_every=1, run_log_every=3
    )
    (tmp_path / "a.toml").write_text(to_toml(settings))
    train(settings, tmp_path / "whole")
    run, chance, kills = tmp_path / "run", random.Random(0), 0
    command = [
        sys.executable,
        "-m",
        "bitr",
        "train",
        tmp_path / "a.toml",
        "--output",
        run,
        "--resume",
        "--quiet",
    ]
    for step in (chance.randrange(2, 10), chance.randrange(12, 20), chance.randrange(22, 30)):
        process = subprocess.Popen(command, env=ENV, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        while process.poll() is None and newest(run) < step:
            time.sleep(0.01)
        time.sleep(chance.random() / 10)
        process.kill()
        process.wait()
        kills += process.returncode == -signal.SIGKILL
    assert kills
    done = subprocess.run(command, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_same_end(run, tmp_path / "whole")


def newest(run):
    there = checkpoints(run) if (run / "checkpoints").exists() else []
    steps = [int(path.stem.removeprefix("step-")) for path in there if path.name.startswith("step-")]
    return max(steps, default=0)


@pytest.mark.slow
def test_killed_wherever_it_touches_its_folder_it_goes_on_to_the_same_end(tmp_path):
    write_folder(tmp_path / "pairs", 3)
    command = [sys.executable, "-m", "tests.training.crashes", tmp_path, "3"]
    done = subprocess.run(command, env=ENV, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40
    killed = [path for path in tmp_path.iterdir() if path.name.startswith("killed-")]
    assert len(killed) > 13
    for run in killed:
        assert_same_end(run, tmp_path / "whole")
