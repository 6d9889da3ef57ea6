"""The laws stage by stage: the first that breaks one is where to look."""

from __future__ import annotations

from copy import deepcopy

import torch

from bitr.evaluation.certificate.certificate import Row, rows_of
from bitr.evaluation.certificate.laws import feature_errors, pose_errors
from bitr.evaluation.certificate.pairs import PairMaker, Trial, as_cloud
from bitr.evaluation.certificate.trace import trace
from bitr.model import BITR
from bitr.testing import Laws


def layer_rows(model: BITR, make: PairMaker, trials: int, seed: int) -> list[Row]:
    """The errors of all stages in float64, from the centred clouds to the pose."""
    exact = deepcopy(model).cpu().double().eval()
    generator = torch.Generator().manual_seed(seed)
    errors: dict[str, list[Laws]] = {}
    for _ in range(trials):
        for path, laws in _stage_errors(exact, Trial.draw(make, generator)).items():
            errors.setdefault(path, []).append(laws)
    return [row for path, laws in errors.items() for row in rows_of("layer", path, "float64", laws)]


def _stage_errors(model: BITR, trial: Trial) -> dict[str, Laws]:
    traces = [
        trace(model, *(as_cloud(piece, torch.float64, model.config) for piece in pair))
        for pair in trial.pairs()
    ]
    errors = {path: feature_errors(trial, [t.stages[path] for t in traces]) for path in traces[0].stages}
    return errors | {"projection": pose_errors(trial, [t.pose for t in traces])}
