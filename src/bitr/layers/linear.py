"""Linear maps between channels, one per degree: self-interaction, query, and the two maps of Elu."""

import torch
from torch import nn

from bitr.groups import Degree, Field, Rep, swapped


class DegreeLinear(nn.Module):
    """F^o ↦ W^o F^o. With ``tied``, W^o = W^õ, as the swap law asks (Prop. 5.2).

    The field keeps its precision, also where autocast rounds the product.
    """

    def __init__(self, rep_in: Rep, rep_out: Rep, tied: bool) -> None:
        super().__init__()
        self.degrees = [degree for degree in rep_out if degree in rep_in]
        self.tied = tied
        self.weights = nn.ParameterDict()
        for degree in self.degrees:
            if self._key(degree) not in self.weights:
                c_in, c_out = rep_in[degree], rep_out[degree]
                self.weights[self._key(degree)] = nn.Parameter(torch.randn(c_in, c_out) / c_in**0.5)

    def forward(self, field: Field) -> Field:
        return {
            degree: (field[degree] @ self.weights[self._key(degree)]).to(field[degree].dtype)
            for degree in self.degrees
        }

    def _key(self, degree: Degree) -> str:
        p, q = min(degree, swapped(degree)) if self.tied else degree
        return f"{p}{q}"
