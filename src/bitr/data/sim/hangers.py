"""Random hangers: a foot, a post, and one or two pegs that rise outwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.data.sim.bodies import Body, joined
from bitr.data.sim.turned import tube


@dataclass(frozen=True, eq=False)
class Peg:
    """The middle line of a peg, from the post to its tip."""

    base: Float64[np.ndarray, " 3"]
    tip: Float64[np.ndarray, " 3"]
    radius: float

    @property
    def direction(self) -> Float64[np.ndarray, " 3"]:
        along = self.tip - self.base
        return along / np.linalg.norm(along)


@dataclass(frozen=True, eq=False)
class Hanger:
    """A stand on z = 0 with the post on the z axis; the highest peg, the one to hang on, comes first."""

    body: Body
    pegs: tuple[Peg, ...]


def random_hanger(name: str, rng: np.random.Generator) -> Hanger:
    post, height = rng.uniform(0.006, 0.011), rng.uniform(0.26, 0.36)
    foot, thickness = rng.uniform(0.06, 0.1), rng.uniform(0.008, 0.018)
    first = _random_peg(0.0, height - rng.uniform(0.02, 0.06), post, rng)
    pegs = [first]
    if rng.random() < 1 / 3:  # a second one, lower and on the other side, that is not the one to use
        away = np.pi + rng.uniform(-0.5, 0.5)
        pegs.append(_random_peg(away, first.base[2] - rng.uniform(0.04, 0.08), post, rng))
    bars = [
        _bar(name, np.zeros(3), np.array([0, 0, thickness]), foot, around=32),
        _bar(name, np.zeros(3), np.array([0, 0, height]), post),
        *(_bar(name, peg.base, peg.tip, peg.radius) for peg in pegs),
    ]
    return Hanger(joined(name, *bars), tuple(pegs))


def _random_peg(azimuth: float, height: float, post: float, rng: np.random.Generator) -> Peg:
    """A peg from the middle of the post, that goes up by 15° to 35°."""
    tilt, length = np.deg2rad(rng.uniform(15, 35)), post + rng.uniform(0.09, 0.12)
    out = np.array([np.cos(azimuth) * np.cos(tilt), np.sin(azimuth) * np.cos(tilt), np.sin(tilt)])
    base = np.array([0.0, 0.0, height])
    return Peg(base, base + length * out, rng.uniform(0.0035, 0.0055))


def _bar(
    name: str,
    start: Float64[np.ndarray, " 3"],
    end: Float64[np.ndarray, " 3"],
    radius: float,
    around: int = 16,
) -> Body:
    """A round bar from one point to another."""
    side = np.cross(end - start, (1.0, 0.0, 0.0) if abs((end - start)[0]) < 1e-9 else (0.0, 1.0, 0.0))
    side /= np.linalg.norm(side)
    return tube(name, np.stack([start, end]), side, (radius, radius), around)
