"""The equivariance certificate: the law errors of ``bitr.testing`` on every path to a pose, beside bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.spatial import ConvexHull
from torch import Tensor

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data import bumpy_shape, cut
from bitr.errors import InputError
from bitr.groups import Cloud, Rigid
from bitr.io import Geometry
from bitr.model import BITR
from bitr.testing import Laws, as_rigid, law_errors

LAWS = ("bi", "swap", "scale")
POINTS, SEEN = 700, 100
"""Points of a shape that is cut in two, and those of a piece that the model sees in ``assemble``."""
WAYS = ("fast", "auto")
FEWEST_FOR_A_MEDIAN, MOST_TRIALS, ENGINE_TRIALS = 5, 1000, 2
"""Trials of a row: minimum for a median, maximum, and maximum on the slow path through the whole engine."""
BOUNDS = {
    # the laws are exact: only rounding is left, amplified where the rotation is barely determined
    "float64": Laws(1e-9, 1e-9, 1e-9),
    # any audited method in float64: an iteration stops at a tolerance
    "method": Laws(1e-6, 1e-6, 1e-6),
    # moving or scaling also rounds the points again, a swap does not
    "float32": Laws(3e-4, 1e-5, 1e-4),
    # products on the clouds keep 8 bits, and turned clouds are rounded differently
    "bfloat16": Laws(0.3, 1e-5, 5e-2),
}
"""Several times the largest error over untrained models of both constructions and the weights that ship."""
MEDIAN = ("float32", "bfloat16")
"""Precisions whose median counts: a barely determined pair is far off with no law broken. Else the worst."""

Pair = tuple[Geometry, Geometry]
PairMaker = Callable[[torch.Generator], Pair]


@dataclass(frozen=True)
class Row:
    """One law on one path: the worst and the median error of the trials, and the bounds it is held to."""

    path: str
    law: str
    worst: float
    median: float
    precision: str
    trials: int

    @property
    def bound(self) -> float:
        return float(getattr(BOUNDS[self.precision], self.law))

    @property
    def judged(self) -> str:
        return "median" if self.precision in MEDIAN else "worst"

    @property
    def error(self) -> float:
        """The worst or the median error, whichever the bound is for."""
        return float(getattr(self, self.judged))

    @property
    def ok(self) -> bool:
        """True within the bound; an error that is not a number is a broken law."""
        return self.error <= self.bound

    def to_dict(self) -> dict[str, Any]:
        unknown = {key: None for key in ("worst", "median") if not math.isfinite(getattr(self, key))}
        return asdict(self) | unknown | {"bound": self.bound, "judged": self.judged, "ok": self.ok}


@dataclass(frozen=True)
class Certificate:
    """The laws of one model or method, over random pairs, motions and factors."""

    model: str
    seed: int
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> tuple[str, ...]:
        """The laws that do not hold on every path."""
        return tuple(law for law in LAWS if any(row.law == law and not row.ok for row in self.rows))

    @property
    def verdict(self) -> str:
        """One sentence for people."""
        broken = ", ".join(f"Δ_{law}" for law in self.broken)
        return f"Broken: {broken}." if broken else "All three laws hold."

    @property
    def paths(self) -> dict[str, list[Row]]:
        """The three rows of each path."""
        return {row.path: [each for each in self.rows if each.path == row.path] for row in self.rows}

    def to_json(self) -> str:
        """One JSON object in one line; an error that is not a finite number is null."""
        values = {"model": self.model, "ok": self.ok, "broken": list(self.broken), "seed": self.seed}
        return json.dumps(values | {"rows": [row.to_dict() for row in self.rows]}, allow_nan=False)


def certify(
    model: BITR, *, name: str = "BITR", trials: int = 10, seed: int = 0, network: Network | None = None
) -> Certificate:
    """Measure the laws of a model in float64, in float32 and under bfloat16 autocast.

    With a ``network`` also those of ``bitr.assemble`` on overlapping clouds and meshes, fast and by default.
    """
    routes = [
        Route("model, float64", _solve_with(model, torch.float64), "float64"),
        Route("model, float32", _solve_with(model, torch.float32), "float32"),
        Route("model, bfloat16 autocast", _solve_with(model, torch.float32, autocast=True), "bfloat16"),
    ]
    for way in WAYS if network is not None else ():
        settings = Settings(fast=way == "fast", points=SEEN)
        most = MOST_TRIALS if settings.fast else ENGINE_TRIALS

        def solve(x: Geometry, y: Geometry, settings: Settings = settings) -> Any:
            assert network is not None
            return assemble_geometries(x, y, network, settings).transformation

        for kind, make in (("cloud", overlapping_pair), ("mesh", mesh_pair)):
            routes.append(Route(f"assemble, {kind}, {way}", solve, "float64", make, most))
    return _measure(name, seed, trials, routes)


def audit(
    method: Callable[[Any, Any], Any], *, name: str = "method", trials: int = 10, seed: int = 0
) -> Certificate:
    """Measure the laws of any function of two (n, 3) float64 arrays of equally many points.

    An answer in float32 is held to the bounds of float32.
    """

    def solve(source: Geometry, reference: Geometry) -> Tensor:
        answer = method(source.points.copy(), reference.points.copy())
        try:
            matrix = answer.matrix() if isinstance(answer, Rigid) else torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name}: returned {type(answer).__name__}, expected a 4×4 matrix") from error
        if matrix.shape not in ((4, 4), (1, 4, 4)):
            shape = tuple(matrix.shape)
            raise InputError(f"{name}: returned shape {shape}, expected a 4×4 matrix or a Rigid")
        return matrix

    def halves(generator: torch.Generator) -> Pair:
        return cloud_pair(generator, share=0.5)

    kind = solve(*halves(torch.Generator().manual_seed(seed))).dtype
    precision = "float32" if kind == torch.float32 else "method"
    return _measure(name, seed, trials, [Route(name, solve, precision, halves)])


@torch.no_grad()
def _measure(name: str, seed: int, trials: int, routes: Sequence[Route]) -> Certificate:
    if not 1 <= trials <= MOST_TRIALS:
        raise InputError(f"trials = {trials}: expected a whole number from 1 to {MOST_TRIALS}")
    return Certificate(name, seed, tuple(row for route in routes for row in route.rows(trials, seed)))


def _solve_with(
    model: BITR, dtype: torch.dtype, autocast: bool = False
) -> Callable[[Geometry, Geometry], Rigid]:
    """The forward pass of a copy of the model in this precision, on the features that it takes."""
    own, config = deepcopy(model).cpu().to(dtype).eval(), model.config

    def as_cloud(piece: Geometry) -> Cloud:
        normals, colors = piece.normals if config.normals else None, piece.colors if config.colors else None
        parts = (
            None if part is None else torch.from_numpy(part)[None].to(dtype) for part in (normals, colors)
        )
        return Cloud(torch.from_numpy(piece.points)[None].to(dtype), *parts)

    def solve(source: Geometry, reference: Geometry) -> Rigid:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            return own(as_cloud(source), as_cloud(reference))

    return solve


# Random pairs


def cloud_pair(generator: torch.Generator, share: float = 0.4) -> Pair:
    """Two pieces of a generated shape, ``share`` of its points in the source."""
    return _place(
        [_dress(piece) for piece in cut(bumpy_shape(POINTS, generator), share, generator)], generator
    )


def overlapping_pair(generator: torch.Generator, n: int = 500, noise: float = 0.003) -> Pair:
    """Two pieces of ``n`` points that share half of them, up to noise."""
    first, rest = cut(bumpy_shape(3 * n // 2, generator), 1 / 3, generator)
    common, last = rest[: n // 2], rest[n // 2 :]  # in the order of the cut: three slices
    pieces = torch.cat([common, first]), torch.cat([common, last])
    noises = [noise * torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in pieces]
    return _place([_dress(p + off) for p, off in zip(pieces, noises, strict=True)], generator)


def mesh_pair(generator: torch.Generator, n: int = 400) -> Pair:
    """Two closed surfaces of ``n`` vertices each: the middle sees each direction once, and the hull of the
    directions has the faces."""
    clouds = [_dress(bumpy_shape(n, generator)) for _ in range(2)]
    faces = [ConvexHull(cloud.normals).simplices.astype(np.int64) for cloud in clouds]
    meshes = [replace(c, normals=None, faces=f) for c, f in zip(clouds, faces, strict=True)]
    return _place(meshes, generator)


def _dress(points: Tensor) -> Geometry:
    """A cloud with directions from the middle as normals, and colours by place, for models that need them."""
    normals = points / points.norm(dim=-1, keepdim=True)
    return Geometry(points.numpy(), normals.numpy(), np.sin(3 * points.numpy()) / 2 + 0.5)


def _place(pieces: Sequence[Geometry], generator: torch.Generator) -> Pair:
    """Both pieces at random places."""
    x, y = (piece.moved(Rigid.random(generator).matrix().numpy()) for piece in pieces)
    return x, y


@dataclass(frozen=True)
class Route:
    """A named way from a pair to a pose, the bounds it is held to, and the pairs it is tried on."""

    path: str
    solve: Callable[[Geometry, Geometry], Any]
    """Returns a ``Rigid`` or a 4×4 matrix, also as a batch of one."""
    precision: str
    make: PairMaker = cloud_pair
    most: int = MOST_TRIALS

    def rows(self, trials: int, seed: int) -> list[Row]:
        """The three laws; where the median counts, with enough trials to have one."""
        generator = torch.Generator().manual_seed(seed)
        least = FEWEST_FOR_A_MEDIAN if self.precision in MEDIAN else 1
        found = [self._try(generator) for _ in range(max(least, min(trials, self.most)))]
        rows = []
        for law in LAWS:
            errors = [getattr(each, law) for each in found]
            worst, median = float(np.max(errors)), float(np.median(errors))  # NaN where there is one
            rows.append(Row(self.path, law, worst, median, self.precision, len(found)))
        return rows

    def _try(self, generator: torch.Generator) -> Laws:
        """The errors on a new pair: motions by about the pieces' size, a factor between 1/100 and 100."""
        source, reference = self.make(generator)
        exponent = 4 * float(torch.rand((), generator=generator, dtype=torch.float64)) - 2
        return law_errors(self._pose, source, reference, generator, factor=10**exponent)

    def _pose(self, source: Geometry, reference: Geometry) -> Rigid:
        pose = as_rigid(self.solve(source, reference))
        return pose[0] if pose.rotation.dim() == 3 else pose
