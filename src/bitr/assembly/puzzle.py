"""Many pieces: which of them belong together, and where. Compare, choose what agrees, merge, look again."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree

from bitr.assembly.align import Matrix, Motions, Points, moved
from bitr.assembly.assemble import SURE, UNLIKE, Settings
from bitr.assembly.batch import Cores, Pair, Row, Solver, ray_cluster, run_batch, solve_on_ray, solve_pair
from bitr.assembly.graph import (
    CREDIT,
    Edge,
    Graph,
    Group,
    Guess,
    Key,
    Link,
    Part,
    agreeing,
    certainty,
    completed,
    find_groups,
    frame_of,
    hanging,
    links_of,
    synchronised,
)
from bitr.assembly.match import correspond, match_motions
from bitr.assembly.network import Network
from bitr.assembly.overlay import overlaps
from bitr.assembly.sample import DENSE, area_of_cloud
from bitr.assembly.seam import seam_motions
from bitr.assembly.surface import Surface
from bitr.assembly.verify import shipped_verifier
from bitr.data.poses import inverse
from bitr.errors import InputError
from bitr.io import Geometry, as_geometry, as_points, farthest_points, join, write

FEWEST, MOST = 2, 50
"""Number of pieces."""
HYPOTHESES = 12
"""Hypotheses of each pair."""
QUICK = ("seam", "mate", "model")
"""Kinds of joint of the first look. Common surfaces take most of the time; they are sought where the first
look leaves pieces over."""
LOOKS = ((False, 0.9), (False, 0.7), (True, 0.9), (True, 0.7))
"""Looks one after the other, each until it finds nothing more: is it full, and least chance of a part."""
OF_TWO = ((True, SURE),)
"""The one look at two pieces, as in ``assemble``."""
PROVED, TRIALS = 0.7, 4
"""Least chance of every joint of parts that were put together on trial, and trials of one look."""
COMMON = 5.0
"""Places of few points that agree on a motion, times the overlap it leads to, from which on a common surface
is sought: at least 9 where fragments of rooms share a third of their surface, below 5 for most pieces that
share none."""
ALL_PAIRS = 11
"""Most parts of which all pairs are compared; of more, each part with its ``PARTNERS`` best."""
PARTNERS = 6
WORTH_A_START = 4
"""Pairs for which processes are started; fewer are compared in this one."""
THIN, FEWEST_POINTS = 1200, 250
"""Points of a piece on average that pairs are compared by, and the fewest of one."""
LOOKED = 500
"""Points of a part by which partners are chosen."""
AGREED = 8
"""Motions that places of two surfaces agree on, by which partners are chosen."""

log = logging.getLogger("bitr")


@dataclass(frozen=True, eq=False)
class Joint:
    """Two pieces of a group that a hypothesis joins; the motion takes the second onto the first."""

    first: int
    second: int
    first_from_second: Float64[np.ndarray, "4 4"]
    confidence: float
    """Chance that this relative pose is right, given all pieces."""
    alone: float
    """The same by the pair alone."""
    method: str

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "first_from_second": self.first_from_second.tolist()}


@dataclass(frozen=True, eq=False)
class Puzzle:
    """The answer for many pieces; pieces are numbered in the order in which they were given."""

    names: tuple[str, ...]
    poses: Float64[np.ndarray, "n 4 4"]
    """Takes each piece to its place in the frame of the largest piece of the first group. Where other groups
    and pieces that are left over stand in it is a guess."""
    groups: tuple[tuple[int, ...], ...]
    """Pieces that belong together, largest piece first; the group of the largest piece first."""
    left_over: tuple[int, ...]
    """Pieces whose best place stays below a confidence of 0.7, or of 0.5 where there are two pieces."""
    confidence: tuple[float, ...]
    """Chance of each piece that its pose in its group, or the guess, is right."""
    joints: tuple[Joint, ...]
    """Pairs of pieces of a group that a hypothesis joins, the surest first."""
    pairs: tuple[dict[str, Any], ...]
    """Pairs of single pieces that were compared, each as the last look at it found it: ``first`` (the
    reference) and ``second`` (the source), status, reason, confidence, method, warnings and seconds. Pairs
    with a merged part are not among them."""
    seconds: float
    model: str
    warnings: tuple[str, ...]

    @property
    def largest(self) -> int:
        """The piece in whose frame the first group stands: that of the largest root mean square radius."""
        return self.groups[0][0] if self.groups else self.left_over[0]

    def moved(self, pieces: Sequence[Geometry]) -> list[Geometry]:
        """The pieces in their places; those of each group fit."""
        return [piece.moved(pose) for piece, pose in zip(pieces, self.poses, strict=True)]

    def to_dict(self) -> dict[str, Any]:
        """The keys and values of ``to_json``."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {
            "poses": self.poses.tolist(),
            "joints": [joint.to_dict() for joint in self.joints],
            "pairs": list(self.pairs),
            "largest": self.largest,
        }

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII."""
        return json.dumps(self.to_dict(), allow_nan=False)


def assemble_all(
    pieces: Sequence[Any],
    *,
    model: str = "default",
    points: int | None = None,
    seed: int = 0,
    workers: int = 1,
) -> Puzzle:
    """Put many pieces together: groups that belong together, and the pose of each piece.

    Pieces may be paths, arrays, tensors, Open3D or trimesh objects, as for ``assemble``. With ``workers``
    above 1, pairs are compared in so many processes; a script must then have ``if __name__ == "__main__"``.

    Moving a piece moves its pose, scaling all of them scales the answer, and their order does not matter.
    """
    given = [as_geometry(piece, f"piece {i}") for i, piece in enumerate(pieces)]
    with tempfile.TemporaryDirectory(prefix="bitr-puzzle-") as folder:
        return solve_puzzle(given, Workshop(Path(folder), model, points, seed, workers))


def solve_puzzle(pieces: Sequence[Geometry], workshop: Workshop) -> Puzzle:
    """The same for what has been read already: look at pairs, group, merge what is sure, and look again."""
    start = time.perf_counter()
    if not FEWEST <= len(pieces) <= MOST:
        raise InputError(f"got {len(pieces)} pieces, expected {FEWEST} to {MOST}")
    whole = [Part.of(piece, {i: np.eye(4)}) for i, piece in enumerate(pieces)]
    sized = sorted(thinned(whole) if len(pieces) > 2 else whole, key=lambda part: -part.size)
    unit = sized[0].size
    if not unit > 0:
        raise InputError(f"{pieces[0].name}: all points are at one place, expected a shape")
    parts, told, shared = sized, Told(sized), Shared(unit)
    try:
        for is_full, least in LOOKS if len(pieces) > 2 else OF_TWO:
            found = None
            while len(parts) > 1 and found != []:
                pairs = choose_pairs(parts, unit, is_full)
                full = shared.among(parts, pairs) if is_full else []
                log.info("look at %d parts: %d pairs, %d of them in full", len(parts), len(pairs), len(full))
                rows = workshop.compare(parts, [pair for pair in pairs if pair not in full], False)
                graph = Graph.of(parts, unit, rows | workshop.compare(parts, full, True))
                found = [synchronised(graph, group) for group in find_groups(graph, least)]
                told.note(graph, full)
                if not found and least <= PROVED and len(parts) > 2:
                    found = [synchronised(graph, group) for group in prove(graph, told, workshop)]
                told.add(graph, found, least)
                parts = merge(parts, found, unit)
    finally:
        workshop.close()
    answer = told.answer(parts, graph, unit)
    return replace(answer, model=workshop.model, seconds=time.perf_counter() - start)


def thinned(parts: Sequence[Part]) -> list[Part]:
    """All parts at one density, with ``THIN`` points each on average; as they are where that is enough.

    What is chosen here once is chosen for all pairs.
    """
    if sum(len(part.sample.points) for part in parts) <= THIN * len(parts):
        return list(parts)
    areas = np.array([area_of_cloud(part.sample.points) for part in parts])
    wanted = np.maximum(THIN * len(parts) * areas / areas.sum(), FEWEST_POINTS)
    return [_thin(part, int(np.rint(count))) for part, count in zip(parts, wanted, strict=True)]


def _thin(part: Part, count: int) -> Part:
    cloud = part.sample
    if len(cloud.points) > count:
        cloud = cloud.rows(np.sort(farthest_points(cloud.points, count)))
    return Part(replace(cloud, name=part.geometry.name, warnings=part.geometry.warnings), part.places, cloud)


# trial


def prove(graph: Graph, told: Told, workshop: Workshop) -> list[Group]:
    """Parts in their likeliest places as one group, where every joint is sure.

    A piece between several others is doubtful beside each of them, and sure beside all of them together. So
    the places are assumed, and at every joint of the tree that the parts hang on all parts of one side are
    compared with all of the other. What that finds counts at the next guess; from the second one on the
    smaller side of the most doubtful joint is left out.
    """
    members: Sequence[int] = range(len(graph.parts))
    told.tried = {}
    for number in range(TRIALS):
        base = max(members, key=lambda k: len(graph.parts[k].places))
        guesses = completed(graph, told.links(graph), members, base, CREDIT)
        if len(guesses) < 3:
            break
        sure = _try_joints(graph, guesses, told, workshop)
        worst = min(sure, key=sure.__getitem__)
        log.info("trial of %d parts: the most doubtful joint has %.2f", len(guesses), sure[worst])
        if sure[worst] >= PROVED:
            return [Group({k: guess.pose for k, guess in guesses.items()})]
        far = hanging(guesses, worst)
        if number:
            near = [k for k in guesses if k not in far]
            count = [sum(len(graph.parts[k].places) for k in side) for side in (near, far)]
            members = sorted(near if count[0] >= count[1] else far)
    return []


def _try_joints(
    graph: Graph, guesses: Mapping[int, Guess], told: Told, workshop: Workshop
) -> dict[int, float]:
    """The chance of the joint of each part with the one it is beside, by all parts of either side."""
    base = next(k for k, guess in guesses.items() if guess.beside == k)
    moves = {
        k: frame_of(graph.parts[base], graph.parts[k], told.unit).outside(guess.pose)
        for k, guess in guesses.items()
    }
    joints, sides = [k for k in guesses if k != base], list[Part]()
    for k in joints:
        far = hanging(guesses, k)
        beside = guesses[k].beside
        near = [beside, *(n for n in guesses if n not in far and n != beside)]
        both = [as_one(graph.parts, {n: moves[n] for n in side}) for side in (far, near)]
        sides += sorted(both, key=lambda part: -part.size)
    rows = workshop.compare(sides, [(2 * n, 2 * n + 1) for n in range(len(joints))], False)
    sure = {}
    for n, k in enumerate(joints):
        first, second = sides[2 * n : 2 * n + 2]
        edge = Edge.of(first, second, told.unit, rows[2 * n, 2 * n + 1])
        told.tried[k] = first, second, edge
        assumed = frame_of(first, second, told.unit).inside(np.eye(4))
        sure[k] = float(edge.chance[edge.closeness(assumed[None])[0] > 0].sum()) if len(edge.poses) else 0.0
    return sure


# merging


def merge(parts: Sequence[Part], groups: Sequence[Group], unit: float) -> list[Part]:
    """Each group as one part in the frame of its largest, and the parts that are in none; largest first."""
    merged = []
    for group in groups:
        root = parts[group.root]
        moves = {k: frame_of(root, parts[k], unit).outside(pose) for k, pose in group.places.items()}
        merged.append(as_one(parts, moves))
        log.info("joined %s", merged[-1].geometry.name)
    free = set(range(len(parts))) - {k for group in groups for k in group.places}
    return sorted([*merged, *(parts[k] for k in free)], key=lambda part: -part.size)


def as_one(parts: Sequence[Part], moves: Mapping[int, Matrix]) -> Part:
    """Some of the parts, moved, as one."""
    moved_parts = [parts[k].geometry.moved(move) for k, move in moves.items()]
    places = {n: move @ own for k, move in moves.items() for n, own in parts[k].places.items()}
    return Part.of(join(_alike(moved_parts), " + ".join(parts[k].geometry.name for k in moves)), places)


def _alike(parts: Sequence[Geometry]) -> list[Geometry]:
    """Meshes beside clouds as clouds, so that their join loses nothing."""
    if len({part.faces is None for part in parts}) == 1:
        return list(parts)
    return [as_points(part, DENSE, seed=0) for part in parts]


def choose_pairs(parts: Sequence[Part], unit: float, is_full: bool) -> list[Key]:
    """All pairs or, of many parts, each part with those that a quick look finds most like partners.

    The look lays borders, and places that look alike, of few points onto each other.
    """
    every = list(combinations(range(len(parts)), 2))
    if len(parts) <= ALL_PAIRS:
        return every
    log.info("a quick look at %d pairs", len(every))
    surfaces = [part.outline(unit, LOOKED)[0] for part in parts]
    likeness = np.zeros((2, len(parts), len(parts)))
    for i, j in every:
        found = _likeness(surfaces[i], surfaces[j], is_full)
        likeness[:, i, j] = likeness[:, j, i] = found
    best = np.argsort(-likeness, axis=2, kind="stable")[:, :, :PARTNERS]
    chosen = {(i, int(j)) for side in best for i, row in enumerate(side) for j in row if int(j) != i}
    return [(i, j) for i, j in every if (i, j) in chosen or (j, i) in chosen]


@dataclass(frozen=True, eq=False)
class Shared:
    """How much surface two parts may have in common, by few points; what was looked at is kept."""

    unit: float
    known: dict[tuple[Part, Part], float] = field(default_factory=dict)

    def among(self, parts: Sequence[Part], pairs: Sequence[Key]) -> list[Key]:
        """Pairs whose common surface is worth a search; the last pair always is."""
        if len(parts) == 2:
            return list(pairs)
        return [(i, j) for i, j in pairs if self._of(parts[i], parts[j]) >= COMMON]

    def _of(self, first: Part, second: Part) -> float:
        if (first, second) not in self.known:
            x, y = (part.outline(self.unit, LOOKED)[0] for part in (first, second))
            found = correspond(x, y)
            motions = match_motions(found, AGREED)
            shares = np.array([overlaps(x, y, motion).larger for motion in motions])
            self.known[first, second] = float((found.support(motions) * shares).max(initial=0.0))
        return self.known[first, second]


def _likeness(x: Surface, y: Surface, is_full: bool) -> tuple[float, float]:
    """Share of the borders that meets at best, and number of places that agree on a motion."""
    meeting = seam_motions(x, y, 1)[1]
    border = float(meeting[0]) * (len(x.border) + len(y.border)) if len(meeting) else 0.0
    if not is_full:
        return border, border
    found = correspond(x, y)
    support = found.support(match_motions(found, AGREED))
    return border, float(support.max()) if len(support) else 0.0


# the answer


class Told:
    """Findings on the way: joints, how sure each piece is, and how the pairs compared."""

    def __init__(self, pieces: Sequence[Part]) -> None:
        self.pieces = {number: piece for piece in pieces for number in piece.places}
        self.rank = {number: place for place, number in enumerate(self.pieces)}
        self.confidence = dict.fromkeys(self.pieces, 0.0)
        self.joints: dict[Key, tuple[float, float, str]] = {}
        self.rows: dict[Key, Mapping[str, Any]] = {}
        self.edges: dict[tuple[Part, Part, bool], Edge] = {}
        self.tried: dict[int, tuple[Part, Part, Edge]] = {}

    def note(self, graph: Graph, full: Sequence[Key]) -> None:
        """Note how the pairs of one look compared."""
        for (i, j), edge in graph.edges.items():
            self.edges[graph.parts[i], graph.parts[j], (i, j) in full] = edge
            if len(graph.parts[i].places) == len(graph.parts[j].places) == 1:
                (a,), (b,) = graph.parts[i].places, graph.parts[j].places
                self.rows[a, b] = edge.row

    def links(self, graph: Graph) -> dict[Key, list[Link]]:
        """All hypotheses between the parts, those of the last trial among them."""
        tried = {(first, second, False): edge for first, second, edge in self.tried.values()}
        return links_of(graph.parts, self.unit, self.edges | tried)

    def add(self, graph: Graph, groups: Sequence[Group], least: float) -> None:
        """Note the groups of one look, whose parts join with a chance of at least ``least``."""
        for group in groups:
            sure = {k: max(certainty(graph, group, k), least) for k in group.places if k != group.root}
            for k, chance in sure.items():
                for number in graph.parts[k].places:
                    self.confidence[number] = chance * (self.confidence[number] or 1.0)
            root = graph.parts[group.root]
            if len(root.places) == 1:
                self.confidence[next(iter(root.places))] = max(sure.values())
            for i, j, h in agreeing(graph, group.places):
                alone, method = graph.edges[i, j].alone(h), graph.edges[i, j].methods[h]
                chance = max(alone, min(sure.get(i, 1.0), sure.get(j, 1.0)))
                self.joints[self._nearest(graph, group, i, j)] = chance, alone, method

    def _nearest(self, graph: Graph, group: Group, i: int, j: int) -> Key:
        """The two pieces of two parts of a group that come nearest to each other."""
        pairs = [(a, b) for a in graph.parts[i].places for b in graph.parts[j].places]
        if len(pairs) == 1:
            return pairs[0]
        first_from_second = frame_of(graph.parts[i], graph.parts[j], self.unit).outside(
            inverse(group.places[i]) @ group.places[j]
        )
        clouds = [
            {
                n: moved(self.pieces[n].sample.points, move @ place)
                for n, place in graph.parts[k].places.items()
            }
            for k, move in ((i, np.eye(4)), (j, first_from_second))
        ]
        return min(pairs, key=lambda pair: _gap(clouds[0][pair[0]], clouds[1][pair[1]]))

    @property
    def unit(self) -> float:
        return next(iter(self.pieces.values())).size

    def answer(self, parts: Sequence[Part], graph: Graph, unit: float) -> Puzzle:
        """Poses in the frame of the largest piece of the first group; guesses for what is not in it."""
        poses = np.tile(np.eye(4), (len(self.pieces), 1, 1))
        confidence = dict(self.confidence)
        groups = []
        for part in parts:
            members = sorted(part.places, key=self.rank.__getitem__)
            for number in members:
                poses[number] = inverse(part.places[members[0]]) @ part.places[number]
            if len(members) > 1:
                groups.append(tuple(members))
        groups.sort(key=lambda members: self.rank[members[0]])
        left_over = tuple(n for n in self.rank if not any(n in members for members in groups))
        main = groups[0][0] if groups else left_over[0]
        base = next(k for k, part in enumerate(parts) if main in part.places)
        for k, (pose, chance) in self._guesses(graph, base, unit).items() if len(parts) > 1 else ():
            place = inverse(parts[base].places[main]) @ pose
            for number, own in parts[k].places.items():
                poses[number] = place @ own
                if len(parts[k].places) == 1:
                    confidence[number] = chance
        if not groups:
            confidence[main] = max(confidence[n] for n in left_over if n != main)
        return Puzzle(
            names=tuple(self.pieces[n].geometry.name for n in range(len(poses))),
            poses=poses,
            groups=tuple(groups),
            left_over=left_over,
            confidence=tuple(confidence[n] for n in range(len(poses))),
            joints=tuple(sorted(self._joints(poses), key=lambda joint: -joint.confidence)),
            pairs=tuple(self._pairs()),
            seconds=0.0,
            model="",
            warnings=tuple(self._warnings()),
        )

    def _guesses(self, graph: Graph, base: int, unit: float) -> dict[int, tuple[Matrix, float]]:
        """The likeliest places of the other parts beside one, and their chances.

        The place of the second of two pieces is that of ``assemble``, whatever its status.
        """
        if len(self.pieces) == 2 and (row := graph.edges[0, 1].row)["status"] != "error":
            return {1: (np.array(row["transformation"]), float(row["confidence"]))}
        found = completed(graph, self.links(graph), range(len(graph.parts)), base)
        most = LOOKS[-1][1]  # they did not join at that
        return {
            k: (
                frame_of(graph.parts[base], graph.parts[k], unit).outside(guess.pose),
                min(guess.chance, most),
            )
            for k, guess in found.items()
            if k != base
        }

    def _joints(self, poses: Motions) -> Iterator[Joint]:
        for (a, b), (chance, alone, method) in self.joints.items():
            yield Joint(a, b, inverse(poses[a]) @ poses[b], chance, alone, method)

    def _pairs(self) -> Iterator[dict[str, Any]]:
        for (a, b), row in self.rows.items():
            told = ("status", "reason", "confidence", "method", "warnings", "seconds")
            yield {"first": a, "second": b, **{key: row[key] for key in told}}

    def _warnings(self) -> Iterator[str]:
        for number in range(len(self.pieces)):
            geometry = self.pieces[number].geometry
            yield from (f"{geometry.name}: {warning}" for warning in geometry.warnings)
        if len(self.pieces) == 2:  # all that ``assemble`` says
            yield from (warning for row in self.rows.values() for warning in row["warnings"] or ())
        sizes = [piece.size for piece in self.pieces.values()]
        if len(sizes) > 2 and max(sizes) > UNLIKE * min(sizes):
            ratio = max(sizes) / min(sizes)
            yield f"the pieces' sizes differ by a factor of {ratio:.0f}: are all files in the same unit?"
        for (a, b), row in self.rows.items():
            if row["status"] == "error":
                names = self.pieces[a].geometry.name, self.pieces[b].geometry.name
                yield f"{names[0]} and {names[1]}: not compared ({row['error']})"


def _gap(a: Points, b: Points) -> float:
    """Distance of the nearest points."""
    return float(cKDTree(a).query(b)[0].min())


# comparing pairs


@dataclass(frozen=True)
class Workshop:
    """A folder where pairs are compared and their rows kept: a run that was stopped continues from there."""

    folder: Path
    model: str = "default"
    points: int | None = None
    seed: int = 0
    workers: int = 1
    ray: bool = False
    on_row: Callable[[int, int], None] = lambda done, total: None
    known: dict[tuple[str, str, bool], Row] = field(default_factory=dict)
    started: ExitStack = field(default_factory=ExitStack)
    """Processes and connections that were started to compare pairs."""

    @cached_property
    def network(self) -> Network:
        return Network.of(self.model)

    def compare(self, parts: Sequence[Part], pairs: Sequence[Key], is_full: bool) -> dict[Key, Row]:
        """The row of each pair, whose source is the smaller part; none is compared twice."""
        files = [self._store(part.geometry) for part in parts]
        todo = [key for key in pairs if (files[key[0]], files[key[1]], is_full) not in self.known]
        jobs = [Pair(f"{i}-{j}", files[j], files[i]) for i, j in todo]
        if jobs:
            name = hashlib.sha256(json.dumps([is_full, *map(asdict, jobs)]).encode("ascii")).hexdigest()[:16]
            table = self.folder / f"pairs-{name}.jsonl"
            changes = {} if is_full else self._quick
            settings = Settings("auto", HYPOTHESES, points=self.points, seed=self.seed)
            network = replace(self.network, **changes)
            solve = self._solver(network, settings, changes, len(jobs))
            names = {f"{i}-{j}": f"{parts[i].geometry.name} and {parts[j].geometry.name}" for i, j in todo}
            run_batch(
                *(jobs, network, settings, table),
                solver=lambda left: _log_rows(solve(left), names),
                on_row=self.on_row,
            )
            rows = {row["id"]: row for row in map(json.loads, table.read_text("ascii").splitlines())}
            for i, j in todo:
                self.known[files[i], files[j], is_full] = rows[f"{i}-{j}"]
        return {(i, j): self.known[files[i], files[j], is_full] for i, j in pairs}

    @cached_property
    def _quick(self) -> dict[str, Any]:
        """Fields of the network at a first look: kinds of joint, and a verifier that knows pieces of many."""
        own = self.network.own_verifier
        return {
            "joints": tuple(joint for joint in QUICK if joint in self.network.joints),
            "own_verifier": shipped_verifier("puzzle-verifier") if own is None else own,
        }

    def _solver(self, network: Network, settings: Settings, changes: Mapping[str, Any], count: int) -> Solver:
        """A cluster or processes of this machine, which stay for the next look, or this process."""
        if self.ray:
            self.started.enter_context(ray_cluster())  # the first one connects, and the last one ends it
            return solve_on_ray(self.model, settings, changes=changes)
        fewest = 2 if "_cores" in self.__dict__ else WORTH_A_START
        if self.workers > 1 and count >= fewest:
            return self._cores.solver(settings, changes)
        return lambda pairs: (solve_pair(pair, network, settings) for pair in pairs)

    @cached_property
    def _cores(self) -> Cores:
        cores = Cores(self.model, self.workers)
        self.started.callback(cores.close)
        return cores

    def close(self) -> None:
        """End processes and connections; the next look starts them again."""
        self.started.close()
        self.__dict__.pop("_cores", None)

    def _store(self, geometry: Geometry) -> str:
        """The file of a geometry, named by its content."""
        arrays = (geometry.points, geometry.normals, geometry.colors, geometry.faces)
        content = hashlib.sha256(b"|".join(b"" if a is None else a.tobytes() for a in arrays)).hexdigest()
        path = self.folder.absolute() / f"{content[:16]}.npz"
        if not path.exists():
            write(path, geometry, force=True)
        return str(path)


def _log_rows(rows: Iterable[Row], names: Mapping[str, str]) -> Iterator[Row]:
    """Pass rows on, and log how each pair compared; other processes log nothing here."""
    for row in rows:
        if row["status"] == "error":
            log.info("%s: not compared (%s)", names[row["id"]], row["error"])
        else:
            log.info("%s: confidence %.2f by %s", names[row["id"]], row["confidence"], row["method"])
        yield row
