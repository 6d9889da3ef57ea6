"""The main job: two files, arrays or meshes in, a pose out."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import torch

from bitr.app.assembly import Assembly, Hypothesis
from bitr.app.fitness import fit
from bitr.app.network import Network
from bitr.app.settings import Settings
from bitr.data.piece import as_cloud, as_piece, with_features
from bitr.errors import InputError
from bitr.io import Geometry, as_geometry
from bitr.model import BITR, Solution
from bitr.refine import REFINEMENTS, Refinement

UNDETERMINED = 1e-3
"""A singular gap below this says that the rotation is not determined; at best it is 1.15."""

log = logging.getLogger("bitr")


def assemble(
    source: Any,
    reference: Any,
    *,
    model: str | os.PathLike[str] | BITR = "default",
    refine: str = "none",
    hypotheses: int = 1,
    budget: int = 1000,
    seed: int = 0,
) -> Assembly:
    """The motion that takes the source onto the reference.

    Both may be paths, (n, 3) or (n, 6) arrays or tensors, Open3D or trimesh objects. The model, its name or
    its path says which weights; ``budget`` is how many points of each cloud the model sees; ``refine`` is a
    name of ``bitr.refine.REFINEMENTS``. Like the model, the whole moves with the pieces: moving, swapping or
    scaling the inputs moves, inverts or scales the pose.
    """
    settings = Settings(refine, hypotheses, budget, seed)
    network = Network.of(model)
    return assemble_geometries(
        as_geometry(source, "source"), as_geometry(reference, "reference"), network, settings
    )


def assemble_geometries(
    source: Geometry, reference: Geometry, network: Network, settings: Settings
) -> Assembly:
    """The same, for what has been read already and a model that has been loaded already."""
    start = time.perf_counter()
    pieces = [as_piece(side, settings.budget, settings.seed) for side in (source, reference)]
    x, y = with_features(pieces[0], pieces[1], network.model.config)
    solution = _solve(x, y, network.model)
    refinement = REFINEMENTS[settings.refine](
        pieces[0].dense.points, pieces[1].dense.points, solution.pose.matrix()[0].cpu().numpy()
    )
    pose = refinement.pose
    found = fit(x.points @ pose[:3, :3].T + pose[:3, 3], y.points)
    gap = float(solution.singular_gap[0])
    return Assembly(
        transformation=pose,
        confidence=None,
        hypotheses=(Hypothesis(pose, 1.0),),
        fitness=found.fitness,
        inlier_rmse=found.inlier_rmse,
        seconds=time.perf_counter() - start,
        model=network.name,
        refine=settings.refine,
        source=source.name,
        reference=reference.name,
        warnings=(*_notes(source), *_notes(reference), *_doubts(gap), *_left(settings, refinement)),
        source_keypoints=solution.source_keypoints[0].cpu().numpy(),
        reference_keypoints=solution.reference_keypoints[0].cpu().numpy(),
        singular_gap=gap,
    )


def _solve(x: Geometry, y: Geometry, model: BITR) -> Solution:
    log.info("solving with %d and %d points", len(x.points), len(y.points))
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            return model.solve(as_cloud(x, device), as_cloud(y, device))
    except InputError as error:
        raise InputError(f"{x.name} and {y.name}: {error}") from error


def _notes(geometry: Geometry) -> Iterator[str]:
    yield from (f"{geometry.name}: {warning}" for warning in geometry.warnings)


def _doubts(gap: float) -> Iterator[str]:
    if gap < UNDETERMINED:
        yield (
            f"the rotation is not determined (singular gap {gap:.1e}): a piece is symmetric or degenerate, "
            "and other poses fit as well"
        )


def _left(settings: Settings, refinement: Refinement) -> Iterator[str]:
    if settings.refine != "none" and not refinement.moved:
        yield f"refine {settings.refine} left the pose as it was: {refinement.reason}"
