"""A BITR model as a method among others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.piece import Piece, as_cloud, as_piece, with_features
from bitr.evaluation.method import Method
from bitr.io import Geometry
from bitr.model import BITR

Refiner = Callable[[AssemblyPair, Float64[np.ndarray, "4 4"]], Float64[np.ndarray, "4 4"]]
"""(pair, pose) → a better pose. It must not look at the pair's own answer."""
OF_A_MESH = 1000
"""Points that the model sees of a mesh where no budget is given."""


def model_method(
    model: BITR,
    budget: int | None = None,
    refiner: Refiner | None = None,
    *,
    name: str = "BITR",
    seed: int = 0,
) -> Method:
    """The model on the pairs' points as they are; with a ``budget``, on at most so many of each cloud.

    Runs in the precision of the weights: ``model.double()`` for the laws to hold to rounding. The seed is of
    the sampling of meshes and of very large clouds.
    """
    return Method(name, partial(_solve, model, budget, refiner, seed))


def _solve(
    model: BITR, budget: int | None, refiner: Refiner | None, seed: int, pair: AssemblyPair
) -> Float64[np.ndarray, "4 4"]:
    x, y = (_piece(side, budget, seed) for side in (pair.source, pair.reference))
    source, reference = with_features(x, y, model.config)
    device = next(model.parameters()).device
    with torch.inference_mode():
        pose = model(as_cloud(source, device), as_cloud(reference, device))
    found = pose.matrix()[0].double().cpu().numpy()
    return found if refiner is None else refiner(pair, found)


def _piece(geometry: Geometry, budget: int | None, seed: int) -> Piece:
    if budget is None and geometry.faces is None:
        return Piece(geometry, geometry)
    return as_piece(geometry, budget or OF_A_MESH, seed)
