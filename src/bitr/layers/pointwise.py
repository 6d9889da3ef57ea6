"""Layers that act on each point, or on a point and whole clouds: no edges."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Degree, Field, Rep, mirror
from bitr.layers.neighbors import Clouds

WIDEN = 2  # hidden units of a ``FeedForward`` for each scalar channel
FIRST_SIZE = 0.1
"""Size of a ``FeedForward``'s first outputs: before training the field passes nearly as it came."""


class DegreeLinear(nn.Module):
    """F^o ↦ W^o F^o: self-interaction, query, and the maps of Elu. With ``tied``, W^o = W^õ (Prop. 5.2).

    The field keeps its precision, also where autocast rounds the product.
    """

    def __init__(self, rep_in: Rep, rep_out: Rep, tied: bool) -> None:
        super().__init__()
        self.degrees = [degree for degree in rep_out if degree in rep_in]
        self.tied = tied
        self.weights = nn.ParameterDict()
        for degree in self.degrees:
            if self._key(degree) not in self.weights:
                c_in, c_out = rep_in[degree], rep_out[degree]
                self.weights[self._key(degree)] = nn.Parameter(torch.randn(c_in, c_out) / c_in**0.5)

    def forward(self, field: Field) -> Field:
        return {
            degree: (field[degree] @ self.weights[self._key(degree)]).to(field[degree].dtype)
            for degree in self.degrees
        }

    def _key(self, degree: Degree) -> str:
        p, q = min(degree, mirror(degree)) if self.tied else degree
        return f"{p}{q}"


class Elu(nn.Module):
    r"""The equivariant ReLU, eq. (9): removes from F_μ = W_μF what points against F_ν = W_νF, by channel.

    :math:`F_\mu - (1 - \lambda) \min(0, \langle F_\mu, F_\nu\rangle)\, F_\nu / (\|F_\nu\|^2 + \varepsilon)`.

    The paper's projection is λ = 0, ε → 0. It jumps where F_ν = 0 (for scalars: whenever F_ν changes its
    sign); a positive ε makes it continuous. It can remove a whole channel; a leak λ > 0 keeps part of it.
    Keeps every degree, and the swap law when ``tied``.
    """

    def __init__(self, rep: Rep, *, tied: bool, epsilon: float, leak: float) -> None:
        super().__init__()
        self.mu = DegreeLinear(rep, rep, tied)
        self.nu = DegreeLinear(rep, rep, tied)
        self.epsilon, self.leak = epsilon, leak

    def forward(self, field: Field) -> Field:
        mu, nu = self.mu(field), self.nu(field)
        result = {}
        for degree in field:
            against = (mu[degree] * nu[degree]).sum(-2, keepdim=True).clamp_max(0)
            length = nu[degree].square().sum(-2, keepdim=True) + self.epsilon
            result[degree] = mu[degree] - (1 - self.leak) * against / length * nu[degree]
        return result


class FieldNorm(nn.Module):
    """Each degree divided by its root mean square over all points and channels of the cloud.

    The divisor is invariant under rotations and permutations and equal for (p, q) and (q, p) after a
    swap, so every law is kept. Relative sizes within the cloud survive, which a norm per point would lose.
    With ``center``, scalars get mean 0 over the cloud first: an Elu layer would pass or remove whole
    channels of numbers that are all positive.
    """

    def __init__(self, center: bool, epsilon: float = 1e-4) -> None:
        super().__init__()
        self.center = center
        self.epsilon = epsilon  # a field that is zero by symmetry must not be blown up to size 1

    def forward(self, field: Field, clouds: Clouds) -> Field:
        if self.center:
            scalars = field[0, 0]
            field = {**field, (0, 0): scalars - clouds.spread(clouds.means(scalars))}
        squares = torch.stack([value.square().mean((1, 2)) for value in field.values()], dim=-1)
        size = torch.rsqrt(clouds.means(squares.double()) + self.epsilon)  # one error would be in all points
        factors = clouds.spread(size.to(squares)).unbind(-1)
        return {
            degree: value * factor[:, None, None]
            for (degree, value), factor in zip(field.items(), factors, strict=True)
        }


class FeedForward(nn.Module):
    r"""A small network on the rotation-invariant features of each point, added to the field.

    These are the scalars and the inner products :math:`\langle A f, B f\rangle` of each other degree. The
    network's outputs are added to the scalars, and weigh :math:`A f` and, for vectors, the cross products
    :math:`B f \times C f`. It suits a cloud of one side only: a swap of two sides would turn a cross product
    round. The network sees features much larger than 1 at size about 1, so that no product of them runs away.
    """

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        turning = Rep({degree: channels for degree, channels in rep.items() if degree != (0, 0)})
        self.a, self.b = (DegreeLinear(turning, turning, tied=False) for _ in range(2))
        self.c = DegreeLinear(rep, Rep({(1, 0): rep[1, 0]}), tied=False)
        self.sizes = [*rep.values(), rep[1, 0]]
        hidden = WIDEN * rep[0, 0]
        self.network = nn.Sequential(
            nn.Linear(sum(rep.values()), hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            last := nn.Linear(hidden, sum(self.sizes)),
        )
        with torch.no_grad():
            last.weight.mul_(FIRST_SIZE)
            last.bias.zero_()

    def forward(self, field: Field) -> Field:
        seen = {degree: _limit(values) for degree, values in field.items()}
        a, b, c = self.a(seen), self.b(seen), self.c(seen)
        inner = [(a[degree] * b[degree]).mean(1) for degree in a]
        invariants = torch.cat([seen[0, 0][:, 0], *inner], dim=-1)
        added, *gates, turn = self.network(invariants).to(invariants.dtype).split(self.sizes, dim=-1)
        out = {(0, 0): field[0, 0] + added[:, None]}
        for degree, gate in zip(a, gates, strict=True):
            out[degree] = field[degree] + gate[:, None] * a[degree]
        out[1, 0] = out[1, 0] + turn[:, None] * _cross(b[1, 0], c[1, 0])
        return out


def _limit(values: Float[Tensor, "N m c"]) -> Float[Tensor, "N m c"]:
    """Features of size 1 stay; much larger ones come to size √2."""
    square = values.square().mean((1, 2), keepdim=True)
    return values * (2 / (1 + square)).sqrt()


def _cross(a: Float[Tensor, "N 3 c"], b: Float[Tensor, "N 3 c"]) -> Float[Tensor, "N 3 c"]:
    """As ``torch.linalg.cross``, which takes many times as long along a dimension that is not the last."""
    (ax, ay, az), (bx, by, bz) = a.unbind(1), b.unbind(1)
    return torch.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], dim=1)


class WholeCloudBlock(nn.Module):
    """Each point gets the mean features of its cloud and the mean scalars of the other; then a FeedForward.

    The mean of a field turns as the field does, so that every degree of the own cloud is kept, and only the
    invariant part of the other. Once the mean has vectors, their inner products with a point's own tell where
    in the whole it is. There is no edge, so that many channels cost little.
    """

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        self.norm = FieldNorm(center=True)
        self.of_own = DegreeLinear(rep, rep, tied=False)
        self.of_other = nn.Linear(rep[0, 0], rep[0, 0])
        self.feed_forward = FeedForward(rep)

    def forward(self, field: Field, clouds: Clouds) -> Field:
        """The first half of the clouds are the sources, the second half their references."""
        field = self.norm(field, clouds)
        own = self.of_own({degree: clouds.means(values) for degree, values in field.items()})
        of_x, of_y = clouds.means(nn.functional.silu(field[0, 0])).chunk(2)
        own[0, 0] = own[0, 0] + self.of_other(torch.cat([of_y, of_x])).to(of_x.dtype)
        return self.feed_forward({d: values + clouds.spread(own[d]) for d, values in field.items()})
