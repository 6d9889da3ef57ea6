"""Messages of few nodes with many radial functions: the weights are mixed for every edge, then meet the rows.

    key_uv = T_uv (Σ_z h_z(r_uv) w_z)

The merged cloud has a few dozen nodes, and its z·heads products per row would outnumber the channels. What is
kept per edge for the backward pass does not grow with the clouds.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from bitr.groups import Degree, Field, components
from bitr.layers.edges import Edges
from bitr.layers.message import attention_weights
from bitr.layers.rows import rows_of_any_degree

Weights = dict[Degree, Float[Tensor, "_ _ _"]]
"""For each output degree from (z, q) to channels."""


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
    for o in values.keys() - keys.keys():  # a degree that no query asks for: keys of no channels
        query = {**query, o: h_k.new_zeros(len(h_k), components(o), 0)}
        keys = {**keys, o: h_k.new_zeros(h_k.shape[1], values[o].shape[1], 0)}
    shared = h_k is h_v
    h = (h_k if shared else torch.cat([h_k, h_v], dim=1)).mT.flatten(0, 1)
    weights = [_side_by_side(keys[o], values[o], shared) for o in values]
    messages = _weighted(rows_of_any_degree(field, edges, list(values)), weights, h)
    messages = messages.unflatten(0, edges.index.shape)
    probe = torch.cat([_probe(query[o], values[o].shape[2], heads) for o in values], dim=1)
    alpha = attention_weights((messages @ probe).mT, edges.envelope, edges.valid)
    sums = (alpha @ messages).split(
        [components(o) * w.shape[2] for o, w in zip(values, weights, strict=True)], 2
    )
    return {
        o: _own_channels(of_o.unflatten(2, (components(o), -1))[..., -values[o].shape[2] :])
        for o, of_o in zip(values, sums, strict=True)
    }


def _weighted(rows: list[Tensor], weights: list[Tensor], h: Float[Tensor, "E z"]) -> Float[Tensor, "E _"]:
    """T_uv (Σ_z h_z w_z) of all degrees, (m, channel) side by side."""
    sizes = [w.shape[1:] for w in weights]
    mixed = h @ torch.cat([w.flatten(1) for w in weights], dim=1)
    per_edge = [
        w.unflatten(1, size)
        for w, size in zip(mixed.split([size.numel() for size in sizes], dim=1), sizes, strict=True)
    ]
    return torch.cat([(t @ w).flatten(1) for t, w in zip(rows, per_edge, strict=True)], dim=1)


def _side_by_side(
    key: Float[Tensor, "z q ck"], value: Float[Tensor, "y q cv"], shared: bool
) -> Float[Tensor, "_ q _"]:
    """Weights that give key and value, from radial functions that they share or that each has for itself."""
    if shared:
        return torch.cat([key, value], dim=2)
    return torch.cat([pad(key, (0, value.shape[2])), pad(value, (key.shape[2], 0))])


def _probe(query: Float[Tensor, "N m ck"], of_value: int, heads: int) -> Float[Tensor, "N _ h"]:
    """The query as it meets (m, channels of key and value): a head sees its own channels of the key."""
    by_head = query.unflatten(2, (heads, query.shape[2] // heads)).mT
    return pad(by_head.diag_embed(dim1=2, dim2=4).flatten(2, 3), (0, 0, 0, of_value)).flatten(1, 2)


def _own_channels(sums: Float[Tensor, "N h m c"]) -> Float[Tensor, "N m c"]:
    """Each head's weights on the channels that are its own."""
    own = sums.unflatten(3, (sums.shape[1], -1)).diagonal(dim1=1, dim2=3)  # (N, m, c of a head, h)
    return own.mT.flatten(2)
