"""How far a method's answer to one pair is from what the laws say."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.evaluation.method import Method
from bitr.evaluation.perturbations import under
from bitr.testing import Laws, as_rigid, pose_gap


def law_errors_on(
    method: Method, pair: AssemblyPair, pose: Float64[np.ndarray, "4 4"], rng: np.random.Generator
) -> Laws:
    """Δ_bi, Δ_swap and Δ_scale, one trial each, as ``bitr.testing.pose_gap`` measures them.

    The pair is moved, swapped and scaled, and each answer is brought back to the pair as it was, where a
    lawful method gives ``pose``, its answer to the pair itself. Three calls of the method.
    """
    plain = as_rigid(pose)
    gaps = {
        test: pose_gap(as_rigid(under(method, test, rng).pose(pair)), plain, pair.source.points)
        for test in ("moved", "swapped", "scaled")
    }
    return Laws(bi=gaps["moved"], swap=gaps["swapped"], scale=gaps["scaled"])


def as_row(laws: Laws) -> tuple[str, str]:
    """Name and value, for people."""
    found = (f"Δ_{name} {f'{error:.0e}' if error else '0'}" for name, error in asdict(laws).items())
    return "law errors", f"{', '.join(found)}; one trial each"
