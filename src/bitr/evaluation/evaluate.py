"""A method on many pairs: a score for each, and what they come to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly
from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.evaluation.method import Method, pose_of
from bitr.evaluation.metrics import BENCHMARKS, Recall, part_accuracy, recall
from bitr.evaluation.metrics.overlap import REGISTERED
from bitr.evaluation.metrics.reliability import BINS, auroc, reliability
from bitr.evaluation.score import ERRORS, Score, answered, failed

Progress = Callable[[int, int], None]
"""Is told how many of how many are done."""
QUANTILES = (0.05, 0.25, 0.75, 0.95)
SURE, LOW = 0.9, 0.2
"""Confidences above which an answer is taken to be right, and below which it is not."""
MATCH3D = f"3DMatch (RMSE {REGISTERED:g} m)"


@dataclass(frozen=True)
class Summary:
    """Of the pairs that were answered."""

    mean: float
    std: float
    """Standard deviation over the pairs, by n."""
    median: float
    quantiles: dict[str, float]


@dataclass(frozen=True)
class Trust:
    """What confidences are worth."""

    mean: float
    error: float | None
    """Expected calibration error."""
    auroc: float | None
    wrong_above: float | None
    """Share of wrong answers among those with a confidence above ``SURE``."""
    below: float
    """Share of answers with a confidence below ``LOW``."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of a method on a data set.

    Means, medians and quantiles are over the pairs that were answered; ``failed`` says how many were not, and
    recalls and the part accuracy count those as wrong. So a method cannot gain by refusing, unnoticed.
    """

    method: str
    scores: tuple[Score, ...]

    @property
    def failed(self) -> int:
        return sum(score.transformation is None for score in self.scores)

    def values(self, error: str) -> Float64[np.ndarray, " n"]:
        """One error of every pair; NaN where there is none."""
        found = (None if s.errors is None else getattr(s.errors, error) for s in self.scores)
        return np.array([np.nan if value is None else value for value in found])

    def summary(self, error: str) -> Summary | None:
        return summary(self.values(error))

    @property
    def right(self) -> float | None:
        """Share of all pairs."""
        return float(np.mean([score.right for score in self.scores])) if self.scores else None

    def within(self, degrees: float) -> float | None:
        """Share of all pairs that are right and turned by no more."""
        if not self.scores:
            return None
        near = self.values("rotation_error_deg") <= degrees
        return float(np.mean(near & [score.right for score in self.scores]))

    @property
    def trust(self) -> Trust | None:
        """How far the confidences mean what they say; None where there are none."""
        known = [score for score in self.scores if score.confidence is not None]
        if not known:
            return None
        confidence = np.array([score.confidence for score in known], dtype=np.float64)
        right = np.array([score.right for score in known])
        sure = confidence > SURE
        return Trust(
            mean=float(confidence.mean()),
            error=reliability(confidence, right).expected_error if len(known) >= BINS else None,
            auroc=auroc(confidence, right),
            wrong_above=float((~right)[sure].mean()) if sure.any() else None,
            below=float((confidence < LOW).mean()),
        )

    @property
    def seconds(self) -> Summary | None:
        """Of all pairs, failed ones too."""
        return summary(np.array([np.nan if s.seconds is None else s.seconds for s in self.scores]))

    @property
    def unit(self) -> str | None:
        """Of the lengths; None where pairs differ."""
        units = {score.unit for score in self.scores}
        return units.pop() if len(units) == 1 else None

    @property
    def part_accuracy(self) -> float | None:
        """None for pairs with a unit of length: the threshold is for shapes of about size 1."""
        return part_accuracy(self.values("part_chamfer")) if self.unit == "" else None

    @property
    def recalls(self) -> dict[str, Recall]:
        """By the benchmarks whose unit is that of the pairs; 3DMatch's where all pairs overlap."""
        degrees, lengths = self.values("rotation_error_deg"), self.values("translation_error")
        found = {
            benchmark.label: recall(benchmark.accepts(degrees, lengths), degrees, lengths)
            for benchmark in BENCHMARKS
            if benchmark.unit == self.unit
        }
        rmse = self.values("registration_rmse")
        if self.unit == "m" and not np.isnan(rmse[~np.isnan(degrees)]).any():
            scenes = [score.scene for score in self.scores]
            found[MATCH3D] = recall(rmse < REGISTERED, degrees, lengths, scenes)
        return found

    def to_dict(self) -> dict[str, Any]:
        summaries = {error: self.summary(error) for error in ERRORS} | {"seconds": self.seconds}
        return {
            "method": self.method,
            "pairs": len(self.scores),
            "failed": self.failed,
            "unit": self.unit,
            **{name: None if found is None else asdict(found) for name, found in summaries.items()},
            "right": self.right,
            "within_5_deg": self.within(5.0),
            "trust": None if self.trust is None else asdict(self.trust),
            "part_accuracy": self.part_accuracy,
            "recalls": {name: asdict(found) for name, found in self.recalls.items()},
            "scores": [score.to_dict() for score in self.scores],
        }

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; what is not known is null."""
        return json.dumps(self.to_dict(), allow_nan=False)


def evaluate(method: Method, pairs: Sequence[AssemblyPair], progress: Progress | None = None) -> Evaluation:
    """Give every pair its score. A pair that the method refuses with an InputError is counted as failed.

    Errors are in the unit of each pair; ``seconds`` are of the method alone.
    """
    scores = []
    for pair in pairs:
        scores.append(_score(method, pair))
        if progress is not None:
            progress(len(scores), len(pairs))
    if not scores:
        raise InputError(f"{method.name}: no pairs to evaluate on, expected at least one")
    return Evaluation(method.name, tuple(scores))


def _score(method: Method, pair: AssemblyPair) -> Score:
    start = time.perf_counter()
    try:
        answer = method.solve(pair)
        confidence = answer.confidence if isinstance(answer, Assembly) else None
        return answered(pair, pose_of(answer), time.perf_counter() - start, confidence)
    except InputError as error:
        return failed(pair, str(error), time.perf_counter() - start)


def summary(values: Float64[np.ndarray, " n"]) -> Summary | None:
    """Of the values that are numbers; None where there are none."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    quantiles = {f"{q:g}": float(np.quantile(known, q)) for q in QUANTILES}
    return Summary(float(known.mean()), float(known.std()), float(np.median(known)), quantiles)
