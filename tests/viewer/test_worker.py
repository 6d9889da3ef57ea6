"""The newest state is answered, stale ones are dropped, and nobody waits for ever."""

import threading

import pytest

from bitr.viewer.worker import Worker


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def gate(worker):
    """Holds the worker in a job until it is opened."""
    started, opened = threading.Event(), threading.Event()
    worker.submit("gate", lambda: (started.set(), opened.wait()))
    assert started.wait(60)
    yield opened
    opened.set()


def finished(worker):
    done = threading.Event()
    worker.submit("last", done.set)
    assert done.wait(60)


def test_only_the_newest_of_what_waits_is_done(worker, gate):
    done = []
    for number in range(100):
        worker.submit("drag", lambda number=number: done.append(number))
    gate.set()
    finished(worker)
    assert done == [99]


def test_keys_take_turns(worker, gate):
    done = []

    def again(key, left):
        done.append(key)
        if left:
            worker.submit(key, lambda: again(key, left - 1))

    for key in ("a", "b"):
        worker.submit(key, lambda key=key: again(key, 3))
    gate.set()
    while len(done) < 8:
        finished(worker)
    assert done == ["a", "b"] * 4


def test_what_was_dropped_is_not_done(worker, gate):
    done = []
    worker.submit("gone", lambda: done.append(1))
    worker.drop("gone")
    worker.drop("never there")
    gate.set()
    finished(worker)
    assert done == []


def test_a_job_that_fails_does_not_stop_the_next(worker):
    worker.submit("bad", lambda: 1 / 0)
    finished(worker)


def test_closing_waits_for_the_job_at_hand_and_does_no_other():
    worker, done = Worker(), []
    started, opened = threading.Event(), threading.Event()
    worker.submit("at hand", lambda: (started.set(), opened.wait(), done.append("at hand")))
    assert started.wait(60)
    worker.submit("waits", lambda: done.append("waits"))
    threading.Timer(0.05, opened.set).start()
    worker.close()
    assert done == ["at hand"]
