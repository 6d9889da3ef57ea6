"""A compiled run: the same losses, and not compiled anew for every batch.

In a process of its own: the shape checks that the tests put around functions are not part of the model.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.cases import write_folder

SCRIPT = """
import sys
from functools import partial
from pathlib import Path

import torch
from torch._dynamo.utils import counters

from bitr.training import train
from tests.training.cases import Heard, changed, config

torch.set_num_threads(1)
torch.compile = partial(torch.compile, backend="aot_eager")  # as far as it goes without a C++ compiler
folder = Path(sys.argv[1])
settings = config(folder / "pairs", run_steps=4, run_log_every=1, run_validate_every=4)
plain, compiled = Heard(), Heard()
train(settings, folder / "plain", listener=plain)
assert not counters["stats"]
train(changed(settings, "run", compile=True), folder / "compiled", listener=compiled)
assert counters["stats"]["unique_graphs"] > 0
for ours, theirs in zip(compiled.records, plain.records, strict=True):
    assert abs(ours.loss - theirs.loss) < 1e-2 * theirs.loss, (ours, theirs)
print(counters["stats"]["unique_graphs"])
"""


@pytest.mark.slow
def test_a_compiled_run_has_the_same_losses_and_one_graph(tmp_path):
    for first in (0, 5, 10, 15):
        write_folder(tmp_path / "pairs", 1, first=first)  # all of the same size
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == 1
