"""The three errors of one trial, from the four answers to its pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bitr.evaluation.certificate.features import Features, feature_gap
from bitr.evaluation.certificate.pairs import Trial
from bitr.groups import Rigid
from bitr.testing import Laws, as_rigid, pose_gap


def pose_errors(trial: Trial, answers: Iterable[Any]) -> Laws:
    """Δ_bi, Δ_swap and Δ_scale of poses, each a ``Rigid`` or a 4×4 matrix, also as a batch of one."""
    plain, moved, swapped, scaled = (_pose(answer) for answer in answers)
    expected = trial.g2 @ plain @ trial.g1.inverse(), plain.inverse(), plain.scaled(trial.factor)
    cases = zip((moved, swapped, scaled), expected, trial.pairs()[1:], strict=True)
    return Laws(*(pose_gap(actual, wanted, source.points) for actual, wanted, (source, _) in cases))


def feature_errors(trial: Trial, answers: Iterable[Features]) -> Laws:
    """The same of features, relative to their size."""
    plain, moved, swapped, scaled = answers
    return Laws(
        feature_gap(moved, plain.moved(trial.g1.rotation, trial.g2.rotation)),
        feature_gap(swapped, plain.swapped()),
        feature_gap(scaled, plain),
    )


def _pose(answer: Any) -> Rigid:
    pose = as_rigid(answer)
    return pose[0] if pose.rotation.dim() == 3 else pose
