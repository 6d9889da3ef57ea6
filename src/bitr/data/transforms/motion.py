"""Moving either side of a pair, and its answer with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from bitr.data.pair import AssemblyPair
from bitr.data.poses import acted, inverse, random_pose
from bitr.io import Geometry


def assembled(source: Geometry, reference: Geometry, id: str, unit: str = "") -> AssemblyPair:
    """The pair whose pieces are given in their place: ``ref_from_src`` is the identity."""
    return AssemblyPair(source, reference, np.eye(4), id, unit=unit)


def both(pair: AssemblyPair, change: Callable[[Geometry], Geometry]) -> AssemblyPair:
    """The pair with either side changed by something that leaves its frame alone."""
    return replace(pair, source=change(pair.source), reference=change(pair.reference))


def move(
    pair: AssemblyPair,
    source_motion: Float64[np.ndarray, "4 4"],
    reference_motion: Float64[np.ndarray, "4 4"],
) -> AssemblyPair:
    """The pair (g₁X, g₂Y), whose answer is g₂ g g₁⁻¹ and whose symmetries are g₁ s g₁⁻¹, about g₁ axis."""
    back = inverse(source_motion)
    return replace(
        pair,
        source=pair.source.moved(source_motion),
        reference=pair.reference.moved(reference_motion),
        ref_from_src=reference_motion @ pair.ref_from_src @ back,
        symmetry=None if pair.symmetry is None else source_motion @ pair.symmetry @ back,
        axis=None if pair.axis is None else acted(source_motion, pair.axis),
    )


def move_randomly(pair: AssemblyPair, rng: np.random.Generator, size: float = 1.0) -> AssemblyPair:
    """Either side turned at random, and shifted by about ``size`` along each axis."""
    return move(pair, random_pose(rng, size), random_pose(rng, size))
