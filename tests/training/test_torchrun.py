"""Two processes that share every batch do what one does, and go on when one of them is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bitr.settings import to_toml
from bitr.training import train
from bitr.training.folder import read_log
from tests.training.cases import TIMES, assert_same_tensors, checkpoints, config, weights, write_folder

ROOT = Path(__file__).parents[2]
STEPS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Seven pairs of different sizes: five to train with, and two held out."""
    return write_folder(tmp_path_factory.mktemp("pairs"), 7)


def settings(folder, batch):
    run = {"run_steps": STEPS, "run_checkpoint_every": 1, "run_log_every": 1, "run_keep": 9}
    return config(folder, run_batch=batch, **run)


def torchrun(folder, out, batch, *options, module="bitr", **env):
    path = out.with_suffix(".toml")
    path.write_text(to_toml(settings(folder, batch)))
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        *options,
    ]
    done = subprocess.run(
        [*launch, "-m", module, "train", path, "--output", out, "--quiet", "--json"],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def two(tmp_path_factory, folder):
    """A run of two processes with a batch that does not divide evenly, and what it printed."""
    out = tmp_path_factory.mktemp("two") / "run"
    return out, torchrun(folder, out, 5)


def assert_as_one(out, folder, batch, tmp_path):
    """To the rounding of float32: sums are taken in another order."""
    train(settings(folder, batch), tmp_path / "one")
    ours, theirs = read_log(out), read_log(tmp_path / "one")
    assert len(ours) == STEPS
    for row, expected in zip(ours, theirs, strict=True):
        assert row["epoch"] == expected["epoch"]
        for name in expected.keys() - {*TIMES}:
            assert row[name] == (None if expected[name] is None else pytest.approx(expected[name], rel=1e-3))
    assert (out / "split.json").read_text() == (tmp_path / "one" / "split.json").read_text()
    first, first_of_one = (weights(checkpoints(run)[0]) for run in (out, tmp_path / "one"))
    gradients = [name for name in first if name.startswith("optimizer/exp_avg/")]  # a tenth, after one step
    assert gradients
    size = max(float(first_of_one[name].abs().max()) for name in gradients)
    for name in gradients:
        torch.testing.assert_close(first[name], first_of_one[name], rtol=1e-4, atol=1e-5 * size)


@pytest.mark.slow
def test_two_processes_give_the_gradient_and_losses_of_one_also_with_uneven_shares(two, folder, tmp_path):
    assert_as_one(two[0], folder, 5, tmp_path)


@pytest.mark.slow
def test_two_processes_give_the_gradient_and_losses_of_one_with_even_shares(folder, tmp_path):
    torchrun(folder, tmp_path / "run", 4)
    assert_as_one(tmp_path / "run", folder, 4, tmp_path)


@pytest.mark.slow
def test_only_one_of_two_processes_talks(two):
    out, done = two
    result = json.loads(done.stdout)
    assert result["processes"] == 2
    assert result == json.loads((out / "result.json").read_text())
    assert [line.split()[:2] for line in done.stderr.splitlines() if line.startswith("step ")] == [
        ["step", str(step)] for step in range(1, STEPS + 1)
    ]


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again_and_training_goes_on(two, folder, tmp_path):
    out = tmp_path / "run"
    done = torchrun(folder, out, 5, "--max-restarts", "1", module="tests.training.dying", DIE="1 3")
    assert f"going on from step 3 of {STEPS}" in done.stderr
    assert_same_tensors(weights(out), weights(two[0]))
    assert_same_tensors(weights(out / "model.safetensors"), weights(two[0] / "model.safetensors"))
    ours, theirs = (
        [{k: v for k, v in row.items() if k not in TIMES} for row in read_log(run)] for run in (out, two[0])
    )
    assert ours == theirs
