"""How large an error may be before a law counts as broken, for each precision, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LAWS = ("bi", "swap", "scale")


@dataclass(frozen=True)
class Bounds:
    """The largest allowed error of each law, and whether it is the worst or the median of the trials."""

    bi: float
    swap: float
    scale: float
    judged: Literal["worst", "median"]
    reason: str


BOUNDS = {
    "float64": Bounds(
        1e-9,
        1e-9,
        1e-9,
        "worst",
        "The laws are exact: what is left is rounding of 1e-16, amplified where key points lie close "
        "together or the rotation is barely determined.",
    ),
    "method": Bounds(
        1e-6,
        1e-6,
        1e-6,
        "worst",
        "Any audited method in float64: what iterates stops at a tolerance, and a millionth of a piece's "
        "size does no harm.",
    ),
    "float32": Bounds(
        3e-4,
        1e-5,
        1e-4,
        "median",
        "Rounding of 6e-8, amplified likewise; moving or scaling also rounds the points again, a swap does "
        "not. The median, since a pair that is barely determined is far off with no law broken.",
    ),
    "bfloat16": Bounds(
        0.3,
        1e-5,
        5e-2,
        "median",
        "Products on the clouds keep 8 bits, and turned clouds are rounded differently. A swap rounds the "
        "same numbers the same way.",
    ),
}
"""Several times the largest error over untrained models of both constructions and the weights that ship."""
