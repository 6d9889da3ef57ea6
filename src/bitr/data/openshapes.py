"""Openly licensed meshes of many origins, cut, cropped and broken, and pairs that do not belong together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from bitr.data.fetch import TABLE, is_here
from bitr.data.generated import fracture
from bitr.data.generated.dataset import MIXES, ShapesConfig, draw, num_solids, shapes
from bitr.data.generated.kernel import solid_of_mesh
from bitr.data.poses import AssemblyPair, Pairs
from bitr.data.scans import INDOOR_GRID, INDOOR_SHIFT, Places, indoor_scenes
from bitr.data.storage import find_below, open_npz, split_of
from bitr.data.transforms import assembled, move_randomly, sample_grid
from bitr.errors import require
from bitr.io import Geometry

NAME = "openshapes"
PACKED = "openshapes/openshapes.npz"
COUNTS = {"train": 100_000, "val": 400, "test": 400}
"""Number of pairs: for training the length of an epoch; held-out splits have at least one of each object."""
BREAKS = 3  # number of fractures of each solid
OPTIONS = ("cut", "crop", "fracture", "noisy", "scan", "eroded")
"""Options of ``shapes`` that this data set has too."""

KINDS = ("open", "generated", "rooms", "mixed")
"""Parts of two open shapes, of two generated shapes, fragments of two scenes, and part of a generated with
part of an open shape; in turn: the kinds of unrelated pairs."""
UNRELATED = {"train": 100_000, "val": 200, "test": 100}
"""Number of unrelated pairs; for training the length of an epoch."""
HALVES, BROKEN = ("cut", "crop"), ("fracture",)
"""Options of ``shapes`` and ``openshapes`` that either side of an unrelated pair is part of; where both are
broken, none is a room."""
RATIO = 1.35  # largest ratio of the two sizes, either way

OBJECT_AT = {"nasa": -2, "kevinzakka": -2, "elpis-lab": -3}
"""Index of the part of a path that names the object, by owner, if that is not the file."""
VARIANT_WORDS = frozenset(TABLE["openshapes"]["variants"].split())
"""Words for variants of one object (colours, sizes, detail), or that some packs put before all names."""


def label(name: str) -> str:
    """The object's own name in ``owner/repository:path``, without the suffix of its file."""
    owner, _, path = name.partition("/")
    part = path.split(":", 1)[-1].split("/")[OBJECT_AT.get(owner, -1) :][0]
    return re.sub(r"\.(glb|gltf|obj|fbx|stl|ply)$", "", part)


def family(name: str) -> str:
    """The owner and the first telling word of a name: Chair_1, ChairBlue and chair-small are a family."""
    words = [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", label(name)) if len(w) > 1]
    telling = [word for word in words if word not in VARIANT_WORDS] or words or [label(name)]
    return f"{name.partition('/')[0]}/{telling[0].removesuffix('s')}"


@dataclass(frozen=True, eq=False)
class Shapes:
    """All meshes of a file, radius 1 about the origin."""

    vertices: Float32[np.ndarray, "v 3"]
    faces: Int64[np.ndarray, "f 3"]  # indices within each mesh
    starts: Int64[np.ndarray, "k 2"]  # beginning of each mesh in both; one more row than there are meshes
    names: tuple[str, ...]
    watertight: Bool[np.ndarray, " m"]
    main_piece: Float32[np.ndarray, " m"]

    def mesh(self, index: int) -> Geometry:
        (v, f), (v_end, f_end) = self.starts[index], self.starts[index + 1]
        points = self.vertices[v:v_end].astype(np.float64)
        return Geometry(points, faces=self.faces[f:f_end], name=label(self.names[index]))

    def of_split(self, split: str) -> list[int]:
        """The useful meshes of a split, in an order that mixes origins and families."""
        found = [i for i, name in enumerate(self.names) if split_of(NAME, family(name)) == split]
        useful = [i for i in found if self._is_useful(i)]
        return sorted(useful, key=lambda i: hashlib.sha256(self.names[i].encode()).digest())

    def _is_useful(self, index: int) -> bool:
        """Tell if a mesh is neither flat nor scattered, and has more than a few faces."""
        if self.starts[index + 1, 1] - self.starts[index, 1] < 20 or self.main_piece[index] < 0.9:
            return False
        points = self.mesh(index).points
        centered = points - points.mean(axis=0)
        extents = np.sort(np.ptp(centered @ np.linalg.eigh(centered.T @ centered)[1], axis=0))
        return bool(extents[0] >= 0.1 * extents[1])


@lru_cache(maxsize=1)
def read_openshapes(path: Path) -> Shapes:
    """Read the meshes of a file, once."""
    needed = ("vertices", "faces", "vert_offsets", "face_offsets", "names", "watertight", "main_piece")
    with open_npz(path, *needed) as arrays:
        vertices, faces, v, f, names, watertight, main_piece = (arrays[key] for key in needed)
    counts = {len(v) - 1, len(f) - 1, len(names), len(watertight), len(main_piece)}
    found = f"{len(names)} names, {len(v)} and {len(f)} offsets that end at {v[-1]} and {f[-1]}"
    fits = len(counts) == 1 and v[-1] == len(vertices) and f[-1] == len(faces)
    require(fits, f"{path}: {found}, {len(vertices)} vertices and {len(faces)} faces do not fit together")
    return Shapes(
        vertices.astype(np.float32),
        faces.astype(np.int64),
        np.stack([v, f], axis=1).astype(np.int64),
        tuple(str(name) for name in names),
        watertight.astype(bool),
        main_piece.astype(np.float32),
    )


@dataclass(frozen=True)
class DrawPairs:
    """Makes the pairs of the objects of a split."""

    path: Path
    objects: tuple[int, ...]
    config: ShapesConfig
    folder: Path  # folder of stored fractures
    with_symmetry: bool = False  # look for symmetries, as ``draw`` does

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        shapes, config = read_openshapes(self.path), self.config
        turn, number = divmod(i, len(self.objects))
        index = self.objects[number]
        given = self.load(shapes, index, turn % BREAKS)
        for step in range(len(self.objects) if config.is_only_broken else 0):
            if len(given.fits):
                break
            # an object that cannot be broken gives way to one that no neighbouring pair has
            index = self.objects[(number + (step + 1) * (len(self.objects) // 2 + 1)) % len(self.objects)]
            given = self.load(shapes, index, turn % BREAKS)
        if not len(given.fits):
            config = replace(config, mix=(0.0, *config.mix[1:]))
        name = f"{i}/{label(shapes.names[index])}"
        return draw(given, config, name, rng, with_symmetry=self.with_symmetry)

    def family(self, number: int) -> str:
        """The family of the object of pair ``number``."""
        return family(read_openshapes(self.path).names[self.objects[number % len(self.objects)]])

    def load(self, shapes: Shapes, index: int, turn: int) -> fracture.Fracture:
        """The mesh, broken if that is wanted and possible."""
        mesh = shapes.mesh(index)
        if not (self.config.mix[0] > 0 and shapes.watertight[index]):
            return fracture.keep_whole(mesh)
        path = self.folder / f"{_key(mesh)}-{turn}.shape"
        return fracture.load_fracture(path, partial(_break, mesh, self.config.pieces, turn))


def _break(mesh: Geometry, pieces: tuple[int, int], turn: int) -> fracture.Fracture:
    """Break the mesh at random; leave it as it is if it cannot be broken."""
    assert mesh.faces is not None
    whole = solid_of_mesh(mesh.points, mesh.faces, least=0.95)  # of its volume: loose bits are dropped
    if whole is None:
        return fracture.keep_whole(mesh)
    found = fracture.break_at_random(whole, pieces, np.random.default_rng([turn, int(_key(mesh), 16)]))
    return found if len(found.fits) else fracture.keep_whole(mesh)


def _key(mesh: Geometry) -> str:
    assert mesh.faces is not None
    return hashlib.sha256(mesh.points.tobytes() + mesh.faces.tobytes()).hexdigest()[:16]


def draw_pairs(split: str, root: Path | None, config: ShapesConfig) -> DrawPairs:
    """The maker of the pairs of a split: of all objects, or the watertight ones if all are to be broken."""
    path = find_below(root, PACKED)[0]
    shapes = read_openshapes(path)
    objects = [i for i in shapes.of_split(split) if shapes.watertight[i] or not config.is_only_broken]
    folder = fracture.cache_folder(root) / f"{fracture.fracture_key()}-{NAME}"
    return DrawPairs(path, tuple(objects), config, folder)


def openshapes(
    split: str, root: Path | None = None, seed: int = 0, config: ShapesConfig | None = None
) -> Pairs:
    """Open pairs of the meshes of a split; held-out pairs know the symmetries of their pieces."""
    make = replace(draw_pairs(split, root, config or ShapesConfig()), with_symmetry=split != "train")
    count = max(COUNTS[split], len(make.objects)) if make.objects else 0
    return Pairs(NAME, split, seed, make, range(count))


def _variant(title: str, option: str) -> dict[str, Any]:
    """One kind of pair alone, as ``openshapes:cut``."""
    require(option in OPTIONS, f"{NAME}:{option}: expected one of {', '.join(OPTIONS)}")
    config, words = MIXES[option]
    return {"title": f"openly licensed meshes, {words}", "open": partial(openshapes, config=config)}


@dataclass(frozen=True, eq=False)
class _DrawUnrelated:
    """Makes pairs whose pieces do not belong together."""

    split: str
    kinds: tuple[str, ...]
    open: tuple[DrawPairs, ...]  # one for each option, as the next
    generated: tuple[Callable[[int, np.random.Generator], AssemblyPair], ...]
    count: int  # number of generated shapes
    rooms: Places
    other_rooms: Places

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        kind = self.kinds[i % len(self.kinds)]
        id = f"{self.split}/{i}/{kind}"
        if kind == "rooms":
            pair = move_randomly(assembled(*self.two_rooms(rng), id, unit="m"), rng, INDOOR_SHIFT)
        else:
            pair = move_randomly(assembled(*self.two_shapes(kind, rng), id), rng)
        return replace(pair, ref_from_src=np.eye(4), related=False)

    def two_shapes(self, kind: str, rng: np.random.Generator) -> tuple[Geometry, Geometry]:
        """Parts of two shapes, divided alike and of similar sizes."""
        half = int(rng.integers(len(self.open)))
        make_open, make_generated = self.open[half], self.generated[half]
        if kind == "open":
            first = int(rng.integers(len(make_open.objects)))
            families = [make_open.family(n) for n in range(len(make_open.objects))]
            second = int(rng.choice([n for n, own in enumerate(families) if own != families[first]]))
            source, reference = make_open(first, rng).source, make_open(second, rng).reference
        elif kind == "generated":
            first, second = (int(n) for n in rng.choice(self.count, 2, replace=False))
            source, reference = make_generated(first, rng).source, make_generated(second, rng).reference
        else:
            source = make_generated(int(rng.integers(self.count)), rng).source
            reference = make_open(int(rng.integers(len(make_open.objects))), rng).reference
            source, reference = (source, reference) if rng.random() < 0.5 else (reference, source)
        factor = RATIO ** rng.uniform(-1, 1) * _size(reference) / _size(source)
        return replace(source, points=factor * source.points), reference

    def two_rooms(self, rng: np.random.Generator) -> tuple[Geometry, Geometry]:
        """Fragments of two scenes of similar size, not scaled: all have the same grid, in metres."""
        place = str(rng.choice(sorted(self.rooms)))
        other = str(rng.choice(sorted(name for name in self.other_rooms if name != place)))
        own, others = self.rooms[place], self.other_rooms[other]
        first = sample_grid(own[int(rng.integers(len(own)))].load(), INDOOR_GRID)
        rows = rng.permutation(len(others))[:12]  # of these, the one most like the first in size
        found = [sample_grid(others[int(row)].load(), INDOOR_GRID) for row in rows]
        second = min(found, key=lambda piece: abs(np.log(_size(piece) / _size(first))))
        return (first, second) if rng.random() < 0.5 else (second, first)


def _size(piece: Geometry) -> float:
    return float(np.linalg.norm(piece.points - piece.points.mean(axis=0), axis=1).max())


def _open_unrelated(split: str, root: Path | None, seed: int) -> Pairs:
    rooms = indoor_scenes(root, split)
    # validation and test have one scene each: its fragments are paired with those of training scenes
    others = rooms if len(rooms) > 1 else indoor_scenes(root, "train")
    names = ", ".join(sorted({*rooms, *others})) or "none"
    require(
        rooms and len({*rooms, *others}) >= 2,
        f"unrelated: the scenes of {split} are {names}, expected two or more",
    )
    return _unrelated(split, root, seed, HALVES, KINDS, rooms, others)


def _unrelated(
    split: str,
    root: Path | None,
    seed: int,
    options: tuple[str, ...],
    kinds: tuple[str, ...],
    rooms: Places,
    other_rooms: Places,
) -> Pairs:
    configs = [MIXES[option][0] for option in options]
    make = _DrawUnrelated(
        split,
        kinds,
        tuple(draw_pairs(split, root, config) for config in configs),
        tuple(shapes(split, root, config=config).make for config in configs),
        num_solids(split, ShapesConfig()),
        rooms,
        other_rooms,
    )
    return Pairs("unrelated", split, seed, make, range(UNRELATED[split]))


def _broken(title: str, option: str) -> dict[str, Any]:
    """Pieces of different broken things, as ``unrelated:broken``."""
    require(option == "broken", f"unrelated:{option}: expected broken")
    kinds = tuple(kind for kind in KINDS if kind != "rooms")
    opened = partial(_unrelated, options=BROKEN, kinds=kinds, rooms={}, other_rooms={})
    return {"title": "pieces of different broken things", "open": opened, "present": partial(is_here, NAME)}


OPEN = {NAME: openshapes, "unrelated": _open_unrelated}
VARIANTS = {NAME: _variant, "unrelated": _broken}
