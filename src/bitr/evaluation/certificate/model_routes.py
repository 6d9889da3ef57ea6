"""The ways to run a model: as it is, in three precisions, and as what compilers and exporters make of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.evaluation.certificate.pairs import as_cloud, cloud_pair
from bitr.evaluation.certificate.routes import Route, Solve
from bitr.groups import Cloud, Rigid
from bitr.io import Geometry
from bitr.model import BITR

POINTS = 700
"""Of a shape that is cut in two."""
FEW_POINTS = 120
"""For what is traced, which takes the longer the larger the clouds are."""
EQUAL_HALVES = cloud_pair(FEW_POINTS, share=0.5)
"""What is traced is for clouds of one size, which a swap must not change."""
BACKEND = "aot_eager"
"""Of ``torch.compile``; its default, inductor, needs a C++ compiler."""


def eager_routes(model: BITR) -> list[Route]:
    """float64, float32, and float32 with the products in bfloat16."""
    exact, single = (_copy(model, dtype) for dtype in (torch.float64, torch.float32))
    make = cloud_pair(POINTS)

    def rounded(x: Cloud, y: Cloud) -> Rigid:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return single(x, y)

    return [
        Route("model, float64", _on_clouds(exact, model, torch.float64), "float64", make),
        Route("model, float32", _on_clouds(single, model, torch.float32), "float32", make),
        Route("model, bfloat16 autocast", _on_clouds(rounded, model, torch.float32), "bfloat16", make),
    ]


def compiled_route(model: BITR) -> Route:
    """``torch.compile`` into one graph, in float64."""
    matrix = _warm(model, torch.float64)
    compiled = torch.compile(matrix, fullgraph=True, backend=BACKEND)
    return _traced(f"compiled ({BACKEND}), float64", compiled, "float64")


def exported_route(model: BITR) -> Route:
    """``torch.export``, in float64, for clouds of one size."""
    matrix = _warm(model, torch.float64)
    program = torch.export.export(matrix, _example(), strict=False)
    return _traced("torch.export, float64", program.module(), "float64")


def onnx_route(model: BITR) -> Route:
    """The file that ``to_onnx`` writes, run by onnxruntime: float64 points, float32 weights."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError('needs onnxruntime: pip install "bitr[export]"') from error
    from bitr.model.export import to_onnx

    n_source, n_reference = (points.shape[1] for points in _example())
    with tempfile.TemporaryDirectory() as folder:
        path = to_onnx(_copy(model, torch.float32), Path(folder) / "model.onnx", n_source, n_reference)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(x: Tensor, y: Tensor) -> Any:
        return session.run(["pose"], {"source": x.numpy(), "reference": y.numpy()})[0]

    return _traced("ONNX, float32", run, "float32")


class _Matrix(nn.Module):
    """The model from points to a 4×4 matrix: tensors in, a tensor out."""

    def __init__(self, model: BITR) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Float[Tensor, "b n 3"], y: Float[Tensor, "b m 3"]) -> Float[Tensor, "b 4 4"]:
        return self.model(x, y).matrix()


def _warm(model: BITR, dtype: torch.dtype) -> _Matrix:
    """Called once as it is: tables that are computed once must be there before a trace."""
    if model.config.normals or model.config.colors:
        raise InputError("is tried on points alone; this model was made for normals or colours")
    matrix = _Matrix(_copy(model, dtype))
    matrix(*_example())
    return matrix


def _copy(model: BITR, dtype: torch.dtype) -> BITR:
    return deepcopy(model).cpu().to(dtype).eval()


def _example() -> tuple[Tensor, Tensor]:
    source, reference = EQUAL_HALVES(torch.Generator().manual_seed(0))
    return _points(source), _points(reference)


def _points(piece: Geometry) -> Tensor:
    return torch.from_numpy(piece.points)[None]


def _on_clouds(run: Callable[[Cloud, Cloud], Rigid], model: BITR, dtype: torch.dtype) -> Solve:
    def solve(source: Geometry, reference: Geometry) -> Rigid:
        return run(as_cloud(source, dtype, model.config), as_cloud(reference, dtype, model.config))

    return solve


def _traced(path: str, run: Callable[[Tensor, Tensor], Any], precision: str) -> Route:
    def solve(source: Geometry, reference: Geometry) -> Any:
        return run(_points(source), _points(reference))

    return Route(path, solve, precision, EQUAL_HALVES)
