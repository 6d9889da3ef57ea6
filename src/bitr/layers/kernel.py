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
from bitr.layers.edges import Edges
from bitr.layers.neighbors import gather_neighbors

Rows = dict[Degree, Float[Tensor, "b n _ _ k"]]
"""T^o: for each output degree, m components by q = (i, J₁, J₂, channel), on every edge."""


def num_j(o: int, i: int) -> int:
    """How many J couple the degrees o and i of one side: |o − i| … o + i."""
    return 2 * min(o, i) + 1


def angular_rows(field: Field, edges: Edges, degrees: Iterable[Degree]) -> Rows:
    """All A_{J₁} f_v A_{J₂}ᵀ of the neighbours' features, for the given output degrees."""
    field = {i: field[i] for i in sorted(field)}  # the order of the weights
    packed = torch.cat([value.flatten(2) for value in field.values()], dim=-1)
    at_neighbors = gather_neighbors(packed, edges.index)
    blocks: dict[Degree, list[Tensor]] = {o: [] for o in degrees}
    start = 0
    for i, value in field.items():
        size = value.shape[2] * value.shape[3]
        f = at_neighbors[:, :, start : start + size].unflatten(2, (2 * i[0] + 1, 2 * i[1] + 1, -1))
        start += size
        for o, block in _blocks(f, i, edges, blocks):
            blocks[o].append(block)
    return {o: torch.cat(list_of_i, dim=3) for o, list_of_i in blocks.items()}


def _blocks(
    f: Float[Tensor, "b n m1 m2 c k"], i: Degree, edges: Edges, degrees: Iterable[Degree]
) -> Iterable[tuple[Degree, Float[Tensor, "b n m q k"]]]:
    """The part of T^o that comes from one input degree, for each o."""
    turned = _apply(edges.angular[0][i[0]], f.flatten(3, 4)).unflatten(3, f.shape[3:5])
    if edges.sides == 2:
        turned = _apply(edges.angular[1][i[1]], turned.transpose(2, 3).flatten(3, 4))
        turned = turned.unflatten(3, (-1, f.shape[4])).transpose(2, 3)
    for o in degrees:
        part = turned[:, :, _row_slice(o[0], i[0])]
        if edges.sides == 1:
            yield o, part.unflatten(2, (2 * o[0] + 1, -1)).flatten(3, 5)
        else:
            part = part[:, :, :, _row_slice(o[1], i[1])]
            part = part.unflatten(3, (2 * o[1] + 1, -1)).unflatten(2, (2 * o[0] + 1, -1))
            yield o, part.transpose(3, 4).flatten(4, 6).flatten(2, 3)


def _row_slice(o: int, i: int) -> slice:
    """Where the rows (m_o, J) of output degree o stand among those of input degree i on one side."""
    start = sum((2 * before + 1) * num_j(before, i) for before in range(o))
    return slice(start, start + (2 * o + 1) * num_j(o, i))


def _apply(matrix: Float[Tensor, "b n r m k"], f: Float[Tensor, "b n m x k"]) -> Float[Tensor, "b n r x k"]:
    """Matrix times vector on every edge, as a sum over the few components: long rows, no tiny products."""
    result = matrix[:, :, :, 0, None] * f[:, :, None, 0]
    for m in range(1, f.shape[2]):
        result = torch.addcmul(result, matrix[:, :, :, m, None], f[:, :, None, m])
    return result


class KernelWeights(nn.Module):
    """The learned part of a kernel: w for every (o, i, J₁, J₂), radial function and pair of channels.

    With ``swap_order``, the weights of (õ, ĩ, J₂, J₁) are those of (o, i, J₁, J₂) with the radial
    functions of the other side (Prop. 5.2); where both are the same weight, it is symmetrised.
    """

    swap_order: Tensor | None

    def __init__(
        self, rep_in: Rep, rep_out: Rep, num_weights: int, swap_order: Int[Tensor, "z"] | None
    ) -> None:
        super().__init__()
        self.rep_in, self.rep_out = rep_in, rep_out
        self.register_buffer("swap_order", swap_order, persistent=False)
        self.weights = nn.ParameterDict()
        for o in rep_out:
            num_q = sum(num_j(o[0], i[0]) * num_j(o[1], i[1]) * rep_in[i] for i in rep_in)
            for i in rep_in:
                if swap_order is not None and (o, i) > (swapped(o), swapped(i)):
                    continue
                shape = (num_weights, num_j(o[0], i[0]), num_j(o[1], i[1]), rep_in[i], rep_out[o])
                # A_J has Frobenius norm 1, so what it gives has variance 1/(2o+1) per component
                std = (components(o) / (num_weights * num_q)) ** 0.5
                self.weights[_key(o, i)] = nn.Parameter(torch.randn(shape) * std)

    def forward(self, o: Degree) -> Float[Tensor, "z q c"]:
        """All weights of one output degree, in the order of the q of ``Rows``."""
        return torch.cat([self.of_degrees(o, i).flatten(1, 3) for i in self.rep_in], dim=1)

    def of_degrees(self, o: Degree, i: Degree) -> Float[Tensor, "z j1 j2 i o"]:
        if self.swap_order is None:
            return self.weights[_key(o, i)]
        there = (swapped(o), swapped(i))
        if (o, i) < there:
            return self.weights[_key(o, i)]
        mirrored = self.weights[_key(*there)].transpose(1, 2)[self.swap_order]
        return mirrored if (o, i) > there else (mirrored + self.weights[_key(o, i)]) / 2


def _key(o: Degree, i: Degree) -> str:
    return f"{o[0]}{o[1]}_{i[0]}{i[1]}"
