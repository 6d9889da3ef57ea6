"""The learned part of the kernel (Bi-SE3-kernel), which is never materialised.

A weight for each (o, i, J₁, J₂), radial function and pair of channels does not depend on the edge, and stays
out of the edge loop: keys and values meet their weights once per node.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from bitr.groups import Degree, Rep, clebsch_gordan, components, swapped
from bitr.layers.radial import Radial
from bitr.layers.rows import num_j


class KernelWeights(nn.Module):
    """The learned part of a kernel: w for every (o, i, J₁, J₂), radial function and pair of channels.

    With ``tied``, the weights of (õ, ĩ, J₂, J₁) are those of (o, i, J₁, J₂) with the radial functions of the
    other side (Prop. 5.2). The free weights are one vector; ``NodeWeights`` and ``EdgeWeights`` spread them
    to where they are needed, times ``scale``. Once frozen, they keep what they spread.
    """

    index: Tensor
    laid_out: Tensor | None

    def __init__(
        self, rep_in: Rep, rep_out: Rep, radial: Radial, *, heads: int, tied: bool, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.rep_in, self.rep_out, self.heads, self.scale = rep_in, rep_out, heads, scale
        self.register_buffer("laid_out", None, persistent=False)
        names = self._names(radial.num_weights)
        if tied:
            for (o, i), own in list(names.items()):
                mirrored = names[swapped(o), swapped(i)].transpose(1, 2)[radial.swap_order]
                names[o, i] = torch.minimum(own, mirrored)
        rows = {o: _in_order({i: names[o, i] for i in rep_in}) for o in rep_out}
        free, place = torch.cat([of_o.flatten() for of_o in rows.values()]).unique(return_inverse=True)
        places = place.split([of_o.numel() for of_o in rows.values()])
        self.places = {o: p.reshape(rows[o].shape) for o, p in zip(rows, places, strict=True)}
        """For each output degree, where its weights (z, q, c) are among the free ones."""
        std = torch.empty(len(free))
        for o, p in self.places.items():
            # A_J has Frobenius norm 1, so what it gives has variance 1/(2o+1) per component
            std[p] = (components(o) / (p.shape[0] * p.shape[1])) ** 0.5
        self.free = nn.Parameter(torch.randn(len(free)) * std)

    def spread(self, radial: Radial) -> Float[Tensor, " w"]:
        """All weights, in the order in which they are used."""
        return self._lay_out(radial) if self.laid_out is None else self.laid_out

    def freeze(self, radial: Radial) -> None:
        """Lay the weights out once and for all: what becomes of the free ones no longer matters."""
        self.laid_out = self.spread(radial).detach()

    def _lay_out(self, radial: Radial) -> Float[Tensor, " w"]:
        return self.free.index_select(0, self.index) * self.scale

    def of_degrees(self, o: Degree, i: Degree) -> Float[Tensor, "z j1 j2 i o"]:
        """The weights between two degrees, as the paper's equations name them."""
        own = self.free[self.places[o]].transpose(0, 1)
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


class NodeWeights(KernelWeights):
    """For layers that meet the weights at the nodes: a matrix from (q, z, head) to channels for each degree,
    in which a head sees no other head's channels.
    """

    def __init__(
        self, rep_in: Rep, rep_out: Rep, radial: Radial, *, heads: int, tied: bool, scale: float = 1.0
    ) -> None:
        super().__init__(rep_in, rep_out, radial, heads=heads, tied=tied, scale=scale)
        by_head = {o: self._per_head(p, len(self.free)) for o, p in self.places.items()}
        self.shapes = {o: p.shape for o, p in by_head.items()}
        self.register_buffer("index", torch.cat([p.flatten() for p in by_head.values()]), persistent=False)

    def forward(self, radial: Radial) -> dict[Degree, Float[Tensor, "qzh c"]]:
        matrices = self.spread(radial).split([shape.numel() for shape in self.shapes.values()])
        return {o: m.view(shape) for m, (o, shape) in zip(matrices, self.shapes.items(), strict=True)}

    def _lay_out(self, radial: Radial) -> Float[Tensor, " w"]:
        free = torch.cat([self.free, self.free.new_zeros(1)])  # the zero of other heads' channels
        return free.index_select(0, self.index) * self.scale

    def _per_head(self, place: Int[Tensor, "z q c"], nowhere: int) -> Int[Tensor, "qzh c"]:
        z, q, c = place.shape
        own = torch.eye(self.heads, dtype=torch.bool)[:, :, None]
        split = place.transpose(0, 1).reshape(q, z, 1, self.heads, c // self.heads)
        return torch.where(own, split, nowhere).reshape(q * z * self.heads, c)


class MomentWeights(KernelWeights):
    """For layers that sum Y ⊗ f over the neighbours: one matrix from (head, harmonic, feature) to the output,
    features and outputs as (degree, component, channel).

    An entry is a Clebsch-Gordan coefficient times the weight of its (o, i, J). The radial functions are one
    function times their values at 1, so that Σ_z φ_z(1) w_z stands for all w_z.
    """

    by_function: Tensor

    def __init__(
        self, rep_in: Rep, rep_out: Rep, radial: Radial, *, heads: int, tied: bool, scale: float = 1.0
    ) -> None:
        super().__init__(rep_in, rep_out, radial, heads=heads, tied=tied, scale=scale)
        self.num_harmonics = (rep_in.max_degree + rep_out.max_degree + 1) ** 2
        index, coefficient = zip(*(self._of_output(o) for o in rep_out), strict=True)
        self.register_buffer("index", torch.cat(index, dim=-1).flatten(), persistent=False)
        of_function = torch.cat([p.flatten(1) for p in self.places.values()], dim=1)
        self.register_buffer("by_function", of_function, persistent=False)
        # no buffer: it must not lose its digits when a model goes to float32 and back
        self.coefficient = torch.cat(coefficient, dim=-1) * scale

    def forward(self, radial: Radial) -> Float[Tensor, "hyf o"]:
        return self.spread(radial).view(-1, self.coefficient.shape[-1])

    def _lay_out(self, radial: Radial) -> Float[Tensor, " w"]:
        at_one = radial.at_one()
        assert at_one is not None
        free = at_one @ self.free.index_select(0, self.by_function.flatten()).view(self.by_function.shape)
        return free.index_select(0, self.index) * self.coefficient.flatten().to(free)

    def _of_output(self, o: Degree) -> tuple[Int[Tensor, "h y f m"], Float64[Tensor, "h y f m"]]:
        """Which weight, and its coefficient, for the components and channels of one output degree."""
        channels = self.rep_out[o]
        before = sum(p[0].numel() for d, p in self.places.items() if d < o)
        weights = torch.arange(before, before + self.places[o][0].numel()).view(-1, channels)  # (i, J, c)
        shape = (self.heads, self.num_harmonics, self._num_features, components(o), channels)
        index, coefficient = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.float64)
        own = torch.eye(self.heads).repeat_interleave(channels // self.heads, dim=1)[:, None, None, None]
        row = feature = 0
        for i, c in self.rep_in.items():
            features = slice(feature, feature + components(i) * c)
            feature = features.stop
            for j in range(abs(o[0] - i[0]), o[0] + i[0] + 1):
                block = (slice(None), slice(j**2, (j + 1) ** 2), features)
                of_path = weights[row : row + c].repeat(components(i), 1)[:, None]
                index[block] = of_path
                table = clebsch_gordan(o[0], i[0], j).permute(2, 1, 0).repeat_interleave(c, dim=1)
                coefficient[block] = table[None, ..., None] * own
                row += c
        return index.flatten(3), coefficient.flatten(3)

    @property
    def _num_features(self) -> int:
        return sum(components(i) * c for i, c in self.rep_in.items())


class EdgeWeights(KernelWeights):
    """For layers that mix the weights at the edges: from radial functions to (o, channel, q), by head."""

    def __init__(
        self, rep_in: Rep, rep_out: Rep, radial: Radial, *, heads: int, tied: bool, scale: float = 1.0
    ) -> None:
        super().__init__(rep_in, rep_out, radial, heads=heads, tied=tied, scale=scale)
        by_head = [p.mT.unflatten(1, (heads, -1)).transpose(0, 1).flatten(2) for p in self.places.values()]
        index = torch.cat(by_head, dim=2)
        self.shape = index.shape
        self.register_buffer("index", index.flatten(), persistent=False)

    def forward(self, radial: Radial) -> Float[Tensor, "h z _"]:
        return self.spread(radial).view(self.shape)


def _in_order(of_i: dict[Degree, Int[Tensor, "z _ _ _ o"]]) -> Int[Tensor, "z q o"]:
    """Weights of all input degrees in the order of the rows: (i₂, J₂, i₁, J₁, channel)."""
    lines = []
    for second in sorted({i[1] for i in of_i}):
        line = [of_i[i].transpose(1, 2).flatten(2, 3) for i in sorted(of_i) if i[1] == second]
        lines.append(torch.cat(line, dim=2).flatten(1, 2))
    return torch.cat(lines, dim=1)
