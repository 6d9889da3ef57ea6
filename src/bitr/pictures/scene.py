"""What a report or a picture is made of: two clouds, and the pose that puts one onto the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.errors import InputError

NOT_A_ROTATION = 1e-3
"""How far RᵀR may be from the identity; poses from float32 weights are within 1e-5."""


@dataclass(frozen=True)
class Scene:
    """An assembled pair; each cloud and its key points in the coordinates of its own file."""

    source: Float64[np.ndarray, "n 3"]
    reference: Float64[np.ndarray, "m 3"]
    transformation: Float64[np.ndarray, "4 4"]
    """``ref_from_src``: acts on column vectors, takes the source onto the reference."""
    source_keypoints: Float64[np.ndarray, "l 3"] | None = None
    reference_keypoints: Float64[np.ndarray, "l 3"] | None = None
    title: str = "assembly"
    facts: Sequence[tuple[str, str]] = ()
    """Rows of name and value to show beside the picture; a name that starts with "warning" stands out."""

    def __post_init__(self) -> None:
        for name in ("source", "reference", "source_keypoints", "reference_keypoints"):
            points = getattr(self, name)
            if points is not None and not (len(points) and np.isfinite(points).all()):
                raise InputError(f"{name}: {len(points)} points, expected at least one, all of them finite")
        rotation = self.transformation[:3, :3]
        off = (
            np.abs(rotation.T @ rotation - np.eye(3)).max()
            if np.isfinite(self.transformation).all()
            else np.inf
        )
        if (
            off > NOT_A_ROTATION
            or np.linalg.det(rotation) < 0
            or (self.transformation[3] != [0, 0, 0, 1]).any()
        ):
            raise InputError(f"transformation: expected a rigid motion, found {self.transformation.tolist()}")
