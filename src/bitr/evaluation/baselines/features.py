"""Global registration by point features: FPFH with RANSAC, and FGR, both of Open3D (extra ``baselines``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.evaluation.baselines.extra import load
from bitr.evaluation.baselines.local import BUDGET, Points, centered
from bitr.evaluation.method import Method

NORMAL_RADIUS, FEATURE_RADIUS = 2.0, 5.0
"""In spacings of the clouds, as are all lengths here: the voxel of the usual recipe is 1. The clouds were
thinned before, so that no grid is laid over them."""
NORMAL_NEIGHBORS, FEATURE_NEIGHBORS = 30, 100
WITHIN = 1.5
"""How far apart corresponding points may end."""
POINTS_A_TRIAL, EDGE_RATIO = 4, 0.9
MOST_TRIALS, CONFIDENCE = 100_000, 0.999
SEED = 0

Match = Callable[[Any, Any, Any], Any]
"""(Open3D's registration, source, reference) → its result; the pieces are (cloud, features)."""


def fpfh_ransac(budget: int = BUDGET) -> Method:
    """RANSAC over mutually nearest features: four pairs a trial, checked by edge length and distance.

    Where no trial passes the checks the centroids are brought together and nothing is turned.
    """
    return _by_features("FPFH + RANSAC", budget, _ransac)


def fgr(budget: int = BUDGET) -> Method:
    """Fast global registration (Zhou et al. 2016): a robust fit of mutually nearest features."""
    return _by_features("FGR", budget, _fgr)


def _by_features(name: str, budget: int, match: Match) -> Method:
    o3d, pools = load("open3d", name), load("threadpoolctl", name)

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        local = centered(pair, budget)
        quiet = o3d.utility.VerbosityContextManager(o3d.utility.VerbosityLevel.Error)
        # with several threads the seed does not decide: trials end early in an order that the system chooses
        with quiet, pools.threadpool_limits(1, "openmp"):
            o3d.utility.random.seed(SEED)
            x, y = _described(o3d, local.x), _described(o3d, local.y)
            try:
                found = match(o3d.pipelines.registration, x, y)
            except RuntimeError as error:  # its way to say that there is nothing to draw from
                raise InputError(f"{pair.id}: {name} finds no features that match") from error
        return local.pose(np.array(found.transformation))

    return Method(name, solve)


def _described(o3d: Any, points: Points) -> tuple[Any, Any]:
    """The cloud with normals away from its centroid, the origin, and a feature at each point."""
    search = o3d.geometry.KDTreeSearchParamHybrid
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points))
    cloud.estimate_normals(search(NORMAL_RADIUS, NORMAL_NEIGHBORS))
    normals = np.array(cloud.normals)
    inward = np.einsum("ni,ni->n", normals, points) < 0
    cloud.normals = o3d.utility.Vector3dVector(np.where(inward[:, None], -normals, normals))
    features = o3d.pipelines.registration.compute_fpfh_feature(
        cloud, search(FEATURE_RADIUS, FEATURE_NEIGHBORS)
    )
    return cloud, features


def _ransac(registration: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
    return registration.registration_ransac_based_on_feature_matching(
        x[0],
        y[0],
        x[1],
        y[1],
        mutual_filter=True,
        max_correspondence_distance=WITHIN,
        estimation_method=registration.TransformationEstimationPointToPoint(False),
        ransac_n=POINTS_A_TRIAL,
        checkers=[
            registration.CorrespondenceCheckerBasedOnEdgeLength(EDGE_RATIO),
            registration.CorrespondenceCheckerBasedOnDistance(WITHIN),
        ],
        criteria=registration.RANSACConvergenceCriteria(MOST_TRIALS, CONFIDENCE),
    )


def _fgr(registration: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> Any:
    # Its lengths are shares of the clouds' extent. decrease_mu is False unless it is said, and then the fit
    # stays the convex one, in which wrong correspondences count as much as right ones.
    option = registration.FastGlobalRegistrationOption(decrease_mu=True)
    return registration.registration_fgr_based_on_feature_matching(x[0], y[0], x[1], y[1], option)
