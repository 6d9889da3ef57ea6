"""Ctrl-C and a scheduler's notice end a run between two steps, with a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

NOTICES = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """A function that says whether a notice has come; a second Ctrl-C ends the process at once.

    A scheduler's notice may come twice, from the scheduler and from torchrun, and means the same.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main one hears signals
        yield lambda: False
        return
    before = {notice: signal.getsignal(notice) for notice in NOTICES}
    came: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if number == signal.SIGINT:
            signal.signal(number, before[signal.SIGINT] or signal.SIG_DFL)

    for notice in NOTICES:
        if before[notice] is not signal.SIG_IGN:
            signal.signal(notice, hear)
    try:
        yield lambda: bool(came)
    finally:
        for notice, handler in before.items():
            signal.signal(notice, handler or signal.SIG_DFL)


def in_own_group(worker: int) -> None:
    """For the workers of a run: a notice to all processes of its group does not reach them.

    The run needs them for the step it is at, and ends them when it ends.
    """
    if hasattr(os, "setpgrp"):  # Windows has no groups of processes
        os.setpgrp()
