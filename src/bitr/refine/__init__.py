"""Poses from correspondence, and poses made better where pieces overlap."""

from collections.abc import Callable

from bitr.refine.arun import arun
from bitr.refine.contact import Separation, separate
from bitr.refine.frame import Matrix, Points
from bitr.refine.icp import icp
from bitr.refine.one_sided import one_sided_icp
from bitr.refine.ot import ot
from bitr.refine.refinement import Refinement, left


def none(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The pose as it is."""
    return left(ref_from_src, "no refinement was asked for")


REFINEMENTS: dict[str, Callable[[Points, Points, Matrix], Refinement]] = {
    "none": none,
    "icp": icp,
    "ot": ot,
}
"""By the names that settings and commands use."""

__all__ = [
    "REFINEMENTS",
    "Refinement",
    "Separation",
    "arun",
    "icp",
    "none",
    "one_sided_icp",
    "ot",
    "separate",
]
