"""Groups and their representations: pure functions and small values, no parameters."""

from bitr.groups.harmonics import angular_table, clebsch_gordan, prepare_tables, solid_harmonics, wigner
from bitr.groups.representation import Degree, Field, Rep, components, swap, swapped, turn
from bitr.groups.rigid import Cloud, Rigid
from bitr.groups.rotation import nearest_rotation, nearest_rotation_and_gap, proper_svd, rotation_angle

__all__ = [
    "Cloud",
    "Degree",
    "Field",
    "Rep",
    "Rigid",
    "angular_table",
    "clebsch_gordan",
    "components",
    "nearest_rotation",
    "nearest_rotation_and_gap",
    "prepare_tables",
    "proper_svd",
    "rotation_angle",
    "solid_harmonics",
    "swap",
    "swapped",
    "turn",
    "wigner",
]
