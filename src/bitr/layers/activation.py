"""Elu: the equivariant relu (eq. Relu-def)."""

from torch import nn

from bitr.groups import Field, Rep
from bitr.layers.linear import DegreeLinear


class Elu(nn.Module):
    r"""Removes from F_μ = W_μF what points against F_ν = W_νF, channel by channel:

    :math:`F_\mu - (1 - \lambda) \min(0, \langle F_\mu, F_\nu\rangle)\, F_\nu / (\|F_\nu\|^2 + \varepsilon)`.

    The paper's projection is λ = 0, ε → 0. It jumps where F_ν = 0 (for scalars: whenever F_ν changes its
    sign); a positive ε makes it continuous. It can remove a whole channel; a leak λ > 0 keeps part of it.
    Keeps every degree, and the swap law when ``tied``.
    """

    def __init__(self, rep: Rep, *, tied: bool, epsilon: float, leak: float) -> None:
        super().__init__()
        self.mu = DegreeLinear(rep, rep, tied)
        self.nu = DegreeLinear(rep, rep, tied)
        self.epsilon, self.leak = epsilon, leak

    def forward(self, field: Field) -> Field:
        mu, nu = self.mu(field), self.nu(field)
        result = {}
        for degree in field:
            against = (mu[degree] * nu[degree]).sum(-2, keepdim=True).clamp_max(0)
            length = nu[degree].square().sum(-2, keepdim=True) + self.epsilon
            result[degree] = mu[degree] - (1 - self.leak) * against / length * nu[degree]
        return result
