"""Classical baselines, each on a pair in a frame and a unit of its own; some need the extra ``baselines``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from scipy.spatial import cKDTree

from bitr.assembly.align import arun
from bitr.data import AssemblyPair
from bitr.data.piece import as_piece
from bitr.data.poses import move_points, nearest_pose, pose
from bitr.errors import InputError, require, unknown_name
from bitr.evaluation.method import Method, Solve
from bitr.evaluation.metrics import Pose
from bitr.io import spacing_of

POINTS = 5000  # points of a cloud that a classical method sees; a mesh is sampled first
LEAST_POINTS, LEAST_EXTENT = 10, 2.0
"""Needed by the libraries, the extent in spacings: one that is left with a single point ends the process."""
SEED = 0

KEPT = 0.8  # share of the source's points, those closest to the reference, that each round of ICP fits
GICP_VOXEL, KISS_VOXEL = 0.25, 0.3
"""Default voxels of the libraries, in metres: the clouds are scaled so that their spacing is this."""
BOUND_WITHIN, LEAST_PAIRS = 2.0, 3
"""Spacings between two points that correspond in the true pose, and points that a bound needs."""

NORMAL_RADIUS, FEATURE_RADIUS = 2.0, 5.0
"""In spacings of the clouds: the voxel of the usual recipe is 1. The clouds were thinned before, so that no
grid is laid over them."""
WITHIN = 1.5  # distance in spacings within which corresponding points must end

Points = Float64[np.ndarray, "_ 3"]


def baseline(name: str) -> Method:
    """The baseline of that short name; one line says which library is missing."""
    if name not in BASELINES:
        raise unknown_name(name, "baseline", list(BASELINES))
    title, solve, modules = BASELINES[name]
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise InputError(
                f'{title} needs {module}, which cannot be loaded ({error}): pip install -e ".[baselines]"'
            ) from error
    return Method(title, solve)


def identity(pair: AssemblyPair) -> Pose:
    """The pieces stay where the files put them."""
    return np.eye(4)


def centroids(pair: AssemblyPair) -> Pose:
    """The centroids are brought together, t = m(Y) − m(X), and nothing is turned: what shapes must beat."""
    x, y = points(pair)
    return pose(np.eye(3), y.mean(0) - x.mean(0))


def bound(pair: AssemblyPair) -> Pose:
    """The best rigid motion between points that correspond under the true pose: it looks at the answer.

    Pieces that do not touch have no correspondences, and raise.
    """
    x, y = points(pair)
    i, j = correspondences(move_points(pair.ref_from_src, x), y)
    said = f"{pair.id}: {len(i)} points of the pieces lie together in the true pose"
    require(len(i) >= LEAST_PAIRS, f"{said}, expected at least {LEAST_PAIRS} for a bound")
    return arun(torch.from_numpy(x[i]), torch.from_numpy(y[j])).matrix().numpy()


def correspondences(x: Points, y: Points) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]:
    """Rows of x and of y that are mutually nearest, and within twice the larger spacing of the clouds."""
    distance, partner = cKDTree(y).query(x)
    back = cKDTree(x).query(y)[1]
    rows = np.arange(len(x))
    near = distance <= BOUND_WITHIN * max(spacing_of(x), spacing_of(y))
    i = rows[near & (back[partner] == rows)]
    return i, partner[i]


# Iterative closest points


def icp(pair: AssemblyPair) -> Pose:
    """Trimmed point-to-point ICP from the identity, as the authors' code runs it (Sec. 6.5): where the pieces
    lie decides."""
    local = in_unit(pair, centered=False)
    return local.pose(trimmed_icp(local.x, local.y))


def trimmed_icp(x: Points, y: Points) -> Pose:
    """Repeat until no partner changes: partner the nearest points, fit the closest 80% by Arun's method."""
    tree, count = cKDTree(y), math.ceil(KEPT * len(x))
    matrix, last = np.eye(4), None
    for _ in range(500):
        distance, partner = tree.query(move_points(matrix, x))
        kept = np.sort(np.argsort(distance, kind="stable")[:count])
        matched = np.stack([kept, partner[kept]])
        if last is not None and np.array_equal(matched, last):
            break
        last = matched
        matrix = arun(torch.from_numpy(x[kept]), torch.from_numpy(y[partner[kept]])).matrix().numpy()
    return matrix


def gicp(pair: AssemblyPair) -> Pose:
    """small_gicp's ``align`` with its default settings, from where the centroids are together."""
    local = in_unit(pair, GICP_VOXEL)
    return local.pose(import_module("small_gicp").align(local.y, local.x).T_target_source)


# Global registration by point features


def fpfh_ransac(pair: AssemblyPair) -> Pose:
    """RANSAC over mutually nearest features: four pairs a trial, checked by edge length and distance."""

    def match(registration: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
        return registration.registration_ransac_based_on_feature_matching(
            x[0],
            y[0],
            x[1],
            y[1],
            mutual_filter=True,
            max_correspondence_distance=WITHIN,
            estimation_method=registration.TransformationEstimationPointToPoint(False),
            ransac_n=4,
            checkers=[
                registration.CorrespondenceCheckerBasedOnEdgeLength(0.9),
                registration.CorrespondenceCheckerBasedOnDistance(WITHIN),
            ],
            criteria=registration.RANSACConvergenceCriteria(100_000, 0.999),
        )

    return match_features(pair, match)


def fgr(pair: AssemblyPair) -> Pose:
    """Fast global registration (Zhou et al. 2016): a robust fit of mutually nearest features."""

    def match(registration: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
        # Its lengths are shares of the clouds' extent. decrease_mu is False by default, and then the fit
        # stays the convex one, in which wrong correspondences count as much as right ones.
        option = registration.FastGlobalRegistrationOption(decrease_mu=True)
        return registration.registration_fgr_based_on_feature_matching(x[0], y[0], x[1], y[1], option)

    return match_features(pair, match)


def match_features(pair: AssemblyPair, match: Callable[[Any, Any, Any], Any]) -> Pose:
    """``match`` takes Open3D's registration and both pieces as (cloud, features)."""
    o3d, local = import_module("open3d"), in_unit(pair)
    quiet = o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error)
    # with several threads the seed does not decide: trials end early in an order that the system chooses
    with quiet, import_module("threadpoolctl").threadpool_limits(1, "openmp"):
        o3d.utility.random.seed(SEED)
        x, y = _described(o3d, local.x), _described(o3d, local.y)
        try:
            found = match(o3d.pipelines.registration, x, y)
        except RuntimeError as error:  # its way to say that there is nothing to draw from
            raise InputError(f"{pair.id}: no features match") from error
    return local.pose(np.array(found.transformation))


def _described(o3d: Any, points: Points) -> tuple[Any, Any]:
    """The cloud with normals away from its centroid, the origin, and a feature at each point."""
    search = o3d.geometry.KDTreeSearchParamHybrid
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    cloud.estimate_normals(search(NORMAL_RADIUS, 30))
    normals = np.array(cloud.normals)
    inward = np.einsum("ni,ni->n", normals, points) < 0
    cloud.normals = o3d.utility.Vector3dVector(np.where(inward[:, None], -normals, normals))
    reach = search(FEATURE_RADIUS, 100)
    return cloud, o3d.pipelines.registration.compute_fpfh_feature(cloud, reach)


def kiss_matcher(pair: AssemblyPair) -> Pose:
    """KISS-Matcher with its default settings; its estimate is taken also where it doubts it."""
    library, local = import_module("kiss_matcher"), in_unit(pair, KISS_VOXEL)
    matcher = library.KISSMatcher(library.KISSMatcherConfig(voxel_size=KISS_VOXEL))
    found = matcher.estimate(local.x, local.y)
    return local.pose(pose(np.asarray(found.rotation), np.asarray(found.translation).reshape(3)))


BASELINES: dict[str, tuple[str, Solve, Sequence[str]]] = {
    "identity": ("identity", identity, ()),
    "centroids": ("centroids", centroids, ()),
    "bound": ("bound (true correspondences)", bound, ()),
    "icp": ("ICP", icp, ()),
    "gicp": ("GICP", gicp, ()),
    "fpfh-ransac": ("FPFH + RANSAC", fpfh_ransac, ("open3d", "threadpoolctl")),
    "fgr": ("FGR", fgr, ("open3d", "threadpoolctl")),
    "kiss-matcher": ("KISS-Matcher", kiss_matcher, ("kiss_matcher",)),
}
"""Name in tables, method and libraries, by the short name. Only "bound" looks at the answer."""


# A pair in a frame and a unit of its own


@dataclass(frozen=True)
class Local:
    """Points of both pieces, each relative to a center, over a common unit of length."""

    x: Points
    y: Points
    x_center: Float64[np.ndarray, " 3"]
    y_center: Float64[np.ndarray, " 3"]
    unit: float
    id: str

    def pose(self, y_from_x: Pose) -> Pose:
        """``ref_from_src`` of an answer in this frame, its rotation projected; other matrices raise."""
        near = nearest_pose(y_from_x, self.id)
        turn = near[:3, :3]
        return pose(turn, self.y_center + self.unit * near[:3, 3] - turn @ self.x_center)


def in_unit(pair: AssemblyPair, spacing: float = 1.0, centered: bool = True) -> Local:
    """The pair in a unit that makes the larger of the clouds' spacings ``spacing``.

    Each piece is relative to its own centroid or, if not ``centered``, both to one center.
    """
    x, y = points(pair)
    x_center, y_center = x.mean(0), y.mean(0)
    if not centered:
        x_center = y_center = (x_center + y_center) / 2
    x, y = x - x_center, y - y_center
    widest = max(spacing_of(x), spacing_of(y))
    for side, cloud in (("source", x), ("reference", y)):
        extent = float(np.ptp(cloud, axis=0).max())
        said = f"{pair.id}: the {side} has {len(cloud)} points and is {extent:.3g} long"
        wanted = f"{LEAST_POINTS}, and more than {LEAST_EXTENT:g} times the spacing of {widest:.3g}"
        is_enough = len(cloud) >= LEAST_POINTS and extent > LEAST_EXTENT * widest
        require(is_enough, f"{said}, expected at least {wanted}")
    unit = widest / spacing
    return Local(x / unit, y / unit, x_center, y_center, unit, pair.id)


def points(pair: AssemblyPair) -> tuple[Points, Points]:
    """The points of source and reference that are seen."""
    x, y = (as_piece(side, POINTS, SEED).seen.points for side in (pair.source, pair.reference))
    return x, y
