"""Many motions of a cloud onto itself at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64


@dataclass(frozen=True, eq=False)
class Turns:
    """Motions x ↦ rotation·x + shift of an outline onto itself."""

    rotations: Float64[np.ndarray, "c 3 3"]
    shifts: Float64[np.ndarray, "c 3"]

    @classmethod
    def about_center(cls, rotations: Float64[np.ndarray, "c 3 3"]) -> Turns:
        return cls(rotations, np.zeros((len(rotations), 3)))

    def __getitem__(self, chosen: slice | Int64[np.ndarray, " k"] | Bool[np.ndarray, " c"]) -> Turns:
        return Turns(self.rotations[chosen], self.shifts[chosen])

    def __len__(self) -> int:
        return len(self.rotations)

    def __add__(self, other: Turns) -> Turns:
        return Turns(
            np.concatenate([self.rotations, other.rotations]), np.concatenate([self.shifts, other.shifts])
        )

    def inverse(self) -> Turns:
        back = self.rotations.swapaxes(1, 2)
        return Turns(back, -np.einsum("cij,cj->ci", back, self.shifts))

    def act(self, points: Float64[np.ndarray, "*c m 3"]) -> Float64[np.ndarray, "c m 3"]:
        return points @ self.rotations.swapaxes(1, 2) + self.shifts[:, None]
