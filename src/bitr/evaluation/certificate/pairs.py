"""Random pairs and random group elements to try a law with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.spatial import ConvexHull
from torch import Tensor

from bitr.data import bumpy_shape, cut
from bitr.groups import Cloud, Rigid
from bitr.io import Geometry
from bitr.model import BITRConfig
from bitr.testing import cloud_size

Pair = tuple[Geometry, Geometry]
PairMaker = Callable[[torch.Generator], Pair]


def cloud_pair(n: int, share: float = 0.4) -> PairMaker:
    """Two pieces of a generated shape of ``n`` points, ``share`` of them in the source."""

    def make(generator: torch.Generator) -> Pair:
        x, y = cut(bumpy_shape(n, generator), share, generator)
        return _placed(_colored(x), generator), _placed(_colored(y), generator)

    return make


def overlapping_pair(n: int, noise: float) -> PairMaker:
    """Two pieces of ``n`` points that share half of them, up to noise: the first n/2 rows correspond."""

    def make(generator: torch.Generator) -> Pair:
        shape = bumpy_shape(3 * n // 2, generator)
        first, rest = cut(shape, 1 / 3, generator)
        common, last = rest[: n // 2], rest[n // 2 :]  # in the order of the cut: three slices
        x, y = (
            _colored(piece + noise * torch.randn(piece.shape, generator=generator, dtype=piece.dtype))
            for piece in (torch.cat([common, first]), torch.cat([common, last]))
        )
        return _placed(x, generator), _placed(y, generator)

    return make


def mesh_pair(n: int) -> PairMaker:
    """Two closed surfaces of ``n`` vertices each."""

    def make(generator: torch.Generator) -> Pair:
        x, y = (_closed(_colored(bumpy_shape(n, generator))) for _ in range(2))
        return _placed(x, generator), _placed(y, generator)

    return make


def _colored(points: Tensor) -> Geometry:
    """With the direction from the middle as normals, and colours by place, for models that ask for them."""
    normals = points / points.norm(dim=-1, keepdim=True)
    return Geometry(points.numpy(), normals.numpy(), np.sin(3 * points.numpy()) / 2 + 0.5)


def _closed(cloud: Geometry) -> Geometry:
    """All directions are seen from the middle once, so that the hull of the directions says what is next to
    what."""
    assert cloud.normals is not None
    faces = ConvexHull(cloud.normals).simplices.astype(np.int64)
    return replace(cloud, normals=None, faces=faces)


def _placed(geometry: Geometry, generator: torch.Generator) -> Geometry:
    return geometry.moved(Rigid.random(generator).matrix().numpy())


@dataclass(frozen=True)
class Trial:
    """A pair, a motion of each piece by about its own size, and a factor between 1/100 and 100."""

    source: Geometry
    reference: Geometry
    g1: Rigid
    g2: Rigid
    factor: float

    @classmethod
    def draw(cls, make: PairMaker, generator: torch.Generator) -> Trial:
        source, reference = make(generator)
        g1, g2 = (Rigid.random(generator, size=cloud_size(piece.points)) for piece in (source, reference))
        exponent = 4 * float(torch.rand((), generator=generator, dtype=torch.float64)) - 2
        return cls(source, reference, g1, g2, 10**exponent)

    def pairs(self) -> tuple[Pair, Pair, Pair, Pair]:
        """The pair as it is, moved, swapped and scaled."""
        x, y = self.source, self.reference
        moved = x.moved(self.g1.matrix().numpy()), y.moved(self.g2.matrix().numpy())
        scaled = replace(x, points=self.factor * x.points), replace(y, points=self.factor * y.points)
        return (x, y), moved, (y, x), scaled


def as_cloud(geometry: Geometry, dtype: torch.dtype, config: BITRConfig) -> Cloud:
    """What a model of this config sees of a piece, as a batch of one."""
    normals = geometry.normals if config.normals else None
    colors = geometry.colors if config.colors else None
    points, *extras = (
        None if part is None else torch.from_numpy(part)[None].to(dtype)
        for part in (geometry.points, normals, colors)
    )
    assert points is not None
    return Cloud(points, *extras)
