"""The processes that train together: one, or as many as ``torchrun`` starts, on one machine or many."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn

from bitr.errors import InputError
from bitr.training.rendezvous import met

SETTLING = 0.5
"""Seconds from the last exchange to the end of a group."""


@dataclass(frozen=True)
class Group:
    """This process among the others. With one process every method is the identity."""

    rank: int
    world: int
    device: torch.device

    @property
    def leads(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, the same on each."""
        if self.world > 1:
            distributed.all_reduce(values)
        return values

    def restarted(self) -> bool:
        """Whether ``torchrun`` has started the processes again after one died, on this machine or another."""
        count = float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))  # of this machine alone
        return bool(self.sum(torch.tensor(count, device=self.device)) > 0)

    def from_leader(self, value: bytes | None) -> bytes | None:
        """What the leading process has."""
        if self.world > 1:
            box = [value]
            distributed.broadcast_object_list(box, device=self.device)
            value = box[0]
        return value

    def parallel(self, module: nn.Module, all_used: bool) -> nn.Module:
        """The module with gradients averaged over all processes.

        Unless ``all_used``, each step looks for parameters that have no gradient.
        """
        if self.world == 1:
            return module
        return nn.parallel.DistributedDataParallel(
            module,
            device_ids=[self.device] if self.device.type == "cuda" else None,
            find_unused_parameters=not all_used,
        )


@contextmanager
def joined(device: str) -> Iterator[Group]:
    """The group that the environment describes, as ``torchrun`` sets it; else this process alone."""
    if "RANK" not in os.environ:
        yield Group(0, 1, _device(device, 0))
        return
    here = _device(device, int(os.environ.get("LOCAL_RANK", "0")))
    if here.type == "cuda":
        torch.cuda.set_device(here)
    store, rank, world = met()
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
