"""A model as it was trained, and any method with a refinement after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.transforms import thin
from bitr.evaluation.method import Method
from bitr.evaluation.model_method import model_method
from bitr.evaluation.perturbations import swapped
from bitr.io import Geometry
from bitr.model import BITR
from bitr.refine import REFINEMENTS


def as_trained(model: BITR, points: int, name: str = "BITR") -> Method:
    """The model on pairs that are thinned as in training; what it sees is decided so that its laws hold."""
    method = model_method(model, name=name)
    return Method(method.name, lambda pair: method.solve(thinned(pair, points)))


def thinned(pair: AssemblyPair, points: int) -> AssemblyPair:
    """Both sides thinned alike, to at most ``points`` points; swapping or moving the sides changes nothing.

    What is drawn of a cloud follows from its number of points alone.
    """
    other = swapped(pair, np.random.default_rng()).pair
    return replace(pair, source=_thinned_source(pair, points), reference=_thinned_source(other, points))


def _thinned_source(pair: AssemblyPair, points: int) -> Geometry:
    return thin(pair, points, np.random.default_rng(len(pair.source.points))).source


def refined(method: Method, name: str) -> Method:
    """The method, and then a refinement on all points."""
    refine = REFINEMENTS[name]

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        return refine(pair.source.points, pair.reference.points, method.solve(pair)).pose

    return Method(f"{method.name} + {name.upper()}", solve)
