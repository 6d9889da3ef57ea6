"""Endless generated data: pairs of objects, broken, cut or cropped (``shapes``), and puzzles of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from bitr.data import transforms as change
from bitr.data.generated import fracture
from bitr.data.generated.fracture import FIRST, WHOLE, Fracture, ShapeCache, cache_folder, keep_whole
from bitr.data.generated.kernel import random_direction
from bitr.data.poses import AssemblyPair, Items, Pairs, Points, PuzzleCase, Vector, inverse, random_pose
from bitr.data.storage import check_split, find_below
from bitr.errors import InputError, require
from bitr.io import Geometry, read
from bitr.settings import check_rules, from_mapping, read_toml

KINDS = ("fracture", "cut", "crop")
COUNTS = {"train": 100_000, "val": 1000, "test": 1000}
"""Number of pairs; for training the length of an epoch, another seed gives others of the same shapes."""
HELD_OUT = 200  # number of shapes in the splits that are not trained on
TRIES = 20  # pairs of planes to try for two crops that overlap, before one plane crops both
DENSER = 1.5  # oversampling factor of the even points from which uneven ones are chosen
PIXEL = 0.025  # edge of a pixel of a range image over the radius of the shape
MESH_FILES = ("shapes/*.obj", "shapes/*.off", "shapes/*.ply", "shapes/*.stl")
MANY = "shapes:many"
PUZZLES = ("cut", "fracture")
"""Kinds of puzzles: the surface of a solid, cut by planes, and the solid, broken."""

Sides = tuple[Geometry, Geometry]


@dataclass(frozen=True)
class ShapesConfig:
    """Settings of a pair of shapes of radius 1; each side draws its own level of faults, up to these."""

    points: int = 1000
    """Points of either side; a cut, or a fracture ``by_area``, shares out twice as many between its sides."""
    by_area: bool = False
    """Share the points of a fracture by area, at least 256 for either side, so that both have one density."""
    mix: tuple[float, float, float] = (0.5, 0.2, 0.3)
    """Weight of each kind: pieces of a fracture, whose broken surfaces match; halves of a surface cut by a
    plane, with nothing in common; two crops of a surface, by a plane each, which overlap."""
    pieces: tuple[int, int] = (2, 8)  # fewest and most pieces of a broken solid
    share: tuple[float, float] = (0.3, 0.7)  # range of the source's share of the points of a cut
    keep: tuple[float, float] = (0.3, 0.9)  # range of the share of the surface that a crop keeps
    overlap: float = 0.1
    """Least share of the smaller crop that lies in the other too; less would not determine the pose."""
    is_seen: bool = False
    """Crops are what range scanners see from two sides, without normals: nothing behind anything else."""
    noise: float = 0.005  # standard deviation of each coordinate
    least_noise: float = 0.0  # lowest level of noise
    outliers: float = 0.0  # as a share of the points, uniform in a cube around the shape
    unevenness: float = 0.5
    """The density changes by e^unevenness for one standard deviation of the points of a side."""
    solids: int = 1024  # number of training shapes; each is made once and stored
    vessels: float = 0.0  # share of the shapes that are thin-walled vessels
    is_chipped: bool = False
    """Break a chip off each shape, with less than a tenth of the surface, in place of ``pieces``."""
    erosion: float = 0.0
    """Mean width of the rounded edge of a worn break; a quarter of it is lost from the break itself."""

    @property
    def is_only_broken(self) -> bool:
        return self.mix[1] + self.mix[2] == 0

    def __post_init__(self) -> None:
        low, high = self.pieces
        check_rules(
            self,
            points=self.points >= 1,
            mix=len(self.mix) == len(KINDS) and min(self.mix) >= 0 and sum(self.mix) > 0,
            pieces=2 <= low <= high <= 8,
            share=0 < self.share[0] <= self.share[1] < 1,
            keep=0 < self.keep[0] <= self.keep[1] <= 1,
            overlap=0 <= self.overlap <= 1,
            noise=self.noise >= self.least_noise,
            least_noise=self.least_noise >= 0,
            outliers=0 <= self.outliers <= 1,
            unevenness=0 <= self.unevenness <= 3,
            solids=self.solids >= 1,
            vessels=0 <= self.vessels <= 1,
            erosion=0 <= self.erosion <= 0.1,
        )


MIXES: dict[str, tuple[ShapesConfig, str]] = {}  # options of the data set: settings, and a description
for _name, _entry in read_toml(Path(__file__).with_name("shapes.toml")).items():
    _words = _entry.pop("words")
    MIXES[_name] = from_mapping(ShapesConfig, _entry, _name), _words


def shapes(split: str, root: Path | None = None, seed: int = 0, config: ShapesConfig | None = None) -> Pairs:
    """Open pairs of generated shapes, which are stored; held-out pairs know their symmetries."""
    check_split("shapes", split)
    config = config or ShapesConfig()
    solids = ShapeCache(cache_folder(root), config.pieces, is_chipped=config.is_chipped)
    make = partial(_make, (solids, replace(solids, is_vessel=True)), config, split)
    return Pairs("shapes", split, seed, make, range(COUNTS[split]))


def num_solids(split: str, config: ShapesConfig) -> int:
    """Number of different shapes of a split."""
    return config.solids if split == "train" else HELD_OUT


def _make(
    caches: tuple[ShapeCache, ShapeCache], config: ShapesConfig, split: str, i: int, rng: np.random.Generator
) -> AssemblyPair:
    number = i % num_solids(split, config)
    # evenly spread: shape k is a vessel where k times the share passes a whole number
    is_vessel = int((number + 1) * config.vessels) > int(number * config.vessels)
    id = f"{split}/{i}/vessel" if is_vessel else f"{split}/{i}"
    given = caches[is_vessel].get(FIRST[split] + number)
    return draw(given, config, id, rng, with_symmetry=split != "train")


def draw(
    given: Fracture,
    config: ShapesConfig,
    id: str,
    rng: np.random.Generator,
    kind: str | None = None,
    with_symmetry: bool = False,
) -> AssemblyPair:
    """Draw a random pair, each side moved on its own; its kind is the last word of its id."""
    if kind is None:
        kind = KINDS[int(rng.choice(len(KINDS), p=np.array(config.mix) / sum(config.mix)))]
    source, reference = (_add_faults(side, config, rng) for side in DRAW[kind](given, config, rng))
    pair = change.assembled(source, reference, f"{id}/{kind}")
    if with_symmetry:  # by name, since the search for symmetries stands above the data
        whole = given.surface(WHOLE) if kind == "crop" else None
        pair = import_module("bitr.assembly.orbit").with_symmetry(pair, whole)
    return change.move_randomly(pair, rng)


def _two_pieces(given: Fracture, config: ShapesConfig, rng: np.random.Generator) -> Sides:
    """Two pieces that fit, or groups of pieces that stayed together: either may be the source."""
    nodes = [int(node) for node in rng.permutation(given.fits[int(rng.integers(len(given.fits)))])]
    counts = [config.points] * 2
    if config.by_area:
        areas = [change.area_of(given.surface(node)) for node in nodes]
        counts = change.share_by_area(areas, 2 * config.points, 256)
    pieces = []
    for node, n in zip(nodes, counts, strict=True):
        dense = int(DENSER * n) + 1
        if config.erosion == 0:
            even = change.sample_by_area(given.surface(node), dense, rng)
        else:
            even = fracture.sample_worn(given, node, dense, config.erosion, rng)
        pieces.append(_thin_unevenly(even, n, config, rng))
    return pieces[0], pieces[1]


def _two_halves(given: Fracture, config: ShapesConfig, rng: np.random.Generator) -> Sides:
    """The surface of the whole, cut in two by a plane: open shells that have nothing in common."""
    n = 2 * config.points
    even = change.sample_by_area(given.surface(WHOLE), int(DENSER * n) + 1, rng)
    return change.split(_thin_unevenly(even, n, config, rng), rng.uniform(*config.share), rng)


def _two_crops(given: Fracture, config: ShapesConfig, rng: np.random.Generator) -> Sides:
    """The surface of the whole, sampled twice, each time cropped by a plane of its own; the two overlap."""
    if config.is_seen:
        return _two_views(given.surface(WHOLE), config, rng)
    keep = rng.uniform(*config.keep, 2)
    counts = np.rint(config.points / keep).astype(int).tolist()
    even = change.sample_by_area(given.surface(WHOLE), int(DENSER * sum(counts)) + 2, rng)
    # all points are drawn independently: one part for each side
    rows = np.split(np.arange(len(even.points)), [int(DENSER * counts[0]) + 1])
    samples = [
        _thin_unevenly(change.take(even, own), n, config, rng) for own, n in zip(rows, counts, strict=True)
    ]
    directions = _overlapping_directions(samples[0].points, keep, config.overlap, rng)
    first, second = (
        change.take(sample, np.argsort(sample.points @ direction, kind="stable")[: config.points])
        for sample, direction in zip(samples, directions, strict=True)
    )
    return first, second


def _two_views(surface: Geometry, config: ShapesConfig, rng: np.random.Generator) -> Sides:
    """The nearest points of the surface in two range images from far away; the two overlap."""
    count = int(6.0 * change.area_of(surface) / PIXEL**2)  # points for each pixel
    samples = [change.sample_by_area(surface, count, rng) for _ in range(2)]
    for _ in range(TRIES):
        first, across = random_direction(rng), random_direction(rng)
        across -= (across @ first) * first
        angle = np.radians(rng.uniform(30.0, 110.0))
        second = np.cos(angle) * first + np.sin(angle) * across / np.linalg.norm(across)
        rows = [_seen_from(each.points, way) for each, way in zip(samples, (first, second), strict=True)]
        shared = np.isin(_seen_from(samples[0].points, second), rows[0]).sum() / max(map(len, rows))
        if shared >= config.overlap:
            break
    one, other = (
        replace(change.take(each, rng.permutation(own)[: config.points]), normals=None)
        for each, own in zip(samples, rows, strict=True)
    )
    return one, other


def _seen_from(points: Float64[np.ndarray, "n 3"], direction: Vector) -> Int64[np.ndarray, " m"]:
    """Numbers of the points that nothing hides from an eye far away in a direction: one for each pixel."""
    across = np.linalg.svd(direction[None])[2][1:]
    column, row = np.floor(points @ across.T / PIXEL).astype(np.int64).T
    pixel = (column - column.min()) * (np.ptp(row) + 1) + row - row.min()
    order = np.lexsort((-(points @ direction), pixel))
    return order[np.diff(pixel[order], prepend=-1) > 0]


DRAW: dict[str, Callable[[Fracture, ShapesConfig, np.random.Generator], Sides]] = {
    "fracture": _two_pieces,
    "cut": _two_halves,
    "crop": _two_crops,
}


def _overlapping_directions(
    points: Points, keep: Float64[np.ndarray, " 2"], least: float, rng: np.random.Generator
) -> tuple[Vector, Vector]:
    """Directions of two crops that share at least a part ``least`` of the smaller one."""

    def inside(direction: Vector, share: float) -> Bool[np.ndarray, " n"]:
        along = points @ direction
        return along <= np.quantile(along, share)

    one = random_direction(rng)
    kept = inside(one, keep[0])
    for _ in range(TRIES):
        other = random_direction(rng)
        if np.mean(kept & inside(other, keep[1])) >= least * keep.min():
            return one, other
    return one, one


def _thin_unevenly(even: Geometry, n: int, config: ShapesConfig, rng: np.random.Generator) -> Geometry:
    """Choose n points, the denser the farther they lie in a random direction."""
    along = even.points @ random_direction(rng)
    weight = np.exp(rng.uniform(0, config.unevenness) * (along - along.mean()) / along.std())
    # the n largest of log(u)/w for uniform u are a draw without replacement by the weights w
    return change.take(even, np.argsort(np.log(rng.random(len(along))) / weight, kind="stable")[-n:])


def _add_faults(cloud: Geometry, config: ShapesConfig, rng: np.random.Generator) -> Geometry:
    noise = config.least_noise + (config.noise - config.least_noise) * rng.random()
    outliers = config.outliers * rng.random()
    return change.add_outliers(change.jitter(cloud, noise, rng), round(outliers * len(cloud.points)), rng)


def _make_of_mesh(meshes: tuple[tuple[str, Fracture], ...], i: int, rng: np.random.Generator) -> AssemblyPair:
    """Cuts and crops of the user's meshes in turn. Meshes need not be solids, so that none is broken."""
    turn, number = divmod(i, len(meshes))
    name, mesh = meshes[number]
    return draw(mesh, ShapesConfig(), f"{name}/{turn}", rng, ("cut", "crop")[turn % 2], with_symmetry=True)


def _open_meshes(split: str, root: Path | None, seed: int) -> Pairs:
    files = find_below(root, *MESH_FILES)
    meshes = tuple((path.stem, keep_whole(change.to_unit_sphere(read(path)))) for path in files)
    return Pairs("shapes:meshes", split, seed, partial(_make_of_mesh, meshes), range(12 * len(meshes)))


def _variant(title: str, option: str) -> dict[str, Any]:
    """A mix of ``shapes.toml``, or ``shapes:meshes``, which cuts and crops the user's own meshes."""
    if option == "meshes":
        return {
            "title": "meshes of the user's, cut and cropped",
            "licence": "that of the meshes",
            "source": "put meshes (obj, off, ply, stl) into the folder shapes/",
            "splits": ("test",),
            "present": lambda root: bool(find_below(root, *MESH_FILES)),
            "open": _open_meshes,
        }
    if option == "many":
        raise InputError(f"{MANY}: has puzzles, not pairs; open it by bitr.data.generated.puzzles(split)")
    require(option in MIXES, f"shapes:{option}: expected one of {', '.join((*MIXES, 'meshes'))}")
    config, words = MIXES[option]
    return {"title": f"generated objects, {words}", "open": partial(shapes, config=config)}


OPEN = {"shapes": shapes}
VARIANTS = {"shapes": _variant}


@dataclass(frozen=True)
class ManyConfig:
    """Settings of a puzzle of many pieces; the unit of length is the radius of the shapes."""

    kind: str | None = None
    """``cut``: the surface of a solid, cut by planes; ``fracture``: the solid, broken; None: in turns."""
    pieces: tuple[int, int] = (3, 10)  # fewest and most pieces of the object
    foreign: int | None = None  # pieces of another object that was cut alike; None: one in every third puzzle
    missing: int | None = None
    """Pieces that are taken away; None: one in every third puzzle of four pieces or more."""
    points: int = 1000  # mean number of points of a piece
    noise: float = 0.0025  # standard deviation of each coordinate

    def __post_init__(self) -> None:
        low, high = self.pieces
        check_rules(
            self,
            kind=self.kind is None or self.kind in PUZZLES,
            pieces=2 <= low <= high <= 10,
            foreign=self.foreign is None or 0 <= self.foreign <= low,
            missing=self.missing is None or 0 <= self.missing <= low - 2,
            points=self.points >= 50,
            noise=self.noise >= 0,
        )


def puzzles(
    split: str = "test", root: Path | None = None, seed: int = 0, config: ManyConfig | None = None
) -> Items[PuzzleCase]:
    """Open puzzles of the objects of a split; no object is in two splits, and neighbours differ in theirs."""
    check_split(MANY, split)
    make = partial(_make_puzzle, config or ManyConfig(), cache_folder(root), split)
    return Items(MANY, split, seed, make, range(COUNTS[split]))


def _make_puzzle(config: ManyConfig, folder: Path, name: str, i: int, rng: np.random.Generator) -> PuzzleCase:
    solids = num_solids(name, ShapesConfig())
    kind = config.kind or PUZZLES[i % len(PUZZLES)]
    count = int(rng.integers(config.pieces[0], config.pieces[1] + 1))
    missing, foreign = config.missing, config.foreign
    if missing is None:
        missing = int(count >= 4 and rng.random() < 1 / 3)
    if foreign is None:
        foreign = int(rng.random() < 1 / 3)

    def pieces_of(number: int) -> list[Geometry]:
        """The pieces of an object, in place."""
        seed = FIRST[name] + number % solids
        if kind == "fracture":
            broken = ShapeCache(folder, (count, count)).get(seed)
            return [change.sample_by_area(broken.surface(node), config.points, rng) for node in broken.pieces]
        whole = ShapeCache(folder, ShapesConfig().pieces).get(seed).surface(WHOLE)
        cloud = change.sample_by_area(whole, count * config.points, rng)
        return cut_by_planes(replace(cloud, normals=None), count, rng)

    own = pieces_of(i)
    listed = [(own[int(k)], 0) for k in rng.permutation(len(own))[: len(own) - missing]]
    if foreign:
        other = pieces_of(i + HELD_OUT // 2)
        listed += [(other[int(k)], 1) for k in rng.permutation(len(other))[:foreign]]
    listed = [listed[int(k)] for k in rng.permutation(len(listed))]
    motions = [random_pose(rng, 1.0) for _ in listed]
    pieces = [
        replace(change.jitter(piece, config.noise, rng).moved(motion), name=f"piece-{k}")
        for k, ((piece, _), motion) in enumerate(zip(listed, motions, strict=True))
    ]
    places = np.stack([inverse(motion) for motion in motions])
    numbers = tuple(number for _, number in listed)
    return PuzzleCase(tuple(pieces), places, numbers, f"{name}/{i}/{kind}-{len(listed)}")


def cut_by_planes(cloud: Geometry, count: int, rng: np.random.Generator) -> list[Geometry]:
    """Cut a cloud into ``count`` pieces, always through the piece with the most points."""
    pieces = [change.take(cloud, np.arange(len(cloud.points)))]
    while len(pieces) < count:
        largest = max(range(len(pieces)), key=lambda k: len(pieces[k].points))
        pieces[largest : largest + 1] = change.split(pieces[largest], rng.uniform(0.35, 0.65), rng)
    return pieces
