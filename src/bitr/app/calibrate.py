"""Fitting the confidence on pairs whose answer is known, and checking it on others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from bitr.app.answer import answer
from bitr.app.calibration import Calibration, Origin
from bitr.app.logistic import Logistic, fit_logistic
from bitr.app.network import Network
from bitr.app.settings import Settings
from bitr.data import AssemblyPair, dataset
from bitr.data.registry import is_name
from bitr.errors import InputError
from bitr.evaluation.metrics.reliability import Reliability, auroc, reliability
from bitr.evaluation.right import is_right

FOLDS = 5
LEAST = 50
"""Pairs: fewer tell little of ten weights."""


@dataclass(frozen=True, eq=False)
class Answers:
    """Of some pairs: what tells how sure the answers are, and which of them are right."""

    features: Float64[np.ndarray, "n s"]
    right: Bool[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Check:
    """Confidences on pairs that they were not fitted on, beside what is right."""

    confidence: Float64[np.ndarray, " n"]
    right: Bool[np.ndarray, " n"]

    @property
    def reliability(self) -> Reliability:
        return reliability(self.confidence, self.right)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pairs": len(self.right),
            "share_right": float(self.right.mean()),
            "mean_confidence": float(self.confidence.mean()),
            "expected_calibration_error": self.reliability.expected_error,
            "auroc": auroc(self.confidence, self.right),
            "bins": {
                "confidence": self.reliability.confidence.tolist(),
                "share_right": self.reliability.right.tolist(),
            },
        }


def pairs_of(origin: Origin, root: Path | None) -> list[Sequence[AssemblyPair]]:
    """So many pairs of a data set, sampled anew as often as needed; of the user's own files each once."""
    found = [dataset(origin.data, origin.split, root, origin.seed)[: origin.pairs]]
    while (count := sum(map(len, found))) < origin.pairs and is_name(origin.data):
        again = dataset(origin.data, origin.split, root, origin.seed + len(found))
        found.append(again[: origin.pairs - count])
    return found


def answers_of(
    network: Network,
    samplings: Sequence[Sequence[AssemblyPair]],
    modes: Iterable[str],
    progress: Callable[[int, int], None],
) -> dict[str, Answers]:
    """Every pair assembled with every refinement, as ``bitr assemble`` does."""
    total, settings = sum(map(len, samplings)), {mode: Settings(refine=mode) for mode in modes}
    rows: dict[str, list[tuple[Float64[np.ndarray, " s"], bool]]] = {mode: [] for mode in settings}
    for done, pair in enumerate(chain.from_iterable(samplings)):
        for mode, setting in settings.items():
            found = answer(pair.source, pair.reference, network, setting)
            if found.signals is None:
                raise InputError(f"{network.name}: its key points have no votes to tell how sure it is")
            rows[mode].append((found.signals.features(), is_right(pair, found.pose)))
        progress(done + 1, total)
    return {
        mode: Answers(np.array([f for f, _ in found]), np.array([right for _, right in found]))
        for mode, found in rows.items()
    }


def calibrate(origin: Origin, answers: Mapping[str, Answers]) -> tuple[Calibration, dict[str, Check]]:
    """The calibration, fitted on all answers; and confidences that were each fitted on other answers."""
    for found in answers.values():
        if len(found.right) < LEAST:
            raise InputError(f"{origin.data}: {len(found.right)} pairs, expected at least {LEAST} to fit on")
    maps = {mode: fit_logistic(found.features, found.right) for mode, found in answers.items()}
    return Calibration(origin, maps), {mode: _held_back(found) for mode, found in answers.items()}


def check(calibration: Calibration, answers: Mapping[str, Answers]) -> dict[str, Check]:
    """The calibration on answers that it was not fitted on."""
    return {mode: _checked(calibration.maps[mode], found) for mode, found in answers.items()}


def _checked(fitted: Logistic, answers: Answers) -> Check:
    return Check(fitted.probability(answers.features), answers.right)


def _held_back(answers: Answers) -> Check:
    fold = np.arange(len(answers.right)) % FOLDS
    confidence = np.zeros(len(fold))
    for k in range(FOLDS):
        rest = fold != k
        fitted = fit_logistic(answers.features[rest], answers.right[rest])
        confidence[~rest] = fitted.probability(answers.features[~rest])
    return Check(confidence, answers.right)
