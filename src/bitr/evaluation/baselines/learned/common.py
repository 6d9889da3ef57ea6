"""What the learned baselines share: the coordinates they work in, PointNet, and poses from plain numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from bitr.data import bumpy_shape, cut
from bitr.errors import InputError
from bitr.groups import Cloud, Rigid, nearest_rotation_and_gap
from bitr.model import Solution
from bitr.model.inputs import as_cloud, centered, check_pair

POSE = 12
"""Numbers that a network gives for a pose: a 3×3 matrix and a translation."""
LIMITS = {"points": (4, 10**6), "channels": (8, 512)}
"""Far beyond what is of use, and below what a damaged file could ask for."""


@dataclass(frozen=True)
class Sizes:
    """What is saved beside the weights."""

    points: int = 1024
    """Most points of a cloud in training, and so in use."""
    channels: int = 64
    """Width of the first layer; all others are multiples of it."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least, most = LIMITS[name]
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"{name} = {value!r}: expected a whole number from {least} to {most}")


class Regressor(nn.Module, ABC):
    """A network that turns two clouds into a pose, as ``BITR`` does; trained by the same loop and loss.

    It sees both clouds about their centroids and in one unit of length. So for all of them, whatever the
    weights: moving either cloud without turning it moves the pose with it, model(cX, cY) = g.scaled(c), and
    the order of the points does not matter. There is no batch normalisation: a pair's answer does not depend
    on the other pairs of the batch. Weights drawn at construction come from torch's global generator.
    """

    name: ClassVar[str]
    """The short name, which files and tables know it by."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

    @property
    def title(self) -> str:
        """What tables call it."""
        return f"in the manner of {self.name.upper()}"

    @abstractmethod
    def relative(self, x: Cloud, y: Cloud) -> tuple[Rigid, Float64[Tensor, " b"]]:
        """The pose from x to y, both centred, in double precision, and its singular gap."""

    def forward(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Rigid:
        """The pose, in the precision of the inputs."""
        return self.solve(source, reference).pose

    def solve(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Solution:
        """The pose with how well its rotation is determined; there are no key points."""
        weight = next(self.parameters())
        source, reference = as_cloud(source, "source"), as_cloud(reference, "reference")
        if not torch.compiler.is_compiling():
            check_pair(source, reference, weight.device, ())
        x, y, frame = centered(source, reference, with_unit=True)
        inner, gap = self.relative(*(replace(c, points=c.points.to(weight.dtype)) for c in (x, y)))
        none = source.points.new_zeros(len(source.points), 0, 3)
        return Solution(frame.pose(inner), none, none, gap)


class PointNet(nn.Module):
    """Features of each point from its coordinates alone; all points share the network (Qi et al. 2017).

    With weights as they are drawn, pooled features of different clouds differ by an eighth of what they have
    in common, and poses made of them hardly differ. Batch normalisation would take out what is common. Here
    the last layer starts so that pooled features of generated pieces have mean 0 and variance 1.
    """

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, channels),
            nn.ReLU(),
            nn.Linear(channels, 2 * channels),
            nn.LayerNorm(2 * channels),
            nn.ReLU(),
        )
        self.last = nn.Linear(2 * channels, out)
        self._standardize()

    def forward(self, points: Float[Tensor, "b n 3"]) -> Float[Tensor, "b n c"]:
        return self.last(self.layers(points))

    @torch.no_grad()
    def _standardize(self) -> None:
        generator = torch.Generator().manual_seed(0)
        halves = torch.stack([cut(bumpy_shape(512, generator), 0.5, generator)[0] for _ in range(64)])
        pieces = Cloud(Rigid.random(generator, 64).act(halves))
        x, _, _ = centered(pieces, pieces, with_unit=True)
        pooled = greatest(self(x.points.to(self.last.weight)), None)
        mean, scale = pooled.mean(0), pooled.std(0)
        self.last.weight /= scale[:, None]
        self.last.bias.sub_(mean).div_(scale)


def greatest(features: Float[Tensor, "b n c"], mask: Bool[Tensor, "b n"] | None) -> Float[Tensor, "b c"]:
    """The greatest value of each channel over the real points of a cloud."""
    return (features if mask is None else features.masked_fill(~mask[..., None], -torch.inf)).amax(1)


def network(c_in: int, hidden: int, c_out: int) -> nn.Sequential:
    """Two layers, from one vector per cloud to another."""
    return nn.Sequential(nn.Linear(c_in, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, c_out))


def pose_of(numbers: Float[Tensor, "*b 12"]) -> tuple[Rigid, Float64[Tensor, "*b"]]:
    """The rotation nearest to the first nine numbers, the other three as translation; and the gap."""
    matrix, translation = numbers.double().split([9, 3], dim=-1)
    rotation, gap = nearest_rotation_and_gap(matrix.unflatten(-1, (3, 3)))
    return Rigid(rotation, translation), gap
