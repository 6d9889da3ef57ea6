"""From pairs to what the model sees: points drawn, clouds of different sizes in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bitr.data import AssemblyPair
from bitr.data.piece import Piece, with_features
from bitr.data.transforms import both, jitter, thin
from bitr.groups import Cloud, Rigid
from bitr.io import Geometry
from bitr.layers import nearest_neighbors
from bitr.model import BITRConfig


@dataclass(frozen=True)
class Batch:
    """Pairs side by side, filled up to the same number of points."""

    source: Cloud
    reference: Cloud
    truth: Rigid
    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device) -> Batch:
        source, reference = (_cloud_to(cloud, device) for cloud in (self.source, self.reference))
        return Batch(source, reference, self.truth.to(device), self.ids)


def sample(
    pair: AssemblyPair, points: int, noise: float, model: BITRConfig, rng: np.random.Generator
) -> AssemblyPair:
    """The pair as the model sees it: at most ``points`` points a piece, with the features it was made for.

    Both pieces are thinned alike; noise is in units of the pair's size.
    """
    seen = thin(pair, points, rng)
    if noise:
        size = float(np.sqrt(np.mean([g.points.var(0).sum() for g in (seen.source, seen.reference)])))
        seen = both(seen, lambda side: jitter(side, noise * size, rng))
    x = Piece(_dense(pair.source, seen.source), seen.source)
    y = Piece(_dense(pair.reference, seen.reference), seen.reference)
    source, reference = with_features(x, y, model)
    return replace(seen, source=source, reference=reference)


def collate(pairs: Sequence[AssemblyPair], neighbors: int | None = None) -> Batch:
    """The pairs as one batch; padding is masked where the sizes differ.

    With ``neighbors`` so many neighbours of each point are searched here, and not by the model.
    """
    poses = torch.from_numpy(np.stack([pair.ref_from_src for pair in pairs]))
    source = _cloud([pair.source for pair in pairs], neighbors)
    reference = _cloud([pair.reference for pair in pairs], neighbors)
    return Batch(source, reference, Rigid.from_matrix(poses), tuple(pair.id for pair in pairs))


def _dense(whole: Geometry, seen: Geometry) -> Geometry:
    """The points that normals are estimated from: all there are."""
    return seen if whole.faces is not None else whole


def _cloud(geometries: Sequence[Geometry], neighbors: int | None) -> Cloud:
    sizes = [len(geometry.points) for geometry in geometries]
    most = max(sizes)
    mask = None if min(sizes) == most else torch.arange(most) < torch.tensor(sizes)[:, None]
    normals = [geometry.normals for geometry in geometries if geometry.normals is not None]
    colors = [geometry.colors for geometry in geometries if geometry.colors is not None]
    points = _filled_up([geometry.points for geometry in geometries], most)
    return Cloud(
        points,
        _filled_up(normals, most) if normals else None,
        _filled_up(colors, most) if colors else None,
        mask,
        None if neighbors is None else nearest_neighbors(points, neighbors, mask)[0],
    )


def _filled_up(rows: Sequence[Float64[np.ndarray, "_ 3"]], most: int) -> Float[Tensor, "b n 3"]:
    out = torch.zeros(len(rows), most, 3, dtype=torch.float64)
    for place, values in zip(out, rows, strict=True):
        place[: len(values)] = torch.from_numpy(values)
    return out


def _cloud_to(cloud: Cloud, device: torch.device) -> Cloud:
    points, normals, colors, mask, neighbors = (
        None if part is None else part.to(device, non_blocking=True)
        for part in (cloud.points, cloud.normals, cloud.colors, cloud.mask, cloud.neighbors)
    )
    assert points is not None
    return Cloud(points, normals, colors, mask, neighbors)
