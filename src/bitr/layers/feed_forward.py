"""What a point makes of its own features: the part of a transformer block beside the attention."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Field, Rep
from bitr.layers.linear import DegreeLinear

WIDEN = 2
"""Hidden numbers of the network for each scalar channel."""
FIRST_SIZE = 0.1
"""Of what the network says before training: the field passes nearly as it came."""

ROWS = 4096
"""Points at a time: what is made of them on the way then stays in the processor's cache."""


class FeedForward(nn.Module):
    r"""f ↦ f plus what a small network says of the numbers at each point that no rotation changes.

    These are the scalars and the inner products :math:`\langle A f, B f\rangle` of each other degree. The
    network's answers are added to the scalars, and weigh :math:`A f` and, of vectors, the cross products
    :math:`B f \times C f`. A cloud of one side only: a swap of two sides would turn a cross product round.
    Features much larger than 1 are seen as if of size about 1, so that no product of them runs away.
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
        if len(field[0, 0]) <= ROWS:
            return self._of_rows(field)
        parts = [self._of_rows(dict(zip(field, rows, strict=True))) for rows in _chunks(field)]
        return {degree: torch.cat([part[degree] for part in parts]) for degree in field}

    def _of_rows(self, field: Field) -> Field:
        seen = {degree: _limited(values) for degree, values in field.items()}
        a, b, c = self.a(seen), self.b(seen), self.c(seen)
        inner = [(a[degree] * b[degree]).mean(1) for degree in a]
        numbers = torch.cat([seen[0, 0][:, 0], *inner], dim=-1)
        says = self.network(numbers).to(numbers.dtype).split(self.sizes, dim=-1)
        out = {(0, 0): field[0, 0] + says[0][:, None]}
        for degree, gate in zip(a, says[1:-1], strict=True):
            out[degree] = field[degree] + gate[:, None] * a[degree]
        out[1, 0] = out[1, 0] + says[-1][:, None] * _cross(b[1, 0], c[1, 0])
        return out


def _chunks(field: Field) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(values.split(ROWS) for values in field.values()), strict=True)


def _limited(values: Float[Tensor, "N m c"]) -> Float[Tensor, "N m c"]:
    """What is of size 1 stays; what is much larger comes to size √2."""
    square = values.square().mean((1, 2), keepdim=True)
    return values * (2 / (1 + square)).sqrt()


def _cross(a: Float[Tensor, "N 3 c"], b: Float[Tensor, "N 3 c"]) -> Float[Tensor, "N 3 c"]:
    """As ``torch.linalg.cross``, which takes many times as long along a dimension that is not the last."""
    (ax, ay, az), (bx, by, bz) = a.unbind(1), b.unbind(1)
    return torch.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], dim=1)
