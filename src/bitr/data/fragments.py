"""Fragment reassembly of Sec. 6.4: broken bottles and other vessels in two pieces, from Breaking Bad.

Classes have splits of our own by shape. ``everyday`` and ``artifact`` are the pairs of the official lists.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bitr.data import transforms as change
from bitr.data.poses import AssemblyPair, Pairs, PuzzleCase, inverse, random_pose, read_text, seeded_generator
from bitr.data.storage import Arrays, cache_home, find_below, load_or_make, open_npz, split_by_hash, split_of
from bitr.errors import require
from bitr.io import Geometry, join, read

GRID = 0.005
PER_CELL = 8
"""Points drawn for each face of a cube, so that the grid misses few cubes that the surface runs through."""
PIECES = (".obj", ".glb", ".ply", ".stl", ".off")
BOTTLES = ("winebottle", "beerbottle", "bottle", "drinkbottle")
"""Data sets that ``winebottle:all`` trains with."""
CLASSES = {
    "winebottle": "WineBottle",
    "beerbottle": "BeerBottle",
    "bottle": "Bottle",
    "drinkbottle": "DrinkBottle",
    "pillbottle": "PillBottle",
    "wineglass": "WineGlass",
    "vase": "Vase",
    "mug": "Mug",
    "bowl": "Bowl",
}
"""Data sets, and the names of their classes in Breaking Bad."""
SUBSETS = ("everyday", "artifact")  # parts of Breaking Bad that have official lists
LISTS = ("data_split/{subset}.{half}.txt", "{subset}.{half}.txt", "data_list/{subset}_{half}.txt")
"""Places of the lists below the folder: in the official archive, beside the data, in other benchmarks."""


@dataclass(frozen=True)
class Fracture:
    """A broken shape; the id says "native" if it broke in two, "merged" if pieces were joined to two."""

    id: str
    shape: str
    load: Callable[[], tuple[Geometry, ...]]


def _make(
    fractures: Sequence[Fracture], folder: Path, known: dict[int, Arrays], i: int, rng: np.random.Generator
) -> AssemblyPair:
    """5% of the points of the fragments' surfaces, which are stored: making them is the slow part."""
    fracture = fractures[i]
    if i not in known:
        path = folder / f"{hashlib.sha256(fracture.id.encode()).hexdigest()[:16]}.arrays"
        known[i] = load_or_make(path, partial(_surfaces, fracture), is_needed=False)
    sides = []
    for side in "ab":
        normals = known[i][f"{side}_normals"].astype(np.float64)
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        cloud = Geometry(known[i][f"{side}_points"].astype(np.float64), normals, name="fragment")
        sides.append(change.sample_uniform(cloud, max(1, round(0.05 * len(cloud.points))), rng))
    return change.move_randomly(change.assembled(sides[0], sides[1], fracture.id), rng)


def _surfaces(fracture: Fracture) -> Arrays:
    """One point for each cube of the grid that either surface runs through, and its outward normal."""
    found: Arrays = {}
    for side, mesh in zip("ab", fracture.load(), strict=True):
        rng = np.random.default_rng(zlib.crc32(fracture.id.encode()))
        count = max(16, round(PER_CELL * change.area_of(mesh) / GRID**2))
        grid = change.sample_grid(change.sample_by_area(mesh, count, rng), GRID)
        assert grid.normals is not None
        found[f"{side}_points"] = grid.points.astype(np.float32)
        found[f"{side}_normals"] = np.rint(127 * grid.normals).astype(np.int8)  # good to 0.3°
    return found


def fractures(name: str, root: Path | None) -> list[Fracture]:
    """List the two-fragment pairs of a class: those of the npz file, or else of Breaking Bad's folders."""
    found = []
    for meshes, entry in _packed(root, name):
        where = f"{entry['shape']}/{entry['fracture']}"
        kind = "native" if entry["pieces"] == 2 else "merged"
        for sides in entry["bipartitions"]:
            label = "+".join(".".join(map(str, sides[side])) for side in "ab")
            load = partial(_load_packed, meshes, where, sides["a"], sides["b"])
            found.append(Fracture(f"{where}/{kind}/{label}", entry["shape"], load))
    if found:
        return found
    category = CLASSES[name]
    for folder in find_below(root, f"breaking_bad/{category}/*/*", f"breaking_bad/*/{category}/*/*"):
        pieces, shape = _pieces_in(folder), folder.parent.name
        if len(pieces) == 2:
            found.append(Fracture(f"{shape}/{folder.name}/native/0+1", shape, partial(_load_files, pieces)))
    return found


def _packed(root: Path | None, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The entries of ``NAME_index.json``, each with the file of its meshes; none where there is no index."""
    index = f"breaking_bad/{name}_index.json", f"breaking_bad_more/breaking_bad_{name}_index.json"
    for found in find_below(root, *index)[:1]:
        meshes = found.with_name(found.name.replace("_index.json", "_meshes.npz"))
        require(meshes.is_file(), f"{meshes}: no such file, expected the meshes that {found.name} lists")
        for entry in json.loads(found.read_text(encoding="utf-8")):
            yield meshes, entry


def bottle_puzzles(root: Path | None, split: str) -> list[Fracture]:
    """The bottles of Breaking Bad in more than two pieces, without chips below 0.3% of the area."""
    found = []
    for name in BOTTLES:
        for meshes, entry in _packed(root, name):
            numbers = tuple((int(number),) for number in entry["kept_pieces"])
            if len(numbers) > 2 and split_of(name, entry["shape"]) == split:
                where = f"{entry['shape']}/{entry['fracture']}"
                load = partial(_load_packed, meshes, where, *numbers)
                found.append(Fracture(f"{name}/{where}", entry["shape"], load))
    require(found, f"bottles in many pieces: none of the split {split!r} below {root}")
    return found


def bottle_puzzle(root: Path | None, split: str, i: int, seed: int = 0) -> PuzzleCase:
    """Bottle i in its pieces, each moved at random: 5,000 points with normals, shared by area."""
    fracture = bottle_puzzles(root, split)[i]
    rng = seeded_generator("bottles:many", split, seed, i)
    clouds = _share_points(fracture.load(), rng)
    motions = [random_pose(rng, 1.0) for _ in clouds]
    pieces = [
        replace(cloud.moved(motion), name=f"piece-{k}")
        for k, (cloud, motion) in enumerate(zip(clouds, motions, strict=True))
    ]
    places = np.stack([inverse(motion) for motion in motions])
    return PuzzleCase(tuple(pieces), places, (0,) * len(pieces), fracture.id)


def _load_packed(path: Path, where: str, *sides: Sequence[int]) -> tuple[Geometry, ...]:
    """The surfaces of fragments, each of one piece or of several."""
    with open_npz(path) as arrays:

        def piece(number: int) -> Geometry:
            key = f"{where}/{number}"
            require(f"{key}/v" in arrays, f"{path}: holds no {key}/v, which the index lists")
            vertices, faces = arrays[f"{key}/v"], arrays[f"{key}/f"]
            return Geometry(vertices.astype(np.float64), faces=faces.astype(np.int64), name=key)

        return tuple(merge([piece(number) for number in side], where) for side in sides)


def _load_files(files: Sequence[Path]) -> tuple[Geometry, ...]:
    return tuple(merge([read(file)], str(file)) for file in files)


def _pieces_in(folder: Path) -> list[Path]:
    """The files of the pieces, none if it is no folder."""
    return sorted(p for p in folder.glob("*") if p.suffix.lower() in PIECES) if folder.is_dir() else []


def merge(pieces: Sequence[Geometry], name: str) -> Geometry:
    """Join pieces; a face that is there twice lies inside the fragment and is dropped."""
    whole = join(pieces, name)
    require(whole.faces is not None, f"{name}: has no faces, expected a mesh")
    assert whole.faces is not None
    cells = np.round(whole.points / 1e-6).astype(np.int64)  # closer vertices are one vertex of the shape
    _, first, same = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    faces = same.reshape(-1)[whole.faces]
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    _, index, counts = np.unique(np.sort(faces, axis=1), axis=0, return_inverse=True, return_counts=True)
    outside = faces[counts[index.reshape(-1)] == 1]
    require(len(outside), f"{name}: every face is there twice, expected the surface of a piece")
    used, renumbered = np.unique(outside, return_inverse=True)
    return Geometry(whole.points[first][used], faces=renumbered.reshape(-1, 3), name=name)


def listed_fractures(path: Path, subset: str) -> list[Fracture]:
    """The two-piece fractures of a list: of folders of shapes, or of numbers of pieces with a fracture's."""
    home = path.parent.parent if path.parent.name in ("data_split", "data_list") else path.parent
    hint = "; unpack all that the list names, or take a class, as winebottle"
    if (home / f"{subset}_compressed").is_dir() and not (home / subset).is_dir():
        hint = f"; {subset}_compressed/ is there: run Breaking Bad's decompress.py"
    form = f"{subset}/…/SHAPE, or a number of pieces and {subset}/…/SHAPE/FRACTURE"
    found = []
    for number, line in enumerate(read_text(path, "a list of folders").splitlines(), start=1):
        words, at = line.split(), f"{path}, line {number}"
        if not words:
            continue
        within, is_fracture = words[-1], len(words) == 2 and words[0].isdigit()
        fits = (is_fracture or len(words) == 1) and within.split("/")[0] == subset and ".." not in within
        require(fits, f"{at}: found {line!r:.80}, expected {form}")
        if is_fracture and words[0] != "2":
            continue
        place = home / within
        require(place.is_dir(), f"{at}: no folder {place}{hint}")
        shape = within.rpartition("/")[0] if is_fracture else within
        for folder in [place] if is_fracture else sorted(p for p in place.iterdir() if p.is_dir()):
            pieces = _pieces_in(folder)
            problem = f"{at}: {folder} has {len(pieces)} pieces, expected the 2 that the list says"
            require(len(pieces) == 2 or not is_fracture, problem)
            if len(pieces) == 2:
                load = partial(_load_files, pieces)
                found.append(Fracture(folder.relative_to(home).as_posix(), shape, load))
    return found


def _sample_listed(fractures: Sequence[Fracture], i: int, rng: np.random.Generator) -> AssemblyPair:
    source, reference = _share_points(fractures[i].load(), rng)
    return change.move_randomly(change.assembled(source, reference, fractures[i].id), rng)


def _share_points(sides: Sequence[Geometry], rng: np.random.Generator) -> list[Geometry]:
    """5,000 points of an object, which its pieces share by area, at least 256 of each."""
    counts = change.share_by_area([change.area_of(side) for side in sides], 5000, 256)
    return [change.sample_by_area(side, n, rng) for side, n in zip(sides, counts, strict=True)]


def _open_list(subset: str, split: str, root: Path | None, seed: int) -> Pairs:
    """The official second list is the test, as in all papers; a tenth of the training shapes validates."""
    half = "val" if split == "test" else "train"
    lists = find_below(root, *(f"breaking_bad*/{place.format(subset=subset, half=half)}" for place in LISTS))
    expected = f"no {subset}.{half}.txt below {root}, expected it in breaking_bad/data_split/"
    require(lists, f"{subset}: {expected}")
    found = listed_fractures(lists[0], subset)
    if split != "test":
        found = [f for f in found if (split_by_hash(f.shape) == "val") == (split == "val")]
    return Pairs(subset, split, seed, partial(_sample_listed, found), range(len(found)))


def _open(name: str, others: bool, split: str, root: Path | None, seed: int) -> Pairs:
    classes = BOTTLES if others and split == "train" else (name,)
    found = [f for each in classes for f in fractures(each, root) if split_of(each, f.shape) == split]
    key = hashlib.sha256(f"{Path(root or '').resolve()} {GRID} {PER_CELL}".encode()).hexdigest()[:12]
    make = partial(_make, found, cache_home() / "surfaces" / key, {})
    return Pairs(name, split, seed, make, range(len(found)))


def _variant(title: str, option: str) -> dict[str, Any]:
    """``winebottle:all`` trains with bottles of all four classes, and tests on wine bottles."""
    require(option == "all", f"winebottle:{option}: no such option, expected winebottle:all")
    title = f"{title}, other bottles among those to train with"
    return {"title": title, "open": partial(_open, "winebottle", True)}


OPEN = {name: partial(_open, name, False) for name in CLASSES}
OPEN |= {subset: partial(_open_list, subset) for subset in SUBSETS}
VARIANTS = {"winebottle": _variant}
