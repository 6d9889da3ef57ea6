"""Messages of few nodes with many radial functions: channels meet the rows first, radial functions last.

    logit_uv = Σ_z h_z(r_uv) ⟨w_z, T_uvᵀ Q_u⟩,    out_u = Σ_v T_uv (Σ_z α_uv h_z(r_uv) w_z)

The merged cloud has a few dozen nodes, and its z·heads products per row would outnumber the channels. What is
kept per edge for the backward pass, which is written out, does not grow with the clouds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from bitr.groups import Degree, Field
from bitr.layers.edges import Edges
from bitr.layers.message import attention_backward, attention_weights
from bitr.layers.pair_rows import PairRows
from bitr.layers.precision import full_precision
from bitr.layers.rows import as_square, kept_rows


def edge_messages(
    field: Field,
    edges: Edges,
    query: Field,
    channels: dict[Degree, int],
    w_k: Float[Tensor, "h z _"],
    w_v: Float[Tensor, "h y _"],
    h_k: Float[Tensor, "N z k"],
    h_v: Float[Tensor, "N y k"],
) -> Field:
    """Σ_v α_uv V_uv for each degree of ``channels``, with α from the products of ``query`` and keys."""
    side, degrees = edges.max_degree + 1, list(channels)
    square = as_square(field, side, 2)
    kept = [kept_rows(field, o, side, 2, square.shape[3]) for o in degrees]
    rows = PairRows(edges.index, edges.max_degree, degrees, kept)
    messages = _Messages(rows, tuple(channels.values()), tuple(degrees.index(o) for o in query), edges.valid)
    geometry: Any = (edges.angular, edges.envelope)
    inputs = (square, *geometry, w_k, w_v, h_k.mT, h_v.mT, *query.values())
    if torch.compiler.is_compiling():  # which finds out by itself what to keep and what to make again
        out = messages.forward(*inputs)[0]
    else:
        function: Any = _EdgeMessages
        out = function.apply(messages, *inputs)
    return dict(zip(degrees, out, strict=True))


@dataclass(frozen=True)
class _Messages:
    """Forward and backward pass, from features, geometry, weights and queries to messages."""

    rows: PairRows
    channels: tuple[int, ...]
    """Of the messages of each degree."""
    asked: tuple[int, ...]
    """Which of the rows have a query."""
    valid: Bool[Tensor, "N k"] | None

    def forward(
        self,
        square: Tensor,
        angular: Tensor,
        envelope: Tensor | None,
        w_k: Tensor,
        w_v: Tensor,
        h_k: Float[Tensor, "N k z"],
        h_v: Float[Tensor, "N k y"],
        *query: Tensor,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The messages, and what the backward pass wants to know."""
        rows, known = self.rows.forward(square, angular)
        s = _by_edge([q.mT @ rows[o] for o, q in zip(self.asked, query, strict=True)], len(w_k), h_k.shape[1])
        g = (s @ w_k.mT).unflatten(1, h_k.shape[:2])
        alpha = attention_weights((g * h_k).sum(-1).transpose(0, 1), envelope, self.valid)
        mixed = (_of_heads(alpha) * h_v).flatten(1, 2) @ w_v
        values = _by_node(mixed, rows, self.channels, h_v.shape[1])
        out = tuple(t @ v.mT for t, v in zip(rows, values, strict=True))
        return out, (s, g, alpha, *known, *rows, *values)

    def backward(
        self,
        d_out: Sequence[Tensor],
        kept: Sequence[Tensor],
        square: Tensor,
        angular: Tensor,
        envelope: Tensor | None,
        w_k: Tensor,
        w_v: Tensor,
        h_k: Tensor,
        h_v: Tensor,
        *query: Tensor,
    ) -> tuple[Tensor | None, ...]:
        s, g, alpha, *known = kept[:5]
        rows, values = kept[5 : 5 + len(d_out)], kept[5 + len(d_out) :]
        k, a = h_k.shape[1], _of_heads(alpha)
        d_mixed = _by_edge([d.mT @ t for d, t in zip(d_out, rows, strict=True)], len(w_v), k)
        d_share = (d_mixed @ w_v.mT).unflatten(1, h_v.shape[:2])
        d_w_v = (a * h_v).flatten(1, 2).mT @ d_mixed
        d_alpha = (d_share * h_v).sum(-1).transpose(0, 1)
        d_logits, d_envelope = attention_backward(alpha, d_alpha, (g * h_k).sum(-1).transpose(0, 1), envelope)
        d_l = _of_heads(d_logits)
        d_g = (d_l * h_k).flatten(1, 2)
        d_s = _by_node(d_g @ w_k, [rows[o] for o in self.asked], [q.shape[2] for q in query], k)
        d_rows = [d @ v for d, v in zip(d_out, values, strict=True)]
        for o, q, d in zip(self.asked, query, d_s, strict=True):
            d_rows[o].baddbmm_(q, d)
        d_query = [rows[o] @ d.mT for o, d in zip(self.asked, d_s, strict=True)]
        d_h_k, d_h_v = (g * d_l).sum(0), (d_share * a).sum(0)
        d_square, d_angular = self.rows.backward(d_rows, known, square, angular)
        return d_square, d_angular, d_envelope, d_g.mT @ s, d_w_v, d_h_k, d_h_v, *d_query


class _EdgeMessages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, messages: _Messages, *inputs: Any) -> tuple[Tensor, ...]:
        out, kept = messages.forward(*inputs)
        ctx.messages, ctx.num_inputs = messages, len(inputs)
        ctx.save_for_backward(*inputs, *kept)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_out: Tensor) -> tuple[Tensor | None, ...]:
        saved, n = ctx.saved_tensors, ctx.num_inputs
        with full_precision(d_out[0].device):
            return None, *ctx.messages.backward(d_out, saved[n:], *saved[:n])


def _of_heads(of_edges: Float[Tensor, "N h k"]) -> Float[Tensor, "h N k 1"]:
    return of_edges.transpose(0, 1)[..., None]


def _by_edge(by_node: list[Float[Tensor, "N c _"]], heads: int, k: int) -> Float[Tensor, "h E _"]:
    """From (N, c, k q) of every degree to (h, N k, c q), where c are the channels of a head."""
    parts = [part.unflatten(1, (heads, -1)).unflatten(3, (k, -1)).permute(1, 0, 3, 2, 4) for part in by_node]
    sizes = [part.shape[3] * part.shape[4] for part in parts]
    result, start = by_node[0].new_empty(*parts[0].shape[:3], sum(sizes)), 0
    for part, size in zip(parts, sizes, strict=True):
        result.narrow(3, start, size).unflatten(3, part.shape[3:]).copy_(part)
        start += size
    return result.flatten(1, 2)


def _by_node(
    by_edge: Float[Tensor, "h E _"], rows: Sequence[Tensor], channels: Sequence[int], k: int
) -> list[Float[Tensor, "N c _"]]:
    """The other way round."""
    heads, n = len(by_edge), len(rows[0])
    shapes = [(c // heads, t.shape[2] // k) for c, t in zip(channels, rows, strict=True)]
    parts = by_edge.unflatten(1, (n, k)).split([c * q for c, q in shapes], dim=3)
    return [
        part.unflatten(3, shape).permute(1, 0, 3, 2, 4).flatten(3).flatten(1, 2)
        for part, shape in zip(parts, shapes, strict=True)
    ]
