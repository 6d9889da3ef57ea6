"""The pairs of an evaluation from the best answered to the worst, and a few of them to look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitr.evaluation.report import Repeated
from bitr.evaluation.score import Score


@dataclass(frozen=True, eq=False)
class Ranked:
    """A pair: which of which sampling, and how it was answered."""

    sampling: int
    number: int
    score: Score
    name: str
    """The pair's id and, where there are several, its sampling."""


def ranked(row: Repeated) -> tuple[Ranked, ...]:
    """All pairs of all samplings, the smallest rotation error first; last, those without an answer."""
    several = len(row.samplings) > 1
    found = [
        Ranked(sampling, number, score, score.id + (f", sampling {sampling + 1}" if several else ""))
        for sampling, evaluation in enumerate(row.samplings)
        for number, score in enumerate(evaluation.scores)
    ]
    return tuple(sorted(found, key=_wrong))


def _wrong(pair: Ranked) -> float:
    return np.inf if pair.score.errors is None else pair.score.errors.rotation_error_deg


def spread(total: int, most: int) -> list[int]:
    """At most so many of the numbers below ``total``, evenly spread, with both ends; an odd ``most`` has the
    middle too."""
    return sorted({round(place) for place in np.linspace(0, total - 1, min(most, total)).tolist()})
