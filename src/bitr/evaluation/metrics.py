"""Errors of a pose against the true one, recalls, and the errors of guessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64
from scipy.optimize import brentq
from scipy.spatial import ConvexHull, cKDTree
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair
from bitr.data.poses import inverse, move_points, turn_about
from bitr.groups import rotation_angle
from bitr.io import as_points

RIGHT_DEGREES, RIGHT_SHARE = 15.0, 0.1
"""Bounds of a right pose: Δr, and the displacement over the size, the radius of the assembled shape."""
RIGHT = f"within {RIGHT_DEGREES:g}° and {RIGHT_SHARE:g} of the size"
"""The same in words, for everybody who says it."""
SIZE_ONE = (0.4, 2.5)  # sizes for which thresholds that are meant for shapes of about size 1 have a meaning
MESH_POINTS = 2000  # points sampled on a mesh to decide whether a pose is right
PLACED = 0.01
"""Squared Chamfer distance, in squared sizes of the shape, below which Breaking Bad calls a part placed."""
PARTNERS = 0.05  # metres within which 3DMatch takes two points for the same place
REGISTERED = 0.2  # metres of RMSE below which 3DMatch accepts a pair
CHANCE_MEAN = float(np.rad2deg(np.pi / 2 + 2 / np.pi))
"""126.5°: the mean of θ under the density (1 − cos θ)/π on [0, π], which is (π²/2 + 2)/π."""
CHANCE_STD = float(np.rad2deg(np.sqrt(np.pi**2 / 12 - 4 / np.pi**2)))
"""37.0°: θ² has the mean π²/3 + 2, less the square of the mean."""
ANGLES = 2 * np.pi / 3 * np.arange(3)  # three values determine a wave a + b cos θ + c sin θ

Pose = Float64[np.ndarray, "4 4"]
Poses = Float64[np.ndarray, "s 4 4"]
Points = Float64[np.ndarray, "_ 3"]
Values = Float64[np.ndarray, " n"]


# Errors of a pose


def rotation_error_deg(pose: Pose, truth: Pose) -> float:
    r"""Δr of the paper (Sec. 6.1), also called RRE: :math:`\arccos\frac{\mathrm{tr}(r\,r_{gt}^\top) - 1}{2}`.

    In degrees; unchanged by motions of either cloud and by a swap. Computed by atan2, exact near 0.
    """
    return float(torch.rad2deg(rotation_angle(torch.from_numpy(pose[:3, :3] @ truth[:3, :3].T))))


def translation_error(pose: Pose, truth: Pose) -> float:
    r"""Δt of the paper (Sec. 6.1), also called RTE: :math:`\|t - t_{gt}\|`, in the unit of the pair.

    It depends on the source's origin wherever the rotation is off: see ``displacement``.
    """
    return float(np.linalg.norm(pose[:3, 3] - truth[:3, 3]))


def displacement(pose: Pose, truth: Pose, source: Points, reference: Points) -> float:
    r"""Distance of a piece from its place: the mean of :math:`\|g\,m(X) - g_{gt}\,m(X)\|` and
    :math:`\|g^{-1} m(Y) - g_{gt}^{-1} m(Y)\|`, where m is the centroid.

    In the unit of the pair. Unchanged by motions of either cloud and by a swap.
    """
    there = _gap(pose, truth, source.mean(0))
    back = _gap(inverse(pose), inverse(truth), reference.mean(0))
    return (there + back) / 2


def _gap(a: Pose, b: Pose, point: Float64[np.ndarray, " 3"]) -> float:
    return float(np.linalg.norm((a[:3, :3] - b[:3, :3]) @ point + a[:3, 3] - b[:3, 3]))


# Distances between clouds


def chamfer(a: Points, b: Points) -> float:
    r"""Breaking Bad's squared Chamfer distance: the mean over a of :math:`\min_b \|a - b\|^2`, plus back."""
    there, back = cKDTree(b).query(a)[0], cKDTree(a).query(b)[0]
    return float(np.mean(there**2) + np.mean(back**2))


def part_chamfer(pose: Pose, truth: Pose, source: Points) -> float:
    r"""Chamfer distance of the part from its place: :math:`\mathrm{CD}(g X, g_{gt} X)`."""
    return chamfer(move_points(pose, source), move_points(truth, source))


def shape_chamfer(pose: Pose, truth: Pose, source: Points, reference: Points) -> float:
    r"""Chamfer distance of the whole: :math:`\mathrm{CD}(g X \cup Y,\; g_{gt} X \cup Y)`."""
    found, right = (np.concatenate([move_points(g, source), reference]) for g in (pose, truth))
    return chamfer(found, right)


def add_s(pose: Pose, truth: Pose, source: Points) -> float:
    r"""ADD-S of object pose estimation: the mean over x of :math:`\min_{x'} \|g_{gt} x - g x'\|`."""
    return float(np.mean(cKDTree(move_points(pose, source)).query(move_points(truth, source))[0]))


# Metrics of fracture assembly (Breaking Bad, PMTR, CMNet), without an anchor


def mating_errors(
    pose: Pose, truth: Pose, source: Points, reference: Points, source_share: float
) -> dict[str, float]:
    """Errors as papers on broken objects report them; lengths are in diameters of the assembled shape.

    Those papers fix the larger piece and move the smaller one, and so do ``cd`` and ``crd`` here. Only the
    pose of one piece relative to the other counts: no piece is given its true place in the world.
    ``source_share`` is the source's share of the surface of both pieces.
    """
    size = diameter(np.concatenate([move_points(truth, source), reference]))
    there = pose, truth, source, reference
    back = inverse(pose), inverse(truth), reference, source
    parts = [part_chamfer(*way[:3]) / size**2 for way in (there, back)]
    # the smaller piece moves; of two that are equal, each does in turn
    turns = [there] * (source_share <= 0.5) + [back] * (source_share >= 0.5)
    smaller = min(source_share, 1 - source_share)
    return {
        # over three Euler angles, which depend on the frames of the files
        "euler_rmse_deg": euler_rmse_deg(pose, truth),
        # over three coordinates, with both pieces centred on their means
        "translation_rmse": displacement(*there) / size / 3**0.5,
        # squared Chamfer distance of the whole from the true whole
        "cd": float(np.mean([shape_chamfer(*turn) for turn in turns])) / size**2,
        # mean distance of the whole's points from their own places
        "crd": smaller * float(np.mean([_mean_gap(*turn[:3]) for turn in turns])) / size,
        # share of the two parts that are in place, each seen from the other
        "placed": float(np.mean([part < PLACED for part in parts])),
    }


def euler_rmse_deg(pose: Pose, truth: Pose) -> float:
    """Root mean square of the differences of the Euler angles about the fixed axes x, y and z, in degrees.

    It is no distance of rotations, and turning the files changes it: see ``rotation_error_deg``.
    """
    a, b = (Rotation.from_matrix(each[:3, :3]).as_euler("xyz", degrees=True) for each in (pose, truth))
    apart = np.abs(a - b)
    return float(np.sqrt(np.mean(np.minimum(apart, 360 - apart) ** 2)))


def diameter(points: Points) -> float:
    """The greatest distance between two points, in place of Breaking Bad's box, which a turn changes."""
    # joggled by rounding errors, so that flat shapes have a hull too
    corners = points[ConvexHull(points, qhull_options="QJ").vertices] if len(points) > 8 else points
    return float(max(np.linalg.norm(corners - corner, axis=1).max() for corner in corners))


def _mean_gap(pose: Pose, truth: Pose, points: Points) -> float:
    return float(np.linalg.norm(move_points(pose, points) - move_points(truth, points), axis=1).mean())


# 3DMatch's criterion


def overlap(source: Points, reference: Points, truth: Pose, within: float = PARTNERS) -> Points:
    """Points of the source that, in place, have a point of the reference nearby; in the source's frame."""
    return source[cKDTree(reference).query(move_points(truth, source))[0] < within]


def information_matrix(points: Points) -> Float64[np.ndarray, "6 6"]:
    r""":math:`\Lambda = \sum_p G_p^\top G_p` with :math:`G_p = [\,I \mid -2[p]_\times\,]`, as in ``gt.info``.

    To first order :math:`G_p \xi` is what the motion :math:`\xi = (t, q)` does to p, where q is the vector
    part of its unit quaternion: half the angle, hence the 2. :math:`\Lambda_{00}` is the number of points.
    """
    x, y, z = points.T
    one, zero = np.ones_like(x), np.zeros_like(x)
    g = np.array(
        [
            [one, zero, zero, zero, 2 * z, -2 * y],
            [zero, one, zero, -2 * z, zero, 2 * x],
            [zero, zero, one, 2 * y, -2 * x, zero],
        ]
    )
    return np.einsum("rik,rjk->ij", g, g)


def registration_rmse(pose: Pose, truth: Pose, information: Float64[np.ndarray, "6 6"]) -> float:
    r""":math:`\sqrt{\xi^\top \Lambda\,\xi / \Lambda_{00}}`, where ξ = (t, q) is of :math:`g_{gt}^{-1} g`.

    To first order the root mean square distance of the overlap from its place; 3DMatch accepts 0.2 m.
    """
    off = inverse(truth) @ pose
    quaternion = Rotation.from_matrix(off[:3, :3]).as_quat(canonical=True)  # x, y, z, w with w ≥ 0
    xi = np.concatenate([off[:3, 3], quaternion[:3]])
    return float(np.sqrt(xi @ information @ xi / information[0, 0]))


# Registration recall


@dataclass(frozen=True)
class Benchmark:
    """Thresholds below which Δr and Δt must both be for a pair to count as registered."""

    name: str
    degrees: float
    length: float
    unit: str  # unit of the length: "m", or empty for shapes of size 1. It judges only pairs in that unit.

    @property
    def label(self) -> str:
        return f"{self.name} ({self.degrees:g}°, {self.length:g}{' ' + self.unit if self.unit else ''})"

    def accepts(self, degrees: Values, lengths: Values) -> Bool[np.ndarray, " n"]:
        return (degrees < self.degrees) & (lengths < self.length)


BENCHMARKS = (
    Benchmark("KITTI", 5.0, 2.0, "m"),
    Benchmark("ETH", 2.0, 0.3, "m"),
    Benchmark("ModelNet", 1.0, 0.1, ""),
)


@dataclass(frozen=True)
class Recall:
    """Recall of one benchmark; the errors are None where no pair was accepted."""

    recall: float  # share of the pairs, failed ones included, that were accepted
    rre: float | None  # mean Δr in degrees of the accepted pairs
    rte: float | None  # mean Δt of the accepted pairs


def recall(
    accepted: Bool[np.ndarray, " n"], degrees: Values, lengths: Values, scenes: Sequence[str] | None = None
) -> Recall:
    """Recall, and RRE and RTE of the accepted pairs; with ``scenes``, means of scenes, as in 3DMatch."""
    places = np.asarray(scenes if scenes is not None else [""] * len(accepted))
    inside = [places == place for place in np.unique(places)]
    found = [scene & accepted for scene in inside if (scene & accepted).any()]
    return Recall(
        recall=float(np.mean([accepted[scene].mean() for scene in inside])),
        rre=float(np.mean([degrees[rows].mean() for rows in found])) if found else None,
        rte=float(np.mean([lengths[rows].mean() for rows in found])) if found else None,
    )


# Shapes with several right answers


def is_right(pair: AssemblyPair, pose: Pose) -> bool:
    """True if Δr < 15° and the piece is less than a tenth of the assembled radius from its place.

    The right answer nearest to the pose counts; unrelated pieces have none.
    """
    if not pair.related:
        return False
    x, y = (as_points(side, MESH_POINTS, seed=0).points for side in (pair.source, pair.reference))
    truth = nearest_truth(pose, truths_of(pair), x, y, pair.axis)
    is_close = displacement(pose, truth, x, y) < RIGHT_SHARE * assembled_radius(truth, x, y)
    return is_close and rotation_error_deg(pose, truth) < RIGHT_DEGREES


def assembled_radius(truth: Pose, source: Points, reference: Points) -> float:
    """The size of the assembled shape: its points' greatest distance from their centroid."""
    whole = np.concatenate([move_points(truth, source), reference])
    return float(np.linalg.norm(whole - whole.mean(0), axis=1).max())


def truths_of(pair: AssemblyPair) -> Poses:
    """All listed right answers of a pair: its pose after each of its symmetries."""
    return pair.ref_from_src @ (np.eye(4)[None] if pair.symmetry is None else pair.symmetry)


def nearest_truth(
    pose: Pose,
    truths: Poses,
    source: Points,
    reference: Points,
    axis: Float64[np.ndarray, "2 3"] | None = None,
) -> Pose:
    r"""The right answer that is nearest to the pose, for shapes with symmetries; one for all metrics.

    Minimises the mean over X of :math:`\|g x - g_{gt} x\|^2` plus the mean over Y of
    :math:`\|g^{-1} y - g_{gt}^{-1} y\|^2`, so that the choice moves with either cloud and with a swap. With
    an ``axis`` of the source, :math:`g_{gt} R_\theta` is right for every angle, and the sum a wave in θ.
    """
    if axis is None:
        return truths[int(np.argmin(_apart(pose, truths, source, reference)))]
    turned = truths[:, None] @ np.stack([turn_about(axis, angle) for angle in ANGLES])
    height = _apart(pose, turned.reshape(-1, 4, 4), source, reference).reshape(-1, 3)
    wave = height @ np.exp(1j * ANGLES) * 2 / 3  # b + ic
    best = int(np.argmin(height.mean(1) - np.abs(wave)))
    return truths[best] @ turn_about(axis, float(np.angle(-wave[best])))


def _apart(pose: Pose, truths: Poses, source: Points, reference: Points) -> Float64[np.ndarray, " s"]:
    there = _mean_squares(pose, truths, source)
    return there + _mean_squares(inverse(pose), inverse(truths), reference)


def _mean_squares(pose: Pose, others: Poses, points: Points) -> Float64[np.ndarray, " s"]:
    r"""The mean of :math:`\|A x + b\|^2` is :math:`\mathrm{tr}(A\,C\,A^\top) + \|A m + b\|^2`."""
    center = points.mean(0)
    spread = (points - center).T @ (points - center) / len(points)
    a, b = pose[:3, :3] - others[:, :3, :3], pose[:3, 3] - others[:, :3, 3]
    return np.einsum("sij,jk,sik->s", a, spread, a) + np.square(a @ center + b).sum(-1)


# Chance: the error of a uniform rotation, for shapes without symmetry


def chance_density(degrees: Float64[np.ndarray, "*n"]) -> Float64[np.ndarray, "*n"]:
    r"""Probability density of Δr, per degree: :math:`(1 - \cos\theta)/\pi` per radian."""
    return np.asarray((1 - np.cos(np.deg2rad(degrees))) / 180)


def chance_recall(degrees: Float64[np.ndarray, "*n"] | float) -> Float64[np.ndarray, "*n"]:
    r"""Probability that Δr is at most so many degrees: :math:`(\theta - \sin\theta)/\pi`."""
    theta = np.deg2rad(np.asarray(degrees, dtype=np.float64))
    return np.asarray((theta - np.sin(theta)) / np.pi)


def chance_quantile(share: float) -> float:
    """The Δr in degrees that a share of the guesses stays below; 132.3 for a half."""
    return float(brentq(lambda degrees: float(chance_recall(degrees)) - share, 0.0, 180.0, xtol=1e-10))


def chance_level() -> dict[str, dict[str, float]]:
    """The rotation error of guessing, as JSON files hold it."""
    found = {"mean": CHANCE_MEAN, "std": CHANCE_STD, "median": chance_quantile(0.5)}
    return {"rotation_error_deg": found}
