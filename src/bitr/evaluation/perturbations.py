"""The tests of Sec. 6.2: a pair as it is, swapped, scaled and moved; a lawful method answers alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly
from bitr.data import AssemblyPair
from bitr.data.poses import inverse, move_points, random_pose
from bitr.data.transforms import both, move
from bitr.evaluation.method import Method, pose_of
from bitr.io import Geometry

FACTOR = 2.0
"""Of the scaled test, as in the paper."""

Back = Callable[[Float64[np.ndarray, "4 4"]], Float64[np.ndarray, "4 4"]]


@dataclass(frozen=True, eq=False)
class Perturbed:
    """A changed pair, with its changed answer, and the way back."""

    pair: AssemblyPair
    original_pose: Back
    """A pose of the changed pair ↦ the pose that it means for the original one."""


Perturbation = Callable[[AssemblyPair, np.random.Generator], Perturbed]


def original(pair: AssemblyPair, rng: np.random.Generator) -> Perturbed:
    """(X, Y)."""
    return Perturbed(pair, lambda pose: pose)


def swapped(pair: AssemblyPair, rng: np.random.Generator) -> Perturbed:
    """(Y, X), whose answer is g⁻¹ and whose symmetries are g s⁻¹ g⁻¹."""
    back = inverse(pair.ref_from_src)
    symmetry = None if pair.symmetry is None else pair.ref_from_src @ inverse(pair.symmetry) @ back
    axis = None if pair.axis is None else move_points(pair.ref_from_src, pair.axis)
    changed = replace(
        pair, source=pair.reference, reference=pair.source, ref_from_src=back, symmetry=symmetry, axis=axis
    )
    return Perturbed(changed, inverse)


def scaled(pair: AssemblyPair, rng: np.random.Generator, factor: float = FACTOR) -> Perturbed:
    """(cX, cY), whose answer is (r, c t)."""

    def larger(geometry: Geometry) -> Geometry:
        return replace(geometry, points=factor * geometry.points)

    symmetry = None if pair.symmetry is None else _in_unit(pair.symmetry, factor)
    axis = None if pair.axis is None else factor * pair.axis
    truth = _in_unit(pair.ref_from_src, factor)
    changed = replace(both(pair, larger), ref_from_src=truth, symmetry=symmetry, axis=axis)
    return Perturbed(changed, lambda pose: _in_unit(pose, 1 / factor))


def moved(pair: AssemblyPair, rng: np.random.Generator) -> Perturbed:
    """(g₁X, g₂Y), whose answer is g₂ g g₁⁻¹, for random motions by about the pieces' own size."""
    size = float(max(side.points.std(0).max() for side in (pair.source, pair.reference)))
    g1, g2 = random_pose(rng, size), random_pose(rng, size)
    return Perturbed(move(pair, g1, g2), lambda pose: inverse(g2) @ pose @ g1)


PERTURBATIONS: dict[str, Perturbation] = {
    "original": original,
    "swapped": swapped,
    "scaled": scaled,
    "moved": moved,
}


def under(method: Method, test: str, rng: np.random.Generator) -> Method:
    """The method on perturbed pairs: it sees the changed pair, its answer is told for the original one.

    So every error is in the original's units and frame, the same in all tests for a lawful method; Δt, too,
    although it depends on where the origins are.
    """

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"] | Assembly:
        changed = PERTURBATIONS[test](pair, rng)
        answer = method.solve(changed.pair)
        told = changed.original_pose(pose_of(answer))
        return replace(answer, transformation=told) if isinstance(answer, Assembly) else told

    return Method(f"{method.name}, {test}", solve)


def _in_unit(pose: Float64[np.ndarray, "*s 4 4"], factor: float) -> Float64[np.ndarray, "*s 4 4"]:
    """The same motion in a unit of length that is ``factor`` times smaller: (r, factor·t)."""
    found = pose.copy()
    found[..., :3, 3] *= factor
    return found
