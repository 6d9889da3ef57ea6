"""Pure changes of clouds and pairs; whatever is random comes from the generator that is passed in.

Those that take a cloud leave its frame alone, so that a pair's ``ref_from_src`` stays right when either side
is changed; those that move a side take the pair, and return it with its new ``ref_from_src``.
``to_unit_sphere`` is for whole shapes, before a pair is made of them.
"""

from bitr.data.transforms.cutting import crop, split
from bitr.data.transforms.deform import deform, random_stretch, random_warp, warped
from bitr.data.transforms.motion import assembled, both, move, move_randomly
from bitr.data.transforms.noise import add_outliers, jitter
from bitr.data.transforms.sampling import (
    resample,
    sample_by_area,
    sample_farthest,
    sample_grid,
    sample_uniform,
    take,
    thin,
    two_samples,
)
from bitr.data.transforms.surface import to_unit_sphere, with_normals

__all__ = [
    "add_outliers",
    "assembled",
    "both",
    "crop",
    "deform",
    "jitter",
    "move",
    "move_randomly",
    "random_stretch",
    "random_warp",
    "resample",
    "sample_by_area",
    "sample_farthest",
    "sample_grid",
    "sample_uniform",
    "split",
    "take",
    "thin",
    "to_unit_sphere",
    "two_samples",
    "warped",
    "with_normals",
]
