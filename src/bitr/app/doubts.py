"""When not to trust an answer, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.hypotheses import Symmetries, described
from bitr.hypotheses.outline import FEWEST, FLAT, spreads

UNDETERMINED = 1e-3
"""A singular gap below this says that the rotation is not determined; at best it is 1.15."""


@dataclass(frozen=True)
class Doubts:
    """``ambiguous``: other poses fit as well. ``degenerate``: a piece has no shape to go by."""

    ambiguous: bool
    degenerate: bool
    reason: str | None
    """What was found, in words; None when there are no doubts."""


def doubts(
    source: Float64[np.ndarray, "n 3"],
    reference: Float64[np.ndarray, "m 3"],
    shapes: tuple[Symmetries, Symmetries],
    singular_gap: float,
) -> Doubts:
    """Of the pieces as the model sees them, their symmetries, and the gap of the model's rotation."""
    pieces = (("source", source), ("reference", reference))
    no_shape = [f"the {name} {why}" for name, points in pieces for why in _no_shape(points)]
    several = [*_same(*shapes)]
    if singular_gap < UNDETERMINED:
        several.append(f"the model's rotation is not determined (singular gap {singular_gap:.1e})")
    return Doubts(bool(several), bool(no_shape), "; ".join([*no_shape, *several]) or None)


def _same(source: Symmetries, reference: Symmetries) -> Iterator[str]:
    """How pieces look the same."""
    words = ["" if found.trivial else described(found) for found in (source, reference)]
    if words[0] and words[0] == words[1]:
        yield f"both pieces look the same {words[0]}"
        return
    for name, how in zip(("source", "reference"), words, strict=True):
        if how:
            yield f"the {name} looks the same {how}"


def _no_shape(points: Float64[np.ndarray, "n 3"]) -> Iterator[str]:
    first, second, third = spreads(points)
    different = len(np.unique(points, axis=0))
    if different < FEWEST:
        yield f"has {different} different points, too few to show a shape (expected {FEWEST})"
    if not second > FLAT * first:
        yield "has its points on a line"
    elif not third > FLAT * first:
        yield "has its points on a plane"
