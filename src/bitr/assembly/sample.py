"""Points that the engine looks at: both pieces at equal density, chosen by their geometry alone."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Int64
from scipy.spatial import cKDTree

from bitr.assembly.align import Frame, Points, centroid, side_by_side
from bitr.assembly.mate import Sheets
from bitr.assembly.surface import Rows, Surface, bareness, outward_normals
from bitr.data.piece import MIN_POINTS, Piece, with_features
from bitr.errors import InputError
from bitr.io import Geometry, as_points, farthest_points
from bitr.model import BITRConfig

DENSE = 12_000
"""Most points of a piece that anything is chosen from; of a mesh, so many are drawn on its surface."""
SURFACE = 4400
"""Most points of both surfaces together."""
COARSE = 1200
"""Most points of a surface that searches look at."""
LEAST = 8
"""The smaller piece keeps at least one point for each so many of the larger."""
TIE = 1e-9
"""Distances from the centroid that differ by less, relative to the largest, count as equal."""
UNTIE = 1e-6
"""Share of its distance from the centroid by which the farthest point is moved."""
SIMILAR = 1.3
"""Densities whose ratio is below this are left as they are."""
AREA_RANK = 8
OPEN, BARE = 0.1, 0.004
"""Share of points right at a border from which on a cloud without normals counts as open, and mean share of
both pieces' points on a bare border from which on the pieces do."""
FRESH = 0.8
"""Most of a cloud's points that a further sampling takes, so that samplings differ."""

log = logging.getLogger("bitr")


@dataclass(frozen=True, eq=False)
class Sampled:
    """Two pieces, ready to be assembled; everything in it moves with the pieces and swaps with them."""

    frame: Frame
    source: Surface
    """In the coordinates of ``frame``: centred, and without a unit."""
    reference: Surface
    sheets: tuple[Sheets, Sheets] | None
    """Source and reference as sheets that end at rims; None unless both are closed."""
    coarse: tuple[Surface, Surface]
    """Source and reference with fewer points, for searches."""
    dense: tuple[Geometry, Geometry]
    """Many points of either piece, in its own coordinates."""
    seen: tuple[tuple[Geometry, Geometry], ...]
    """The points of source and reference that the model sees, once for each sampling."""


def sample(
    source: Geometry,
    reference: Geometry,
    config: BITRConfig,
    budget: int,
    samplings: int,
    seed: int = 0,
    surface: int = SURFACE,
    breaks: bool = True,
) -> Sampled:
    """Both pieces as surfaces and, for the model, in several samplings of up to ``budget`` points a piece.

    ``breaks`` asks for closed pieces as sheets; normals that are not given are then estimated.
    """
    log.info("choosing points of %s and %s", source.name, reference.name)
    dense = _dense(source, seed), _dense(reference, seed)
    areas = area_of_cloud(dense[0].points), area_of_cloud(dense[1].points)
    counts = _counts(dense, areas, surface, None)
    frame = Frame.of(*(side.points for side in dense))
    if not frame.unit > 0:
        raise InputError(f"{source.name} and {reference.name}: all points are at one place, expected shapes")
    rows = [_farthest(side.points, count, 0) for side, count in zip(dense, counts, strict=True)]
    places = frame.source(dense[0].points[rows[0]]), frame.reference(dense[1].points[rows[1]])
    given = [side.normals[own] for side, own in zip(dense, rows, strict=True) if side.normals is not None]
    normals: tuple[Points | None, ...] = (given[0], given[1]) if len(given) == 2 else (None, None)
    x, y = (Surface.of(points, own) for points, own in zip(places, normals, strict=True))
    sheets = None
    if breaks:
        x, y, sheets = _closed(x, y, *normals)
    few = _counts(dense, areas, None, budget)
    seen = tuple(_seen(dense, few, start, rows, config) for start in range(samplings))
    return Sampled(frame, x, y, sheets, (_fewer(x, COARSE), _fewer(y, COARSE)), dense, seen)


def _closed(
    x: Surface, y: Surface, x_normals: Points | None, y_normals: Points | None
) -> tuple[Surface, Surface, tuple[Sheets, Sheets] | None]:
    """Both pieces as surfaces and as sheets; without sheets where one of them is open.

    Normals that are not given are estimated, and then tell the two walls of a thin piece apart.
    """
    if x_normals is None or y_normals is None:
        if max(side.border.clear.sum() / len(side.points) for side in (x, y)) > OPEN:
            return x, y, None
        x_normals, y_normals = side_by_side(partial(outward_normals, x), partial(outward_normals, y))
        near = Surface.of(x.points, x_normals), Surface.of(y.points, y_normals)
    else:
        near = x, y
    if (bareness(near[0], x_normals) + bareness(near[1], y_normals)) / 2 > BARE:
        return x, y, None
    first, last = side_by_side(
        partial(Sheets.of, x.points, x_normals), partial(Sheets.of, y.points, y_normals)
    )
    return (x, y, None) if first is None or last is None else (*near, (first, last))


def spread_draw(points: Points, most: int) -> Int64[np.ndarray, " m"]:
    """At most ``most`` of the points, evenly by their distance from the centroid.

    Which ones depends on the shape alone, not on the order of the points, unless their distances are equal.
    """
    if len(points) <= most:
        return np.arange(len(points))
    away = np.linalg.norm(points - centroid(points), axis=1)
    order = np.argsort(away, kind="stable")
    is_next = np.diff(away[order]) <= TIE * away[order[-1]]  # as far as the one before it
    tied = np.flatnonzero(np.append(is_next, False) | np.append(False, is_next))
    group = np.cumsum(~np.append(False, is_next)[tied])
    order[tied] = order[tied][np.lexsort((order[tied], group))]
    return np.sort(order[((np.arange(most) + 0.5) * (len(points) / most)).astype(np.int64)])


def _fewer(surface: Surface, most: int) -> Surface:
    points = surface.points
    return surface if len(points) <= most else Surface.of(points[farthest_points(points, most)])


def _dense(geometry: Geometry, seed: int) -> Geometry:
    cloud = as_points(geometry, DENSE, seed)
    if geometry.faces is None:
        cloud = cloud.rows(spread_draw(cloud.points, DENSE))
        cloud = cloud.rows(np.sort(np.unique(cloud.points, axis=0, return_index=True)[1]))
    if len(cloud.points) < MIN_POINTS:
        raise InputError(
            f"{geometry.name}: only {len(cloud.points)} of {len(geometry.points)} points are at different "
            f"places, expected at least {MIN_POINTS}"
        )
    return replace(cloud, points=_untie(cloud.points))


def _untie(points: Points) -> Points:
    """Move the far points a little farther from the centroid: in a grid no two distances are equal then.

    Where distances are equal, rounding would say which neighbours and which points are taken.
    """
    away = points - centroid(points)
    square = np.square(away).sum(1, keepdims=True)
    return points + UNTIE * square / max(float(square.max()), np.finfo(float).tiny) * away


def area_of_cloud(points: Points) -> float:
    """The area of the surface that the points sample, from the distances to their nearest points."""
    rank = min(AREA_RANK, len(points) - 1)
    away = cKDTree(points).query(points, k=rank + 1)[0][:, -1]
    return float(np.pi * np.square(away).sum() / rank)


def _counts(
    dense: tuple[Geometry, Geometry], areas: tuple[float, float], total: int | None, most: int | None
) -> tuple[int, int]:
    """How many points give equal densities: of both pieces at most ``total``, of each at most ``most``."""
    sizes, area = np.array([len(side.points) for side in dense]), np.array(areas)
    density = sizes / area
    wanted = density.min() if density.max() > SIMILAR * density.min() else density
    counts = np.minimum(wanted * area, sizes)
    if total is not None:
        counts = counts * min(1, total / counts.sum())
    if most is not None:
        counts = counts * min(1, most / counts.max())
    least = np.minimum(sizes, max(counts.max() / LEAST, MIN_POINTS))
    x, y = np.rint(np.clip(counts, least, sizes)).astype(int).tolist()
    return x, y


def _seen(
    dense: tuple[Geometry, Geometry],
    counts: tuple[int, int],
    start: int,
    known: list[Rows],
    config: BITRConfig,
) -> tuple[Geometry, Geometry]:
    """One sampling of both pieces; ``known`` are their farthest points from the first start on."""
    few = (
        own[:count]
        if start == 0 and count <= len(own) < len(side.points)
        else _farthest(side.points, count, start)
        for side, count, own in zip(dense, counts, known, strict=True)
    )
    x, y = (Piece(side, side.rows(rows)) for side, rows in zip(dense, few, strict=True))
    return with_features(x, y, config)


def _farthest(points: Points, count: int, start: int) -> Int64[np.ndarray, " m"]:
    """Farthest points from the ``start``-th farthest on: another start gives another sampling."""
    if start:
        count = min(count, max(int(FRESH * len(points)), MIN_POINTS))
        start += 1  # the point farthest from the first finds the first again, and with it the same points
    if count >= len(points):
        return np.arange(len(points))
    return farthest_points(points, count, start)
