"""Other shapes made from one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from bitr.data.pair import AssemblyPair
from bitr.io import Geometry


def deform(pair: AssemblyPair, matrix: Float64[np.ndarray, "3 3"]) -> AssemblyPair:
    """The pair whose assembled whole is the old one under a linear map: the same answer for other pieces.

    In the reference's frame y ↦ Ay, and x ↦ g⁻¹ A g x for the source. Symmetries of the shape do not survive.
    """
    r, t = pair.ref_from_src[:3, :3], pair.ref_from_src[:3, 3]
    source = _mapped(pair.source, r.T @ matrix @ r, r.T @ (matrix @ t - t))
    reference = _mapped(pair.reference, matrix, np.zeros(3))
    return replace(pair, source=source, reference=reference, symmetry=None, axis=None)


def random_stretch(size: float, mirror: bool, rng: np.random.Generator) -> Float64[np.ndarray, "3 3"]:
    """Factors from e^-size to e^size along three random axes; with ``mirror``, half of them reflected."""
    axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    factors = np.exp(rng.uniform(-size, size, 3))
    if mirror and rng.random() < 0.5:
        factors[0] = -factors[0]
    return (axes * factors) @ axes.T


def _mapped(
    piece: Geometry, matrix: Float64[np.ndarray, "3 3"], offset: Float64[np.ndarray, " 3"]
) -> Geometry:
    points, faces = piece.points @ matrix.T + offset, piece.faces
    if faces is not None and np.linalg.det(matrix) < 0:
        faces = faces[:, ::-1]  # a mirror would turn the surface inside out
    if piece.normals is None:
        return replace(piece, points=points, faces=faces)
    normals = piece.normals @ np.linalg.inv(matrix)  # as planes, not as arrows: they stay normal
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return replace(piece, points=points, faces=faces, normals=normals / np.where(length > 0, length, 1))
