"""How a scene is set up for the eye: which points, where they stand, seen from where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64

from bitr.io import estimate_normals
from bitr.layers.neighbors import nearest_neighbors
from bitr.pictures.scene import Scene

MOST_SHOWN = 20_000
"""Points of a cloud that are shown; more would make the page heavy and add nothing to see."""
NUM_NEIGHBORS = 16
FAR, BESIDE = 2.0, 1.0
"""In sums of the two radii: from which distance the source is brought closer for display, and how close."""
TILT = np.deg2rad([14.0, 22.0])
"""Seen exactly along a principal axis a shape looks flat, so its top and left are turned to the viewer."""


@dataclass(frozen=True)
class Shown:
    """A cloud as it is shown: some of its points, relative to the middle of its bounding box."""

    center: Float64[np.ndarray, " 3"]
    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"]
    """Of the surface, to shade it."""
    keypoints: Float64[np.ndarray, "l 3"] | None
    spacing: float
    """Typical distance between points that are neighbours on the surface."""
    total: int
    """Points that the cloud has."""

    @property
    def radius(self) -> float:
        return float(np.linalg.norm(self.points, axis=1).max())

    @property
    def count(self) -> str:
        return f"{self.total:,} point{'s' if self.total != 1 else ''}"


@dataclass(frozen=True)
class Stage:
    """Both pieces in one frame, whose origin is the reference's centre.

    A source point p stands at ``p + before``, and after the motion at ``rotation·p + after``.
    """

    source: Shown
    reference: Shown
    rotation: Float64[np.ndarray, "3 3"]
    before: Float64[np.ndarray, " 3"]
    after: Float64[np.ndarray, " 3"]
    view: Float64[np.ndarray, "3 3"]
    """Rows: the directions to the right, up, and towards the viewer."""
    closer: bool
    """Whether ``before`` is not where the files put the source, but closer to the reference."""
    notes: tuple[str, ...]
    """What the picture does not show as it is, one sentence each."""

    def moved(self, points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "n 3"]:
        return points @ self.rotation.T + self.after


def staged(scene: Scene, most: int = MOST_SHOWN) -> Stage:
    """The scene, ready to be drawn: numbers of the size of the pieces, wherever the files put them.

    Of each cloud at most so many points are shown.
    """
    source = _shown(scene.source, scene.source_keypoints, most)
    reference = _shown(scene.reference, scene.reference_keypoints, most)
    rotation, translation = scene.transformation[:3, :3], scene.transformation[:3, 3]
    after = rotation @ source.center + translation - reference.center
    before, notes = source.center - reference.center, []
    distance, reach = float(np.linalg.norm(before)), source.radius + reference.radius
    closer = distance > FAR * reach
    if closer:
        before = before / distance * BESIDE * reach
        notes.append(
            f"The files put the pieces {distance:.4g} apart; before the motion, the source is shown closer."
        )
    notes += [
        f"{len(piece.points):,} of the {piece.total:,} points of the {name} are shown, evenly taken."
        for name, piece in (("source", source), ("reference", reference))
        if len(piece.points) < piece.total
    ]
    view = _view(source.points @ rotation.T + after, reference.points)
    return Stage(source, reference, rotation, before, after, view, closer, tuple(notes))


def _shown(
    points: Float64[np.ndarray, "n 3"], keypoints: Float64[np.ndarray, "l 3"] | None, most: int
) -> Shown:
    total = len(points)
    if total > most:
        points = points[np.arange(most) * total // most]
    center = points.min(0) / 2 + points.max(0) / 2
    points = points - center
    # fewer than four points say nothing of a surface, and zeros are drawn unshaded
    normals = estimate_normals(points, points) if len(points) > 3 else np.zeros_like(points)
    keypoints = None if keypoints is None else keypoints - center
    return Shown(center, points, normals, keypoints, _spacing(points), total)


def _spacing(points: Float64[np.ndarray, "n 3"]) -> float:
    """Side of the square that a point has to itself on the surface, by the median over the points."""
    index = nearest_neighbors(torch.from_numpy(points)[None], NUM_NEIGHBORS)[0][0].numpy()
    if not index.shape[1]:
        return 0.0
    farthest = np.linalg.norm(points[index[:, -1]] - points, axis=1)
    return float(np.median(farthest) * np.sqrt(np.pi / index.shape[1]))


def _view(
    source: Float64[np.ndarray, "n 3"], reference: Float64[np.ndarray, "m 3"]
) -> Float64[np.ndarray, "3 3"]:
    """From where the assembled pair shows its broad side, with neither piece behind the other.

    Before the tilt, the smallest principal axis points to the viewer and the largest to the right, where the
    line between the two centres counts extra; the source is on the left.
    """
    both = np.concatenate([source, reference])
    both = both - both.mean(0)
    between = reference.mean(0) - source.mean(0)
    _, axes = np.linalg.eigh(both.T @ both / len(both) + np.outer(between, between))
    right, up = axes[:, 2], axes[:, 1]
    right = right if right @ between >= 0 else -right
    up = up if up[np.abs(up).argmax()] > 0 else -up
    (cos_x, cos_y), (sin_x, sin_y) = np.cos(TILT), np.sin(TILT)
    about_right = np.array([[1, 0, 0], [0, cos_x, -sin_x], [0, sin_x, cos_x]])
    about_up = np.array([[cos_y, 0, sin_y], [0, 1, 0], [-sin_y, 0, cos_y]])
    return about_right @ about_up @ np.stack([right, up, np.cross(right, up)])
