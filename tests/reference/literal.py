"""The transformer layer as the paper writes it: one kernel matrix per edge, pair of degrees and channels."""

from __future__ import annotations

import torch
from e3nn import o3
from torch import Tensor

from bitr.groups import Degree, Field
from bitr.layers import Chebyshev, Edges, Radial, TransformerLayer
from bitr.layers.edges import SOFTNESS

Sides = list[Tensor]


def angular(o: int, i: int, j: int, direction: Tensor) -> Tensor:
    """unvec(Q_J Y_J(ẑ)) for one side, with e3nn's harmonics and Clebsch-Gordan constants."""
    y = o3.spherical_harmonics([j], direction, normalize=False, normalization="norm")
    q = o3.wigner_3j(o, i, j, dtype=torch.float64) * (2 * j + 1) ** 0.5
    return torch.einsum("oij,j->oi", q, y)


def radial_functions(radial: Radial, lengths: Sides) -> Tensor:
    """All h_z of one edge: cosines for Chebyshev polynomials, the whole network for the paper's φ."""
    r = torch.stack(lengths)
    if isinstance(radial, Chebyshev):
        t = 2 * r / (1 + r) - 1
        h = [torch.cos(n * torch.arccos(t)) for n in range(round(radial.num_weights ** (1 / len(lengths))))]
        if len(lengths) == 1:
            return torch.stack([value[0] for value in h])
        return torch.stack([a[0] * b[1] for a in h for b in h])
    if len(lengths) == 1:
        return radial.trunk(r)
    return torch.cat([radial.trunk(r), radial.trunk(r.flip(0))])


def kernel(weights: Tensor, h: Tensor, o: Degree, i: Degree, directions: Sides) -> Tensor:
    """𝒲^{o,i}(z) of eq. (8), as (c_out, c_in, (2o₁+1)(2o₂+1), (2i₁+1)(2i₂+1))."""
    total = 0
    for a, j1 in enumerate(range(abs(o[0] - i[0]), o[0] + i[0] + 1)):
        for b, j2 in enumerate(range(abs(o[1] - i[1]), o[1] + i[1] + 1)):
            phi = torch.einsum("z,zio->oi", h, weights[:, a, b])
            first = angular(o[0], i[0], j1, directions[0])
            second = angular(o[1], i[1], j2, directions[1]) if len(directions) == 2 else torch.eye(1)
            total = total + phi[:, :, None, None] * torch.kron(first, second.to(first))
    return total


def literal_layer(
    layer: TransformerLayer, field: Field, points: Tensor, edges: Edges, unit: float | None
) -> Field:
    """Eqs. (5) to (7) for one cloud (n, d) with features (n, m, c)."""
    heads = layer.heads
    query = {
        o: torch.einsum("nmc,cd->nmd", field[o], layer.query.weights[layer.query._key(o)])
        for o in layer.query.degrees
    }
    out = {o: [] for o in layer.rep_out}
    for u in range(len(points)):
        logits, values = [], []
        for v in edges.index[u].tolist():
            z = points[v] - points[u]
            sides = list(z.reshape(-1, 3) / (unit or 1))
            lengths = [(s.square().sum() + (SOFTNESS**2 if unit else 0)).sqrt() for s in sides]
            directions = [s / r for s, r in zip(sides, lengths, strict=True)]
            h_k = radial_functions(layer.radial_k, lengths)
            h_v = radial_functions(layer.radial_v, lengths)
            logit = torch.zeros(heads, dtype=points.dtype)
            for o in query:
                key = 0
                for i in field:
                    w = kernel(layer.keys.of_degrees(o, i), h_k, o, i, directions)
                    key = key + torch.einsum("oimn,ni->mo", w, field[i][v])
                product = (query[o][u] * key).sum(0)
                logit = logit + product.reshape(heads, -1).sum(1)
            logits.append(logit * layer.logit_scale)
            value = {}
            for o in layer.rep_out:
                value[o] = 0
                for i in field:
                    w = kernel(layer.values.of_degrees(o, i), h_v, o, i, directions)
                    value[o] = value[o] + torch.einsum("oimn,ni->mo", w, field[i][v])
            values.append(value)
        weight = torch.stack(logits).exp()
        if unit:
            distance = (points[edges.index[u]] - points[u]).norm(dim=-1)
            weight = weight * (1 - (distance / distance.max()) ** 2)[:, None] ** 2
            alpha = weight / (1 + weight.sum(0))
        else:
            alpha = weight / weight.sum(0)
        for o in layer.rep_out:
            message = 0
            for a, value in zip(alpha, values, strict=True):
                per_head = value[o].unflatten(-1, (heads, -1)) * a[:, None]
                message = message + per_head.flatten(-2)
            if layer.skip is not None and o in field:
                message = message + field[o][u] @ layer.skip.weights[layer.skip._key(o)]
            out[o].append(message)
    return {o: torch.stack(rows) for o, rows in out.items()}


def literal_elu(mu: Tensor, nu: Tensor) -> Tensor:
    """Eq. (9) on (m, c): per channel F_μ, or F_μ without its part along F_ν / ‖F_ν‖."""
    columns = []
    for f_mu, f_nu in zip(mu.T, nu.T, strict=True):
        unit = f_nu / f_nu.norm()
        columns.append(f_mu if f_mu @ f_nu >= 0 else f_mu - (f_mu @ unit) * unit)
    return torch.stack(columns, dim=-1)
