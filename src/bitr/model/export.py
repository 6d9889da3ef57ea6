"""A model as an ONNX file, for clouds of fixed sizes: points in, pose out, with nothing left to do outside.

ONNX has no singular value decomposition and no ``cdist``. The distances are written out, and the rotation
nearest to r̂ comes from products alone.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from bitr.errors import InputError, require
from bitr.files import whole_file
from bitr.model.bitr import BITR
from bitr.model.inputs import MIN_POINTS

SQUARINGS = 40  # enough for a gap of 1e-11 between the two largest eigenvalues


def to_onnx(model: BITR, path: str | os.PathLike[str], n_source: int, n_reference: int) -> Path:
    """Write the model for one pair of clouds of these sizes, and return the path.

    Inputs ``source`` (1, n, 3) and ``reference`` (1, m, 3), float64; outputs ``pose`` (1, 4, 4), which takes
    the source onto the reference, and ``singular_gap`` (1,), both float64. The laws are kept. What the model
    refuses (NaN, points that are all equal) the file does not check.
    """
    is_plain = not (model.config.normals or model.config.colors)
    require(is_plain, "export to ONNX takes points alone; this model was made for normals or colours")
    for name, n in (("n_source", n_source), ("n_reference", n_reference)):
        require(n >= MIN_POINTS, f"{name} = {n}: expected at least {MIN_POINTS} points")
    generator = torch.Generator().manual_seed(0)
    pair = [torch.randn(1, n, 3, generator=generator, dtype=torch.float64) for n in (n_source, n_reference)]
    try:
        from onnxscript import opset18
    except ImportError as error:
        raise InputError('export to ONNX needs onnxscript: pip install -e ".[export]"') from error
    op: Any = opset18

    def distances(x1: Any, x2: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
        """Translate ``_cdist_forward``; differences before norms, as in the model."""
        difference = op.Sub(op.Unsqueeze(x1, [-2]), op.Unsqueeze(x2, [-3]))
        return op.Sqrt(op.ReduceSumSquare(difference, [-1], keepdims=0))

    with torch.no_grad(), whole_file(Path(path), force=True) as temporary:
        program = torch.onnx.export(
            _FromPoints(model).eval(),
            tuple(pair),
            dynamo=True,
            verbose=False,
            input_names=["source", "reference"],
            output_names=["pose", "singular_gap"],
            custom_translation_table={torch.ops.aten._cdist_forward.default: distances},
        )
        assert program is not None
        program.save(temporary)
    return Path(path)


class _FromPoints(nn.Module):
    """``BITR.solve`` with a projection that ONNX has operators for."""

    def __init__(self, model: BITR) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Float64[Tensor, "b n 3"], reference: Float64[Tensor, "b m 3"]
    ) -> tuple[Float64[Tensor, "b 4 4"], Float64[Tensor, " b"]]:
        solution = self.model.solve(source, reference, nearest=nearest_rotation_by_squaring)
        return solution.pose.matrix(), solution.singular_gap


def nearest_rotation_by_squaring(
    a: Float[Tensor, "*b 3 3"], noise: float = 0.0
) -> tuple[Float[Tensor, "*b 3 3"], Float[Tensor, "*b"]]:
    r"""The same as ``nearest_rotation_and_gap``, from products of 4×4 matrices alone.

    ⟨a, r⟩ is a quadratic form N in the quaternion of r, so that of the nearest rotation is the eigenvector of
    N's largest eigenvalue (Horn). The projector on it is the limit of (N + 2)^(2^k), normalised, and the
    entries of r are linear in the projector. The two largest eigenvalues differ by twice the gap.
    """
    size = a.square().sum((-2, -1), keepdim=True).sqrt()
    forms = _quadratic_forms().to(a)
    n = torch.einsum("...ij,ijpq->...pq", a / size.clamp_min(torch.finfo(a.dtype).eps), forms)
    first, largest = _top(n)
    _, second = _top(n - (largest + 2)[..., None, None] * first)
    above = (size / size.clamp_min(noise))[..., 0, 0] if noise > 0 else 1.0
    return torch.einsum("...pq,ijpq->...ij", first, forms), (largest - second) / 2 * above


def _top(n: Float[Tensor, "*b 4 4"]) -> tuple[Float[Tensor, "*b 4 4"], Float[Tensor, "*b"]]:
    """The projector on the largest eigenvalue of a symmetric matrix of norm up to 2, and the eigenvalue."""
    one = torch.eye(4, dtype=n.dtype, device=n.device)
    power = n + 2 * one
    for _ in range(SQUARINGS):
        power = power @ power
        power = power / (power * one).sum((-2, -1), keepdim=True)  # to trace 1, that of a projector
    return power, (power * n).sum((-2, -1))


@cache
@torch.inference_mode(False)
def _quadratic_forms() -> Float64[Tensor, "3 3 4 4"]:
    """M with r_ij = qᵀ M_ij q for the unit quaternion q = (w, x, y, z) of a rotation r."""
    forms = torch.zeros(3, 3, 4, 4, dtype=torch.float64)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        forms[i, i] = -torch.eye(4)
        forms[i, i, 0, 0] = forms[i, i, 1 + i, 1 + i] = 1
        for row, column, sign in ((i, j, -1), (j, i, 1)):  # r_ij = 2 (q_i q_j ∓ w q_k)
            for p, q, value in ((1 + i, 1 + j, 1), (0, 1 + k, sign)):
                forms[row, column, p, q] = forms[row, column, q, p] = value
    return forms
