"""Complete matching of App. D.4: an untrained U-BITR on a shape and the same shape, moved and disturbed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from bitr.data import AssemblyPair
from bitr.data.pair import Pairs
from bitr.data.piece import as_cloud
from bitr.data.transforms import assembled, both, crop, jitter, move_randomly, two_samples
from bitr.evaluation.method import Method
from bitr.evaluation.metrics import Pose
from bitr.groups import Cloud, Rigid, nearest_rotation
from bitr.io import Geometry
from bitr.model import BITR, BITRConfig

NUM_POINTS, PAIRS = 1024, 5
"""Points of a cloud, and pairs of a sampling; each has random models of its own. The paper has one pair."""
MEMBERS = 16
FAR_SIGHTED = BITRConfig(
    cloud_channels=4, extractor="paper", num_neighbors=64, radial_functions=(1, 2), num_keypoints=8
)
"""More neighbours, seen less closely: random weights turn details into features that another sample of the
same shape does not have."""
ROUNDS = 50
"""Rounds of the search for a median; it has settled long before."""
LEAST = 1e-6
"""Distance below which two rotations count as one."""

METHODS: dict[str, Callable[[str, int], Method]] = {
    "U-BITR": lambda name, seed: u_bitr(name, BITRConfig(), seed),
    "U-BITR as the paper builds it": lambda name, seed: u_bitr(name, BITRConfig.paper(), seed),
    "U-BITR, far-sighted": lambda name, seed: u_bitr(name, FAR_SIGHTED, seed),
    f"median of {MEMBERS} far-sighted U-BITR": lambda name, seed: median_u_bitr(
        name, FAR_SIGHTED, MEMBERS, seed
    ),
}
"""Makers of the methods, from a name and a seed."""


def disturbed(shape: Geometry, how: str, seed: int) -> Pairs:
    """The shape and the shape again, both at random places: "X = Y", "resampled", "noisy 0.01" (standard
    deviation) or "cropped 0.9" (share that is kept)."""
    return Pairs("complete-matching", how, seed, _Disturbed(shape, how), range(PAIRS))


@dataclass(frozen=True)
class _Disturbed:
    shape: Geometry
    how: str

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        kind, _, amount = self.how.partition(" ")
        x, other = two_samples(self.shape, NUM_POINTS, rng)
        pair = assembled(x, other if kind == "resampled" else x, f"{self.how}/{i}")
        if kind == "noisy":
            pair = both(pair, lambda side: jitter(side, float(amount), rng))
        if kind == "cropped":
            pair = both(pair, lambda side: crop(side, float(amount), rng))
        return move_randomly(pair, rng)


def u_bitr(name: str, config: BITRConfig, seed: int) -> Method:
    """U-BITR, whose weights follow from the seed and from the pair's number."""
    return _untrained(name, lambda number, x, y: _model(config, seed, number).complete_match(x, y)[0])


def median_u_bitr(name: str, config: BITRConfig, members: int, seed: int) -> Method:
    """The median answer of several U-BITR, each also asked about the swapped pair: Φ(X, Y) Φ(X, X) and, from
    the other side, (Φ(Y, X) Φ(Y, Y))⁻¹ = Φ(Y, Y) Φ(X, Y).

    All of them are right where Y = gX (Prop. C.11), and so is their median, which moves with the pieces.
    """

    def answer(number: int, x: Cloud, y: Cloud) -> Rigid:
        answers = []
        for member in range(members):
            model = _model(config, seed, number, member)
            there = model(x, y)
            answers += [(there @ model(x, x))[0], (model(y, y) @ there)[0]]
        return median(answers, x.points.mean(1)[0])

    return _untrained(name, answer)


def _untrained(name: str, answer: Callable[[int, Cloud, Cloud], Rigid]) -> Method:
    def solve(pair: AssemblyPair) -> Pose:
        number = int(pair.id.rpartition("/")[2])
        x, y = (as_cloud(side, torch.device("cpu")) for side in (pair.source, pair.reference))
        with torch.inference_mode():
            return answer(number, x, y).matrix().numpy()

    return Method(name, solve)


def _model(config: BITRConfig, *seeds: int) -> BITR:
    """Random weights that follow from the seeds alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.default_rng(seeds).integers(2**62)))
        return BITR(config).double().eval()


def median(poses: list[Rigid], center: Float64[Tensor, " 3"]) -> Rigid:
    r"""The rotation with the least :math:`\sum_i \|r - r_i\|_F`; the place of the source's centroid alike.

    By Weiszfeld's iteration: means, weighted by the inverse of the distance. A few answers that are far off
    do not move it.
    """
    rotations = torch.stack([pose.rotation for pose in poses])
    places = torch.stack([pose.act(center[None])[0] for pose in poses])
    rotation, place = nearest_rotation(rotations.mean(0)), places.mean(0)
    for _ in range(ROUNDS):
        turned = 1 / (rotations - rotation).flatten(1).norm(dim=1).clamp_min(LEAST)
        shifted = 1 / (places - place).norm(dim=1).clamp_min(LEAST)
        rotation = nearest_rotation((turned[:, None, None] * rotations).sum(0))
        place = (shifted[:, None] * places).sum(0) / shifted.sum()
    return Rigid(rotation, place - rotation @ center)
