"""What the script of a report draws, as numbers that JSON can hold."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.pictures.stage import Shown, Stage


def encoded(stage: Stage) -> dict[str, Any]:
    """What the script of the page draws: float32 coordinates relative to centres, all else in full."""
    return {
        "source": _encoded_cloud(stage.source),
        "reference": _encoded_cloud(stage.reference),
        "before": stage.before.tolist(),
        "view": stage.view.ravel().tolist(),
        "notes": list(stage.notes),
        **_motion(stage),
    }


def encoded_motion(stage: Stage, pose: Float64[np.ndarray, "4 4"]) -> dict[str, Any]:
    """What of ``encoded`` is different where the source goes by another pose."""
    rotation, center = pose[:3, :3], stage.source.center
    after = rotation @ center + pose[:3, 3] - stage.reference.center
    return _motion(replace(stage, rotation=rotation, after=after))


def _motion(stage: Stage) -> dict[str, Any]:
    source, reference = stage.source.points, stage.reference.points
    ends = source + stage.before, stage.moved(source)
    return {
        "quaternion": quaternion_wxyz(stage.rotation),
        "after": stage.after.tolist(),
        "fit": [_fit(stage.view, placed, reference) for placed in ends],
    }


def quaternion_wxyz(rotation: Float64[np.ndarray, "3 3"]) -> list[float]:
    x, y, z, w = Rotation.from_matrix(rotation).as_quat(canonical=True).tolist()
    return [w, x, y, z]


def _encoded_cloud(cloud: Shown) -> dict[str, Any]:
    return {
        "center": cloud.center.tolist(),
        "points": _base64(cloud.points, "<f4"),
        "normals": _base64(np.round(127 * cloud.normals), "i1"),
        "keypoints": None if cloud.keypoints is None else _base64(cloud.keypoints, "<f4"),
        "spacing": cloud.spacing,
        "count": cloud.count,
    }


def _base64(rows: Float64[np.ndarray, "n 3"], kind: str) -> str:
    return base64.b64encode(rows.astype(kind).tobytes()).decode()


def _fit(
    view: Float64[np.ndarray, "3 3"],
    source: Float64[np.ndarray, "n 3"],
    reference: Float64[np.ndarray, "m 3"],
) -> dict[str, Any]:
    """A ball that holds both clouds, in the middle of what is seen from ``view``."""
    both = np.concatenate([source, reference]) @ view.T
    center = (both.min(0) + both.max(0)) / 2
    radius = float(np.linalg.norm(both - center, axis=1).max())
    return {"center": (center @ view).tolist(), "radius": radius or 1.0}
