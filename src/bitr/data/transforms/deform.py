"""Other shapes made from one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bitr.data.pair import AssemblyPair
from bitr.io import Geometry

WAVES = 4
"""Of a random warp."""


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


@dataclass(frozen=True)
class Warp:
    """A smooth map of space, x ↦ x + Σ_j c_j sin(⟨w_j, x − m⟩ + φ_j)."""

    center: Float64[np.ndarray, " 3"]
    amplitudes: Float64[np.ndarray, "j 3"]
    waves: Float64[np.ndarray, "j 3"]
    phases: Float64[np.ndarray, " j"]

    def __call__(self, points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "n 3"]:
        return points + np.sin(self._angles(points)) @ self.amplitudes

    def normals(
        self, points: Float64[np.ndarray, "n 3"], normals: Float64[np.ndarray, "n 3"]
    ) -> Float64[np.ndarray, "n 3"]:
        """J⁻ᵀ n, brought to length 1, with J the map's derivative at each point."""
        slopes = np.cos(self._angles(points))
        jacobian = np.eye(3) + np.einsum("nj,ji,jk->nik", slopes, self.amplitudes, self.waves)
        turned = np.linalg.solve(jacobian.transpose(0, 2, 1), normals[..., None])[..., 0]
        return turned / np.linalg.norm(turned, axis=1, keepdims=True)

    def _angles(self, points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "n j"]:
        return (points - self.center) @ self.waves.T + self.phases


def random_warp(pair: AssemblyPair, size: float, rng: np.random.Generator) -> Warp:
    """Waves about as long as the whole, in the reference's frame: they bend, twist and swell it.

    No slope is greater than ``size`` in sum, so that below 1 nothing folds over.
    """
    whole = np.concatenate([_placed(pair.source, pair.ref_from_src), pair.reference.points])
    center, radius = whole.mean(axis=0), np.sqrt(whole.var(axis=0).sum())
    waves = rng.normal(size=(WAVES, 3))
    waves *= rng.uniform(0.5, 2.0, (WAVES, 1)) / np.linalg.norm(waves, axis=1, keepdims=True)
    amplitudes = rng.normal(size=(WAVES, 3))
    slope = (np.linalg.norm(amplitudes, axis=1) * np.linalg.norm(waves, axis=1)).sum()
    amplitudes *= rng.uniform(0, size) / slope
    return Warp(center, amplitudes * radius, waves / radius, rng.uniform(0, 2 * np.pi, WAVES))


def warped(pair: AssemblyPair, warp: Warp) -> AssemblyPair:
    """The pair whose assembled whole is the old one under the map: the same answer for other pieces."""
    r, t = pair.ref_from_src[:3, :3], pair.ref_from_src[:3, 3]
    placed = _placed(pair.source, pair.ref_from_src)
    source = replace(pair.source, points=(warp(placed) - t) @ r)
    if pair.source.normals is not None:
        source = replace(source, normals=warp.normals(placed, pair.source.normals @ r.T) @ r)
    reference = replace(pair.reference, points=warp(pair.reference.points))
    if pair.reference.normals is not None:
        normals = warp.normals(pair.reference.points, pair.reference.normals)
        reference = replace(reference, normals=normals)
    return replace(pair, source=source, reference=reference, symmetry=None, axis=None)


def _placed(source: Geometry, ref_from_src: Float64[np.ndarray, "4 4"]) -> Float64[np.ndarray, "n 3"]:
    return source.points @ ref_from_src[:3, :3].T + ref_from_src[:3, 3]
