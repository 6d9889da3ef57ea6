"""The jobs of one page: of each kind only the newest waits, and none takes the server down."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

from bitr.errors import InputError
from bitr.viewer.worker import Job, Worker

Kind = Literal["open", "hang", "answer"]
"""Open a pair or the gallery; hang its next picture; answer what is on the page."""

log = logging.getLogger("bitr")


class Jobs:
    """What a page asks of the worker; ``say`` shows a message on the page."""

    def __init__(self, worker: Worker, say: Callable[[str], None]) -> None:
        self.worker, self._say, self._closed = worker, say, False

    def submit(self, kind: Kind, job: Job) -> None:
        self.worker.submit((id(self), kind), lambda: self._guarded(job))

    def drop(self, *kinds: Kind) -> None:
        """Forget what waits."""
        for kind in kinds:
            self.worker.drop((id(self), kind))

    def close(self) -> None:
        """The page is gone: nothing of it is done any more."""
        self._closed = True
        self.drop("open", "hang", "answer")

    def _guarded(self, job: Job) -> None:
        """Whatever happens, the page says it and goes on."""
        if self._closed:
            return
        try:
            job()
        except InputError as error:
            self._say(str(error))
        except Exception as error:
            log.exception("unexpected error in the viewer")
            self._say(f"unexpected {type(error).__name__}: {error}")
