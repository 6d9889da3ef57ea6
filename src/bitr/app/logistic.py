"""Logistic regression: from numbers to a probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.optimize import minimize
from scipy.special import expit

SPREAD = 1.0
"""Of the weights before anything is seen, for features that are brought to spread 1."""
RANGE = (0.01, 0.99)
"""Quantiles of what was seen, beyond which a feature counts as being at the end."""


@dataclass(frozen=True, eq=False)
class Logistic:
    r"""p = 1 / (1 + exp(−b − w·f)), with each feature first brought into the range that was seen.

    So features unlike all that was seen cannot make it surer than the surest that was.
    """

    bias: float
    weights: Float64[np.ndarray, " s"]
    low: Float64[np.ndarray, " s"]
    high: Float64[np.ndarray, " s"]

    def probability(self, features: Float64[np.ndarray, "*n s"]) -> Float64[np.ndarray, "*n"]:
        seen = np.clip(features, self.low, self.high)
        return np.asarray(expit(self.bias + seen @ self.weights))


def fit_logistic(features: Float64[np.ndarray, "n s"], right: Bool[np.ndarray, " n"]) -> Logistic:
    """The most likely map, when weights are taken to be normal of a given spread before anything is seen.

    Targets are (k + 1)/(k + 2) and 1/(n − k + 2) for the k right ones and the others, in place of 1 and 0
    (Platt), so that probabilities stay within what so many pairs can tell.
    """
    low, high = np.quantile(features, RANGE, axis=0)
    seen = np.clip(features, low, high)
    center, spread = seen.mean(0), seen.std(0)
    spread = np.where(spread > 1e-9 * (1 + np.abs(center)), spread, np.inf)  # what never changes says nothing
    design = np.column_stack([np.ones(len(seen)), (seen - center) / spread])
    k = np.count_nonzero(right)
    target = np.where(right, (k + 1) / (k + 2), 1 / (len(right) - k + 2))

    def loss(w: Float64[np.ndarray, " t"]) -> tuple[float, Float64[np.ndarray, " t"]]:
        score, pull = design @ w, np.append(0.0, w[1:]) / (SPREAD**2 * len(target))
        value = (np.logaddexp(0, score) - target * score).mean() + w @ pull / 2
        return float(value), design.T @ (expit(score) - target) / len(target) + pull

    found = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS").x
    weights = found[1:] / spread
    return Logistic(float(found[0] - weights @ center), weights, low, high)
