"""The equivariance certificate: the law errors of ``bitr.testing`` on every path to a pose, beside bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
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
from bitr.errors import InputError, require
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
Make = Callable[[torch.Generator], Pair]
Solve = Callable[[Geometry, Geometry], Any]  # returns a ``Rigid`` or a 4×4 matrix, also as a batch of one


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


@torch.no_grad()
def certify(
    model: BITR, *, name: str = "BITR", trials: int = 10, seed: int = 0, network: Network | None = None
) -> Certificate:
    """Measure the laws of a model in float64, in float32 and under bfloat16 autocast.

    With a ``network`` also those of ``bitr.assemble`` on overlapping clouds and meshes, fast and by default.
    """
    rows: list[Row] = []
    for label, dtype in (("float64", torch.float64), ("float32", torch.float32), ("bfloat16", torch.float32)):
        rounded = label == "bfloat16"
        path = f"model, {label}" + " autocast" * rounded
        rows += _try_laws(path, _pass_of(model, dtype, rounded), label, cloud_pair, trials, seed)
    for way in WAYS if network is not None else ():
        settings = Settings(fast=way == "fast", points=SEEN)
        most = trials if settings.fast else min(trials, ENGINE_TRIALS)

        def solve(x: Geometry, y: Geometry, settings: Settings = settings) -> Any:
            assert network is not None
            return assemble_geometries(x, y, network, settings).transformation

        for kind, make in (("cloud", overlapping_pair), ("mesh", mesh_pair)):
            rows += _try_laws(f"assemble, {kind}, {way}", solve, "float64", make, most, seed)
    return Certificate(name, seed, tuple(rows))


@torch.no_grad()
def audit(
    method: Callable[[Any, Any], Any], *, name: str = "method", trials: int = 10, seed: int = 0
) -> Certificate:
    """Measure the laws of any function of two (n, 3) float64 arrays of equally many points.

    An answer in float32 is held to the bounds of float32. An error inside the function is bad input.
    """

    def solve(source: Geometry, reference: Geometry) -> Tensor:
        try:
            answer = method(source.points.copy(), reference.points.copy())
        except Exception as error:  # somebody's function may fail in any way
            raise InputError(f"{name}: raised {type(error).__name__}: {error}") from error
        try:
            matrix = answer.matrix() if isinstance(answer, Rigid) else torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name}: returned {type(answer).__name__}, expected a 4×4 matrix") from error
        said = f"{name}: returned shape {tuple(matrix.shape)}, expected a 4×4 matrix or a Rigid"
        require(matrix.shape in ((4, 4), (1, 4, 4)), said)
        return matrix

    def halves(generator: torch.Generator) -> Pair:
        return cloud_pair(generator, share=0.5)

    kind = solve(*halves(torch.Generator().manual_seed(seed))).dtype
    precision = "float32" if kind == torch.float32 else "method"
    return Certificate(name, seed, tuple(_try_laws(name, solve, precision, halves, trials, seed)))


def _pass_of(model: BITR, dtype: torch.dtype, autocast: bool) -> Solve:
    """The forward pass of a copy of the model in this precision, on the features that it takes."""
    own, config = deepcopy(model).cpu().to(dtype).eval(), model.config

    def as_cloud(piece: Geometry) -> Cloud:
        names = ("points", *["normals"] * config.normals, *["colors"] * config.colors)
        return Cloud(**{name: torch.from_numpy(getattr(piece, name))[None].to(dtype) for name in names})

    def solve(source: Geometry, reference: Geometry) -> Rigid:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            return own(as_cloud(source), as_cloud(reference))

    return solve


def _try_laws(path: str, solve: Solve, precision: str, make: Make, trials: int, seed: int) -> Iterator[Row]:
    """The three laws on new pairs, with motions by about their size and factors between 1/100 and 100.

    Where the median counts, there are enough trials to have one.
    """

    def pose_of(source: Geometry, reference: Geometry) -> Rigid:
        pose = as_rigid(solve(source, reference))
        return pose[0] if pose.rotation.dim() == 3 else pose

    said = f"trials = {trials}: expected a whole number from 1 to {MOST_TRIALS}"
    require(1 <= trials <= MOST_TRIALS, said)
    generator, found = torch.Generator().manual_seed(seed), []
    for _ in range(max(FEWEST_FOR_A_MEDIAN if precision in MEDIAN else 1, trials)):
        pair = make(generator)
        exponent = 4 * float(torch.rand((), generator=generator, dtype=torch.float64)) - 2
        found.append(law_errors(pose_of, *pair, generator, factor=10**exponent))
    for law in LAWS:
        errors = [getattr(each, law) for each in found]
        worst, median = float(np.max(errors)), float(np.median(errors))  # NaN where there is one
        yield Row(path, law, worst, median, precision, len(found))


# Random pairs


def cloud_pair(generator: torch.Generator, share: float = 0.4) -> Pair:
    """Two pieces of a generated shape, ``share`` of its points in the source."""
    pieces = cut(bumpy_shape(POINTS, generator), share, generator)
    return _place([_dress(piece) for piece in pieces], generator)


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
