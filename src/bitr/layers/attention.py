"""The SE(3)×SE(3)-transformer layer, eqs. (5) to (7), with the weights outside the sum over the neighbours.

    logit_uv = Σ_z h_z(r_uv) ⟨w_zᵀ Q_u, T_uv⟩        the query meets the weights first, once per node
    out_u    = Σ_z w_z (Σ_v α_uv h_z(r_uv) T_uv)     the neighbours are summed first, then meet the weights

With degrees (p, 0) and one-sided edges it is the SE(3)-transformer layer of App. A.
"""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bitr.errors import InputError
from bitr.groups import Degree, Field, Rep, components
from bitr.layers.edges import Edges, Radial, full_precision
from bitr.layers.kernel import KernelWeights, angular_rows
from bitr.layers.pointwise import DegreeLinear

EDGES_AT_ONCE = 65536  # edges whose rows exist at a time


class TransformerLayer(nn.Module):
    """f ↦ W f + Σ_v α_uv V_uv, with several heads, each giving its share of the output channels.

    ``radial_k`` and ``radial_v`` are the radial functions of keys and values. ``tied`` shares the weights
    that the swap law asks to be equal. ``self_interaction`` is off where the output has another scale
    degree than the input (Prop. 5.5).
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
        shared = [degree for degree in rep_out if degree in rep_in]
        if (0, 0) not in rep_in or not shared:
            raise InputError(
                f"from {rep_in} to {rep_out}: expected scalars at the input and a degree in common"
            )
        self.rep_out, self.heads = rep_out, heads
        rep_query = Rep(dict.fromkeys(shared, heads * head_channels))
        self.radial_k, self.radial_v = radial_k, radial_v
        self.query = DegreeLinear(rep_in, rep_query, tied)
        self.logit_scale = float(sum(components(degree) * head_channels for degree in shared)) ** -0.5
        self.keys = KernelWeights(rep_in, rep_query, radial_k, heads=heads, tied=tied, scale=self.logit_scale)
        self.values = KernelWeights(rep_in, rep_out, radial_v, heads=heads, tied=tied)
        self.skip = DegreeLinear(rep_in, rep_out, tied) if self_interaction else None

    def forward(self, field: Field, edges: Edges) -> Field:
        # w_zᵀ Q_u: the query of each node meets the weights of the keys, (m q, z h)
        w_k, w_v = self.keys(self.radial_k), self.values(self.radial_v)
        columns = self.radial_k.num_functions * self.heads
        probes = {
            o: (q @ w_k[o].mT).to(q.dtype).reshape(len(q), -1, columns) for o, q in self.query(field).items()
        }
        # Σ_z w_z (Σ_v α_uv h_z T_uv): the sums over the neighbours meet the weights of the values
        out = {
            o: (sums.reshape(len(sums), components(o), -1) @ w_v[o]).to(sums.dtype)
            for o, sums in self._sum_neighbors(field, edges, probes).items()
        }
        if self.skip is not None:
            out |= {degree: out[degree] + value for degree, value in self.skip(field).items()}
        return out

    def _sum_neighbors(
        self, field: Field, edges: Edges, probes: dict[Degree, Float[Tensor, "N _ zh"]]
    ) -> dict[Degree, Float[Tensor, "N _ zh"]]:
        """Σ_v α_uv h_z T_uv, in chunks of nodes.

        On large clouds the backward pass makes rows and attention again: training keeps nothing per edge but
        the geometry. The merged cloud is so small that they are kept.
        """
        count, k = edges.index.shape
        size = max(1, EDGES_AT_ONCE // k)
        again = torch.is_grad_enabled() and edges.sides == 1 and not torch.compiler.is_compiling()
        parts = []
        for start in range(0, count, size):
            nodes = slice(start, start + size)
            of_nodes = {o: probe[nodes] for o, probe in probes.items()}
            job = partial(self._attend, field, edges if size >= count else edges.of(nodes), of_nodes)
            parts.append(checkpoint(job, use_reentrant=False, preserve_rng_state=False) if again else job())
        if len(parts) == 1:
            return parts[0]
        return {o: torch.cat([part[o] for part in parts]) for o in self.rep_out}

    def _attend(
        self, field: Field, edges: Edges, probes: dict[Degree, Float[Tensor, "n _ zh"]]
    ) -> dict[Degree, Float[Tensor, "n _ zh"]]:
        """Attention of some nodes, and their neighbours' rows summed with it."""
        with full_precision(edges.lengths.device):
            h_k, h_v = self.radial_k(edges), self.radial_v(edges)
            rows = dict(zip(self.rep_out, angular_rows(field, edges, list(self.rep_out)), strict=True))
            products: Tensor | None = None  # ⟨w_zᵀ Q_u, T_uv⟩, summed over the degrees
            for o, probe in probes.items():
                own = probe.mT
                products = own @ rows[o] if products is None else torch.baddbmm(products, own, rows[o])
            assert products is not None
            logits = (products.unflatten(1, (-1, self.heads)) * h_k[:, :, None]).sum(1)
            alpha = attention_weights(logits, edges.envelope, edges.valid)
            share = (h_v[:, :, None] * alpha[:, None]).flatten(1, 2).mT
            return {o: t @ share for o, t in rows.items()}


def attention_weights(
    logits: Float[Tensor, "n h k"], envelope: Float[Tensor, "n k"] | None, valid: Bool[Tensor, "n k"] | None
) -> Float[Tensor, "n h k"]:
    r"""Attention α_uv from its logits: the softmax over the neighbours of u, eq. (6).

    With an envelope e_uv it is :math:`e_{uv}\exp l_{uv} / (1 + \sum_{v'} e_{uv'} \exp l_{uv'})`: a neighbour
    that leaves has weight 0 before it is gone, and where all are about to leave the message fades. So
    the output is continuous in the points, ties and grids included. Logits count up to ±30, where one
    neighbour has all the weight or none: exp cannot overflow.
    """
    if envelope is None:
        if valid is None:
            return logits.softmax(-1)
        # Padding rows have no neighbour at all: their weights are 0 instead of 0/0.
        real, least = valid[:, None], torch.finfo(logits.dtype).min
        return logits.masked_fill(~real, least).softmax(-1) * real
    weight = envelope[:, None] * logits.clamp(-30, 30).exp()
    return weight / (1 + weight.sum(-1, keepdim=True))
