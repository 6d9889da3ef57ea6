import io
import logging
import sys

import pytest

from bitr.cli.options import log, session
from bitr.errors import InputError


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_is_shown_steps_and_counts(monkeypatch):
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with session(verbose=False, counted=True) as on_row:
        log.info("pair %s", "[red]\n")
        on_row(3, 7)
    assert "pair [red]\\n" in screen.getvalue()
    assert "3/7" in screen.getvalue()


def test_without_a_terminal_it_is_silent(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    with session(verbose=False, counted=True) as on_row:
        log.info("a step")
        on_row(1, 2)
    assert screen.getvalue() == ""


def test_afterwards_the_logger_is_as_before():
    before = log.level, list(log.handlers)
    for error in (InputError("bad"), RuntimeError("worse")):
        with pytest.raises(type(error)), session(verbose=True):
            raise error
        assert (log.level, list(log.handlers)) == before
    with session(verbose=True):
        assert log.level == logging.DEBUG
    assert (log.level, list(log.handlers)) == before
