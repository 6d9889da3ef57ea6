r"""Constants of SO(3): the one file that knows e3nn's conventions.

e3nn orders the degree-1 harmonics as x, y, z, so that :math:`\rho_1(r) = r`. Everything else that depends
on a basis (harmonics, Wigner matrices, the kernel basis) is built from this table, so no other file has to
know the order of the components of a degree.
"""

from functools import cache

import torch
from jaxtyping import Float64
from torch import Tensor


@cache
@torch.inference_mode(False)  # a table first needed during inference must serve training later
def clebsch_gordan(a: int, b: int, j: int) -> Float64[Tensor, "p q m"]:
    r"""Isometry :math:`V_j \to V_a \otimes V_b`: the paper's 𝒬 for one side and one J (App. B).

    With :math:`\mathcal{Q} = [Q_{|a-b|} \cdots Q_{a+b}]` this is the decomposition
    :math:`\mathcal{Q}^\top (\rho_a \otimes \rho_b) \mathcal{Q} = \bigoplus_J \rho_J`. Always float64: a
    float32 table would put a floor of 1e-8 under every law.
    """
    from e3nn.o3 import wigner_3j  # takes a second to import, and only the first model needs it

    return wigner_3j(a, b, j, dtype=torch.float64).detach() * (2 * j + 1) ** 0.5
