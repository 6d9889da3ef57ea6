"""Complete matching of App. D.4: an untrained U-BITR on a shape and the same shape, moved and disturbed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bitr.data import AssemblyPair, data_root
from bitr.data.bunny import bunny, stand_in
from bitr.data.pair import Pairs
from bitr.data.transforms import assembled, both, crop, jitter, move_randomly, two_samples
from bitr.errors import InputError
from bitr.evaluation.method import Method
from bitr.evaluation.reproduce.experiment import Experiment
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result, Table
from bitr.evaluation.reproduce.rows import Entry, measured
from bitr.evaluation.reproduce.untrained import median_u_bitr, u_bitr
from bitr.evaluation.reproduce.weights import data_words
from bitr.io import Geometry
from bitr.model import BITRConfig

NUM_POINTS, NOISE, KEEP = 1024, 0.01, 0.9
PAIRS = 5
"""Of each sampling; each has random models of its own. The paper has one."""
DISTURBED = ("X = Y", "resampled", f"noisy {NOISE:g}", f"cropped {KEEP:g}")
MEMBERS = 16
FAR_SIGHTED = BITRConfig(
    cloud_channels=4, width=0, num_neighbors=64, radial_functions=(1, 2), num_keypoints=8
)
"""Looks at more neighbours, and less closely: what random weights make of details is not found again in
another sample of the same shape."""
METHODS: dict[str, Callable[[str, int], Method]] = {
    "U-BITR": lambda name, seed: u_bitr(name, BITRConfig(), seed),
    "U-BITR as the paper builds it": lambda name, seed: u_bitr(name, BITRConfig.paper(), seed),
    "U-BITR, far-sighted": lambda name, seed: u_bitr(name, FAR_SIGHTED, seed),
    f"median of {MEMBERS} far-sighted U-BITR": lambda name, seed: median_u_bitr(
        name, FAR_SIGHTED, MEMBERS, seed
    ),
}
"""What makes each method, from its name and a seed."""


def complete_matching(experiment: Experiment, plan: Plan) -> Result:
    """A table for each way to disturb, a row for each kind of random model; nothing is trained."""
    if plan.model is not None:
        raise InputError("complete-matching is about untrained models: leave out --model")
    tables = tuple(_table(how, experiment, plan) for how in DISTURBED)
    return Result(
        experiment.name, experiment.title, experiment.section, plan.settings(), tables, experiment.notes
    )


def _table(how: str, experiment: Experiment, plan: Plan) -> Table:
    config = plan.config(*experiment.data)
    shape = stand_in() if config.data.name == "bunny-stand-in" else bunny(data_root(plan.root))
    pairs = [list(disturbed(shape, how, plan.seed + i)[: plan.limit]) for i in range(plan.samplings)]
    made = f"{data_words(config, plan)}; not trained"
    entries = [Entry(name, method(name, plan.seed), made) for name, method in METHODS.items()]
    figures = {"U-BITR": experiment.published[how]}
    return Table(how, measured(entries, pairs, figures, plan), pairs[0])


def disturbed(shape: Geometry, how: str, seed: int) -> Pairs:
    """The shape and the shape again, both at random places, differing in the given way."""
    return Pairs("complete-matching", how, seed, _Disturbed(shape, how), range(PAIRS))


@dataclass(frozen=True)
class _Disturbed:
    shape: Geometry
    how: str

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        x, other = two_samples(self.shape, NUM_POINTS, rng)
        pair = assembled(x, other if self.how == "resampled" else x, f"{self.how}/{i}")
        if self.how.startswith("noisy"):
            pair = both(pair, lambda side: jitter(side, NOISE, rng))
        if self.how.startswith("cropped"):
            pair = both(pair, lambda side: crop(side, KEEP, rng))
        return move_randomly(pair, rng)
