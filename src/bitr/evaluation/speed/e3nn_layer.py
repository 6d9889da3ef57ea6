"""A peer to compare with: SE(3)-transformer layers from e3nn's parts, for one cloud."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Field
from bitr.layers import Chebyshev, Edges


def e3nn_harmonics(edges: Edges, max_degree: int) -> Float[Tensor, "E y"]:
    """e3nn's harmonics of every edge, up to twice ``max_degree``: computed once, as our geometry is."""
    from e3nn import o3

    direction = edges.directions[0].flatten(1).mT
    irreps = o3.Irreps.spherical_harmonics(2 * max_degree, p=1)
    return o3.spherical_harmonics(irreps, direction, normalize=False)


class E3nnLayer(nn.Module):
    """Keys and values by a fully connected tensor product on every edge.

    Its weights are linear in the same radial functions as ours, and attention runs over the same dense
    neighbours. Degrees 0 to ``max_degree``.
    """

    def __init__(self, max_degree: int, channels: int, radial_functions: int) -> None:
        super().__init__()
        from e3nn import o3

        harmonics = o3.Irreps.spherical_harmonics(2 * max_degree, p=1)
        irreps = o3.Irreps([(channels, (degree, 1)) for degree in range(max_degree + 1)])
        self.degrees = range(max_degree + 1)
        self.radial = Chebyshev(1, radial_functions)
        self.query, self.skip = o3.Linear(irreps, irreps), o3.Linear(irreps, irreps)
        self.keys = o3.FullyConnectedTensorProduct(irreps, harmonics, irreps, shared_weights=False)
        self.values = o3.FullyConnectedTensorProduct(irreps, harmonics, irreps, shared_weights=False)
        self.key_weights = nn.Linear(radial_functions, self.keys.weight_numel, bias=False)
        self.value_weights = nn.Linear(radial_functions, self.values.weight_numel, bias=False)

    def forward(self, field: Field, edges: Edges, harmonics: Float[Tensor, "E y"]) -> Field:
        n, k = edges.index.shape
        f = torch.cat([field[degree, 0].mT.flatten(1) for degree in self.degrees], dim=1)
        h = self.radial(edges).mT.flatten(0, 1)
        at_neighbors = f[edges.index.flatten()]
        key = self.keys(at_neighbors, harmonics, self.key_weights(h)).unflatten(0, (n, k))
        value = self.values(at_neighbors, harmonics, self.value_weights(h)).unflatten(0, (n, k))
        # One head, which is the cheaper choice: one weight for all channels.
        logits = (self.query(f)[:, None] * key).sum(-1) / key.shape[-1] ** 0.5
        out = self.skip(f) + (logits.softmax(-1)[..., None] * value).sum(1)
        parts = out.split([field[degree, 0].flatten(1).shape[1] for degree in self.degrees], dim=1)
        return {
            (degree, 0): part.unflatten(1, (-1, 2 * degree + 1)).mT
            for degree, part in zip(self.degrees, parts, strict=True)
        }
