"""Messages of few nodes with many radial functions: the weights are mixed for every edge, then meet the rows.

    key_uv = T_uv (Σ_z h_z(r_uv) w_z)

The merged cloud has a few dozen nodes, and its z·heads products per row would outnumber the channels. What is
kept per edge for the backward pass does not grow with the clouds.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.groups import Degree, Field
from bitr.layers.edges import Edges
from bitr.layers.message import attention_weights
from bitr.layers.rows import rows_of_any_degree


Weights = dict[Degree, Float[Tensor, "_ _ _"]]
"""From the rows of each degree to channels, for every radial function or for every edge."""


def edge_messages(
    field: Field,
    edges: Edges,
    query: Field,
    keys: Weights,
    values: Weights,
    h_k: Float[Tensor, "N z k"],
    h_v: Float[Tensor, "N y k"],
    heads: int,
) -> Field:
    """Σ_v α_uv V_uv for each degree of ``values``, with α from the products of ``query`` and keys."""
    mixed = _mixed_together(keys, values, h_k) if h_k is h_v else _mixed_apart(keys, values, h_k, h_v)
    value, logits = {}, edges.lengths.new_zeros(*edges.index.shape, heads)
    for o, rows in zip(values, rows_of_any_degree(field, edges, list(values)), strict=True):
        both = (rows @ mixed[o]).unflatten(0, edges.index.shape)
        if o in query:
            key, value[o] = both.split([query[o].shape[2], both.shape[3] - query[o].shape[2]], dim=3)
            logits = logits + (key * query[o][:, None]).unflatten(3, (heads, -1)).sum((2, 4))
        else:
            value[o] = both
    alpha = attention_weights(logits.mT, edges.envelope, edges.valid).mT[:, :, None, :, None]
    return {o: (v.unflatten(3, (heads, -1)) * alpha).sum(1).flatten(2) for o, v in value.items()}


def _mixed_together(keys: Weights, values: Weights, h: Float[Tensor, "N z k"]) -> Weights:
    """Σ_z h_z w_z of keys and values side by side, where both have the same radial functions."""
    return _mixed({o: torch.cat([keys[o], w], dim=2) if o in keys else w for o, w in values.items()}, h)


def _mixed_apart(keys: Weights, values: Weights, h_k: Tensor, h_v: Tensor) -> Weights:
    of_keys, of_values = _mixed(keys, h_k), _mixed(values, h_v)
    return {o: torch.cat([of_keys[o], w], dim=2) if o in keys else w for o, w in of_values.items()}


def _mixed(weights: Weights, h: Float[Tensor, "N z k"]) -> Weights:
    sizes = [w.shape[1:] for w in weights.values()]
    flat = torch.cat([w.flatten(1) for w in weights.values()], dim=1)
    mixed = (h.mT.flatten(0, 1) @ flat).split([size.numel() for size in sizes], dim=1)
    return {o: w.unflatten(1, size) for o, w, size in zip(weights, mixed, sizes, strict=True)}
