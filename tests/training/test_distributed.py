"""One process among others: devices by name, notices from outside."""

import signal
import threading

import pytest
import torch
from torch.distributed import HashStore

from bitr.errors import InputError
from bitr.training.distributed import Group, agree_on_name, join, listen_for_stop


def test_alone_every_method_is_the_identity():
    with join("auto") as group:
        assert (group.rank, group.world, group.leads, group.was_restarted()) == (0, 1, True, False)
        values = torch.ones(3)
        assert group.sum(values) is values
        assert group.from_leader(b"x") == b"x"
        module = torch.nn.Linear(1, 1)
        assert group.parallel(module, all_used=True) is module


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nonsense", r"run\.device = 'nonsense': expected auto, cpu, cuda or cuda:0"),
        ("meta", "not available on this machine"),
        pytest.param(
            "cuda",
            "not available on this machine",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
    ],
)
def test_devices_that_are_not_there(name, says):
    with pytest.raises(InputError, match=says), join(name):
        pass


def test_a_restart_by_torchrun_is_known(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert Group(0, 1, torch.device("cpu")).was_restarted()


def names_of(store, world, order):
    """What the processes of one attempt agree on, that come in this order."""
    found = {}
    threads = {
        rank: threading.Thread(
            target=lambda rank=rank: found.update({rank: agree_on_name(store, rank, world)}), daemon=True
        )
        for rank in order
    }
    for rank in order:
        threads[rank].start()
        threads[rank].join(0.1)
    for thread in threads.values():
        thread.join(20)
    assert len(found) == world  # nobody waits for the dead
    return set(found.values())


def test_every_attempt_agrees_on_a_name_of_its_own_whoever_comes_first():
    """torchrun's store still has what the processes of the attempts before wrote."""
    store = HashStore()
    names = [names_of(store, 3, order) for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0))]
    assert all(len(agreed) == 1 for agreed in names)
    assert len(set.union(*names)) == 4
    assert len(names_of(HashStore(), 1, (0,))) == 1


@pytest.mark.parametrize(("notice", "second"), [(signal.SIGINT, ["own"]), (signal.SIGTERM, [])])
def test_a_notice_is_heard_and_a_second_ctrl_c_does_what_it_did_before(notice, second):
    """A scheduler's notice may come twice, and the checkpoint is still to be written."""
    came = []
    before = signal.signal(notice, lambda *_: came.append("own"))
    try:
        with listen_for_stop() as stopping:
            assert not stopping()
            signal.raise_signal(notice)
            assert stopping()
            assert came == []
            signal.raise_signal(notice)
            assert came == second
        signal.raise_signal(notice)
        assert came == [*second, "own"]
    finally:
        signal.signal(notice, before)


def test_a_notice_that_is_ignored_stays_so():
    """As Ctrl-C is by what runs in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with listen_for_stop() as stopping:
            signal.raise_signal(signal.SIGINT)
            assert not stopping()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_hears_nothing_and_does_not_fail():
    heard = []

    def run():
        with listen_for_stop() as stopping:
            heard.append(stopping())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert heard == [False]
