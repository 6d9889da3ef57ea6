r"""Messages of a cloud whose layer has one radial function: the angular part leaves the edges too.

    logit_uv = h(r_uv) ⟨P_u, Y(û_uv) ⊗ f_v⟩,    moments_u = Σ_v α_uv h(r_uv) Y(û_uv) ⊗ f_v

Y are the harmonics of all degrees. The probes P (the query contracted with the key weights) come in and the
moments go out once per node, where the Clebsch-Gordan coefficients are part of the weights: no row A_J f_v is
ever made. Both passes are written out, so that training keeps no tensor per edge but the geometry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from bitr.layers.edges import Edges
from bitr.layers.message import attention_backward, attention_weights, cut, node_chunks
from bitr.layers.precision import full_precision


def neighbor_moments(
    features: Float[Tensor, "N f"],
    edges: Edges,
    probe: Float[Tensor, "N h yk f"],
    h_k: Float[Tensor, "N 1 k"],
    h_v: Float[Tensor, "N 1 k"],
    num_harmonics: int,
) -> Float[Tensor, "N h y f"]:
    """The moments with the first ``num_harmonics`` harmonics, of which the probe may have fewer."""
    assert edges.harmonics is not None
    moments = _Moments(edges.index, edges.valid)
    inputs = (features, edges.harmonics[:, :num_harmonics], edges.envelope, h_k, h_v, probe)
    if torch.compiler.is_compiling():  # which finds out by itself what to keep and what to make again
        return moments.forward(*inputs)
    function: Any = _NeighborMoments
    return function.apply(moments, *inputs)


@dataclass(frozen=True)
class _Moments:
    """Forward and backward pass for some nodes; the features are those of all."""

    index: Int[Tensor, "n k"]
    valid: Bool[Tensor, "n k"] | None

    def of(self, nodes: slice) -> _Moments:
        return _Moments(self.index[nodes], None if self.valid is None else self.valid[nodes])

    def forward(
        self,
        features: Tensor,
        harmonics: Float[Tensor, "n y k"],
        envelope: Float[Tensor, "n k"] | None,
        h_k: Tensor,
        h_v: Tensor,
        probe: Tensor,
    ) -> Float[Tensor, "n h y f"]:
        at_neighbors = self._gather(features)
        logits = self._met(probe, harmonics, at_neighbors)[1] * h_k
        share = attention_weights(logits, envelope, self.valid) * h_v
        return (_outer(share, harmonics) @ at_neighbors).unflatten(1, (share.shape[1], -1))

    def backward(
        self,
        d_moments: Float[Tensor, "n h y f"],
        features: Tensor,
        harmonics: Tensor,
        envelope: Tensor | None,
        h_k: Tensor,
        h_v: Tensor,
        probe: Tensor,
        d_features: Tensor,
        geometry: bool,
    ) -> tuple[Tensor | None, ...]:
        """Gradients in (harmonics, envelope, h_k, h_v) and the probe; ``d_features`` is added to.

        Without ``geometry``, of the probe alone.
        """
        at_neighbors, few = self._gather(features), probe.shape[2]
        met, products = self._met(probe, harmonics, at_neighbors)
        logits = products * h_k
        alpha = attention_weights(logits, envelope, self.valid)
        d_met, d_share = self._met(d_moments, harmonics, at_neighbors)
        d_logits, d_envelope = attention_backward(
            alpha, d_share * h_v, logits, envelope if geometry else None
        )
        d_products, share = d_logits * h_k, alpha * h_v
        to_probe = _outer(d_products, harmonics[:, :few])
        d_at_neighbors = to_probe.mT @ probe.flatten(1, 2)
        d_at_neighbors.baddbmm_(_outer(share, harmonics).mT, d_moments.flatten(1, 2))
        d_features.index_add_(0, self.index.flatten(), d_at_neighbors.flatten(0, 1))
        d_probe = (to_probe @ at_neighbors).view(probe.shape)
        if not geometry:
            return None, None, None, None, d_probe
        d_harmonics = (d_met * share[:, :, None]).sum(1)
        d_harmonics[:, :few] += (met * d_products[:, :, None]).sum(1)
        d_h_k, d_h_v = ((a * b).sum(1, keepdim=True) for a, b in ((d_logits, products), (d_share, alpha)))
        return d_harmonics, d_envelope, d_h_k, d_h_v, d_probe

    def _gather(self, features: Tensor) -> Float[Tensor, "n k f"]:
        return features.index_select(0, self.index.flatten()).unflatten(0, self.index.shape)

    def _met(
        self, sides: Float[Tensor, "n h y f"], harmonics: Tensor, at_neighbors: Tensor
    ) -> tuple[Float[Tensor, "n h y k"], Float[Tensor, "n h k"]]:
        """⟨side_u, f_v⟩ for each harmonic, and their sum weighed by the harmonics."""
        met = (sides.flatten(1, 2) @ at_neighbors.mT).unflatten(1, sides.shape[1:3])
        return met, (met * harmonics[:, None, : sides.shape[2]]).sum(2)


def _outer(share: Float[Tensor, "n h k"], harmonics: Float[Tensor, "n y k"]) -> Float[Tensor, "n hy k"]:
    return (share[:, :, None] * harmonics[:, None]).flatten(1, 2)


class _NeighborMoments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, moments: _Moments, features: Tensor, *others: Any) -> Tensor:
        ctx.moments = moments
        ctx.save_for_backward(features, *others)
        parts = [
            moments.of(nodes).forward(features, *cut(others, nodes)) for nodes in node_chunks(moments.index)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_moments: Tensor) -> tuple[Tensor | None, ...]:
        features, *others = ctx.saved_tensors
        geometry = any(ctx.needs_input_grad[2:6])
        d_features, parts = torch.zeros_like(features), []
        with full_precision(features.device):
            for nodes in node_chunks(ctx.moments.index):
                inputs = (d_moments[nodes], features, *cut(others, nodes), d_features)
                parts.append(ctx.moments.of(nodes).backward(*inputs, geometry=geometry))
        return None, d_features, *(None if d[0] is None else torch.cat(d) for d in zip(*parts, strict=True))
