"""One training step: model and loss (Sec. 5, training), the gradient, the optimisers and the average."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bitr.groups import Cloud, Rigid, rotation_angle, take_rows
from bitr.model import Solution
from bitr.model.dense import Dense
from bitr.model.distribution import CONCENTRATION, log_density
from bitr.model.mating import assembled_distances, mating_loss
from bitr.training.config import PLAIN, LossConfig, OptimizerConfig, TrainConfig
from bitr.training.distributed import Group
from bitr.training.folder import METRICS, Parts, Step
from bitr.training.stream import Batch

NEAR = 0.2
"""Distance at which a point counts as in contact by 1/e, in units of the pair's size."""
SIDE = 8
"""Minimum number of rows and columns of a matrix for Muon."""
FASTER = 2.0
"""Muon's rate over Adam's, when a step of both has the same size."""
MOMENTUM = 0.95
ADAM_SIZE = 0.2
"""Root mean square of a step of Adam over its rate, which a step of Muon takes over."""
ROUNDS, QUINTIC = 5, (3.4445, -4.7750, 2.0315)
"""Rounds of Newton and Schulz, and the polynomial in the singular values of each (Jordan's coefficients)."""


@dataclass(frozen=True)
class Errors:
    """``METRICS`` of each pair."""

    loss: Float[Tensor, " b"]
    rotation_deg: Float[Tensor, " b"]
    displacement: Float[Tensor, " b"]
    nearest_deg: Float[Tensor, " b"]

    def table(self) -> Float[Tensor, "b 4"]:
        return torch.stack([getattr(self, name) for name in METRICS], dim=1)


class Objective(nn.Module):
    """Model and loss as one module for data-parallel training; the model has ``solve(x, y) -> Solution``."""

    def __init__(self, model: nn.Module, config: LossConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, batch: Batch) -> Errors:
        """The losses, to be differentiated, and the errors, which are not."""
        solve: Callable[[Cloud, Cloud], Solution] = self.model.solve  # type: ignore[assignment]
        solution = solve(batch.source, batch.reference)
        loss = pose_loss(solution, batch.truth, batch.source, batch.reference, self.config)
        with torch.no_grad():
            pose, turn = solution.pose, batch.truth.rotation
            angle = _degrees(pose.rotation, turn)
            away = square_displacement(pose, batch.truth, batch.source, batch.reference).sqrt()
            heads = solution.heads
            nearest = angle if heads is None else _degrees(heads.pose.rotation, turn[:, None]).amin(1)
        return Errors(loss, angle, away, nearest)


def _degrees(rotation: Float[Tensor, "*b 3 3"], truth: Float[Tensor, "*t 3 3"]) -> Float[Tensor, "*b"]:
    return rotation_angle(rotation.mT @ truth) * (180 / math.pi)


def pose_loss(
    solution: Solution, truth: Rigid, source: Cloud, reference: Cloud, config: LossConfig
) -> Float[Tensor, " b"]:
    r"""Loss of each pair: what ``compare`` asks for, and the other terms that have a weight.

    Unless d is the paper's :math:`\|t - t_{gt}\|`, the loss does not change when the pieces are moved,
    swapped or scaled. So no rotated, moved or swapped copies of the pairs are needed: they would give the
    same loss and the same gradient.
    """
    unit = pair_size(source, reference)
    loss = _loss_of_poses(solution, truth, source, reference, config)
    keypoints = (solution.source_keypoints, solution.reference_keypoints)
    if config.keypoint_weight and keypoints[0].shape[1]:
        apart = truth.act(keypoints[0]) - keypoints[1]
        loss = loss + config.keypoint_weight * apart.square().sum(-1).mean(1) / unit.square()
    if (config.contact_weight or config.vector_weight) and solution.source_dense is not None:
        loss = loss + dense_loss(solution, truth, source, reference, config)
    if config.mating_weight and solution.source_mating is not None:
        assert solution.reference_mating is not None
        both = solution.source_mating, solution.reference_mating
        loss = loss + config.mating_weight * mating_loss(*both, source, reference, truth)
    if config.spread_weight:
        x, y = (crowding(each / unit[:, None, None], config.spread_reach) for each in keypoints)
        loss = loss + config.spread_weight * (x + y)
    return loss


def _loss_of_poses(
    solution: Solution, truth: Rigid, source: Cloud, reference: Cloud, config: LossConfig
) -> Float[Tensor, " b"]:
    r""":math:`\|r^\top r_{gt} - I\|^2 + w\,d^2` of a pose or its parts, or minus a log-likelihood.

    Of the parts, r is r̂ before its projection, and d the distance that the true pose leaves between the
    anchors, over the pair's size. The gradient is linear in r̂, while that of the projection grows without
    bound as singular values come close or r̂ becomes small.
    """
    heads, parts, unit = solution.heads, solution.unprojected, pair_size(source, reference)
    has_one = heads is None or heads.score.shape[1] == 1
    if config.compare == "pose" or parts is None:
        rotation, pose = solution.pose.rotation, solution.pose
        if config.translation == "displacement":
            away = square_displacement(pose, truth, source, reference)
        else:
            away = (pose.translation - truth.translation).square().sum(1)
    elif heads is None or (config.compare == "unprojected" and has_one):
        gap = parts.reference_anchor[..., None, :] - truth.act(parts.source_anchor[..., None, :])
        rotation, away = parts.r_hat, gap.square().sum((-2, -1)) / unit.square()
    else:
        each = log_density(heads, truth, unit)
        # in a unit that gives r̂ as large a gradient as the other losses
        return -(2 / CONCENTRATION) * (heads.log_weight.to(each.dtype) + each).logsumexp(1)
    return (rotation - truth.rotation).square().sum((-2, -1)) + config.translation_weight * away


def dense_loss(
    solution: Solution, truth: Rigid, source: Cloud, reference: Cloud, config: LossConfig
) -> Float[Tensor, " b"]:
    """Errors of contacts and vectors at the points of both pieces; each piece counts the same."""
    assert solution.source_dense is not None
    assert solution.reference_dense is not None
    unit = pair_size(source, reference)
    with torch.no_grad():
        labels = dense_labels(source, reference, truth)
    total = torch.zeros_like(unit)
    sides = ((source, solution.source_dense), (reference, solution.reference_dense))
    for (cloud, said), label in zip(sides, labels, strict=True):
        contact = binary_cross_entropy_with_logits(said.contact, label.contact, reduction="none")
        off = (said.to_other - label.to_other).square().sum(-1)
        off = (off + (said.to_center - label.to_center).square().sum(-1)) / unit[:, None].square()
        each = config.contact_weight * contact + config.vector_weight * off
        total = total + cloud.mean(each[..., None])[:, 0, 0] / 2
    return total


def dense_labels(source: Cloud, reference: Cloud, truth: Rigid) -> tuple[Dense, Dense]:
    """The truth at each point; ``contact`` is a probability here, e^-(d/δ)² of the distance d."""
    near = NEAR * pair_size(source, reference)[:, None]
    moved = replace(source, points=truth.act(source.points))
    distance = assembled_distances(moved, reference)
    numbers = [_count(cloud) for cloud in (source, reference)]
    center = moved.centroid() * numbers[0] + reference.centroid() * numbers[1]
    center = center / (numbers[0] + numbers[1])

    def label(own: Tensor, other: Tensor, rows: Tensor, turn: Tensor) -> Dense:
        to_other = take_rows(other, rows) - own
        contact = torch.exp(-(to_other.square().sum(-1) / near.square()))
        return Dense(contact, to_other @ turn, (center - own) @ turn)

    still = torch.eye(3).to(truth.rotation)
    x, y = moved.points, reference.points
    of_source = label(x, y, distance.argmin(2), truth.rotation)  # row vectors: v @ r is rᵀ v
    return of_source, label(y, x, distance.argmin(1), still)


def _count(cloud: Cloud) -> Float[Tensor, "b 1 1"] | float:
    if cloud.mask is None:
        return float(cloud.points.shape[1])
    return cloud.mask.sum(1)[:, None, None].to(cloud.points)


def square_displacement(pose: Rigid, truth: Rigid, source: Cloud, reference: Cloud) -> Float[Tensor, " b"]:
    r"""Squared distance of the pieces from their places, in units of the pair's size s:

    :math:`(\|g\,m(X) - g_{gt}\,m(X)\|^2 + \|g^{-1} m(Y) - g_{gt}^{-1} m(Y)\|^2) / 2 s^2`.
    """
    x, y = source.centroid(), reference.centroid()
    off_x = (pose.act(x) - truth.act(x)).square().sum((1, 2))
    off_y = (pose.inverse().act(y) - truth.inverse().act(y)).square().sum((1, 2))
    return (off_x + off_y) / (2 * pair_size(source, reference) ** 2)


def pair_size(source: Cloud, reference: Cloud) -> Float[Tensor, " b"]:
    """Root mean square distance of the points of both clouds from their own centroids, both alike."""
    x, y = (
        cloud.mean((cloud.points - cloud.centroid()).square().sum(-1, keepdim=True))[:, 0, 0]
        for cloud in (source, reference)
    )
    return ((x + y) / 2).sqrt()


def crowding(keypoints: Float[Tensor, "b l 3"], reach: float) -> Float[Tensor, " b"]:
    """How much closer than ``reach`` two key points are, as a mean over all twos (the authors' term)."""
    count = keypoints.shape[1]
    i, j = torch.triu_indices(count, count, offset=1, device=keypoints.device)
    gaps = ((keypoints[:, i] - keypoints[:, j]).square().sum(-1) + 1e-12).sqrt()
    return (reach - gaps).clamp_min(0).mean(1)


class Trainer:
    """Model, average and optimisers, and the step that moves them; the same on one process and on many."""

    def __init__(self, config: TrainConfig, model: nn.Module, group: Group) -> None:
        self.config, self.group = config, group
        model = model.to(group.device).train()
        self.parameters = list(model.parameters())
        optimizers = make_optimizers(self.parameters, config.optimizer)
        self.parts = Parts(model, copy.deepcopy(model).eval(), optimizers)
        objective = Objective(model, config.loss)
        if config.run.compile:
            objective.compile()
        self.objective = group.parallel(objective, config.loss.uses_all)
        self.averaged = Objective(self.parts.average, PLAIN)

    def step(self, batch: Batch, number: int, stop: bool) -> Step:
        """One step on the global batch, ``batch`` being a share; one that is not finite is left out."""
        run, parts, device = self.config.run, self.parts, self.group.device
        for group in (group for each in parts.optimizers for group in each.param_groups):
            group["lr"] = group["times"] * rate_at(number, run.steps, self.config.optimizer)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=run.precision == "bfloat16"):
            errors = self.objective(batch)
        parts.model.zero_grad()
        (errors.loss.sum() * (self.group.world / run.batch)).backward()  # processes are averaged over
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.optimizer.clip or math.inf)
        sums = self.group.sum(torch.cat([errors.table().detach().sum(0), norm.new_tensor([float(stop)])]))
        taken = bool(norm.isfinite() and sums.isfinite().all())
        if taken:
            for optimizer in parts.optimizers:
                optimizer.step()
            update_average(parts.average, parts.model, number, self.config.optimizer.average)
        return Step(sums[:4].cpu() / run.batch, float(norm), taken, bool(sums[4] > 0))


class Muon(torch.optim.Optimizer):
    """Steepest descent in the spectral norm, with Nesterov's momentum and decoupled weight decay.

    Unlike PyTorch's, in the precision of the weights: machines may announce AMX and not have it.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for each in group["params"]:
                if each.grad is not None:
                    shapes.setdefault(each.shape, []).append(each)
            for shape, weights in shapes.items():
                gradient = torch.stack([each.grad for each in weights if each.grad is not None])
                past = [self.state[each].setdefault("momentum", torch.zeros_like(each)) for each in weights]
                torch._foreach_lerp_(past, list(gradient), 1 - MOMENTUM)
                step = orthogonalize(gradient.lerp(torch.stack(past), MOMENTUM))
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                size = ADAM_SIZE * math.sqrt(max(shape))
                torch._foreach_add_(weights, list(step), alpha=-group["lr"] * size)


def orthogonalize(matrices: Float[Tensor, "g r c"]) -> Float[Tensor, "g r c"]:
    """U S' Vᵀ for U S Vᵀ, with all of S' between about 0.7 and 1.2: Newton's and Schulz' iteration."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalize(matrices.mT).mT
    found = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        gram = found @ found.mT
        found = a * found + (b * gram + c * gram @ gram) @ found
    return found


def make_optimizers(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig
) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for matrices, AdamW for the rest, or one for all; ``times`` is the rate over the config's."""
    every = list(parameters)
    matrices = [p for p in every if config.name == "muon" and p.ndim == 2 and min(p.shape) >= SIDE]
    others = [p for p in every if all(p is not matrix for matrix in matrices)]
    rate, decay = config.rate, config.weight_decay
    made: list[torch.optim.Optimizer] = []
    if matrices:
        group = {"params": matrices, "times": FASTER}
        made.append(Muon([group], {"lr": rate, "weight_decay": decay}))
    if others:
        kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
        made.append(kind([{"params": others, "times": 1.0}], rate, weight_decay=decay, fused=True))
    return tuple(made)


def rate_at(step: int, steps: int, config: OptimizerConfig) -> float:
    """Learning rate of a step, counted from 0: a straight rise, then half a cosine down to a rest."""
    rise = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    wave = (1 + math.cos(math.pi * step / steps)) / 2
    return config.rate * rise * (config.final + (1 - config.final) * wave)


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, step: int, decay: float) -> None:
    """Moves the average towards the model: by much at first, when it has seen little."""
    keep = min(decay, (1 + step) / (10 + step)) if decay else 0.0
    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - keep)
