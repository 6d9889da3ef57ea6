"""Checks of the laws, for any method that turns two clouds into a pose.

``assert_bi_equivariant(method, source, reference)`` and friends work on every callable
``(source, reference) → pose``: clouds may be tensors, NumPy arrays, ``Cloud`` or ``Geometry``; poses may be
``Rigid`` or 4×4 matrices. ``bitr reproduce laws`` makes the law table of untrained models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bitr.data import bumpy_shape, cut
from bitr.groups import Cloud, Rigid
from bitr.io import Geometry
from bitr.model import BITR, BITRConfig

Method = Callable[[Any, Any], Any]
Factors = tuple[float, ...]


def assert_bi_equivariant(
    method: Method, source: Any, reference: Any, *, tol: float = 1e-6, seed: int = 0, trials: int = 3
) -> None:
    """method(g₁X, g₂Y) = g₂ method(X, Y) g₁⁻¹ for random motions by about the clouds' own size."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(trials):
        g1, g2 = (Rigid.random(generator, size=cloud_size(cloud)) for cloud in (source, reference))
        _demand("bi-equivariance", bi_error(method, source, reference, g1, g2), tol)


def assert_swap_equivariant(method: Method, source: Any, reference: Any, *, tol: float = 1e-6) -> None:
    """method(Y, X) = method(X, Y)⁻¹."""
    _demand("swap-equivariance", swap_error(method, source, reference), tol)


def assert_scale_equivariant(
    method: Method, source: Any, reference: Any, *, tol: float = 1e-6, factors: Factors = (0.3, 2.0, 50.0)
) -> None:
    """method(cX, cY) has the same rotation and c times the translation."""
    for factor in factors:
        _demand(f"scale-equivariance (factor {factor})", scale_error(method, source, reference, factor), tol)


def assert_permutation_invariant(
    method: Method, source: Any, reference: Any, *, tol: float = 1e-6, seed: int = 0
) -> None:
    """The order of the points does not matter."""
    _demand("permutation invariance", permutation_error(method, source, reference, seed), tol)


def _demand(law: str, error: float, tol: float) -> None:
    if not error <= tol:  # written so that NaN fails
        raise AssertionError(f"{law} is broken: error {error:.2e}, allowed {tol:.2e}")


def bi_error(
    method: Method, source: Any, reference: Any, g1: Rigid, g2: Rigid, pose: Rigid | None = None
) -> float:
    """Δ_bi of the paper's App. D.2, as ``pose_gap`` measures it; ``pose`` saves a call where it is known."""
    moved, pose = _move(source, g1), pose or as_rigid(method(source, reference))
    answer = as_rigid(method(moved, _move(reference, g2)))
    return pose_gap(answer, g2 @ pose @ g1.inverse(), moved)


def swap_error(method: Method, source: Any, reference: Any, pose: Rigid | None = None) -> float:
    """Δ_swap."""
    pose = pose or as_rigid(method(source, reference))
    return pose_gap(as_rigid(method(reference, source)), pose.inverse(), reference)


def scale_error(
    method: Method, source: Any, reference: Any, factor: float, pose: Rigid | None = None
) -> float:
    """Δ_scale."""
    x, y = (_rebuild(cloud, _points(cloud) * factor) for cloud in (source, reference))
    pose = pose or as_rigid(method(source, reference))
    return pose_gap(as_rigid(method(x, y)), pose.scaled(factor), x)


def permutation_error(method: Method, source: Any, reference: Any, seed: int = 0) -> float:
    """How far the pose moves when the points of both clouds are shuffled."""
    generator = torch.Generator().manual_seed(seed)
    pose = as_rigid(method(source, reference))
    answer = as_rigid(method(_shuffle(source, generator), _shuffle(reference, generator)))
    return pose_gap(answer, pose, source)


def pose_gap(actual: Rigid, expected: Rigid, source: Any) -> float:
    r""":math:`\|r - r'\|_F + \|g m(X) - g' m(X)\| / \rho(X)`, the largest of a batch.

    The paper's ‖g − g'‖_F, with the translation taken at the source's centroid and in units of the source's
    size ρ: where the origin lies and which unit the files use makes no difference.
    """
    rotation = torch.linalg.matrix_norm(actual.rotation - expected.rotation)
    center, size = _center_and_size(source)
    displacement = (actual.act(center) - expected.act(center)).norm(dim=-1)[..., 0] / size
    return float((rotation + displacement).max())


def cloud_size(cloud: Any) -> float:
    """Root mean square distance from the centroid, the largest of a batch."""
    return float(_center_and_size(cloud)[1].max())


def as_rigid(pose: Any) -> Rigid:
    """A pose in double precision, from a ``Rigid`` or a 4×4 matrix (or a batch of them)."""
    rigid = pose if isinstance(pose, Rigid) else Rigid.from_matrix(torch.as_tensor(pose))
    return Rigid(rigid.rotation.detach().double().cpu(), rigid.translation.detach().double().cpu())


def _points(cloud: Any) -> Tensor:
    points = torch.as_tensor(cloud.points if isinstance(cloud, Cloud | Geometry) else cloud)
    return points.detach().double().cpu()


def _center_and_size(cloud: Any) -> tuple[Tensor, Tensor]:
    points, mask = _points(cloud), cloud.mask if isinstance(cloud, Cloud) else None
    weight = torch.ones_like(points[..., 0]) if mask is None else mask.double().cpu()
    weight = weight / weight.sum(-1, keepdim=True)
    center = (points * weight[..., None]).sum(-2, keepdim=True)
    return center, ((points - center).square().sum(-1) * weight).sum(-1).sqrt()


def _rebuild(cloud: Any, points: Tensor, **normals: Tensor) -> Any:
    """Put new double-precision points in the type, precision and device of the old ones."""
    if isinstance(cloud, Geometry | Cloud):
        parts = {"points": points, **normals}
        return replace(cloud, **{key: _rebuild(getattr(cloud, key), part) for key, part in parts.items()})
    return points.to(cloud) if isinstance(cloud, Tensor) else points.numpy().astype(np.asarray(cloud).dtype)


def _move(cloud: Any, pose: Rigid) -> Any:
    normals = getattr(cloud, "normals", None)
    turned = {} if normals is None else {"normals": _points(normals) @ pose.rotation.mT}
    return _rebuild(cloud, pose.act(_points(cloud)), **turned)


def _shuffle(cloud: Any, generator: torch.Generator) -> Any:
    order = torch.randperm(_points(cloud).shape[-2], generator=generator)
    if isinstance(cloud, Geometry):
        faces = None if cloud.faces is None else np.argsort(order.numpy())[cloud.faces]
        return replace(cloud.rows(order.numpy()), faces=faces)
    if not isinstance(cloud, Cloud):
        return cloud[..., order if isinstance(cloud, Tensor) else order.numpy(), :]
    parts = {name: getattr(cloud, name) for name in ("points", "normals", "colors", "mask")}
    return replace(cloud, **{name: part[:, order] for name, part in parts.items() if part is not None})


KINDS = {"default": "default", "paper": "paper's construction"}  # the constructions of a model, in words


@dataclass(frozen=True)
class Setting:
    """One row of the law table: a kind of model and the clouds it is tried on."""

    config: str
    weights: torch.dtype
    points: torch.dtype
    size: float = 1.0
    distance: float = 1.0  # how far the clouds stand from the origin, in units of their size

    def __str__(self) -> str:
        weights, points = (str(kind).removeprefix("torch.") for kind in (self.weights, self.points))
        kind = weights if weights == points == "float64" else f"{weights} weights, {points} points"
        where = f", size {self.size:.0e}" if self.size != 1 else ""
        where += f", {self.distance:.0e} sizes away from the origin" if self.distance != 1 else ""
        return f"{KINDS[self.config]}, {kind}{where}"


SETTINGS = (
    Setting("default", torch.float64, torch.float64),
    Setting("paper", torch.float64, torch.float64),
    Setting("default", torch.float32, torch.float64),
    Setting("default", torch.float32, torch.float64, size=1e-4),
    Setting("default", torch.float32, torch.float64, size=1e4),
    Setting("default", torch.float32, torch.float64, distance=1e6),
    Setting("default", torch.float32, torch.float32),
    Setting("paper", torch.float32, torch.float32),
)
SEEDS = range(5)
NUM_POINTS = (200, 500, 1000)


@dataclass(frozen=True)
class Laws:
    """The three errors of the paper's App. D.2."""

    bi: float
    swap: float
    scale: float


PAPER_LAWS = Laws(5e-6, 2e-7, 5e-7)  # the paper's own, of one trained model


def law_errors(
    method: Method,
    source: Any,
    reference: Any,
    generator: torch.Generator,
    *,
    distance: float = 1.0,
    factor: float = 3.0,
) -> Laws:
    """All three laws of a method on one pair: moved by ``distance`` times its size, scaled by ``factor``."""
    g1, g2 = (Rigid.random(generator, size=distance * cloud_size(cloud)) for cloud in (source, reference))
    pose = as_rigid(method(source, reference))
    return Laws(
        bi_error(method, source, reference, g1, g2, pose),
        swap_error(method, source, reference, pose),
        scale_error(method, source, reference, factor, pose),
    )


def untrained_model(config: str, seed: int, dtype: torch.dtype) -> BITR:
    """A model with random weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = BITR(BITRConfig.paper() if config == "paper" else BITRConfig())
    return model.to(dtype).eval()


def example_pair(seed: int, n: int, setting: Setting) -> tuple[Tensor, Tensor]:
    """Two pieces of a generated shape, each at a random place."""
    generator = torch.Generator().manual_seed(seed)
    away = setting.distance * setting.size
    pieces = cut(bumpy_shape(2 * n, generator), 0.5, generator)
    x, y = (Rigid.random(generator, size=away).act(setting.size * piece)[None] for piece in pieces)
    return x.to(setting.points), y.to(setting.points)


def measured_laws(setting: Setting) -> Iterator[tuple[int, int, Laws]]:
    """Seed, number of points and errors, for every model and pair of a setting."""
    for seed in SEEDS:
        model = untrained_model(setting.config, seed, setting.weights)
        for n in NUM_POINTS:
            x, y = example_pair(seed, n, setting)
            generator = torch.Generator().manual_seed(seed)
            with torch.inference_mode():
                laws = law_errors(model, x, y, generator, distance=setting.distance)
            yield seed, n, laws


def worst(errors: Iterator[Laws] | list[Laws]) -> Laws:
    """The largest error of each law; NaN where there is one."""
    table = np.array([(each.bi, each.swap, each.scale) for each in errors])
    return Laws(*table.max(0).tolist())
