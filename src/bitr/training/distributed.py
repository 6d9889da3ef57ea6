"""The processes that train together: one, or as many as ``torchrun`` starts, on one machine or many."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from uuid import uuid4

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from bitr.errors import InputError

SETTLING = 0.5  # seconds from the last exchange to the end of a group
PAUSE = 0.02  # seconds between two looks at the store
NOTICES = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Ctrl-C, a scheduler's notice, and the end of the terminal; Windows has none of the last."""


@dataclass(frozen=True)
class Group:
    """This process among the others. With one process every method is the identity."""

    rank: int
    world: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """True in the process that writes files and talks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, the same on each."""
        if self.world > 1:
            distributed.all_reduce(values)
        return values

    def was_restarted(self) -> bool:
        """True if ``torchrun`` has started the processes again after one died, on any machine."""
        count = float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))  # of this machine alone
        return bool(self.sum(torch.tensor(count, device=self.device)) > 0)

    def from_leader(self, value: bytes | None) -> bytes | None:
        """The value that the leading process has."""
        box = [value]
        if self.world > 1:
            distributed.broadcast_object_list(box, device=self.device)
        return box[0]

    def parallel(self, module: nn.Module, all_used: bool) -> nn.Module:
        """The module with gradients averaged over all processes; ``all_used`` saves a search each step."""
        if self.world == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        parallel = nn.parallel.DistributedDataParallel
        return parallel(module, device_ids=devices, find_unused_parameters=not all_used)


@contextmanager
def join(device: str) -> Iterator[Group]:
    """The group that the environment describes, as ``torchrun`` sets it; else this process alone."""
    if "RANK" not in os.environ:
        yield Group(0, 1, _device(device, 0))
        return
    here = _device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if here.type == "cuda":
        torch.cuda.set_device(here)
    store, rank, world = next(rendezvous("env://"))
    store = PrefixStore(agree_on_name(store, rank, world), store)
    backend = "nccl" if here.type == "cuda" else "gloo"
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world)
    try:
        yield Group(rank, world, here)
    finally:
        # gloo's threads let go of their last tensors only when they get Python's lock, and the group's end
        # waits for those threads with the lock in its hand: they must be done before
        time.sleep(SETTLING)
        distributed.destroy_process_group()


def _device(name: str, local_rank: int) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"run.device = {name!r}: expected auto, cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"run.device = {name!r}: not available on this machine")
    return torch.device("cuda", local_rank) if device.type == "cuda" and device.index is None else device


def agree_on_name(store: Store, rank: int, world: int) -> str:
    """A new name that all living processes share; the leading one makes it.

    torchrun keeps one store for all attempts, also what dead processes wrote. So each process greets with a
    word of its own, and takes the name from an answer that repeats the word.
    """
    own = uuid4().hex
    if rank:
        store.set(f"greeting/{rank}", own)
        word, name = "", ""
        while word != own:
            time.sleep(PAUSE)
            word, _, name = store.get(f"answer/{rank}").decode().partition(" ")
        store.set(f"name/{rank}", name)
        return name

    def said(key: str) -> str:
        return store.get(key).decode() if store.check([key]) else ""

    others = range(1, world)
    while any(said(f"name/{other}") != own for other in others):
        for other in others:
            store.set(f"answer/{other}", f"{said(f'greeting/{other}')} {own}")
        time.sleep(PAUSE)
    return own


@contextmanager
def listen_for_stop() -> Iterator[Callable[[], bool]]:
    """A function that is true once Ctrl-C or another notice has come; a second Ctrl-C ends it at once."""
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
