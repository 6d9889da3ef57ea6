"""A scene, and how it is set up for the eye: which points are shown, where they stand, and the view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair
from bitr.data.poses import Pose, nearest_pose
from bitr.errors import InputError
from bitr.io import as_points, estimate_normals, spacing_of

MOST_SHOWN = 20_000
"""Most points of a cloud on a page or in a picture; more would make a page heavy and add nothing to see."""
FAR, BESIDE = 2.0, 1.0
"""Distance from which the source is brought closer, and how close, in sums of the two radii."""
TILT = np.deg2rad([14.0, 22.0])
"""A shape looks flat along a principal axis, so its top and left are turned to the viewer."""

Vector = Float64[np.ndarray, " 3"]
Matrix = Float64[np.ndarray, "3 3"]


@dataclass(frozen=True)
class Scene:
    """An assembled pair; each cloud and its key points are in the coordinates of its own file."""

    source: Float64[np.ndarray, "n 3"]
    reference: Float64[np.ndarray, "m 3"]
    transformation: Pose
    """``ref_from_src``: acts on column vectors and takes the source onto the reference."""
    source_keypoints: Float64[np.ndarray, "l 3"] | None = None
    reference_keypoints: Float64[np.ndarray, "l 3"] | None = None
    title: str = "assembly"
    facts: Sequence[tuple[str, str]] = ()
    """Rows of name and value to show beside the picture; a name that starts with "warning" stands out."""

    def __post_init__(self) -> None:
        for name in ("source", "reference", "source_keypoints", "reference_keypoints"):
            points = getattr(self, name)
            if points is not None and not (len(points) and np.isfinite(points).all()):
                raise InputError(f"{name}: {len(points)} points, expected at least one, all of them finite")
        nearest_pose(self.transformation, "transformation")  # raises if it is no rigid motion


def show_pair(pair: AssemblyPair, ref_from_src: Pose, title: str = "", most: int = MOST_SHOWN) -> Scene:
    """Make the scene of a pair as it was answered, with points of the surface where a side is a mesh."""
    source, reference = (as_points(side, most, seed=0).points for side in (pair.source, pair.reference))
    return Scene(source, reference, ref_from_src, title=title or pair.id)


@dataclass(frozen=True)
class Shown:
    """The points of a cloud that are shown, relative to the centre of their bounding box."""

    center: Vector
    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"]
    """Normals of the surface, for shading."""
    keypoints: Float64[np.ndarray, "l 3"]
    spacing: float
    """Typical distance between neighbours on the surface."""
    total: int
    """Number of points of the whole cloud."""

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
    rotation: Matrix
    before: Vector
    after: Vector
    view: Matrix
    """Rows: the directions to the right, up, and towards the viewer."""
    is_closer: bool
    """True when ``before`` is closer to the reference than the files put the source."""
    notes: tuple[str, ...]
    """One sentence for each thing that is not shown as it is."""

    def move(self, points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "n 3"]:
        return points @ self.rotation.T + self.after


def set_stage(scene: Scene, most: int = MOST_SHOWN) -> Stage:
    """Prepare a scene for drawing, with at most ``most`` points of each cloud."""
    source = choose_points(scene.source, scene.source_keypoints, most)
    reference = choose_points(scene.reference, scene.reference_keypoints, most)
    rotation, translation = scene.transformation[:3, :3], scene.transformation[:3, 3]
    after = rotation @ source.center + translation - reference.center
    before, notes = source.center - reference.center, []
    distance, reach = float(np.linalg.norm(before)), source.radius + reference.radius
    is_closer = distance > FAR * reach
    if is_closer:
        before = before / distance * BESIDE * reach
        notes.append(
            f"The files put the pieces {distance:.4g} apart; before the motion, the source is shown closer."
        )
    notes += [
        f"{len(piece.points):,} of the {piece.total:,} points of the {name} are shown, evenly taken."
        for name, piece in (("source", source), ("reference", reference))
        if len(piece.points) < piece.total
    ]
    view = choose_view(source.points @ rotation.T + after, reference.points)
    return Stage(source, reference, rotation, before, after, view, is_closer, tuple(notes))


def quaternion_wxyz(rotation: Matrix) -> Float64[np.ndarray, " 4"]:
    """The unit quaternion of a rotation, with w ≥ 0."""
    return np.roll(Rotation.from_matrix(rotation).as_quat(canonical=True), 1)


def choose_points(
    points: Float64[np.ndarray, "n 3"], keypoints: Float64[np.ndarray, "l 3"] | None, most: int
) -> Shown:
    """At most ``most`` points of a cloud about the centre of their box, with normals for shading."""
    total = len(points)
    if total > most:
        points = points[np.arange(most) * total // most]
    center = points.min(0) / 2 + points.max(0) / 2
    points = points - center
    # fewer than four points define no surface; zero normals are drawn unshaded
    normals = estimate_normals(points, points) if len(points) > 3 else np.zeros_like(points)
    keypoints = np.zeros((0, 3)) if keypoints is None else keypoints - center
    return Shown(center, points, normals, keypoints, spacing_of(points), total)


def choose_view(source: Float64[np.ndarray, "n 3"], reference: Float64[np.ndarray, "m 3"]) -> Matrix:
    """Axes of a view of the broad side of the assembled pair, with the source on the left."""
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
