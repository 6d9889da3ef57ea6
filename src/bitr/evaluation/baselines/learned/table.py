"""The learned baselines by their short names."""

from __future__ import annotations

import difflib

from bitr.errors import InputError
from bitr.evaluation.baselines.learned.common import Regressor
from bitr.evaluation.baselines.learned.dgl import PieceGraph
from bitr.evaluation.baselines.learned.lev import VectorCanonicalPoses
from bitr.evaluation.baselines.learned.nsm import CanonicalPoses
from bitr.evaluation.baselines.learned.omn import MaskedSteps


def regressors() -> dict[str, type[Regressor]]:
    """The network of each, in the order of the paper's tables."""
    return {cls.name: cls for cls in (PieceGraph, CanonicalPoses, VectorCanonicalPoses, MaskedSteps)}


def regressor(name: str) -> type[Regressor]:
    """The network of that short name."""
    known = regressors()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{name}: no such learned baseline, expected one of {', '.join(known)}{hint}")
    return known[name]
