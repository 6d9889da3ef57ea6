"""Learned baselines, trained by our own loop on the same split: in the manner of published methods.

None of them is the published network, and none has its weights; each docstring says what was left out.
``train(config, out, kind=kind("nsm"))`` trains one, ``learned_method(out)`` is the trained one as a method.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from bitr.data import AssemblyPair, bumpy_shape, cut
from bitr.data.transforms import thin
from bitr.errors import InputError, require, unknown_name
from bitr.evaluation.method import Method
from bitr.evaluation.metrics import Pose
from bitr.groups import Cloud, Rigid, nearest_rotation_and_gap
from bitr.layers import nearest_neighbors
from bitr.model import BITRConfig, Solution
from bitr.model.checkpoint import FILE_NAME, check_fit, read_weights, write_weights
from bitr.model.inputs import as_cloud, center_pair, check_pair
from bitr.training import Kind, TrainConfig

FORMAT = "bitr-baseline-1"
SEED = 0
POSE = 12  # numbers that a network gives for a pose: a 3×3 matrix and a translation
LIMITS = {"points": (4, 10**6), "channels": (8, 512)}
"""Far beyond any use, and below what a damaged file could ask for."""
ROUNDS = 3  # rounds of the methods that move step by step
NEIGHBORS = (4, 8, 16, 32)
"""A point's mean offset to so many neighbours is an input vector: about a normal, as long as the bend."""
LEAK = 0.2
FRAME = 4  # vectors per cloud that all its points' vectors are read off against


def learned_method(path: str | os.PathLike[str]) -> Method:
    """The trained baseline of a file, or of the folder of a training run; pairs are thinned as there."""
    model = load(path)

    def solve(pair: AssemblyPair) -> Pose:
        seen = thin(pair, model.sizes.points, np.random.default_rng(SEED))
        source, reference = (torch.from_numpy(side.points)[None] for side in (seen.source, seen.reference))
        with torch.inference_mode():
            return model(source, reference).matrix()[0].numpy()

    return Method(model.title, solve)


def regressor(name: str) -> type[Regressor]:
    """The network of that short name."""
    if name not in REGRESSORS:
        raise unknown_name(name, "learned baseline", list(REGRESSORS))
    return REGRESSORS[name]


def kind(name: str) -> Kind:
    """The baseline of that short name, for the loop; settings that only BITR has get their defaults."""
    cls = regressor(name)

    def make(config: TrainConfig) -> tuple[Regressor, TrainConfig]:
        begun = config.run.init_from
        require(not begun, f"run.init_from = {begun!r}: a baseline starts from new weights")
        torch.manual_seed(config.run.seed)
        own = replace(config, model=BITRConfig(), loss=replace(config.loss, spread_weight=0.0))
        return cls(Sizes(points=config.data.points)), own

    return Kind(make, save)


# Trained baselines on disk: safetensors, with name and sizes as JSON inside. No pickle is ever read.


def save(model: Regressor, path: str | os.PathLike[str]) -> Path:
    """Write a file (or ``model.safetensors`` into an existing folder), whole or not at all; in float32."""
    target = _file(path)
    metadata = {"format": FORMAT, "content": json.dumps({"name": model.name, "sizes": asdict(model.sizes)})}
    tensors = {key: value.float().contiguous().cpu() for key, value in model.state_dict().items()}
    write_weights(target, tensors, metadata)
    return target


def _file(path: str | os.PathLike[str]) -> Path:
    return Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)


def load(path: str | os.PathLike[str]) -> Regressor:
    """The baseline of a file, or of the folder of a training run."""
    file = _file(path)
    metadata, tensors = read_weights(file, FORMAT, "trained baseline")
    try:
        content = json.loads(metadata["content"])
        cls, sizes = regressor(content["name"]), Sizes(**content["sizes"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file}: what it says of itself cannot be used ({error})") from error
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        model = cls(sizes)
    check_fit(file, model.state_dict(), tensors)
    model.load_state_dict(tensors)
    return model.eval()


# Shared by all: the coordinates they work in, PointNet, and poses from plain numbers


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network, saved beside its weights."""

    points: int = 1024  # most points of a cloud in training, and so in use
    channels: int = 64  # width of the first layer; all others are multiples of it

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least, most = LIMITS[name]
            is_size = type(value) is int and least <= value <= most
            require(is_size, f"{name} = {value!r}: expected a whole number from {least} to {most}")


class Regressor(nn.Module, ABC):
    """A network that turns two clouds into a pose, as ``BITR`` does; trained by the same loop and loss.

    It sees both clouds about their centroids and in one unit of length. So for all of them, whatever the
    weights: moving either cloud without turning it moves the pose with it, model(cX, cY) = g.scaled(c), and
    the order of the points does not matter. There is no batch normalisation: a pair's answer does not depend
    on the other pairs of the batch. Weights drawn at construction come from torch's global generator.
    """

    name: ClassVar[str]  # the short name, which files and tables know it by

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

    @property
    def title(self) -> str:
        """Its name in tables."""
        return f"in the manner of {self.name.upper()}"

    @abstractmethod
    def relative(self, x: Cloud, y: Cloud) -> Placement:
        """The pose from x to y, both centred, in double precision, and its singular gap."""

    def forward(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Rigid:
        """The pose, in the precision of the inputs."""
        return self.solve(source, reference).pose

    def solve(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Solution:
        """The pose and how well its rotation is determined; there are no key points."""
        weight = next(self.parameters())
        source, reference = as_cloud(source, "source"), as_cloud(reference, "reference")
        if not torch.compiler.is_compiling():
            check_pair(source, reference, weight.device, ())
        x, y, frame = center_pair(source, reference, with_unit=True)
        inner, gap = self.relative(*(replace(c, points=c.points.to(weight.dtype)) for c in (x, y)))
        none = source.points.new_zeros(len(source.points), 0, 3)
        return Solution(frame.pose(inner), none, none, gap)


class PointNet(nn.Module):
    """Features of each point from its coordinates alone; all points share the network (Qi et al. 2017).

    In place of batch normalisation, the last layer starts so that pooled features of generated pieces have
    mean 0 and variance 1; as drawn, those of different clouds hardly differ.
    """

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        first, second = nn.Linear(3, channels), nn.Linear(channels, 2 * channels)
        self.layers = nn.Sequential(first, nn.ReLU(), second, nn.LayerNorm(2 * channels), nn.ReLU())
        self.last = nn.Linear(2 * channels, out)
        self._standardize()

    def forward(self, points: Float[Tensor, "b n 3"]) -> Float[Tensor, "b n c"]:
        return self.last(self.layers(points))

    @torch.no_grad()
    def _standardize(self) -> None:
        generator = torch.Generator().manual_seed(0)
        halves = torch.stack([cut(bumpy_shape(512, generator), 0.5, generator)[0] for _ in range(64)])
        pieces = Cloud(Rigid.random(generator, 64).act(halves))
        x, _, _ = center_pair(pieces, pieces, with_unit=True)
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


Placement = tuple[Rigid, Float64[Tensor, "*b"]]  # a pose, and the singular gap of its rotation


def pose_of(numbers: Float[Tensor, "*b 12"]) -> Placement:
    """The rotation nearest to the first nine numbers, the other three as translation; and the gap."""
    matrix, translation = numbers.double().split([9, 3], dim=-1)
    rotation, gap = nearest_rotation_and_gap(matrix.unflatten(-1, (3, 3)))
    return Rigid(rotation, translation), gap


def relative_pose(whole_from_x: Placement, whole_from_y: Placement) -> Placement:
    """g = g_Y⁻¹ g_X from the poses that take both pieces to where the shape is whole."""
    (g_x, gap_x), (g_y, gap_y) = whole_from_x, whole_from_y
    return g_y.inverse() @ g_x, torch.minimum(gap_x, gap_y)


# The networks


class PieceGraph(Regressor):
    r"""In the manner of Zhan et al., Generative 3D part assembly via dynamic graph learning (NeurIPS 2020).

    Two nodes v with a PointNet embedding each, and shared weights in all rounds: node i gathers
    :math:`\sum_j \mathrm{softmax}_j\, \mathrm{relation}(v_i, p_i, v_j, p_j)\, \mathrm{edge}(v_i, v_j)`, is
    updated, and regresses its pose p anew. :math:`g = p_Y^{-1} p_X`. Law: model(Y, X) = g⁻¹.

    Left out: the exchange between parts that look alike, the noise, and losses on earlier rounds.
    """

    name = "dgl"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = PointNet(c, 2 * c)
        self.relation = network(4 * c + 2 * POSE, c, 1)
        self.edge = network(4 * c, 2 * c, 2 * c)
        self.update = network(4 * c, 2 * c, 2 * c)
        self.regress = network(4 * c + POSE, 4 * c, POSE)

    def relative(self, x: Cloud, y: Cloud) -> Placement:
        first = torch.stack([greatest(self.encode(cloud.points), cloud.mask) for cloud in (x, y)], dim=1)
        nodes, poses = first, first.new_zeros(*first.shape[:2], POSE)
        for _ in range(ROUNDS):
            nodes = nodes + self.update(torch.cat([nodes, self._messages(nodes, poses)], dim=-1))
            poses = self.regress(torch.cat([nodes, first, poses], dim=-1))
        return relative_pose(pose_of(poses[:, 0]), pose_of(poses[:, 1]))

    def _messages(
        self, nodes: Float[Tensor, "b 2 c"], poses: Float[Tensor, "b 2 12"]
    ) -> Float[Tensor, "b 2 c"]:
        """The messages to each node from both, itself included."""
        placed = torch.cat([nodes, poses], dim=-1)
        weights = self.relation(_ordered_pairs(placed)).softmax(dim=2)
        return (weights * self.edge(_ordered_pairs(nodes))).sum(2)


def _ordered_pairs(values: Float[Tensor, "b 2 c"]) -> Float[Tensor, "b 2 2 d"]:
    """At (i, j) the values of i and then those of j."""
    of_i, of_j = values[:, :, None].expand(-1, -1, 2, -1), values[:, None].expand(-1, 2, -1, -1)
    return torch.cat([of_i, of_j], dim=-1)


class CanonicalPoses(Regressor):
    r"""In the manner of Chen et al., Neural shape mating (CVPR 2022).

    A shared PointNet gives embeddings e, and a shared network the pose of each piece in the whole shape:
    :math:`g_X = h(e_X, e_Y)`, :math:`g_Y = h(e_Y, e_X)`, :math:`g = g_Y^{-1} g_X`. Law: model(Y, X) = g⁻¹.

    Left out: attention between the points of both pieces, and the losses on an implicit surface and of a
    discriminator.
    """

    name = "nsm"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = PointNet(c, 4 * c)
        self.regress = network(8 * c, 4 * c, POSE)

    def relative(self, x: Cloud, y: Cloud) -> Placement:
        e_x, e_y = (greatest(self.encode(cloud.points), cloud.mask) for cloud in (x, y))
        return relative_pose(*(pose_of(self.regress(torch.cat(e, -1))) for e in ((e_x, e_y), (e_y, e_x))))


class VectorCanonicalPoses(Regressor):
    r"""In the manner of Wu et al., Leveraging SE(3) equivariance for learning 3D geometric shape assembly.

    ICCV 2023. Vector neurons give each piece vectors V that turn with it and an embedding e that does not:

    .. math:: r_X = \mathrm{SVD}(V_X\, W(e_X, e_Y)), \quad t_X = t(e_X, e_Y), \quad
              g_X\, x = r_X^\top x + t_X, \quad g = g_Y^{-1} g_X.

    Laws: model(g₁X, g₂Y) = g₂ g g₁⁻¹ and model(Y, X) = g⁻¹.

    Left out: learned layers on the edges to neighbours, whose place fixed means take, and the losses on a
    canonical reconstruction and of a discriminator.
    """

    name = "lev"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = VectorEncoder(c)
        self.mix = network(4 * c, 2 * c, 3 * c)
        self.shift = network(4 * c, 2 * c, 3)

    def relative(self, x: Cloud, y: Cloud) -> Placement:
        (v_x, e_x), (v_y, e_y) = self.encode(x), self.encode(y)
        both, swapped = (torch.cat(e, dim=-1) for e in ((e_x, e_y), (e_y, e_x)))
        return relative_pose(self._pose(v_x, both), self._pose(v_y, swapped))

    def _pose(self, vectors: Float[Tensor, "b 3 c"], embeddings: Float[Tensor, "b e"]) -> Placement:
        weights = self.mix(embeddings).unflatten(-1, (-1, 3))
        rotation, gap = nearest_rotation_and_gap((vectors @ weights).double())
        return Rigid(rotation.mT, self.shift(embeddings).double()), gap


class VectorEncoder(nn.Module):
    """A cloud about the origin ↦ c vectors that turn with it, and 2c numbers that do not."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.local = VectorLayer(1 + 2 * len(NEIGHBORS), channels // 2)
        self.global_ = VectorLayer(2 * (channels // 2), channels)
        self.frame = nn.Linear(channels, FRAME, bias=False)
        self.invariant = network(FRAME * channels, 2 * channels, 2 * channels)

    def forward(self, cloud: Cloud) -> tuple[Float[Tensor, "b 3 c"], Float[Tensor, "b e"]]:
        local = self.local(_input_vectors(cloud))
        of_cloud = _mean(local, cloud.mask).expand_as(local)
        vectors = self.global_(torch.cat([local, of_cloud], dim=-1))
        pooled = _mean(vectors, cloud.mask)
        frame = self.frame(pooled)
        size = frame.square().mean((-2, -1), keepdim=True).sqrt().clamp_min(1e-6)
        products = vectors.mT @ (frame / size)
        return pooled[:, 0], greatest(self.invariant(products.flatten(2)), cloud.mask)


class VectorLayer(nn.Module):
    r"""A vector neuron layer (Deng et al. 2021): channels are mixed, and cut off along a learned direction.

    :math:`q = VW, k = VU`; where :math:`\langle q, k\rangle < 0`, q loses its part along k but for a leak.
    """

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        self.value, self.direction = (nn.Linear(c_in, c_out, bias=False) for _ in range(2))

    def forward(self, vectors: Float[Tensor, "b n 3 c"]) -> Float[Tensor, "b n 3 d"]:
        q, k = self.value(vectors), self.direction(vectors)
        along = (q * k).sum(-2, keepdim=True)
        size = k.square().sum(-2, keepdim=True) + 1e-6  # a direction of length 0 cuts nothing off
        return q - (1 - LEAK) * along.clamp_max(0) / size * k


def _input_vectors(cloud: Cloud) -> Float[Tensor, "b n 3 c"]:
    """Vectors of each point: itself, mean offsets to its neighbours at several reaches, their cross products.

    The cross products tell a shape from its mirror image. Offsets are in units of their own mean size.
    """
    x = cloud.points
    index, valid = nearest_neighbors(x, NEIGHBORS[-1], cloud.mask)
    rows = torch.arange(len(x), device=x.device)[:, None, None]
    offsets = x[rows, index] - x[:, :, None]
    real = torch.ones_like(offsets[..., :1]) if valid is None else valid[..., None].to(x)
    sums, counts = (offsets * real).cumsum(2), real.cumsum(2).clamp_min(1)
    last = [min(k, index.shape[2]) - 1 for k in NEIGHBORS]
    bends = (sums / counts)[:, :, last].mT
    size = _mean(bends.square().sum(2, keepdim=True), cloud.mask).sqrt().clamp_min(1e-6)
    bends = bends / size
    return torch.cat([x[..., None], bends, torch.linalg.cross(x[..., None], bends, dim=2)], dim=-1)


def _mean(values: Float[Tensor, "b n m c"], mask: Bool[Tensor, "b n"] | None) -> Float[Tensor, "b 1 m c"]:
    """The mean over the real points of each cloud."""
    if mask is None:
        return values.mean(1, keepdim=True)
    weight = mask[..., None, None].to(values)
    return (values * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)


class MaskedSteps(Regressor):
    r"""In the manner of Xu et al., OMNet: learning overlapping mask for partial-to-partial registration.

    ICCV 2021. In every round, with the same weights, the source is moved by the pose so far, each point gets
    features f and a mask a in (0, 1), and a step is regressed from the masked features:
    :math:`g \leftarrow h(\max_i a_i f_i^X, \max_j a_j f_j^Y)\, g`. A swap changes the answer.

    Left out: the losses on the masks and on the poses of earlier rounds.
    """

    name = "omn"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = PointNet(c, 2 * c)
        self.mask_of_point = nn.Linear(2 * c, c)
        self.mask_of_clouds = nn.Linear(4 * c, c)
        self.mask = nn.Linear(c, 1)
        self.regress = network(4 * c, 4 * c, POSE)

    def relative(self, x: Cloud, y: Cloud) -> Placement:
        y_features = self.encode(y.points)
        y_pooled = greatest(y_features, y.mask)
        still = torch.cat([torch.eye(3).flatten(), torch.zeros(3)]).to(y_pooled)
        pose = Rigid.identity(len(x.points)).to(x.points.device)
        gap = pose.translation.new_full((len(x.points),), torch.inf)
        for _ in range(ROUNDS):
            x_features = self.encode(pose.to(x.points.dtype).act(x.points))
            x_pooled = greatest(x_features, x.mask)
            x_common = greatest(self._masked(x_features, x_pooled, y_pooled), x.mask)
            y_common = greatest(self._masked(y_features, y_pooled, x_pooled), y.mask)
            step, step_gap = pose_of(self.regress(torch.cat([x_common, y_common], dim=-1)) + still)
            pose, gap = step @ pose, torch.minimum(gap, step_gap)
        return pose, gap

    def _masked(
        self, features: Float[Tensor, "b n c"], own: Float[Tensor, "b c"], other: Float[Tensor, "b c"]
    ) -> Float[Tensor, "b n c"]:
        """The features, each weighted by its point's mask for the common part."""
        of_clouds = self.mask_of_clouds(torch.cat([own, other], dim=-1))
        mask = self.mask((self.mask_of_point(features) + of_clouds[:, None]).relu())
        return mask.sigmoid() * features


REGRESSORS = {cls.name: cls for cls in (PieceGraph, CanonicalPoses, VectorCanonicalPoses, MaskedSteps)}
"""The networks by their short names, in the order of the paper's tables."""
