"""A BITR model as a method among others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.piece import Piece, as_cloud, as_piece, with_features
from bitr.data.transforms import thin
from bitr.evaluation.method import Method
from bitr.evaluation.perturbations import swapped
from bitr.io import Geometry
from bitr.model import BITR

OF_A_MESH = 1000
"""Points that the model sees of a mesh where no budget is given."""


def model_method(model: BITR, budget: int | None = None, *, name: str = "BITR", seed: int = 0) -> Method:
    """The model on the pairs' points as they are; with a ``budget``, on at most so many of each cloud.

    Runs in the precision of the weights: ``model.double()`` for the laws to hold to rounding. The seed is of
    the sampling of meshes and of very large clouds.
    """
    return Method(name, partial(_solve, model, budget, seed))


def thinning_method(model: BITR, points: int, name: str = "BITR") -> Method:
    """The model on pairs that are thinned as in training, so that its laws hold, to ``points``."""
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


def _solve(model: BITR, budget: int | None, seed: int, pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
    x, y = (_piece(side, budget, seed) for side in (pair.source, pair.reference))
    source, reference = with_features(x, y, model.config)
    device = next(model.parameters()).device
    with torch.inference_mode():
        pose = model(as_cloud(source, device), as_cloud(reference, device))
    return pose.matrix()[0].double().cpu().numpy()


def _piece(geometry: Geometry, budget: int | None, seed: int) -> Piece:
    if budget is None and geometry.faces is None:
        return Piece(geometry, geometry)
    return as_piece(geometry, budget or OF_A_MESH, seed)
