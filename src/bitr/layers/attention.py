"""The SE(3)×SE(3)-transformer layer (eqs. Bi-SE3-layer, SE3-attention, bi-query), fast and exact.

    logit_uv = Σ_z h_z(r_uv) ⟨w_zᵀ Q_u, T_uv⟩        the query meets the weights first, once per node
    out_u    = Σ_z w_z (Σ_v α_uv h_z(r_uv) T_uv)     the neighbours are summed first, then meet the weights

With degrees (p, 0) and one-sided edges it is the SE(3)-transformer layer of App. A.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.groups import Degree, Field, Rep, components
from bitr.layers.edge_message import edge_messages
from bitr.layers.edges import Edges
from bitr.layers.kernel import EdgeWeights, KernelWeights, MomentWeights, NodeWeights
from bitr.layers.linear import DegreeLinear
from bitr.layers.message import neighbor_sums
from bitr.layers.moments import neighbor_moments
from bitr.layers.precision import full_precision
from bitr.layers.radial import Radial


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
        self.rep_out, self.heads = rep_out, heads
        shared = [degree for degree in rep_out if degree in rep_in]
        if (0, 0) not in rep_in or not shared:
            raise InputError(
                f"from {rep_in} to {rep_out}: expected scalars at the input and a degree in common"
            )
        rep_query = Rep(dict.fromkeys(shared, heads * head_channels))
        self.radial_k, self.radial_v = radial_k, radial_v
        self.two_sided = any(second for _, second in (*rep_in, *rep_out))
        self.query = DegreeLinear(rep_in, rep_query, tied)
        self.logit_scale = float(sum(components(degree) * head_channels for degree in shared)) ** -0.5
        weights: type[KernelWeights] = NodeWeights if radial_k.at_one() is None else MomentWeights
        if self.two_sided:
            weights = EdgeWeights
        self.keys = weights(rep_in, rep_query, radial_k, heads=heads, tied=tied, scale=self.logit_scale)
        self.values = weights(rep_in, rep_out, radial_v, heads=heads, tied=tied)
        self.skip = DegreeLinear(rep_in, rep_out, tied) if self_interaction else None

    def forward(self, field: Field, edges: Edges) -> Field:
        if self.two_sided:
            out = self._by_edges(field, edges)
        elif isinstance(self.values, MomentWeights):
            out = self._by_moments(field, edges, self.values)
        else:
            out = self._by_nodes(field, edges)
        if self.skip is not None:
            out |= {degree: out[degree] + value for degree, value in self.skip(field).items()}
        return out

    def freeze(self) -> None:
        """Lay the weights of keys and values out once and for all."""
        self.keys.freeze(self.radial_k)
        self.values.freeze(self.radial_v)

    def _by_edges(self, field: Field, edges: Edges) -> Field:
        w_k, w_v = self.keys(self.radial_k), self.values(self.radial_v)
        h_k, h_v = self.radial_k(edges), self.radial_v(edges)
        return edge_messages(field, edges, self.query(field), dict(self.rep_out), w_k, w_v, h_k, h_v)

    def _by_moments(self, field: Field, edges: Edges, values: MomentWeights) -> Field:
        features, query = packed(field), packed(self.query(field))
        probe = (query @ self.keys(self.radial_k).mT).to(query.dtype)
        h_k, h_v = self.radial_k(edges), self.radial_v(edges)
        with full_precision(probe.device):
            probe = probe.view(len(probe), self.heads, -1, features.shape[1])
            moments = neighbor_moments(features, edges, probe, h_k, h_v, values.num_harmonics)
        return unpacked((moments.flatten(1) @ values(self.radial_v)).to(moments.dtype), self.rep_out)

    def _by_nodes(self, field: Field, edges: Edges) -> Field:
        h_k, h_v = self.radial_k(edges), self.radial_v(edges)
        probes = self._probes(field, h_k.shape[1])
        with full_precision(h_k.device):
            sums = neighbor_sums(field, edges, list(self.rep_out), probes, h_k, h_v, self.heads)
        return self._values(sums)

    def _probes(self, field: Field, num_functions: int) -> dict[Degree, Float[Tensor, "N _ _"]]:
        """w_zᵀ Q_u, the query contracted with the weights of the keys: (m q, z h) at every node."""
        weights, probes = self.keys(self.radial_k), {}
        for o, q in self.query(field).items():
            probe = (q @ weights[o].mT).to(q.dtype)
            probes[o] = probe.reshape(len(probe), -1, num_functions * self.heads)
        return probes

    def _values(self, sums: dict[Degree, Float[Tensor, "N _ _"]]) -> Field:
        """Σ_z w_z (Σ_v α_uv h_z T_uv): the weights of the values on the sums over the neighbours."""
        weights = self.values(self.radial_v)
        return {
            o: (of_o.reshape(len(of_o), components(o), -1) @ weights[o]).to(of_o.dtype)
            for o, of_o in sums.items()
        }


def packed(field: Field) -> Float[Tensor, "N f"]:
    """All features of a point side by side: (degree, component, channel)."""
    return torch.cat([field[degree].flatten(1) for degree in sorted(field)], dim=1)


def unpacked(values: Float[Tensor, "N f"], rep: Rep) -> Field:
    """The other way round."""
    parts = values.split([components(o) * c for o, c in rep.items()], dim=1)
    return {o: part.unflatten(1, (components(o), c)) for part, (o, c) in zip(parts, rep.items(), strict=True)}
