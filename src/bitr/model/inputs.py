"""The model's door: checks on what comes in, and the coordinates that the network works in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.errors import InputError, require
from bitr.groups import Cloud, Rigid
from bitr.layers import Clouds
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
        of_source = _among(self.source_center, inner.translation)
        turned_center = (inner.rotation @ of_source[..., None])[..., 0]
        placed = (
            _among(self.reference_center, inner.translation)
            + _among(self.unit[:, None], inner.translation) * inner.translation
        )
        return Rigid(inner.rotation, placed - turned_center).to(self.dtype)

    def leave(self, points: Float[Tensor, "b *l 3"], center: Float[Tensor, "b 3"]) -> Float[Tensor, "b *l 3"]:
        """Points of a centred copy in the coordinates of its cloud."""
        return (points * _among(self.unit[:, None], points) + _among(center, points)).to(self.dtype)

    def leave_votes(self, votes: Unprojected) -> Unprojected:
        """The key points' votes in the coordinates of the clouds."""
        return Unprojected(
            votes.r_hat.to(self.dtype),
            self.leave(votes.source_anchor, self.source_center),
            self.leave(votes.reference_anchor, self.reference_center),
        )


def _among(of_pairs: Float[Tensor, "b c"], values: Float[Tensor, "b *l 3"]) -> Tensor:
    """A value of each pair, for all that the pair has of ``values``."""
    return of_pairs.reshape(len(of_pairs), *([1] * (values.dim() - 2)), -1)


def as_cloud(value: object, name: str) -> Cloud:
    """Take the argument as a cloud whose shapes fit together."""
    if not isinstance(value, Tensor | Cloud):
        raise InputError(f"{name}: got {type(value).__name__}, expected a (b, n, 3) tensor or a Cloud")
    points = value if isinstance(value, Tensor) else value.points
    if not isinstance(points, Tensor):
        raise InputError(f"{name}: got points as {type(points).__name__}, expected a tensor")
    if points.dim() != 3 or points.shape[-1] != 3:
        raise InputError(f"{name}: got points of shape {tuple(points.shape)}, expected (b, n, 3)")
    if not points.is_floating_point():
        raise InputError(f"{name}: got points of type {points.dtype}, expected floating-point numbers")
    if isinstance(value, Tensor):
        return Cloud(value)
    for part in ("normals", "colors", "mask"):
        tensor, shape = getattr(value, part), points.shape[: 2 if part == "mask" else 3]
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise InputError(f"{name}: got {part} as {type(tensor).__name__}, expected a tensor")
        if tensor.shape != shape:
            raise InputError(f"{name}: got {part} of shape {tuple(tensor.shape)}, expected {tuple(shape)}")
        if tensor.device != points.device:
            places = f"{part} on {tensor.device}, points on {points.device}"
            raise InputError(f"{name}: {places}: move them together")
    known, expected = value.neighbors, tuple(points.shape[:2])
    if known is not None and tuple(known.shape[:2]) != expected:
        found = f"got neighbors of shape {tuple(known.shape)}"
        raise InputError(f"{name}: {found}, expected {expected} and their number")
    if value.mask is not None and value.mask.dtype != torch.bool:
        found = f"got a mask of type {value.mask.dtype}"
        raise InputError(f"{name}: {found}, expected bool (True on real points)")
    return value


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
    for part, values in (("points", cloud.points), ("normals", cloud.normals), ("colors", cloud.colors)):
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
    unit = _unit(x, y) if with_unit else torch.ones_like(x_center[:, 0])
    scale = unit[:, None, None]
    x_cloud = _without_padding(replace(source, points=x.points / scale))
    y_cloud = _without_padding(replace(reference, points=y.points / scale))
    return x_cloud, y_cloud, Frame(x_center, y_center, unit, dtype)


def _unit(x: Cloud, y: Cloud) -> Float[Tensor, " b"]:
    # Over the largest coordinate first: squares of very large or small numbers have no room.
    largest = torch.maximum(x.points.abs().amax((1, 2)), y.points.abs().amax((1, 2))).detach()
    squares = [
        Clouds.of([cloud.points], [cloud.mask]).means(
            (cloud.points / largest[:, None, None]).flatten(0, 1).square()
        )
        for cloud in (x, y)
    ]
    return largest * ((squares[0] + squares[1]).sum(-1) / 2).sqrt()


def _center(cloud: Cloud) -> tuple[Cloud, Float[Tensor, "b 3"]]:
    points, mask = cloud.points.double(), cloud.mask
    if mask is not None:
        points = points.masked_fill(~mask[..., None], 0)
    clouds = Clouds.of([points], [mask])
    # The mean of numbers near 10⁶ is only good to 10⁻¹⁰; a second pass about the first mean is exact.
    center = clouds.means(points.flatten(0, 1))
    center = center + clouds.means((points - center[:, None]).flatten(0, 1))
    return _without_padding(replace(cloud, points=points - center[:, None])), center


def _without_padding(cloud: Cloud) -> Cloud:
    """Padding may hold anything, NaN included, and 0 times NaN is not 0."""
    if cloud.mask is None:
        return cloud
    padding = ~cloud.mask[..., None]
    parts = {"points": cloud.points, "normals": cloud.normals, "colors": cloud.colors}
    return replace(cloud, **{k: v.masked_fill(padding, 0) for k, v in parts.items() if v is not None})
