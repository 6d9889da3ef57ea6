"""Blocks of transformer layers as a config describes them, and Φ_S, which is made of them (Sec. 4.2)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Field, Rep
from bitr.layers import (
    Chebyshev,
    Clouds,
    DegreeLinear,
    Edges,
    Elu,
    FieldNorm,
    Homogeneous,
    Neighborhoods,
    Radial,
    TransformerLayer,
    edges_of,
)
from bitr.model.config import BITRConfig

OUTPUT_DEGREES = ((0, 1), (1, 0), (1, 1))
SOFT_ELU = 0.1
SHARP_ELU = 1e-12
LEAK = 0.2  # as in the authors' code, which the paper does not mention


class Block(nn.Module):
    """A transformer layer and an Elu layer, the field brought to size 1 between them."""

    def __init__(self, config: BITRConfig, rep_in: Rep, rep_out: Rep, sides: int) -> None:
        super().__init__()
        self.layer = transformer_layer(config, rep_in, rep_out, sides)
        epsilon = SOFT_ELU if config.smooth else SHARP_ELU
        self.elu = Elu(rep_out, tied=_is_tied(config, sides), epsilon=epsilon, leak=LEAK)
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
    functions, is_smooth = config.radial_functions[sides - 1], config.radial == "chebyshev"

    def radial(degree: int) -> Radial:
        return Chebyshev(sides, functions) if is_smooth else Homogeneous(sides, functions, degree)

    return TransformerLayer(
        rep_in,
        rep_out,
        radial_k=radial(0),
        radial_v=radial(value_degree if config.scale else 1),
        heads=config.num_heads,
        head_channels=(config.cloud_channels if sides == 1 else config.channels) // config.num_heads,
        tied=_is_tied(config, sides),
        self_interaction=is_smooth or value_degree == 0,
    )


def _is_tied(config: BITRConfig, sides: int) -> bool:
    """Only the merged cloud has two sides to swap; Φ_E is the same network for both clouds anyway."""
    return config.swap and sides == 2


class MergedTransformer(nn.Module):
    """Φ_S: from the merged cloud to features of degree (1,1), (1,0) and (0,1) at every key point, one a mode.

    Beside them are the scalars of the last block.
    """

    def __init__(self, config: BITRConfig, rep_in: Rep) -> None:
        super().__init__()
        self.config = config
        self.norm_in, self.norm = (FieldNorm(center=False) if config.normalize else None for _ in range(2))
        rep = Rep.two_sided(config.max_degree, config.channels)
        self.embed = DegreeLinear(rep_in, rep, tied=config.swap)
        self.blocks = nn.ModuleList(Block(config, rep, rep, sides=2) for _ in range(config.num_layers))
        channels = config.channels if config.num_modes == 1 else 2 * config.channels
        rep_out = Rep(dict.fromkeys(OUTPUT_DEGREES, channels))
        self.last = transformer_layer(config, rep, rep_out, sides=2, value_degree=1)
        rep_modes = Rep(dict.fromkeys(OUTPUT_DEGREES, config.num_modes))
        self.one_channel = DegreeLinear(rep_out, rep_modes, tied=config.swap)

    def forward(self, z: Float[Tensor, "b l 6"], field: Field) -> Field:
        """The features of all key points in one row, (b·l, m, c), before and after."""
        around = Neighborhoods.of(z, self.config.num_neighbors)
        # Key points are spread over the clouds, so that the clouds' own unit, 1 here, suits their distances.
        unit = z.new_ones(len(z)) if self.config.smooth else None
        edges = edges_of(around, self.config.max_degree, unit, self.config.basis_size(sides=2))
        if self.norm_in is not None:
            field = self.norm_in(field, around.clouds)
        field = self.embed(field)
        if self.norm is not None:  # else attention grows sharp, and its gradient breaks the learning
            field = self.norm(field, around.clouds)
        for block in self.blocks:
            field = block(field, edges, around.clouds)
        return {(0, 0): field[0, 0], **self.one_channel(self.last(field, edges))}
