"""Where processes that train together meet, also after torchrun has started them again.

torchrun keeps one store for all attempts, and what dead processes wrote there is still to be read. A new
process may then wait for one that is dead. So each attempt meets under a name of its own.
"""

from __future__ import annotations

import time
from uuid import uuid4

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

PAUSE = 0.02
"""Seconds between two looks at the store."""


def met() -> tuple[Store, int, int]:
    """Store, rank and number of the processes that the environment describes."""
    store, rank, world = next(rendezvous("env://"))
    return PrefixStore(agreed_name(store, rank, world), store), rank, world


def agreed_name(store: Store, rank: int, world: int) -> str:
    """A new name that all living processes share; the leading one makes it.

    Each process greets with a word of its own, and takes the name from an answer that repeats the word, as no
    older answer can. The leading one answers until everyone has said the name.
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
    others = range(1, world)
    while [_said(store, f"name/{other}") for other in others] != [own] * len(others):
        for other in others:
            store.set(f"answer/{other}", f"{_said(store, f'greeting/{other}')} {own}")
        time.sleep(PAUSE)
    return own


def _said(store: Store, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""
