"""A pair to assemble, with its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.errors import InputError
from bitr.io import Geometry


@dataclass(frozen=True, eq=False)
class AssemblyPair:
    """Two pieces and the motion that takes the source onto the reference (4×4, on column vectors)."""

    source: Geometry
    reference: Geometry
    ref_from_src: Float64[np.ndarray, "4 4"]
    id: str
    symmetry: Float64[np.ndarray, "s 4 4"] | None = None
    """Motions s of the source, the identity among them, that give the same assembly: ``ref_from_src @ s`` is
    as right as ``ref_from_src``. None where nothing is known."""
    unit: str = ""
    """Of its lengths: "m" for metres, empty for shapes that were brought to size 1."""
    axis: Float64[np.ndarray, "2 3"] | None = None
    """Two points of the source's axis of revolution, where it has one: turned about it by any angle it gives
    the same assembly, beside the motions of ``symmetry``, which take the axis onto itself."""
    related: bool = True
    """Whether the pieces belong together. Where they do not, ``ref_from_src`` means nothing, and no pose is
    right."""

    def __post_init__(self) -> None:
        rotation, last = self.ref_from_src[:3, :3], self.ref_from_src[3]
        off = np.abs(rotation @ rotation.T - np.eye(3)).max()
        if not (off < 1e-6 and np.linalg.det(rotation) > 0 and np.array_equal(last, (0, 0, 0, 1))):
            raise InputError(
                f"{self.id}: ref_from_src is no rigid motion (its rotation is off by {off:.1e}, its last row "
                f"is {last.tolist()}), expected a rotation, a translation and 0 0 0 1"
            )
