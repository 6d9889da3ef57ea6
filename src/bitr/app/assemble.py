"""The main job: two files, arrays or meshes in, a pose out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from bitr.app.answer import Answer, answer
from bitr.app.assembly import Assembly, Hypothesis
from bitr.app.doubts import doubts
from bitr.app.network import Network
from bitr.app.settings import Settings
from bitr.io import Geometry, as_geometry
from bitr.model import BITR


def assemble(
    source: Any,
    reference: Any,
    *,
    model: str | os.PathLike[str] | BITR = "default",
    refine: str = "none",
    hypotheses: int = 1,
    separate: bool = False,
    budget: int | None = None,
    seed: int = 0,
) -> Assembly:
    """The motion that takes the source onto the reference.

    Both may be paths, (n, 3) or (n, 6) arrays or tensors, Open3D or trimesh objects. The model, its name or
    its path says which weights; ``budget`` is how many points of each cloud the model sees (as many as in
    training where that is known, else 1,000); ``refine`` is a
    name of ``bitr.refine.REFINEMENTS``; ``hypotheses`` is how many poses to return at most; ``separate``
    brings pieces apart that reach into each other, which takes closed meshes or normals that point outwards.
    Like the model, the whole moves with the pieces: moving, swapping or scaling the inputs moves, inverts or
    scales the pose.
    """
    settings = Settings(refine, hypotheses, separate, budget, seed)
    network = Network.of(model)
    return assemble_geometries(
        as_geometry(source, "source"), as_geometry(reference, "reference"), network, settings
    )


def assemble_geometries(
    source: Geometry, reference: Geometry, network: Network, settings: Settings
) -> Assembly:
    """The same, for what has been read already and a model that has been loaded already."""
    start = time.perf_counter()
    found = answer(source, reference, network, settings)
    solution, ranked, separation = found.solution, found.hypotheses, found.separation
    gap = float(solution.singular_gap[0])
    doubt = doubts(found.source.points, found.reference.points, found.symmetries, gap)
    return Assembly(
        transformation=found.pose,
        confidence=None if doubt.degenerate else network.confidence(settings.refine, found.signals),
        hypotheses=tuple(map(Hypothesis, ranked.poses, ranked.weights.tolist())),
        fitness=found.after.fitness,
        inlier_rmse=found.after.inlier_rmse,
        penetration_before=None if separation is None else separation.depth_before,
        penetration_after=None if separation is None else separation.depth_after,
        ambiguous=doubt.ambiguous,
        degenerate=doubt.degenerate,
        reason=doubt.reason,
        seconds=time.perf_counter() - start,
        model=network.name,
        refine=settings.refine,
        source=source.name,
        reference=reference.name,
        warnings=(*_notes(source), *_notes(reference), *_left(settings, found)),
        source_keypoints=solution.source_keypoints[0].cpu().numpy(),
        reference_keypoints=solution.reference_keypoints[0].cpu().numpy(),
        singular_gap=gap,
    )


def _notes(geometry: Geometry) -> Iterator[str]:
    yield from (f"{geometry.name}: {warning}" for warning in geometry.warnings)


def _left(settings: Settings, found: Answer) -> Iterator[str]:
    if settings.refine != "none" and not found.refinement.moved:
        yield f"refine {settings.refine} left the pose as it was: {found.refinement.reason}"
    if found.separation is not None and not found.separation.free:
        yield f"the pieces were not separated: {found.separation.reason}"
