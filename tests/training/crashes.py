"""Dies wherever a run touches its folder and goes on; prints how often a run that does not die touches it.

Run as ``python -m tests.training.crashes FOLDER EVERY``: FOLDER holds the pairs in ``pairs``, and of the
moments every so many is tried. Forks are cheap: bitr is imported once.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch

from bitr.training import train
from tests.training.cases import config

EVENTS = ("open", "os.rename", "os.remove", "os.mkdir")


def watch(folder: str, last: int) -> list[str]:
    """Counts what the run does to its folder, and dies just before doing it for the last time."""
    done: list[str] = []

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event in EVENTS and str(arguments[0]).startswith(folder):
            done.append(event)
            if len(done) == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    return done


def run(folder: Path, out: Path, last: int, resume: bool) -> int:
    """How often a process of its own that trains touches its folder until it ends; 0 when it dies."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        done = watch(str(out), last)
        settings = config(folder / "pairs", run_steps=3, run_checkpoint_every=1, run_log_every=1, run_batch=1)
        train(settings, out, resume=resume)
        os.write(write, str(len(done)).encode())
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    os.close(write)
    with os.fdopen(read) as pipe:
        touched = pipe.read()
    if resume and status:
        raise SystemExit(f"a run that was killed at {last} could not go on")
    return int(touched or 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.modules["torch.utils.tensorboard"] = None  # type: ignore[assignment]  # its files are nobody's concern
    folder, every = Path(sys.argv[1]), int(sys.argv[2])
    total = run(folder, folder / "whole", 0, resume=False)
    for moment in range(1, total + 1, every):
        run(folder, folder / f"killed-{moment}", moment, resume=False)
        run(folder, folder / f"killed-{moment}", 0, resume=True)
    print(total)
