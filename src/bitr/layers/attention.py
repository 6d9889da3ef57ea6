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
        shared = [degree for degree in rep_out if degree in rep_in]
        rep_query = Rep(dict.fromkeys(shared, heads * head_channels))
        self.radial_k, self.radial_v = radial_k, radial_v
        self.query = DegreeLinear(rep_in, rep_query, tied)
        self.keys = _weights(rep_in, rep_query, heads, radial_k, tied)
        self.values = _weights(rep_in, rep_out, heads, radial_v, tied)
        self.skip = DegreeLinear(rep_in, rep_out, tied) if self_interaction else None
        self.logit_scale = float(sum(components(degree) * head_channels for degree in shared)) ** -0.5

    def forward(self, field: Field, edges: Edges) -> Field:
        query = self.query(field)
        rows = angular_rows(field, edges, sorted({*query, *self.rep_out}))
        alpha = normalised(self._logits(query, rows, edges), edges)
        out = self._sum_of_values(rows, alpha, edges)
        batch = field[0, 0].shape[:2]
        out = {degree: value.unflatten(0, batch) for degree, value in out.items()}
        if self.skip is not None:
            out |= {degree: out[degree] + value for degree, value in self.skip(field).items()}
        return out

    def _logits(self, query: Field, rows: Rows, edges: Edges) -> Float[Tensor, "N h k"]:
        """logit_uv = Σ_z h_z(r_uv) ⟨w_zᵀ Q_u, T_uv⟩: the query meets the weights first, once per node."""
        h, weights = self.radial_k(edges), self.keys()
        logits: Tensor | None = None
        for o, q in query.items():
            w = self.radial_k.mix(weights[o], self.heads) * self.logit_scale
            probe = (q.flatten(0, 1) @ w.mT).reshape(len(h), -1, h.shape[1] * self.heads)  # (N, m q, z h)
            term = probe.mT @ rows[o]
            logits = term if logits is None else logits + term
        assert logits is not None
        return (logits.unflatten(1, (-1, self.heads)) * h[:, :, None]).sum(1)

    def _sum_of_values(self, rows: Rows, alpha: Float[Tensor, "N h k"], edges: Edges) -> Field:
        """out_u = Σ_z w_z (Σ_v α_uv h_z(r_uv) T_uv): the neighbours are summed first, once per node."""
        h, weights = self.radial_v(edges), self.values()
        share = (h[:, :, None] * alpha[:, None]).flatten(1, 2).mT  # (N, k, z h)
        out = {}
        for o in self.rep_out:
            w = self.radial_v.mix(weights[o], self.heads)
            sums = rows[o] @ share  # (N, m q, z h)
            out[o] = sums.reshape(len(sums), components(o), -1) @ w
        return out


def _weights(rep_in: Rep, rep_out: Rep, heads: int, radial: Radial, tied: bool) -> KernelWeights:
    return KernelWeights(rep_in, rep_out, heads, radial.num_weights, radial.swap_order if tied else None)


def normalised(logits: Float[Tensor, "N h k"], edges: Edges) -> Float[Tensor, "N h k"]:
    r"""Attention α_uv from its logits: the softmax over the neighbours of u (eq. SE3-attention).

    With an envelope e_uv it is :math:`e_{uv}\exp l_{uv} / (1 + \sum_{v'} e_{uv'} \exp l_{uv'})`: a neighbour
    that leaves has weight 0 before it is gone, and where all are about to leave the message fades. So
    the output is continuous in the points, ties and grids included.
    """
    if edges.envelope is None:
        if edges.valid is None:
            return logits.softmax(-1)
        # Padding rows have no neighbour at all: their weights are 0 instead of 0/0.
        real, least = edges.valid[:, None], torch.finfo(logits.dtype).min
        return logits.masked_fill(~real, least).softmax(-1) * real
    envelope = edges.envelope[:, None]
    # Capped so that exp cannot overflow, and so that a neighbour at the rim cannot push the others to 0.
    reached = logits.detach().masked_fill(envelope == 0, 0)
    top = reached.amax(-1, keepdim=True).clamp_min(0)
    weight = envelope * (logits - top).clamp_max(0).exp()
    return weight / ((-top).exp() + weight.sum(-1, keepdim=True))
