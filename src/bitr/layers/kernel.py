r"""The kernel (Bi-SE3-kernel), never materialised: angular rows on the edges, weights on the nodes.

The angular part of the kernel acts on a degree-(i₁, i₂) feature F as F ↦ A_{J₁}(ẑ¹) F A_{J₂}(ẑ²)ᵀ. For an
output degree o, the results for all i, J₁, J₂ and channels stand side by side: T^o_uv, of shape (m, q).
What is learned, a weight for each q, radial function and output channel, does not depend on the edge and
stays out of the edge loop.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bitr.groups import Degree, Field, Rep, components, swapped
from bitr.layers.edges import Edges, gather_neighbors

Rows = dict[Degree, Float[Tensor, "N _ k"]]
"""T^o: per neighbour and output degree, rows (m, q): components by q = (i₁, J₁, i₂, J₂, channel)."""


def num_j(o: int, i: int) -> int:
    """How many J couple the degrees o and i of one side: |o − i| … o + i."""
    return 2 * min(o, i) + 1


def angular_rows(field: Field, edges: Edges, degrees: Iterable[Degree]) -> Rows:
    """All A_{J₁} f_v A_{J₂}ᵀ of the neighbours' features, for the given output degrees."""
    if edges.sides == 1 and edges.max_degree == 1:
        return _rows_of_vectors(field, edges, degrees)
    return _rows_of_any_degree(field, edges, degrees)


def _rows_of_vectors(field: Field, edges: Edges, degrees: Iterable[Degree]) -> Rows:
    """One side and degrees 0 and 1, where A_J is a dot, cross or outer product."""
    packed = torch.cat([field[i].flatten(2) for i in sorted(field)], dim=2).flatten(0, 1)
    at_neighbors = gather_neighbors(packed.mT.contiguous(), edges.index)
    s, u = at_neighbors[: field[0, 0].shape[3]], edges.directions[0][:, None]
    if (1, 0) not in field:
        rows = {o: s if o == (0, 0) else (u * s).flatten(0, 1) for o in degrees}
    else:
        v = at_neighbors[len(s) :].unflatten(0, (3, -1))
        dot = (u * v).sum(0)
        rows = {}
        for o in degrees:
            if o == (0, 0):
                rows[o] = torch.cat([s, dot])
            else:
                cross = [v[1] * u[2] - v[2] * u[1], v[2] * u[0] - v[0] * u[2], v[0] * u[1] - v[1] * u[0]]
                second = u * (dot * 1.5**0.5) - v * (u.square().sum(0) * 6**-0.5)
                # The factors give the matrices of J = 0, 1, 2 Frobenius norm 1, as all A_J have.
                by_j = (v * 3**-0.5, torch.stack(cross) * 2**-0.5, second)
                rows[o] = torch.cat([u * s, *by_j], dim=1).flatten(0, 1)
    return {o: value.transpose(0, 1) for o, value in rows.items()}


def _rows_of_any_degree(field: Field, edges: Edges, degrees: Iterable[Degree]) -> Rows:
    """Both sides' angular matrices, of all (o, i, J) at once, times each neighbour's features as a matrix."""
    side, sides = edges.max_degree + 1, edges.sides
    c = max(value.shape[3] for value in field.values())
    at_neighbors = _square(field, side, sides, c).index_select(0, edges.index.flatten())
    rows = edges.angular[0] @ at_neighbors.flatten(2)
    if sides == 2:
        rows = rows.unflatten(2, (-1, c)).mT.flatten(1, 2) @ edges.angular[1].mT
        rows = rows.unflatten(1, (-1, c)).mT  # (E, r₁, r₂, c)
    else:
        rows = rows[:, :, None]
    sizes = [(2 * o + 1) * sum(num_j(o, i) for i in range(side)) for o in range(side)]
    lines = [line.split(sizes if sides == 2 else 1, dim=2) for line in rows.split(sizes, dim=1)]
    result = {}
    for o in degrees:
        part = lines[o[0]][o[1]]
        part = part.unflatten(2, (2 * o[1] + 1, -1)).unflatten(1, (2 * o[0] + 1, -1)).transpose(2, 3)
        part = part.flatten(3).flatten(1, 2)[:, :, _kept(field, o, side, sides, c)]
        result[o] = part.flatten(1).unflatten(0, edges.index.shape).mT
    return result


def _square(field: Field, side: int, sides: int, c: int) -> Float[Tensor, "N _ _ c"]:
    """All features of a point as one matrix, x components by y components; zero where a degree is missing."""
    some = field[0, 0].flatten(0, 1)
    lines = []
    for p in range(side):
        line = []
        for q in range(side if sides == 2 else 1):
            shape = (len(some), 2 * p + 1, 2 * q + 1, c)
            if (p, q) not in field:
                line.append(some.new_zeros(shape))
            else:
                value = field[p, q].flatten(0, 1)
                line.append(nn.functional.pad(value, (0, c - value.shape[2])).reshape(shape))
        lines.append(torch.cat(line, dim=2))
    return torch.cat(lines, dim=1)


def _kept(field: Field, o: Degree, side: int, sides: int, c: int) -> slice | Int[Tensor, "q"]:
    """Which (i₁, J₁, i₂, J₂, channel) exist, where degrees have different numbers of channels."""
    channels = torch.tensor(
        [[field[p, q].shape[3] if (p, q) in field else 0 for q in range(side)] for p in range(side)]
    )
    if sides == 1:
        channels = channels[:, :1]
    if bool((channels == c).all()):
        return slice(None)
    j1 = torch.tensor([num_j(o[0], i) for i in range(side)])
    j2 = torch.tensor([num_j(o[1], i) for i in range(side if sides == 2 else 1)])
    each = channels.repeat_interleave(j1, 0).repeat_interleave(j2, 1)
    return (torch.arange(c) < each[..., None]).flatten().nonzero()[:, 0].to(field[0, 0].device)


class KernelWeights(nn.Module):
    """The learned part of a kernel: w for every (o, i, J₁, J₂), radial function and pair of channels.

    With ``swap_order``, the weights of (õ, ĩ, J₂, J₁) are those of (o, i, J₁, J₂) with the radial
    functions of the other side (Prop. 5.2). The free weights are one vector; ``forward`` spreads them to one
    matrix per output degree, from (q, z, head) to channels, in which a head sees no other head's channels.
    """

    index: Tensor

    def __init__(
        self, rep_in: Rep, rep_out: Rep, heads: int, num_weights: int, swap_order: Int[Tensor, "z"] | None
    ) -> None:
        super().__init__()
        self.rep_in, self.rep_out, self.heads, self.num_weights = rep_in, rep_out, heads, num_weights
        names = self._names(num_weights)
        if swap_order is not None:
            for (o, i), own in list(names.items()):
                mirrored = names[swapped(o), swapped(i)].transpose(1, 2)[swap_order]
                names[o, i] = torch.minimum(own, mirrored)
        rows = {o: _in_order({i: names[o, i] for i in rep_in}) for o in rep_out}
        every = torch.cat([of_o.flatten() for of_o in rows.values()])
        free, place = every.unique(return_inverse=True)
        places = place.split([of_o.numel() for of_o in rows.values()])
        spread = [
            self._per_head(p.reshape(w.shape), len(free)) for p, w in zip(places, rows.values(), strict=True)
        ]
        self.register_buffer("index", torch.cat([p.flatten() for p in spread]), persistent=False)
        self.shapes = {o: p.shape for o, p in zip(rep_out, spread, strict=True)}
        std = torch.empty(len(free))
        for p, (o, w) in zip(places, rows.items(), strict=True):
            # A_J has Frobenius norm 1, so what it gives has variance 1/(2o+1) per component
            std[p] = (components(o) / (w.shape[0] * w.shape[1])) ** 0.5
        self.free = nn.Parameter(torch.randn(len(free)) * std)

    def forward(self) -> dict[Degree, Float[Tensor, "qzh c"]]:
        spread = torch.cat([self.free, self.free.new_zeros(1)]).index_select(0, self.index)
        matrices = spread.split([shape.numel() for shape in self.shapes.values()])
        return {o: m.reshape(shape) for m, (o, shape) in zip(matrices, self.shapes.items(), strict=True)}

    def of_degrees(self, o: Degree, i: Degree) -> Float[Tensor, "z j1 j2 i o"]:
        """The weights between two degrees, as the paper's equations name them."""
        by_head = self()[o].reshape(
            -1, self.num_weights, self.heads, self.heads, self.rep_out[o] // self.heads
        )
        own = by_head.diagonal(dim1=2, dim2=3).movedim(-1, 2).flatten(2)  # (q, z, c)
        names = self._names(1)
        order = _in_order({d: names[o, d][..., :1] for d in self.rep_in}).flatten()
        wanted = names[o, i][..., :1]
        place = (order == wanted.flatten()[:, None]).long().argmax(1)
        return own[place].transpose(0, 1).unflatten(1, wanted.shape[1:4])

    def _names(self, num_weights: int) -> dict[tuple[Degree, Degree], Int[Tensor, "z j1 j2 i o"]]:
        """A number for every weight, before any are tied."""
        names, start = {}, 0
        for o in self.rep_out:
            for i in self.rep_in:
                shape = torch.Size(
                    [num_weights, num_j(o[0], i[0]), num_j(o[1], i[1]), self.rep_in[i], self.rep_out[o]]
                )
                names[o, i] = torch.arange(start, start + shape.numel()).reshape(shape)
                start += shape.numel()
        return names

    def _per_head(self, place: Int[Tensor, "z q c"], nowhere: int) -> Int[Tensor, "qzh c"]:
        z, q, c = place.shape
        own = torch.eye(self.heads, dtype=torch.bool)[:, :, None]
        split = place.transpose(0, 1).reshape(q, z, 1, self.heads, c // self.heads)
        return torch.where(own, split, nowhere).reshape(q * z * self.heads, c)


def _in_order(of_i: dict[Degree, Int[Tensor, "z _ _ _ o"]]) -> Int[Tensor, "z q o"]:
    """Weights of all input degrees in the order of the rows: (i₁, J₁, i₂, J₂, channel)."""
    lines = []
    for first in sorted({i[0] for i in of_i}):
        line = [of_i[i] for i in sorted(of_i) if i[0] == first]
        lines.append(torch.cat(line, dim=2).flatten(1, 3) if len(line) > 1 else line[0].flatten(1, 3))
    return torch.cat(lines, dim=1)
