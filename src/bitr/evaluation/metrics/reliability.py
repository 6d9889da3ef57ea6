"""Whether probabilities mean what they say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.stats import rankdata

from bitr.errors import InputError

BINS = 10


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of equally many answers, from the least to the most confident."""

    confidence: Float64[np.ndarray, " k"]
    """Mean confidence of each bin."""
    right: Float64[np.ndarray, " k"]
    """Share of its answers that are right."""
    count: Int64[np.ndarray, " k"]

    @property
    def expected_error(self) -> float:
        r"""The expected calibration error :math:`\sum_k \frac{n_k}{n} |p_k - a_k|`.

        0 for perfect calibration. With n answers in k bins, chance alone leaves about
        :math:`0.8\sqrt{k\,a(1-a)/n}`: 0.04 for 1000 answers, half of them right, in 10 bins.
        """
        return float(np.average(np.abs(self.confidence - self.right), weights=self.count))


def reliability(
    confidence: Float64[np.ndarray, " n"], right: Bool[np.ndarray, " n"], bins: int = BINS
) -> Reliability:
    """Confidence against what came true, in bins of equally many answers, up to one."""
    if len(confidence) < bins:
        raise InputError(f"{len(confidence)} answers are too few for {bins} bins")
    parts = np.array_split(np.argsort(confidence, kind="stable"), bins)
    return Reliability(
        np.array([confidence[part].mean() for part in parts]),
        np.array([right[part].mean() for part in parts]),
        np.array([len(part) for part in parts]),
    )


def auroc(confidence: Float64[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> float | None:
    """Chance that a right answer is held for surer than a wrong one; 0.5 when it says nothing.

    None where all answers are right or all are wrong.
    """
    k = np.count_nonzero(right)
    if k in (0, len(right)):
        return None
    ranks = rankdata(confidence)[right].sum() - k * (k + 1) / 2
    return float(ranks / (k * (len(right) - k)))
