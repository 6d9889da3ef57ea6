"""The model's door: checks on what comes in, and the coordinates that the network works in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.errors import InputError, require
from bitr.groups import Cloud, Rigid
from bitr.model.dense import Dense
from bitr.model.projection import Unprojected

MIN_POINTS = 4  # three points fix a motion only up to a reflection, and a network needs a neighbourhood


@dataclass(frozen=True)
class Frame:
    """Coordinates of a pair of clouds: both centroids and one unit of length, in double precision."""

    source_center: Float[Tensor, "b 3"]
    reference_center: Float[Tensor, "b 3"]
    unit: Float[Tensor, " b"]
    dtype: torch.dtype

    def pose(self, inner: Rigid) -> Rigid:
        """The poses of the clouds from those of their centred copies, put together in double precision."""
        centers = self.source_center, self.reference_center, self.unit[:, None]
        x, y, unit = (_among(each, inner.translation) for each in centers)
        turned = (inner.rotation @ x[..., None])[..., 0]
        return Rigid(inner.rotation, y + unit * inner.translation - turned).to(self.dtype)

    def leave(self, points: Float[Tensor, "b *l 3"], center: Float[Tensor, "b 3"]) -> Float[Tensor, "b *l 3"]:
        """Points of a centred copy in the coordinates of its cloud."""
        return (points * _among(self.unit[:, None], points) + _among(center, points)).to(self.dtype)

    def leave_votes(self, votes: Unprojected) -> Unprojected:
        """The key points' votes in the coordinates of the clouds."""
        source = self.leave(votes.source_anchor, self.source_center)
        reference = self.leave(votes.reference_anchor, self.reference_center)
        return Unprojected(votes.r_hat.to(self.dtype), source, reference)

    def leave_dense(self, dense: Dense) -> Dense:
        """Dense outputs with vectors in the unit of the clouds."""
        unit = self.unit.to(self.dtype)[:, None, None]
        to_other, to_center = (vectors.to(self.dtype) * unit for vectors in dense.vectors)
        return Dense(dense.contact.to(self.dtype), to_other, to_center)


def _among(of_pairs: Float[Tensor, "b c"], values: Float[Tensor, "b *l 3"]) -> Tensor:
    """A value of each pair, for all that the pair has of ``values``."""
    return of_pairs.reshape(len(of_pairs), *([1] * (values.dim() - 2)), -1)


def as_cloud(value: object, name: str) -> Cloud:
    """Take the argument as a cloud whose shapes fit together."""
    kind = type(value).__name__
    require(isinstance(value, Tensor | Cloud), f"{name}: got {kind}, expected a (b, n, 3) tensor or a Cloud")
    points = value.points if isinstance(value, Cloud) else value
    kind = type(points).__name__
    require(isinstance(points, Tensor), f"{name}: got points as {kind}, expected a tensor")
    assert isinstance(points, Tensor)
    if not torch.compiler.is_compiling():
        shape = tuple(points.shape)
        fits = len(shape) == 3 and shape[-1] == 3
        require(fits, f"{name}: got points of shape {shape}, expected (b, n, 3)")
        kind = f"got points of type {points.dtype}"
        require(points.is_floating_point(), f"{name}: {kind}, expected floating-point numbers")
    if not isinstance(value, Cloud):
        return Cloud(points)
    if not torch.compiler.is_compiling():
        _check_parts(value, name)
    return value


def _check_parts(cloud: Cloud, name: str) -> None:
    points, shape = cloud.points, tuple(cloud.points.shape)
    for part, wanted in (("normals", shape), ("colors", shape), ("mask", shape[:2])):
        tensor = getattr(cloud, part)
        if tensor is None:
            continue
        kind = type(tensor).__name__
        require(isinstance(tensor, Tensor), f"{name}: got {part} as {kind}, expected a tensor")
        found = tuple(tensor.shape)
        require(found == wanted, f"{name}: got {part} of shape {found}, expected {wanted}")
        places = f"{part} on {tensor.device}, points on {points.device}"
        require(tensor.device == points.device, f"{name}: {places}: move them together")
    known = shape if cloud.neighbors is None else tuple(cloud.neighbors.shape)
    expected = f"expected {shape[:2]} and their number"
    require(known[:2] == shape[:2], f"{name}: got neighbors of shape {known}, {expected}")
    form = torch.bool if cloud.mask is None else cloud.mask.dtype
    require(form == torch.bool, f"{name}: got a mask of type {form}, expected bool (True on real points)")


def check_pair(source: Cloud, reference: Cloud, device: torch.device, wanted: tuple[str, ...]) -> None:
    """Raise when the clouds do not make a batch of pairs, lack a feature, or a pair cannot have an answer."""
    b, others = source.points.shape[0], reference.points.shape[0]
    found = f"got {b} source and {others} reference clouds"
    require(b == others and b > 0, f"{found}, expected equally many, at least one")
    for name, cloud in (("source", source), ("reference", reference)):
        where = cloud.points.device
        require(where == device, f"{name}: points on {where}, model on {device}: move one of them")
        for feature in wanted:
            lacking = f"{name}: the model was made for clouds with {feature}, and this one has none"
            require(getattr(cloud, feature) is not None, lacking)
        _check_values(name, cloud)


def _check_values(name: str, cloud: Cloud) -> None:
    b, n, _ = cloud.points.shape
    mask = cloud.mask if cloud.mask is not None else cloud.points.new_ones(b, n, dtype=torch.bool)
    counts = mask.sum(1)
    fewest = int(counts.min())
    require(fewest >= MIN_POINTS, f"{name}: got a cloud of {fewest} points, expected at least {MIN_POINTS}")
    for part in ("points", "normals", "colors"):
        values = getattr(cloud, part)
        if values is not None and not values[mask].isfinite().all():
            bad = int((~values.isfinite()).any(-1).logical_and(mask).sum())
            found = f"{bad} of {int(counts.sum())} {part} are NaN or infinite"
            raise InputError(f"{name}: {found}; drop them first")
    low = cloud.points.masked_fill(~mask[..., None], torch.inf).amin(1)
    high = cloud.points.masked_fill(~mask[..., None], -torch.inf).amax(1)
    extent, farthest = (high - low).amax(-1), torch.maximum(low.abs(), high.abs()).amax(-1)
    if bool((extent <= 4 * torch.finfo(cloud.points.dtype).eps * farthest).any()):
        size = f"extent {float(extent.min()):.1e} at coordinates up to {float(farthest.max()):.1e}"
        equal = f"all points of a cloud are equal up to the rounding of {cloud.points.dtype} ({size})"
        raise InputError(f"{name}: {equal}, expected a shape")


def center_pair(source: Cloud, reference: Cloud, with_unit: bool) -> tuple[Cloud, Cloud, Frame]:
    r"""Both clouds about their centroids and in one unit of length, and the frame that leads back.

    The unit is :math:`s = \sqrt{(\rho_X^2 + \rho_Y^2)/2}` with ρ the root mean square distance from the
    centroid: of scale degree 1, and unchanged when the clouds are moved, permuted or swapped. All in
    double precision, so that map coordinates (10⁶ m from the origin) lose nothing.
    """
    dtype = torch.promote_types(source.points.dtype, reference.points.dtype)
    (x, x_center), (y, y_center) = _center(source), _center(reference)
    unit = torch.ones_like(x_center[:, 0])
    if with_unit:
        # Over the largest coordinate first: squares of very large or small numbers have no room.
        largest = torch.maximum(*(side.points.abs().amax((1, 2)) for side in (x, y))).detach()
        of_x, of_y = (side.mean((side.points / largest[:, None, None]).square())[:, 0] for side in (x, y))
        unit = largest * ((of_x + of_y).sum(-1) / 2).sqrt()
    x, y = (replace(side, points=side.points / unit[:, None, None]) for side in (x, y))
    return x, y, Frame(x_center, y_center, unit, dtype)


def _center(cloud: Cloud) -> tuple[Cloud, Float[Tensor, "b 3"]]:
    """The cloud about its centroid; 0 on padding, which may hold anything, and 0 times NaN is not 0."""
    parts = {"points": cloud.points.double(), "normals": cloud.normals, "colors": cloud.colors}

    def zeroed(values: Tensor) -> Tensor:
        return values if cloud.mask is None else values.masked_fill(~cloud.mask[..., None], 0)

    cloud = replace(cloud, **{name: zeroed(part) for name, part in parts.items() if part is not None})
    # The mean of numbers near 10⁶ is only good to 10⁻¹⁰; a second pass about the first mean is exact.
    center = cloud.centroid()
    center = center + cloud.mean(cloud.points - center)
    return replace(cloud, points=zeroed(cloud.points - center)), center[:, 0]
