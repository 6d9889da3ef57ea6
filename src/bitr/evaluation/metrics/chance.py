"""What guessing gives: the error of a rotation that is drawn uniformly, for shapes without symmetry."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

MEAN_DEG = float(np.rad2deg(np.pi / 2 + 2 / np.pi))
"""126.5°: the mean of θ under the density (1 − cos θ)/π on [0, π], which is (π²/2 + 2)/π."""
STD_DEG = float(np.rad2deg(np.sqrt(np.pi**2 / 12 - 4 / np.pi**2)))
"""37.0°: θ² has the mean π²/3 + 2, less the square of the mean."""


def chance_density(degrees: Float64[np.ndarray, "*n"]) -> Float64[np.ndarray, "*n"]:
    r"""Probability density of Δr, per degree: :math:`(1 - \cos\theta)/\pi` per radian."""
    return np.asarray((1 - np.cos(np.deg2rad(degrees))) / 180)


def chance_recall(degrees: Float64[np.ndarray, "*n"] | float) -> Float64[np.ndarray, "*n"]:
    r"""Probability that Δr is at most so much: :math:`(\theta - \sin\theta)/\pi`."""
    theta = np.deg2rad(np.asarray(degrees, dtype=np.float64))
    return np.asarray((theta - np.sin(theta)) / np.pi)


def chance_quantile(share: float) -> float:
    """The Δr in degrees that a share of the guesses stays below; 132.3 for a half."""
    from scipy.optimize import brentq

    return float(brentq(lambda degrees: float(chance_recall(degrees)) - share, 0.0, 180.0, xtol=1e-10))
