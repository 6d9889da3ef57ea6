"""The angular rows T_uv: all A_{J₁} f_v A_{J₂}ᵀ of the neighbours' features, side by side.

The angular part of the kernel (Bi-SE3-kernel) acts on a degree-(i₁, i₂) feature F as
F ↦ A_{J₁}(ẑ¹) F A_{J₂}(ẑ²)ᵀ. For an output degree o, the results for all i, J₁, J₂ and channels are the rows
(m, q) of T^o: components by q = (i₂, J₂, i₁, J₁, channel).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bitr.groups import Degree, Field
from bitr.layers.edges import Edges

Rows = list[Float[Tensor, "_ _ k"]]
"""T^o of each output degree, for some nodes: (n, m q, k)."""


def num_j(o: int, i: int) -> int:
    """How many J couple the degrees o and i of one side: |o − i| … o + i."""
    return 2 * min(o, i) + 1


# Give û × v, v and û(û·v) − v|û|²/3 the size of A_J v, whose matrix has Frobenius norm 1, for J = 1, 0 and 2.
CROSS, SAME, SECOND, TRACE = 2**-0.5, 3**-0.5, 1.5**0.5, 6**-0.5
TURNS = ((1, 2), (2, 0), (0, 1))


@dataclass(frozen=True)
class VectorRows:
    """One side and degrees 0 and 1, where A_J is a dot, cross or outer product; with a backward pass."""

    features: Float[Tensor, "f N"]
    direction: Float[Tensor, "3 N k"]
    index: Int[Tensor, "N k"]
    num_scalars: int
    degrees: list[Degree]

    @classmethod
    def of(cls, field: Field, edges: Edges, degrees: list[Degree]) -> VectorRows:
        scalars = field[0, 0].flatten(1)
        packed = torch.cat([field[1, 0].flatten(1), scalars], dim=1) if (1, 0) in field else scalars
        return cls(packed.mT.contiguous(), edges.directions[0], edges.index, scalars.shape[1], degrees)

    def forward(
        self, features: Float[Tensor, "f N"], direction: Float[Tensor, "3 N k"], nodes: slice
    ) -> Rows:
        return self.of_neighbors(self.gather(features, nodes), direction[:, nodes])

    def gather(self, features: Float[Tensor, "f N"], nodes: slice) -> Float[Tensor, "x n k"]:
        """Features at the neighbours, vectors before scalars, and room behind them for û·v."""
        index = self.index[nodes]
        c0, c1 = self.num_scalars, self._num_vectors(features)
        at_neighbors = features.new_empty(3 * c1 + c0 + c1, *index.shape)
        torch.index_select(features, 1, index.flatten(), out=at_neighbors[: 3 * c1 + c0].flatten(1))
        return at_neighbors

    def _num_vectors(self, features: Tensor) -> int:
        return (len(features) - self.num_scalars) // 3

    def _parts(self, at_neighbors: Float[Tensor, "x n k"]) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors (3, c, n, k), scalars and dot products at the neighbours."""
        c1 = (len(at_neighbors) - self.num_scalars) // 4
        v, s, dot = at_neighbors.split([3 * c1, self.num_scalars, c1])
        return v.unflatten(0, (3, c1)), s, dot

    def of_neighbors(self, at_neighbors: Float[Tensor, "x n k"], u: Float[Tensor, "3 n k"]) -> Rows:
        """Every row is written once, to where it is needed."""
        v, s, dot = self._parts(at_neighbors)
        torch.mul(u[0], v[0], out=dot).addcmul_(u[1], v[1]).addcmul_(u[2], v[2])
        rows = []
        for o in self.degrees:
            if o == (0, 0):
                rows.append(at_neighbors[3 * len(dot) :].transpose(0, 1))
                continue
            t = u.new_empty(3, len(s) + 3 * len(dot), *u.shape[1:])
            outer, same, turned, second = t.split([len(s), len(dot), len(dot), len(dot)], dim=1)
            torch.mul(u[:, None], s, out=outer)
            torch.mul(v, SAME, out=same)
            scaled = u * CROSS
            for m, (i, j) in enumerate(TURNS):
                torch.mul(v[i], scaled[j], out=turned[m]).addcmul_(v[j], scaled[i], value=-1)
            torch.mul(u[:, None], dot * SECOND, out=second).addcmul_(v, u.square().sum(0), value=-TRACE)
            rows.append(t.flatten(0, 1).transpose(0, 1))
        return rows

    def backward(
        self, d_rows: Rows, at_neighbors: Float[Tensor, "f N k"], u: Float[Tensor, "3 N k"], geometry: bool
    ) -> tuple[Float[Tensor, "_ _"], Float[Tensor, "3 N k"] | None]:
        """Gradients in the features at the neighbours and, if asked for, in the directions."""
        v, s, dot = self._parts(at_neighbors)
        c0, c1 = len(s), len(dot)
        d_at = torch.zeros_like(at_neighbors)
        d_v, d_s, d_dot = self._parts(d_at)
        d_u = torch.zeros_like(u) if geometry else None
        for o, d_t in zip(self.degrees, d_rows, strict=True):
            d_t = d_t.transpose(0, 1)
            if o == (0, 0):
                d_at[3 * c1 :] += d_t
                continue
            d_outer, d_same, d_turned, d_second = d_t.unflatten(0, (3, -1)).split([c0, c1, c1, c1], dim=1)
            torch.mul(d_same, SAME, out=d_v).addcmul_(d_second, u.square().sum(0), value=-TRACE)
            for m, (i, j) in enumerate(TURNS):
                d_s.addcmul_(u[m], d_outer[m])
                d_dot.addcmul_(u[m], d_second[m], value=SECOND)
                d_v[m].addcmul_(u[i], d_turned[j], value=CROSS).addcmul_(u[j], d_turned[i], value=-CROSS)
            if d_u is not None:
                sums = [(d_outer * s).sum(1), (torch.stack(_cross(d_turned, v)) * CROSS).sum(1)]
                sums.append((d_second * dot).sum(1) * SECOND)
                d_u = sum(sums) - (2 * TRACE) * u * (d_second * v).sum((0, 1))
        d_v.addcmul_(u[:, None], d_dot)
        if d_u is not None:
            d_u = d_u + (v * d_dot).sum(1)
        return d_at[: 3 * c1 + c0].flatten(1), d_u


def _cross(a: Tensor, b: Tensor) -> list[Float[Tensor, "c N k"]]:
    """a × b, of which one may have no channels."""
    return [torch.addcmul(a[i] * b[j], a[j], b[i], value=-1) for i, j in TURNS]


def rows_of_any_degree(field: Field, edges: Edges, degrees: list[Degree]) -> list[Float[Tensor, "E _ _"]]:
    """Both sides' angular matrices, of all (o, i, J) at once, times each neighbour's features as a matrix."""
    side, sides = edges.max_degree + 1, edges.sides
    assert edges.angular is not None
    c = max(value.shape[2] for value in field.values())
    at_neighbors = as_square(field, side, sides).index_select(0, edges.index.flatten())
    sizes = [(2 * o + 1) * sum(num_j(o, i) for i in range(side)) for o in range(side)]
    rows = edges.angular[0] @ at_neighbors.flatten(2)
    if sides == 2:
        rows = rows.unflatten(2, (-1, c)).transpose(1, 2).flatten(2)
        rows = (edges.angular[1] @ rows).unflatten(2, (-1, c))  # (E, r₂, r₁, c)
        lines = [line.split(sizes, dim=2) for line in rows.split(sizes, dim=1)]
    else:
        lines = [rows.unflatten(2, (1, c)).transpose(1, 2).split(sizes, dim=2)]
    result = []
    for o in degrees:
        part = lines[o[1]][o[0]].unflatten(2, (2 * o[0] + 1, -1)).unflatten(1, (2 * o[1] + 1, -1))
        part = part.permute(0, 3, 1, 2, 4, 5).flatten(3).flatten(1, 2)  # (E, m₁ m₂, J₂ J₁ c)
        result.append(part[:, :, kept_rows(field, o, side, sides, c)])
    return result


def as_square(field: Field, side: int, sides: int) -> Float[Tensor, "N _ _ c"]:
    """All features of a point as one matrix, x components by y components; zero where a degree is missing."""
    some, c = field[0, 0], max(value.shape[2] for value in field.values())
    lines = []
    for p in range(side):
        line = []
        for q in range(side if sides == 2 else 1):
            value = (
                field[p, q] if (p, q) in field else some.new_zeros(len(some), (2 * p + 1) * (2 * q + 1), c)
            )
            if value.shape[2] < c:
                value = nn.functional.pad(value, (0, c - value.shape[2]))
            line.append(value.unflatten(1, (2 * p + 1, 2 * q + 1)))
        lines.append(torch.cat(line, dim=2))
    return torch.cat(lines, dim=1)


def kept_rows(field: Field, o: Degree, side: int, sides: int, c: int) -> slice | Int[Tensor, " q"]:
    """Which (i₂, J₂, i₁, J₁, channel) exist, where degrees have different numbers of channels."""
    others = range(side if sides == 2 else 1)
    channels = {(p, q): field[p, q].shape[2] if (p, q) in field else 0 for q in others for p in range(side)}
    if all(number == c for number in channels.values()):
        return slice(None)
    exists = [
        channel < channels[p, q]
        for q in others
        for _ in range(num_j(o[1], q))
        for p in range(side)
        for _ in range(num_j(o[0], p))
        for channel in range(c)
    ]
    places = [place for place, there in enumerate(exists) if there]
    return torch.tensor(places, device=field[0, 0].device)
