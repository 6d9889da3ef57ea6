"""A model and what comes with its weights."""

from __future__ import annotations

import os
from dataclasses import dataclass

from bitr.model import BITR, FrozenBITR
from bitr.model.checkpoint import load


@dataclass(frozen=True)
class Network:
    """A model and what to call it."""

    model: BITR
    name: str

    @classmethod
    def of(cls, model: str | os.PathLike[str] | BITR) -> Network:
        """From a model as it is, or by the name of shipped weights or the path of a checkpoint.

        What is loaded here is frozen, and runs in double precision: the laws then hold to the rounding of the
        files, and it costs little.
        """
        if isinstance(model, BITR):
            return cls(model, "BITR")
        return cls(FrozenBITR(load(model).double()), os.fspath(model))
