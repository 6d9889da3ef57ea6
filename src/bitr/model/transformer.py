"""Φ_S: the SE(3)×SE(3)-transformer on the merged cloud (Sec. 4.2)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Field, Rep
from bitr.layers import DegreeLinear, FieldNorm, Neighborhoods, edges_of
from bitr.model.blocks import Block, transformer_layer
from bitr.model.config import BITRConfig

OUTPUT_DEGREES = ((0, 1), (1, 0), (1, 1))


class MergedTransformer(nn.Module):
    """From the merged cloud to features of degree (1,1), (1,0) and (0,1) at every key point, one a mode.

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
