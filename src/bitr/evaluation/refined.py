"""A method with a refinement after it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.evaluation.method import Method
from bitr.io import as_points
from bitr.refine import REFINEMENTS

ACRONYMS = ("icp", "ot")
OF_A_MESH = 2000
"""Points that a refinement sees of a mesh; of a cloud it sees all."""


def refined(method: Method, name: str) -> Method:
    """The method, and then the refinement of that name."""
    refine = REFINEMENTS[name]

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        x, y = (as_points(side, OF_A_MESH, seed=0).points for side in (pair.source, pair.reference))
        return refine(x, y, method.pose(pair)).pose

    return Method(f"{method.name} + {name.upper() if name in ACRONYMS else name}", solve)
