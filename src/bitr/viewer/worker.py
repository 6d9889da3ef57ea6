"""One thread that does what is newest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable

Job = Callable[[], None]

log = logging.getLogger("bitr")


class Worker:
    """Does jobs one after the other. Of the jobs that wait under one key only the newest is done.

    So an answer is never behind by more than the one at hand, however fast a piece is dragged; and keys take
    turns, so that nobody who drags without a break keeps the others waiting.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Job] = {}
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="bitr-viewer", daemon=True)
        self._thread.start()

    def submit(self, key: Hashable, job: Job) -> None:
        """Do the job when it is its key's turn, in place of one that waits under the same key."""
        with self._news:
            self._waiting[key] = job
            self._news.notify()

    def drop(self, key: Hashable) -> None:
        """Forget the job that waits under a key."""
        with self._news:
            self._waiting.pop(key, None)

    def close(self) -> None:
        """End after the job at hand; what waits is not done."""
        with self._news:
            self._ended = True
            self._waiting.clear()
            self._news.notify()
        self._thread.join()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except Exception:  # one page must not stop the others
                log.exception("unexpected error in the viewer")

    def _next(self) -> Job | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._ended)
            return None if self._ended else self._waiting.pop(next(iter(self._waiting)))
