"""``bitr`` with a process that is killed at a step, once: ``python -m tests.training.dying train …``.

The variable DIE names the rank and the step; processes that torchrun has started again live on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from bitr.cli import main
from bitr.training.step import Trainer

step = Trainer.step


def dying(self: Trainer, batch: Any, number: int, stop: bool) -> Any:
    who = f"{os.environ['RANK']} {number}"
    if who == os.environ["DIE"] and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, batch, number, stop)


if __name__ == "__main__":
    Trainer.step = dying  # type: ignore[method-assign]
    sys.exit(main())
