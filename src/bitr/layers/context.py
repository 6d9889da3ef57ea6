"""What a point knows of the whole that it belongs to."""

from torch import nn

from bitr.groups import Field, Rep
from bitr.layers.clouds import Clouds
from bitr.layers.linear import DegreeLinear


class Context(nn.Module):
    """f_u ↦ f_u + W mean_v f_v, the mean over the cloud of u: neighbours alone say little of the whole.

    The mean of a field turns as the field does, so every degree is kept.
    """

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        self.mix = DegreeLinear(rep, rep, tied=False)

    def forward(self, field: Field, clouds: Clouds) -> Field:
        means = self.mix({degree: clouds.means(values) for degree, values in field.items()})
        return {degree: values + clouds.spread(means[degree]) for degree, values in field.items()}
