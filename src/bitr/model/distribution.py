"""A density over poses: a mixture of matrix-Fisher densities for the rotation and Gaussians for the place.

    p(g | X, Y) = Σ_k π_k  exp(tr(A_kᵀ r)) / c(A_k)  ·  N(g a_X − a_Y; σ_k s)

A_k is r̂ of head k before its projection, times a constant; a_X and a_Y are its anchors, and s is the pair's
size. c depends on the proper singular values of A alone. So p(g₂ g g₁⁻¹ | g₁X, g₂Y) = p(g | X, Y) and
p(g⁻¹ | Y, X) = p(g | X, Y), and a common scale changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bitr.groups import Rigid, map_tensors, proper_svd, take_rows
from bitr.model.projection import Unprojected

CONCENTRATION = 10.0
"""Each head's density has A = 10 r̂: where r̂ is a rotation, its standard deviation is 13° about each axis."""
SPREAD = 0.3  # standard deviation of the place, before training or where no likelihood was learned
WIDEST = 4.0  # logarithm of the largest and of the smallest spread over ``SPREAD``
NODES = 64  # nodes of the quadrature of c: relative error below 1e-10 for singular values up to 10⁴
ROUNDS = 1000  # rounds of rejection sampling, at most; more than a third of the draws are taken in each


@dataclass(frozen=True)
class Heads:
    """K poses, likeliest first. Motions and scale change no order and no score; a swap inverts each pose."""

    pose: Rigid
    """(b, k)."""
    score: Float[Tensor, "b k"]
    """Logits of the shares in the mixture: ``log_weight``. A vague head may have a large share."""
    singular_gap: Float[Tensor, "b k"]
    votes: Unprojected
    """(b, k, l): the rotation and anchors of each key point."""
    place: Int[Tensor, "b k"]
    """Index of each among the model's outputs."""
    spread: Float[Tensor, "b k"]
    """Standard deviation of the place along each axis, in units of the pair's size."""
    belief: Float[Tensor, "b k"]
    """Logarithm of the mixture's density at each pose, up to a constant: the first head has the largest."""

    @classmethod
    def of(cls, pose: Rigid, score: Tensor, gap: Tensor, votes: Unprojected, spread: Tensor) -> Heads:
        """Heads in the order of the model's outputs, with their beliefs."""
        place = torch.arange(gap.shape[1], device=gap.device).expand(gap.shape)
        with torch.no_grad():
            belief = beliefs(pose, score, votes.mean(), spread) if gap.shape[1] > 1 else score
        return cls(pose, score, gap, votes, place, spread, belief)

    @property
    def log_weight(self) -> Float[Tensor, "b k"]:
        return self.score.log_softmax(1)

    def take(self, rows: Int[Tensor, "b _"]) -> Heads:
        """Some heads of each pair, in this order."""
        return map_tensors(lambda values: take_rows(values, rows), self)

    def best_first(self) -> Heads:
        return self if self.belief.shape[1] == 1 else self.take(self.belief.argsort(1, descending=True))

    def in_own_order(self) -> Heads:
        """As the model's outputs stand: the same head has the same row for every pair."""
        return self.take(self.place.argsort(1))


def beliefs(
    pose: Rigid, score: Float[Tensor, "b k"], parts: Unprojected, spread: Float[Tensor, "b k"]
) -> Float[Tensor, "b k"]:
    r"""Logarithm of the mixture's density at the pose of each head, in the pair's frame and up to a constant.

    A matrix-Fisher density with the proper singular values s of A has the peak
    :math:`\sqrt{8\pi (s_1+s_2)(s_2+s_3)(s_3+s_1)}` where it is sharp (Laplace), which is a polynomial in
    rᵀA: no singular values are needed.
    """
    r, score, spread = pose.rotation, score.to(parts.r_hat), spread.to(parts.r_hat)
    polar = r.mT @ parts.r_hat
    e1 = polar.diagonal(dim1=-2, dim2=-1).sum(-1)
    e2 = (e1.square() - (polar * polar.mT).sum((-2, -1))) / 2
    a, b, c = polar.unbind(-2)
    e3 = (a * torch.linalg.cross(b, c)).sum(-1)
    sharp = torch.log1p(8 * math.pi * CONCENTRATION**3 * (e1 * e2 - e3).clamp_min(0)) / 2
    turned = torch.einsum("bkmn,bjmn->bkj", r, parts.r_hat) - e1[:, None]
    gap = pose.act(parts.source_anchor[:, None]) - parts.reference_anchor[:, None]
    place = -gap.square().sum(-1) / (2 * spread.square()[:, None])
    head = score.log_softmax(1) + sharp - 3 * spread.log()
    return (head[:, None] + CONCENTRATION * turned + place).logsumexp(2)


def bounded_spread(logit: Tensor) -> Tensor:
    """``SPREAD`` e^logit, kept between 0.0055 and 16: a spread of 0 has no likelihood and no gradient."""
    return SPREAD * (WIDEST * torch.tanh(logit / WIDEST)).exp()


def log_density(heads: Heads, pose: Rigid, unit: Float[Tensor, " b"]) -> Float[Tensor, "b k"]:
    """The logarithm of each head's density at one pose of each pair.

    With respect to the uniform distribution of rotations, and to volume in units of the pair's size cubed.
    """
    parts = heads.votes.mean()
    a = CONCENTRATION * parts.r_hat
    rotation = (a * pose.rotation[:, None]).sum((-2, -1)) - log_normalizer(a)
    placed = pose[:, None].act(parts.source_anchor[..., None, :])[..., 0, :]
    gap = (placed - parts.reference_anchor) / unit[:, None, None]
    sigma = heads.spread
    place = -gap.square().sum(-1) / (2 * sigma.square()) - 3 * (sigma.log() + math.log(2 * math.pi) / 2)
    return rotation + place


_X, _W = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(NODES))
QUADRATURE = 1 - (_X + 1) ** 2 / 2, (_X + 1) * _W
"""Nodes in [-1, 1] and weights, crowded where a sharp density has its mass."""


def log_normalizer(a: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b"]:
    r"""log of the mean of exp(tr(Aᵀr)) over all rotations r.

    With the proper singular values s of A it is :math:`\operatorname{tr} S + \log \int_{-1}^{1} \frac12
    B(\frac{s_1 - s_2}{2}(1 - u))\, B(\frac{s_1 + s_2}{2}(1 + u))\, e^{(s_2 + s_3)(u - 1)} du` with
    :math:`B(x) = e^{-x} I_0(x)` (Lee 2018). Its gradient is the mean rotation. The singular vectors are taken
    as constant, which changes neither value nor gradient and is smooth where values coincide.
    """
    with torch.no_grad():
        u, _, vh = proper_svd(a)
    s1, s2, s3 = (u.mT @ a @ vh.mT).diagonal(dim1=-2, dim2=-1)[..., None].unbind(-2)
    nodes, weights = (each.to(a) for each in QUADRATURE)
    first = _scaled_bessel((s1 - s2) / 2 * (1 - nodes))
    second = _scaled_bessel((s1 + s2) / 2 * (1 + nodes))
    integrand = first * second * ((s2 + s3) * (nodes - 1)).exp()
    return (s1 + s2 + s3)[..., 0] + (integrand @ weights / 2).log()


def _scaled_bessel(x: Tensor) -> Tensor:
    """e^-x I₀(x) for x ≥ 0; where rounding leaves less, as at 0, with the derivative from above."""
    return torch.special.i0e(x + (-x.detach()).clamp_min(0) + 1e-30)


def sample_heads(heads: Heads, unit: Float[Tensor, " b"], n: int, generator: torch.Generator) -> Rigid:
    """``n`` poses of each pair, drawn from the mixture: (b, n)."""
    chosen = heads.take(torch.multinomial(heads.log_weight.exp(), n, replacement=True, generator=generator))
    parts = chosen.votes.mean()
    rotation = sample_rotations(CONCENTRATION * parts.r_hat, generator)
    noise = torch.randn(parts.reference_anchor.shape, generator=generator, dtype=rotation.dtype)
    place = parts.reference_anchor + noise * (chosen.spread * unit[:, None])[..., None]
    return Rigid(rotation, place - (rotation @ parts.source_anchor[..., None])[..., 0])


def sample_rotations(a: Float[Tensor, "*b 3 3"], generator: torch.Generator) -> Float[Tensor, "*b 3 3"]:
    """One rotation for each A, from the matrix-Fisher density.

    The quaternion of UᵀrV has a Bingham density; it is drawn by rejection from an angular central Gaussian
    (Kent, Ganeiber and Mardia 2013).
    """
    import roma  # takes a second, and an assembly can do without

    u, values, vh = proper_svd(a)
    s1, s2, s3 = values.unbind(-1)
    power = 2 * torch.stack([torch.zeros_like(s1), s2 + s3, s1 + s3, s1 + s2], dim=-1)
    b = _envelope(power)
    scale = 1 + 2 * power / b[..., None]
    most = -(4 - b) / 2 + 2 * (4 / b).log()
    found, done = torch.zeros_like(power), torch.zeros_like(s1, dtype=torch.bool)
    for _ in range(ROUNDS):
        q = torch.randn(power.shape, generator=generator, dtype=power.dtype) / scale.sqrt()
        q = q / q.norm(dim=-1, keepdim=True)
        ratio = -(q.square() * power).sum(-1) + 2 * (q.square() * scale).sum(-1).log() - most
        taken = torch.rand(ratio.shape, generator=generator, dtype=ratio.dtype).log() < ratio
        found = torch.where((taken & ~done)[..., None], q, found)
        done = done | taken
        if done.all():
            break
    return u @ roma.unitquat_to_rotmat(found.roll(-1, -1)) @ vh  # from wxyz to xyzw


def _envelope(power: Float[Tensor, "*b 4"]) -> Float[Tensor, "*b"]:
    """b with Σ 1/(b + 2 λ_i) = 1, which makes the envelope tight: by bisection, from 1 to 4."""
    low, high = torch.ones_like(power[..., 0]), torch.full_like(power[..., 0], 4.0)
    for _ in range(60):
        middle = (low + high) / 2
        above = (1 / (middle[..., None] + 2 * power)).sum(-1) > 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2
