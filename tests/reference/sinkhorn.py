"""Entropic partial transport as it is usually written: logarithms, one side after the other."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp


def log_slack_plan(affinity: np.ndarray, rounds: int = 2000) -> np.ndarray:
    """The plan with its slack row and column, (n + 1, m + 1); their corner holds 1."""
    n, m = affinity.shape
    logits = np.zeros((n + 1, m + 1))
    logits[:n, :m] = np.log(affinity)
    f, g = np.zeros(n + 1), np.zeros(m + 1)
    for _ in range(rounds):
        f[:n] = -logsumexp(logits + g, axis=1)[:n]
        g[:m] = -logsumexp(logits + f[:, None], axis=0)[:m]
    return np.exp(logits + f[:, None] + g)
