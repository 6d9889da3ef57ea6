r"""What happens on the edges: attention, and the sums over the neighbours that it weighs.

    logit_uv = Σ_z h_z(r_uv) ⟨probe_u, T_uv⟩,    sums_u = Σ_v α_uv h_z(r_uv) T_uv

The probes (the query contracted with the key weights) come in and the sums go out once per node; no weight is
touched here. Both passes are written out, so that training keeps no tensor per edge: the backward pass makes
the rows T and the attention again from the features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from bitr.groups import Degree, Field
from bitr.layers.edges import Edges
from bitr.layers.precision import full_precision
from bitr.layers.rows import Rows, VectorRows, rows_of_any_degree

EDGES_AT_ONCE = 65536
"""Edges whose rows exist at a time."""


def neighbor_sums(
    field: Field,
    edges: Edges,
    degrees: list[Degree],
    probes: dict[Degree, Float[Tensor, "N _ _"]],
    h_k: Float[Tensor, "N z k"],
    h_v: Float[Tensor, "N y k"],
    heads: int,
) -> dict[Degree, Float[Tensor, "N _ _"]]:
    """For each output degree the sums (N, m q, z h), given the probes (N, m q, z h) of some degrees."""
    asked = tuple(degrees.index(o) for o in probes)
    attention = Attention(heads, asked, edges.valid)
    values: list[Any] = [h_k, h_v, edges.envelope, *probes.values()]
    function: Any
    if torch.compiler.is_compiling():  # which finds out by itself what to keep and what to make again
        sums = attention.forward(_by_node(rows_of_any_degree(field, edges, degrees), edges), *values)
    elif edges.angular is None:
        rows = VectorRows.of(field, edges, degrees)
        function = _RecomputedSums
        sums = function.apply(attention, rows, rows.features, rows.direction, *values)
    else:
        of_any = _by_node(rows_of_any_degree(field, edges, degrees), edges)
        function = _Sums
        sums = function.apply(attention, len(degrees), *of_any, *values)
    return dict(zip(degrees, sums, strict=True))


def _by_node(rows: list[Float[Tensor, "E _ _"]], edges: Edges) -> Rows:
    return [t.flatten(1).unflatten(0, edges.index.shape).mT for t in rows]


@dataclass(frozen=True)
class Attention:
    """Forward and backward pass from rows, probes and radial functions to sums."""

    heads: int
    asked: tuple[int, ...]
    """Which of the rows have a probe."""
    valid: Bool[Tensor, "N k"] | None

    def of(self, nodes: slice) -> Attention:
        return self if self.valid is None else replace(self, valid=self.valid[nodes])

    def forward(
        self, rows: Rows, h_k: Tensor, h_v: Tensor, envelope: Tensor | None, *probes: Tensor
    ) -> tuple[Tensor, ...]:
        products = self._products(rows, probes)
        alpha = attention_weights((products * h_k[:, :, None]).sum(1), envelope, self.valid)
        share = self._share(h_v, alpha).mT
        return tuple(t @ share for t in rows)

    def backward(
        self,
        d_sums: tuple[Tensor, ...],
        rows: Rows,
        h_k: Tensor,
        h_v: Tensor,
        envelope: Tensor | None,
        *probes: Tensor,
        geometry: bool,
    ) -> tuple[Rows, list[Tensor | None]]:
        """Gradients in rows and (h_k, h_v, envelope, *probes); without ``geometry``, in rows and probes."""
        products = self._products(rows, probes)
        logits = (products * h_k[:, :, None]).sum(1)
        alpha = attention_weights(logits, envelope, self.valid)
        d_share = _products(d_sums, rows).unflatten(1, (-1, self.heads))
        d_alpha = (d_share * h_v[:, :, None]).sum(1)
        d_logits, d_envelope = attention_backward(alpha, d_alpha, logits, envelope if geometry else None)
        d_products = (d_logits[:, None] * h_k[:, :, None]).flatten(1, 2)
        share = self._share(h_v, alpha)
        d_rows = [d @ share for d in d_sums]
        for o, probe in zip(self.asked, probes, strict=True):
            d_rows[o].baddbmm_(probe, d_products)
        d_probes: list[Tensor | None] = [rows[o] @ d_products.mT for o in self.asked]
        if not geometry:
            return d_rows, [None, None, None, *d_probes]
        d_h_k = (d_logits[:, None] * products).sum(2)
        d_h_v = (d_share * alpha[:, None]).sum(2)
        return d_rows, [d_h_k, d_h_v, d_envelope, *d_probes]

    def _products(self, rows: Rows, probes: Sequence[Tensor]) -> Float[Tensor, "N z h k"]:
        return _products(probes, [rows[o] for o in self.asked]).unflatten(1, (-1, self.heads))

    def _share(self, h_v: Float[Tensor, "N z k"], alpha: Float[Tensor, "N h k"]) -> Float[Tensor, "N zh k"]:
        return (h_v[:, :, None] * alpha[:, None]).flatten(1, 2)


def _products(probes: Sequence[Tensor], rows: Rows) -> Float[Tensor, "N _ k"]:
    """⟨probe_u, T_uv⟩, summed over the degrees."""
    products = probes[0].mT @ rows[0]
    for probe, t in zip(probes[1:], rows[1:], strict=True):
        products = torch.baddbmm(products, probe.mT, t)
    return products


class _Sums(torch.autograd.Function):
    """``Attention`` on rows that autograd made."""

    @staticmethod
    def forward(ctx: Any, attention: Attention, num_rows: int, *inputs: Any) -> tuple[Tensor, ...]:
        ctx.attention, ctx.num_rows = attention, num_rows
        ctx.save_for_backward(*inputs)
        return attention.forward(list(inputs[:num_rows]), *inputs[num_rows:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_sums: Tensor) -> tuple[Tensor | None, ...]:
        inputs, n = ctx.saved_tensors, ctx.num_rows
        with full_precision(inputs[0].device):
            d_rows, others = ctx.attention.backward(d_sums, list(inputs[:n]), *inputs[n:], geometry=True)
        return None, None, *d_rows, *others


class _RecomputedSums(torch.autograd.Function):
    """``Attention`` on rows that are made here, in both passes: nothing per edge is kept but the geometry."""

    @staticmethod
    def forward(ctx: Any, attention: Attention, rows: VectorRows, *inputs: Any) -> tuple[Tensor, ...]:
        ctx.attention, ctx.rows = attention, rows
        ctx.save_for_backward(*inputs)
        features, direction, *others = inputs
        parts = []
        for nodes in node_chunks(rows.index):
            of_nodes = rows.forward(features, direction, nodes)
            parts.append(attention.of(nodes).forward(of_nodes, *cut(others, nodes)))
        return parts[0] if len(parts) == 1 else tuple(torch.cat(sums) for sums in zip(*parts, strict=True))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_sums: Tensor) -> tuple[Tensor | None, ...]:
        features, direction, *others = ctx.saved_tensors
        geometry = any(ctx.needs_input_grad[3:7])
        d_features = torch.zeros_like(features)
        d_directions, parts = [], []
        for nodes in node_chunks(ctx.rows.index):
            at_neighbors = ctx.rows.gather(features, nodes)
            rows = ctx.rows.of_neighbors(at_neighbors, direction[:, nodes])
            with full_precision(features.device):
                d_rows, d_others = ctx.attention.of(nodes).backward(
                    tuple(cut(d_sums, nodes)), rows, *cut(others, nodes), geometry=geometry
                )
            parts.append(d_others)
            d_at, d_direction = ctx.rows.backward(d_rows, at_neighbors, direction[:, nodes], geometry)
            d_features.index_add_(1, ctx.rows.index[nodes].flatten(), d_at)
            d_directions.append(d_direction)
        d_direction = torch.cat(d_directions, dim=1) if geometry else None
        d_others = [None if d[0] is None else torch.cat(d) for d in zip(*parts, strict=True)]
        return None, None, d_features, d_direction, *d_others


def node_chunks(index: Int[Tensor, "N k"]) -> list[slice]:
    """Slices of nodes with at most ``EDGES_AT_ONCE`` edges."""
    size = max(1, EDGES_AT_ONCE // index.shape[1])
    return [slice(start, start + size) for start in range(0, len(index), size)]


def cut(tensors: Iterable[Tensor | None], nodes: slice) -> list[Any]:
    return [None if tensor is None else tensor[nodes] for tensor in tensors]


def attention_weights(
    logits: Float[Tensor, "N h k"], envelope: Float[Tensor, "N k"] | None, valid: Bool[Tensor, "N k"] | None
) -> Float[Tensor, "N h k"]:
    r"""Attention α_uv from its logits: the softmax over the neighbours of u (eq. SE3-attention).

    With an envelope e_uv it is :math:`e_{uv}\exp l_{uv} / (1 + \sum_{v'} e_{uv'} \exp l_{uv'})`: a neighbour
    that leaves has weight 0 before it is gone, and where all are about to leave the message fades. So
    the output is continuous in the points, ties and grids included.
    """
    if envelope is None:
        if valid is None:
            return logits.softmax(-1)
        # Padding rows have no neighbour at all: their weights are 0 instead of 0/0.
        real, least = valid[:, None], torch.finfo(logits.dtype).min
        return logits.masked_fill(~real, least).softmax(-1) * real
    weight = envelope[:, None] * _bounded_exp(logits)
    return weight / (1 + weight.sum(-1, keepdim=True))


def attention_backward(
    alpha: Float[Tensor, "N h k"],
    d_alpha: Float[Tensor, "N h k"],
    logits: Float[Tensor, "N h k"],
    envelope: Float[Tensor, "N k"] | None,
) -> tuple[Float[Tensor, "N h k"], Float[Tensor, "N k"] | None]:
    """Gradients in the logits and, if one is given, in the envelope."""
    centred = d_alpha - (alpha * d_alpha).sum(-1, keepdim=True)
    if envelope is None:
        return alpha * centred, None
    # ∂α/∂e is α/e, also where e = 0
    over_envelope = _bounded_exp(logits)
    total = 1 + (envelope[:, None] * over_envelope).sum(-1, keepdim=True)
    return alpha * centred, (over_envelope / total * centred).sum(1)


def _bounded_exp(logits: Tensor) -> Tensor:
    """exp, constant beyond ±30, where one neighbour has all the weight or none: it cannot overflow."""
    return logits.clamp(-30, 30).exp()
