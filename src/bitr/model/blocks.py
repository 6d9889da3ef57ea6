"""How a config becomes layers; both networks are made of these."""

from __future__ import annotations

from torch import nn

from bitr.groups import Field, Rep
from bitr.layers import (
    Chebyshev,
    Clouds,
    Edges,
    Elu,
    FieldNorm,
    Homogeneous,
    Radial,
    TransformerLayer,
)
from bitr.model.config import BITRConfig

SOFT_ELU = 0.1
SHARP_ELU = 1e-12
LEAK = 0.2
"""As in the authors' code, which the paper does not mention."""


class Block(nn.Module):
    """A transformer layer and an Elu layer, the field brought to size 1 between them."""

    def __init__(self, config: BITRConfig, rep_in: Rep, rep_out: Rep, sides: int) -> None:
        super().__init__()
        self.layer = transformer_layer(config, rep_in, rep_out, sides)
        epsilon = SOFT_ELU if config.smooth else SHARP_ELU
        self.elu = Elu(rep_out, tied=_tied(config, sides), epsilon=epsilon, leak=LEAK)
        self.norm = FieldNorm(center=sides == 1) if config.normalize else None

    def forward(self, field: Field, edges: Edges, clouds: Clouds) -> Field:
        field = self.layer(field, edges)
        return self.elu(field if self.norm is None else self.norm(field, clouds))


def transformer_layer(
    config: BITRConfig, rep_in: Rep, rep_out: Rep, sides: int, value_degree: int = 0
) -> TransformerLayer:
    """A layer whose output has scale degree ``value_degree``.

    Our radial functions see lengths over a length, so that every field has degree 0 and the output gets its
    unit back at the end. The paper's last layer is of degree 1, without self-interaction; its model without
    the scale law (App. D.3) has values of degree 1 in all layers.
    """
    lengths_are_pure = config.radial == "chebyshev"
    return TransformerLayer(
        rep_in,
        rep_out,
        radial_k=_radial(config, sides, 0),
        radial_v=_radial(config, sides, value_degree if config.scale else 1),
        heads=config.num_heads,
        head_channels=(config.cloud_channels if sides == 1 else config.channels) // config.num_heads,
        tied=_tied(config, sides),
        self_interaction=lengths_are_pure or value_degree == 0,
    )


def _radial(config: BITRConfig, sides: int, degree: int) -> Radial:
    functions = config.radial_functions[sides - 1]
    if config.radial == "chebyshev":
        return Chebyshev(sides, functions)
    return Homogeneous(sides, functions, degree)


def _tied(config: BITRConfig, sides: int) -> bool:
    """Only the merged cloud has two sides to swap; Φ_E is the same network for both clouds anyway."""
    return config.swap and sides == 2
