"""A trained baseline as a method among others."""

from __future__ import annotations

import os

import numpy as np
import torch
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.transforms import thin
from bitr.evaluation.baselines.learned.weights import load
from bitr.evaluation.method import Method

SEED = 0


def learned_method(path: str | os.PathLike[str]) -> Method:
    """The trained baseline of a file, or of the folder of a training run.

    A pair is thinned as in training, to as many points, by a generator that starts anew for each pair: the
    answer depends on the pair alone.
    """
    model = load(path)

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        seen = thin(pair, model.sizes.points, np.random.default_rng(SEED))
        source, reference = (torch.from_numpy(side.points)[None] for side in (seen.source, seen.reference))
        with torch.inference_mode():
            return model(source, reference).matrix()[0].numpy()

    return Method(model.title, solve)
