"""Methods: anything that turns a pair into a pose: trained, refined, untrained, or on changed pairs."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.finish import METHODS
from bitr.assembly.network import Network
from bitr.assembly.refine import REFINEMENTS
from bitr.data import AssemblyPair
from bitr.data.piece import as_cloud
from bitr.data.poses import inverse, move_points, random_pose
from bitr.data.transforms import both, move
from bitr.evaluation.metrics import Pose
from bitr.groups import Cloud, Rigid, nearest_rotation
from bitr.io import as_points
from bitr.model import BITR, BITRConfig
from bitr.testing import Laws, as_rigid, pose_gap

MESH_POINTS = 2000  # points that a refinement sees of a mesh; of a cloud it sees all
FACTOR = 2.0  # factor of the scaled test, as in the paper
ROUNDS, LEAST = 50, 1e-6  # rounds of the search for a median, and the distance of rotations that are one

Solve = Callable[[AssemblyPair], "Pose | Assembly"]
"""The pose ``ref_from_src`` of a pair, or an answer with a confidence. Only a bound may look at the pair's
own ``ref_from_src``."""


@dataclass(frozen=True)
class Method:
    """A way to assemble pairs, and its name in tables."""

    name: str
    solve: Solve

    def pose(self, pair: AssemblyPair) -> Pose:
        return pose_of(self.solve(pair))


def pose_of(answer: Pose | Assembly) -> Pose:
    return answer.transformation if isinstance(answer, Assembly) else answer


def engine(network: Network, settings: Settings | None = None, name: str = "") -> Method:
    """The answer of ``bitr assemble`` with these weights and settings."""
    chosen = settings or Settings()
    return Method(
        name or network.name, lambda pair: assemble_geometries(pair.source, pair.reference, network, chosen)
    )


def model_alone(model: BITR, points: int | None, name: str = "BITR") -> Method:
    """The answer of ``bitr assemble --fast``: one forward pass of the model."""
    return engine(network_of(model, points, name=name), Settings(fast=True))


def network_of(
    model: BITR, points: int | None, joints: tuple[str, ...] = METHODS, name: str = "BITR"
) -> Network:
    """The engine's network from a model that was just trained: a copy, frozen and in double precision."""
    return Network(deepcopy(model).double().requires_grad_(False).eval(), name, points, joints)


def refined(method: Method, name: str) -> Method:
    """The method followed by the refinement of that name."""
    refine = REFINEMENTS[name]

    def solve(pair: AssemblyPair) -> Pose:
        x, y = (as_points(side, MESH_POINTS, seed=0).points for side in (pair.source, pair.reference))
        return refine(x, y, method.pose(pair)).pose

    return Method(f"{method.name} + {name.upper() if name in ('icp', 'ot') else name}", solve)


# Untrained models, for two copies of one shape (App. D.4)


def u_bitr(name: str, config: BITRConfig, seed: int) -> Method:
    """U-BITR, whose weights follow from the seed and from the pair's number."""
    return _untrained(name, lambda number, x, y: _model(config, seed, number).complete_match(x, y)[0])


def median_u_bitr(name: str, config: BITRConfig, members: int, seed: int) -> Method:
    """The median of several U-BITR: Φ(X, Y) Φ(X, X) and Φ(Y, Y) Φ(X, Y) of every head (Prop. C.11).

    Each head keeps the laws for itself. Weights are in single precision, which is far below what a median of
    random models misses by.
    """

    def answer(number: int, x: Cloud, y: Cloud) -> Rigid:
        answers: list[Rigid] = []
        for member in range(members):
            model = _model(config, seed, number, member).float()
            across, of_x, of_y = (_heads(model, *pair) for pair in ((x, y), (x, x), (y, y)))
            for found in (across @ of_x, of_y @ across):
                answers += [found[head] for head in range(len(found.rotation))]
        return median(answers, x.points.mean(1)[0])

    return _untrained(name, answer)


def _heads(model: BITR, x: Cloud, y: Cloud) -> Rigid:
    """The poses of all heads, each in its own place."""
    heads = model.solve(x, y).heads
    assert heads is not None
    return heads.in_own_order().pose[0]


def _untrained(name: str, answer: Callable[[int, Cloud, Cloud], Rigid]) -> Method:
    def solve(pair: AssemblyPair) -> Pose:
        number = int(pair.id.rpartition("/")[2])
        x, y = (as_cloud(side, torch.device("cpu")) for side in (pair.source, pair.reference))
        with torch.inference_mode():
            return answer(number, x, y).matrix().numpy()

    return Method(name, solve)


def _model(config: BITRConfig, *seeds: int) -> BITR:
    """Random weights that follow from the seeds alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.default_rng(seeds).integers(2**62)))
        return BITR(config).double().eval()


def median(poses: list[Rigid], center: Float64[Tensor, " 3"]) -> Rigid:
    r"""The rotation with the least :math:`\sum_i \|r - r_i\|_F`, the centroid's place alike (Weiszfeld)."""
    rotations = torch.stack([pose.rotation for pose in poses])
    places = torch.stack([pose.act(center[None])[0] for pose in poses])
    rotation, place = nearest_rotation(rotations.mean(0)), places.mean(0)
    for _ in range(ROUNDS):
        turned = 1 / (rotations - rotation).flatten(1).norm(dim=1).clamp_min(LEAST)
        shifted = 1 / (places - place).norm(dim=1).clamp_min(LEAST)
        rotation = nearest_rotation((turned[:, None, None] * rotations).sum(0))
        place = (shifted[:, None] * places).sum(0) / shifted.sum()
    return Rigid(rotation, place - rotation @ center)


# The tests of Sec. 6.2: a pair as it is, swapped, scaled and moved. A lawful method answers alike.


@dataclass(frozen=True, eq=False)
class Perturbed:
    """A changed pair, with its changed answer, and the way from its poses back to those of the original."""

    pair: AssemblyPair
    original_pose: Callable[[Pose], Pose]


def original(pair: AssemblyPair, rng: np.random.Generator) -> Perturbed:
    """(X, Y)."""
    return Perturbed(pair, lambda pose: pose)


def swapped(pair: AssemblyPair, rng: np.random.Generator) -> Perturbed:
    """(Y, X), whose answer is g⁻¹ and whose symmetries are g s⁻¹ g⁻¹."""
    truth, back = pair.ref_from_src, inverse(pair.ref_from_src)
    symmetry = None if pair.symmetry is None else truth @ inverse(pair.symmetry) @ back
    axis = None if pair.axis is None else move_points(truth, pair.axis)
    changed = replace(pair, source=pair.reference, reference=pair.source)
    return Perturbed(replace(changed, ref_from_src=back, symmetry=symmetry, axis=axis), inverse)


def scaled(pair: AssemblyPair, rng: np.random.Generator) -> Perturbed:
    """(cX, cY), whose answer is (r, c t)."""
    changed = replace(
        both(pair, lambda geometry: replace(geometry, points=FACTOR * geometry.points)),
        ref_from_src=_in_unit(pair.ref_from_src, FACTOR),
        symmetry=None if pair.symmetry is None else _in_unit(pair.symmetry, FACTOR),
        axis=None if pair.axis is None else FACTOR * pair.axis,
    )
    return Perturbed(changed, lambda pose: _in_unit(pose, 1 / FACTOR))


def moved(pair: AssemblyPair, rng: np.random.Generator) -> Perturbed:
    """(g₁X, g₂Y), whose answer is g₂ g g₁⁻¹, for random motions by about the pieces' own size."""
    size = float(max(side.points.std(0).max() for side in (pair.source, pair.reference)))
    g1, g2 = random_pose(rng, size), random_pose(rng, size)
    return Perturbed(move(pair, g1, g2), lambda pose: inverse(g2) @ pose @ g1)


def _in_unit(pose: Float64[np.ndarray, "*s 4 4"], factor: float) -> Float64[np.ndarray, "*s 4 4"]:
    """The same motion in a unit of length that is ``factor`` times smaller: (r, factor·t)."""
    found = pose.copy()
    found[..., :3, 3] *= factor
    return found


PERTURBATIONS = {"original": original, "swapped": swapped, "scaled": scaled, "moved": moved}
LAW_TESTS = ("moved", "swapped", "scaled")


def under(method: Method, test: str, rng: np.random.Generator) -> Method:
    """The method on perturbed pairs: it sees the changed pair, and its answer is brought back."""

    def solve(pair: AssemblyPair) -> Pose | Assembly:
        changed = PERTURBATIONS[test](pair, rng)
        answer = method.solve(changed.pair)
        back = changed.original_pose(pose_of(answer))
        return replace(answer, transformation=back) if isinstance(answer, Assembly) else back

    return Method(f"{method.name}, {test}", solve)


def law_errors_on(method: Method, pair: AssemblyPair, pose: Pose, rng: np.random.Generator) -> Laws:
    """Δ_bi, Δ_swap and Δ_scale as ``bitr.testing.pose_gap`` measures them; ``pose`` answers the pair."""
    poses = [under(method, test, rng).pose(pair) for test in LAW_TESTS]
    return Laws(*(pose_gap(as_rigid(found), as_rigid(pose), pair.source.points) for found in poses))


def all_laws_error(method: Method, pair: AssemblyPair, pose: Pose, rng: np.random.Generator) -> float:
    """The same with all three changes at once, in one call of the method."""
    for test in reversed(LAW_TESTS):
        method = under(method, test, rng)
    return pose_gap(as_rigid(method.pose(pair)), as_rigid(pose), pair.source.points)


def law_row(laws: Laws) -> tuple[str, str]:
    """Name and value of the law errors, for people."""
    found = (f"Δ_{name} {f'{error:.0e}' if error else '0'}" for name, error in asdict(laws).items())
    return "law errors", f"{', '.join(found)}; one trial each"
