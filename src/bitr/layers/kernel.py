"""The learned part of the kernel (Bi-SE3-kernel), which is never materialised.

A weight for each (o, i, J₁, J₂), radial function and pair of channels does not depend on the edge, and stays
out of the edge loop: keys and values meet their weights once per node.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bitr.groups import Degree, Rep, components, swapped
from bitr.layers.rows import num_j


class KernelWeights(nn.Module):
    """The learned part of a kernel: w for every (o, i, J₁, J₂), radial function and pair of channels.

    With ``swap_order``, the weights of (õ, ĩ, J₂, J₁) are those of (o, i, J₁, J₂) with the radial
    functions of the other side (Prop. 5.2). The free weights are one vector; ``forward`` spreads them to one
    matrix per output degree, in one of two arrangements: from (q, z, head) to channels, in which a head sees
    no other head's channels, for layers that meet the weights at the nodes (``by_head``); or from radial
    functions z to (q, channel) matrices, for layers that mix them for every edge.
    """

    index: Tensor

    def __init__(
        self,
        rep_in: Rep,
        rep_out: Rep,
        heads: int,
        num_weights: int,
        swap_order: Int[Tensor, " z"] | None,
        by_head: bool,
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
        places = [
            p.reshape(of_o.shape)
            for p, of_o in zip(
                place.split([of_o.numel() for of_o in rows.values()]), rows.values(), strict=True
            )
        ]
        spread = [self._per_head(p, len(free)) if by_head else p for p in places]
        self.by_head = by_head
        self.register_buffer("index", torch.cat([p.flatten() for p in spread]), persistent=False)
        self.shapes = {o: p.shape for o, p in zip(rep_out, spread, strict=True)}
        std = torch.empty(len(free))
        for p, (o, w) in zip(places, rows.items(), strict=True):
            # A_J has Frobenius norm 1, so what it gives has variance 1/(2o+1) per component
            std[p] = (components(o) / (w.shape[0] * w.shape[1])) ** 0.5
        self.free = nn.Parameter(torch.randn(len(free)) * std)

    def forward(self) -> dict[Degree, Tensor]:
        """(q z h, c) for each output degree or, with ``by_head`` off, (z, q, c)."""
        nothing = [self.free.new_zeros(1)] if self.by_head else []
        spread = torch.cat([self.free, *nothing]).index_select(0, self.index)
        matrices = spread.split([shape.numel() for shape in self.shapes.values()])
        return {o: m.reshape(shape) for m, (o, shape) in zip(matrices, self.shapes.items(), strict=True)}

    def of_degrees(self, o: Degree, i: Degree) -> Float[Tensor, "z j1 j2 i o"]:
        """The weights between two degrees, as the paper's equations name them."""
        if self.by_head:
            split = (-1, self.num_weights, self.heads, self.heads, self.rep_out[o] // self.heads)
            own = self()[o].reshape(split).diagonal(dim1=2, dim2=3).movedim(-1, 2).flatten(2)  # (q, z, c)
        else:
            own = self()[o].transpose(0, 1)
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
    """Weights of all input degrees in the order of the rows: (i₂, J₂, i₁, J₁, channel)."""
    lines = []
    for second in sorted({i[1] for i in of_i}):
        line = [of_i[i].transpose(1, 2).flatten(2, 3) for i in sorted(of_i) if i[1] == second]
        lines.append(torch.cat(line, dim=2).flatten(1, 2))
    return torch.cat(lines, dim=1)
