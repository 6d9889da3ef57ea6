"""The SE(3)×SE(3)-transformer layer (eqs. Bi-SE3-layer, SE3-attention, bi-query), fast and exact.

With degrees (p, 0) and one-sided edges it is the SE(3)-transformer layer of App. A.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.groups import Field, Rep, components
from bitr.layers.edges import Edges
from bitr.layers.kernel import KernelWeights, Rows, angular_rows
from bitr.layers.linear import DegreeLinear
from bitr.layers.radial import Radial


class TransformerLayer(nn.Module):
    """f ↦ W f + Σ_v α_uv V_uv, with several heads, each giving its share of the output channels.

    ``radial_k`` and ``radial_v`` are the radial functions of keys and values. ``tied`` shares the weights
    that the swap law asks to be equal. ``self_interaction`` is off where the output has another scale
    degree than the input (Prop. 5.4).
    """

    def __init__(
        self,
        rep_in: Rep,
        rep_out: Rep,
        radial_k: Radial,
        radial_v: Radial,
        *,
        heads: int,
        head_channels: int,
        tied: bool,
        self_interaction: bool = True,
    ) -> None:
        super().__init__()
        if any(channels % heads for channels in rep_out.values()):
            raise InputError(f"the channels of {rep_out} must be multiples of the number of heads, {heads}")
        self.rep_out, self.heads = rep_out, heads
        rep_query = Rep(dict.fromkeys(rep_in, heads * head_channels))
        self.radial_k, self.radial_v = radial_k, radial_v
        self.query = DegreeLinear(rep_in, rep_query, tied)
        self.keys = KernelWeights(
            rep_in, rep_query, radial_k.num_weights, radial_k.swap_order if tied else None
        )
        self.values = KernelWeights(
            rep_in, rep_out, radial_v.num_weights, radial_v.swap_order if tied else None
        )
        self.skip = DegreeLinear(rep_in, rep_out, tied) if self_interaction else None
        self.logit_scale = float(sum(components(degree) * head_channels for degree in rep_in)) ** -0.5

    def forward(self, field: Field, edges: Edges) -> Field:
        query = self.query(field)
        rows = angular_rows(field, edges, sorted({*query, *self.rep_out}))
        alpha = normalised(self._logits(query, rows, edges), edges)
        out = self._sum_of_values(rows, alpha, edges)
        if self.skip is not None:
            out |= {degree: out[degree] + value for degree, value in self.skip(field).items()}
        return out

    def _logits(self, query: Field, rows: Rows, edges: Edges) -> Float[Tensor, "b n h k"]:
        """logit_uv = Σ_z h_z(r_uv) ⟨w_zᵀ Q_u, T_uv⟩: the query meets the weights first, once per node."""
        h = self.radial_k(edges)
        terms = []
        for o, q in query.items():
            w = self._per_head(self.radial_k.mix(self.keys(o)))
            probe = (q @ w.mT).reshape(*q.shape[:2], -1, h.shape[2] * self.heads)  # (b, n, m q, z h)
            terms.append(probe.mT @ rows[o].flatten(2, 3))
        logits = torch.stack(terms).sum(0)
        return torch.einsum("bnzhk,bnzk->bnhk", logits.unflatten(2, (-1, self.heads)), h) * self.logit_scale

    def _sum_of_values(self, rows: Rows, alpha: Float[Tensor, "b n h k"], edges: Edges) -> Field:
        """out_u = Σ_z w_z (Σ_v α_uv h_z(r_uv) T_uv): the neighbours are summed first, once per node."""
        h = self.radial_v(edges)
        share = (h[:, :, :, None] * alpha[:, :, None]).flatten(2, 3).mT  # (b, n, k, z h)
        out = {}
        for o in self.rep_out:
            w = self._per_head(self.radial_v.mix(self.values(o)))
            sums = rows[o].flatten(2, 3) @ share  # (b, n, m q, z h)
            out[o] = sums.reshape(*sums.shape[:2], components(o), -1) @ w
        return out

    def _per_head(self, weights: Float[Tensor, "z q c"]) -> Float[Tensor, "qzh c"]:
        """Weights as one matrix from (q, z, head) to channels; a head does not see the others' channels."""
        z, q, c = weights.shape
        own = torch.eye(self.heads, dtype=weights.dtype, device=weights.device)
        split = weights.transpose(0, 1).reshape(q, z, 1, self.heads, c // self.heads)
        return (split * own[:, :, None]).reshape(q * z * self.heads, c)


def normalised(logits: Float[Tensor, "b n h k"], edges: Edges) -> Float[Tensor, "b n h k"]:
    r"""Attention α_uv from its logits: the softmax over the neighbours of u (eq. SE3-attention).

    With an envelope e_uv it is :math:`e_{uv}\exp l_{uv} / (1 + \sum_{v'} e_{uv'} \exp l_{uv'})`: a neighbour
    that leaves has weight 0 before it is gone, and where all are about to leave the message fades. So
    the output is continuous in the points, ties and grids included.
    """
    if edges.envelope is None:
        if edges.valid is None:
            return logits.softmax(-1)
        real = edges.valid[:, :, None]
        # Padding rows have no neighbour at all: their weights are 0 instead of 0/0.
        return logits.masked_fill(~real, torch.finfo(logits.dtype).min).softmax(-1) * real
    envelope = edges.envelope[:, :, None]
    reached = logits.detach().masked_fill(envelope == 0, 0)  # one at the rim must not push the others to 0
    top = reached.amax(-1, keepdim=True).clamp_min(0)
    weight = envelope * (logits - top).clamp_max(0).exp()
    return weight / ((-top).exp() + weight.sum(-1, keepdim=True))
