"""small_gicp behind one function, with lengths relative to the clouds: a baseline that knows no swap."""

from __future__ import annotations

from bitr.errors import InputError
from bitr.refine.frame import Frame, Matrix, Points
from bitr.refine.search import check
from bitr.refine.surface import NUM_NEIGHBORS

KINDS = {"plane": "PLANE_ICP", "gicp": "GICP"}
FARTHEST = 0.25
"""Distance up to which points are matched, of the unit of length."""
MAX_ITERATIONS = 50
PRECISION = 1e-5
"""In radians and units of length: steps below end the search."""


def one_sided_icp(
    source: Points,
    reference: Points,
    ref_from_src: Matrix,
    kind: str = "gicp",
    threads: int = 1,
) -> Matrix:
    """The source moved onto the reference, by one of ``KINDS``: point-to-plane or GICP.

    Scales with the pieces. GICP also moves with them; what small_gicp's point-to-plane finds depends on how
    they are turned. Matches go from the source to the reference alone: swapping the pieces does not invert
    the pose, and nothing tells when too little overlaps.
    """
    from small_gicp import PointCloud, align, estimate_normals_covariances

    check(source, reference, ref_from_src)
    if kind not in KINDS:
        raise InputError(f"kind = {kind!r}: expected one of {', '.join(KINDS)}")
    frame = Frame.of(source, reference)
    if not frame.unit > 0:
        raise InputError("the points of either piece are all at one place: expected pieces with a size")
    clouds = [PointCloud(frame.source(source)), PointCloud(frame.reference(reference))]
    for cloud in clouds:
        estimate_normals_covariances(cloud, num_neighbors=NUM_NEIGHBORS, num_threads=threads)
    found = align(
        clouds[1],
        clouds[0],
        init_T_target_source=frame.inside(ref_from_src),
        registration_type=KINDS[kind],
        max_correspondence_distance=FARTHEST,
        num_threads=threads,
        max_iterations=MAX_ITERATIONS,
        rotation_epsilon=PRECISION,
        translation_epsilon=PRECISION,
    )
    return frame.outside(found.T_target_source)
