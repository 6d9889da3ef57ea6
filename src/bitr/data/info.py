"""What is known of a data set before it is opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bitr.data.pair import AssemblyPair

Open = Callable[[str, "Path | None", int], Sequence[AssemblyPair]]
"""(split, root, seed) → pairs. The same arguments give the same pairs; another seed samples them anew."""


@dataclass(frozen=True)
class DatasetInfo:
    """One experiment's data: how it is called, where it comes from, and how it is opened."""

    name: str
    title: str
    """One line for ``bitr data list``."""
    section: str
    """Where the paper uses it, as "Sec. 6.3.1"; empty for our own."""
    licence: str
    source: str
    """In words: which command or page brings it."""
    splits: tuple[str, ...]
    present: Callable[[Path | None], bool]
    """Whether its files are below the root; generated data always is."""
    open: Open
    joints: tuple[str, ...] = ("overlap", "seam", "touch", "model")
    """How its pieces join: what weights trained on it are for. A car beside a motorbike does neither touch
    nor overlap, and only a model can tell its place."""
