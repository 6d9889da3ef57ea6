"""Pieces, small networks and hand-made verifiers that the tests of the engine share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from bitr.assembly.assemble import Judged, Settings, judge
from bitr.assembly.network import Network
from bitr.assembly.verify import NAMES, Verifier
from bitr.data import AssemblyPair, bumpy_shape
from bitr.data.poses import inverse, pose
from bitr.data.transforms import assembled, crop, move_randomly, split, two_samples
from bitr.groups import Rigid
from bitr.io import Geometry
from bitr.model import BITR, BITRConfig
from tests.pieces import motion, moved, two_pieces

SMALL = BITRConfig(num_keypoints=4, channels=2, cloud_channels=2, num_layers=1, num_neighbors=4, num_heads=1)
LINEAR = 1e-4
"""Scale at which tanh is linear to 1e-8."""


def small_model(seed: int = 0) -> BITR:
    torch.manual_seed(seed)
    return BITR(SMALL).double().eval()


def linear_verifier(bias: float = 0.0, **weights: float) -> Verifier:
    """The score is the bias and the weighted sum of the named numbers, the confidence its logistic."""
    hidden = np.zeros((len(NAMES), 1))
    for name, weight in weights.items():
        hidden[NAMES.index(name), 0] = LINEAR * weight * 10  # numbers from -10 to 10 are seen from -1 to 1
    ends = np.full(len(NAMES), 10.0)
    last, calibration = np.array([1 / LINEAR]), np.array([0.0, 1.0, 0.0])
    return Verifier(-ends, ends, hidden, np.zeros(1), last, bias, calibration, {"data": "none"})


def sensible_verifier() -> Verifier:
    """Right is what overlaps or meets, and what the others do not match."""
    return linear_verifier(-4.0, overlap_larger=8.0, seam=8.0, crossing=-8.0, is_copy=4.0)


def network(verifier: Verifier | None = None, seed: int = 0, **more: object) -> Network:
    return Network(small_model(seed), "small", own_verifier=verifier or sensible_verifier(), **more)


def told(monkeypatch: object, ref_from_src: np.ndarray) -> None:
    """Makes every model answer with one pose, whatever it sees."""
    solve, said = BITR.solve, Rigid.from_matrix(torch.from_numpy(ref_from_src)[None])
    monkeypatch.setattr(BITR, "solve", lambda *inputs: replace(solve(*inputs), pose=said, heads=None))


def cut_pair(n: int = 1600, seed: int = 0) -> tuple[Geometry, Geometry, np.ndarray]:
    """Two halves of an asymmetric blob, each at a place of its own, and the motion that joins them."""
    x, y = two_pieces(n, seed)
    g1, g2 = motion(10 + seed), motion(20 + seed)
    source, reference = Geometry(moved(x, g1), name="source"), Geometry(moved(y, g2), name="reference")
    return source, reference, g2 @ inverse(g1)


def judged(x: np.ndarray, y: np.ndarray, settings: Settings | None = None, **more: object) -> Judged:
    return judge(
        Geometry(x, name="source"), Geometry(y, name="reference"), network(), settings or Settings(), **more
    )


def turn_between(a: np.ndarray, b: np.ndarray) -> float:
    """Degrees between two motions; exact also for very small ones."""
    off = a[:3, :3] @ b[:3, :3].T
    sine = np.linalg.norm([off[2, 1] - off[1, 2], off[0, 2] - off[2, 0], off[1, 0] - off[0, 1]]) / 2
    return float(np.degrees(np.arctan2(sine, (np.trace(off) - 1) / 2)))


def shift(x: float, y: float = 0.0, z: float = 0.0) -> np.ndarray:
    return pose(np.eye(3), np.array([x, y, z]))


LAWS = ("moved", "swapped", "scaled")
FACTOR = 7.0


def changed(law: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both pieces as a law changes them."""
    if law == "swapped":
        return y, x
    if law == "scaled":
        return FACTOR * x, FACTOR * y
    return moved(x, motion(1)), moved(y, motion(2))


def changed_pose(law: str, g: np.ndarray) -> np.ndarray:
    """What the law says of a motion of the plain pair."""
    if law == "swapped":
        return inverse(g)
    if law == "scaled":
        return g * np.array([[1, 1, 1, FACTOR]] * 3 + [[1, 1, 1, 1]])
    return motion(2) @ g @ inverse(motion(1))


def overlapping(seed: int, keep: float = 0.7, n: int = 1000) -> AssemblyPair:
    """Two samples of one shape, each cropped by a plane of its own to n points."""
    rng, full = np.random.default_rng(seed), round(n / keep)
    one, other = (crop(side, keep, rng) for side in two_samples(_shape(seed, 2 * full), full, rng))
    return move_randomly(assembled(one, other, f"overlapping/{seed}"), rng)


def halves(seed: int, n: int = 1000) -> AssemblyPair:
    """The two sides of a cut, n points each: nothing in common but where they touch."""
    rng = np.random.default_rng(seed)
    return move_randomly(assembled(*split(_shape(seed, 2 * n), 0.5, rng), f"halves/{seed}"), rng)


def _shape(seed: int, n: int) -> Geometry:
    return Geometry(bumpy_shape(n, torch.Generator().manual_seed(seed)).numpy())
