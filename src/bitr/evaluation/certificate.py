"""The equivariance certificate: do the three laws hold for a model, or for any method, end to end?

Every trial has a new pair, new motions and a new factor; ``bitr.testing`` measures the errors. A certificate
has a row for every path and law, and goes to JSON or to one HTML page.
"""

from __future__ import annotations

import json
import logging
import math
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy.spatial import ConvexHull
from torch import Tensor, nn

from bitr.data import bumpy_shape, cut
from bitr.errors import InputError
from bitr.groups import Cloud, Rigid
from bitr.io import Geometry
from bitr.model import BITR, BITRConfig
from bitr.show.web import render_page
from bitr.testing import Laws, as_rigid, law_errors

LAWS = ("bi", "swap", "scale")
POINTS = 700
"""Points of a shape that is cut in two."""
FEW_POINTS = 120
"""The same for compiled and exported models: tracing takes the longer the larger the clouds are."""
TRACERS = ("compiled", "torch.export", "ONNX")
BACKEND = "aot_eager"
"""Backend of ``torch.compile``; its default, inductor, needs a C++ compiler."""
FEWEST_FOR_A_MEDIAN, MOST_TRIALS = 5, 1000
LOWEST, HIGHEST, WIDTH = -17, 1, 200
"""Powers of ten at the ends of a bar on the page, and its width."""

Pair = tuple[Geometry, Geometry]
PairMaker = Callable[[torch.Generator], Pair]
Solve = Callable[[Geometry, Geometry], Any]
"""Takes two pieces to a pose: a ``Rigid`` or a 4×4 matrix, also as a batch of one."""
Method = Callable[[Float64[np.ndarray, "n 3"], Float64[np.ndarray, "n 3"]], Any]
"""Takes the points of source and reference to a pose: a ``Rigid`` or a 4×4 matrix."""

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Bounds:
    """The largest allowed error of each law, for the worst trial or for the median."""

    bi: float
    swap: float
    scale: float
    judged: Literal["worst", "median"]


BOUNDS = {
    # the laws are exact: only rounding is left, amplified where the rotation is barely determined
    "float64": Bounds(1e-9, 1e-9, 1e-9, "worst"),
    # any audited method in float64: an iteration stops at a tolerance
    "method": Bounds(1e-6, 1e-6, 1e-6, "worst"),
    # moving or scaling also rounds the points again, a swap does not; a pair that is barely determined is far
    # off with no law broken, hence the median
    "float32": Bounds(3e-4, 1e-5, 1e-4, "median"),
    # products on the clouds keep 8 bits, and turned clouds are rounded differently
    "bfloat16": Bounds(0.3, 1e-5, 5e-2, "median"),
}
"""Several times the largest error over untrained models of both constructions and the weights that ship."""


@torch.no_grad()
def certify(
    model: BITR,
    *,
    name: str = "BITR",
    trials: int = 10,
    seed: int = 0,
    traced: Sequence[str] = ("compiled", "torch.export"),
    routes: Sequence[Route] = (),
) -> Certificate:
    """The laws of a model in float64, in float32 and under bfloat16 autocast.

    Also ``traced`` in these ways (of ``TRACERS``), and on ``routes`` around the model, such as preprocessing.
    """
    _check_trials(trials)
    rows: list[Row] = []
    for route in (*_eager_routes(model), *routes):
        log.info("checking %s", route.path)
        rows += route.rows(trials, seed)
    skipped = []
    for tracer in TRACERS:
        if tracer not in traced:
            skipped.append(Skipped(tracer, "not asked for"))
            continue
        log.info("checking %s, which takes a while", tracer)
        try:
            rows += _traced_route(model, tracer).rows(trials, seed)
        except Exception as error:  # a failed trace breaks no law; tracers raise all kinds of errors
            first = (str(error).strip().splitlines() or [""])[0]
            skipped.append(Skipped(tracer, first if isinstance(error, InputError) else f"failed: {first}"))
    return Certificate(name, seed, tuple(rows), tuple(skipped))


def audit(method: Method, *, name: str = "method", trials: int = 10, seed: int = 0) -> Certificate:
    """The laws of any function of two (n, 3) float64 arrays of equally many points.

    An answer in float32 is held to the bounds of float32.
    """
    _check_trials(trials)

    def solve(source: Geometry, reference: Geometry) -> Tensor:
        answer = method(source.points.copy(), reference.points.copy())
        try:
            matrix = answer.matrix() if isinstance(answer, Rigid) else torch.as_tensor(answer)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name}: returned {type(answer).__name__}, expected a 4×4 matrix") from error
        if matrix.shape not in ((4, 4), (1, 4, 4)):
            shape = tuple(matrix.shape)
            raise InputError(f"{name}: returned shape {shape}, expected a 4×4 matrix or a Rigid")
        return matrix

    make = cloud_pair(POINTS, share=0.5)
    kind = solve(*make(torch.Generator().manual_seed(seed))).dtype
    route = Route(name, solve, "float32" if kind == torch.float32 else "method", make)
    return Certificate(name, seed, tuple(route.rows(trials, seed)))


def _check_trials(trials: int) -> None:
    if not 1 <= trials <= MOST_TRIALS:
        raise InputError(f"trials = {trials}: expected a whole number from 1 to {MOST_TRIALS}")


# The certificate


@dataclass(frozen=True)
class Row:
    """One law on one path: the worst and the median error of the trials beside the bound."""

    path: str
    law: str
    worst: float
    median: float
    bound: float
    precision: str
    trials: int

    @property
    def judged_error(self) -> float:
        """The worst or the median, whichever the bound is for."""
        return self.worst if BOUNDS[self.precision].judged == "worst" else self.median

    @property
    def ok(self) -> bool:
        """An error that is not a number is a broken law."""
        return self.judged_error <= self.bound


@dataclass(frozen=True)
class Skipped:
    """A path that was not measured, and the reason."""

    path: str
    why: str


@dataclass(frozen=True)
class Certificate:
    """The laws of one model or method, over random pairs, motions and factors."""

    model: str
    seed: int
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)

    @property
    def broken(self) -> tuple[str, ...]:
        """The laws that do not hold on every path."""
        return tuple(law for law in LAWS if any(row.law == law and not row.ok for row in self.rows))

    @property
    def verdict(self) -> str:
        """One sentence for people."""
        broken = ", ".join(f"Δ_{law}" for law in self.broken)
        return "All three laws hold." if self.ok else f"Broken: {broken}."

    @property
    def bounds(self) -> dict[str, Bounds]:
        """The bounds that rows are held to, by precision."""
        used = {row.precision for row in self.rows}
        return {name: bounds for name, bounds in BOUNDS.items() if name in used}

    def to_json(self) -> str:
        """One JSON object in one line; an error that is not a finite number is null."""
        rows = []
        for row in self.rows:
            known = {key: None for key in ("worst", "median") if not math.isfinite(getattr(row, key))}
            rows.append(asdict(row) | known | {"ok": row.ok})
        values = {
            "model": self.model,
            "ok": self.ok,
            "broken": list(self.broken),
            "seed": self.seed,
            "rows": rows,
            "skipped": [asdict(each) for each in self.skipped],
            "bounds": {name: asdict(bounds) for name, bounds in self.bounds.items()},
        }
        return json.dumps(values, allow_nan=False)


def html_page(certificate: Certificate) -> str:
    """One static page: text from outside is escaped, and its policy allows no script."""
    values = {
        "certificate": certificate,
        "laws": LAWS,
        "paths": list(dict.fromkeys(row.path for row in certificate.rows)),
        "place": _place_on_bar,
        "trials": min(row.trials for row in certificate.rows),
        "width": WIDTH,
    }
    return render_page("certificate.html", values, ("page.css", "certificate.css"))


def _place_on_bar(error: float) -> float:
    """Position of an error on a logarithmic bar; an error that is no number stands at the end."""
    if error <= 0:
        return 0.0
    power = math.log10(error) if math.isfinite(error) else HIGHEST
    return WIDTH * (min(max(power, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST)


# Ways from a pair to a pose


@dataclass(frozen=True)
class Route:
    """A named way to solve pairs, the bounds it is held to, and the pairs it is tried on."""

    path: str
    solve: Solve
    precision: str
    make: PairMaker
    most: int = MOST_TRIALS
    """Trials of a slow route, however many are asked for."""

    def rows(self, trials: int, seed: int) -> list[Row]:
        """The three laws; where the median counts, there are at least enough trials to have one."""
        generator, bounds = torch.Generator().manual_seed(seed), BOUNDS[self.precision]
        least = FEWEST_FOR_A_MEDIAN if bounds.judged == "median" else 1
        found = [self._trial(generator) for _ in range(max(least, min(trials, self.most)))]
        rows = []
        for law in LAWS:
            errors = [getattr(each, law) for each in found]
            worst, median = float(np.max(errors)), float(np.median(errors))  # NaN where there is one
            bound = getattr(bounds, law)
            rows.append(Row(self.path, law, worst, median, bound, self.precision, len(found)))
        return rows

    def _trial(self, generator: torch.Generator) -> Laws:
        """The errors on a new pair: motions by about the pieces' size, a factor between 1/100 and 100."""
        source, reference = self.make(generator)
        exponent = 4 * float(torch.rand((), generator=generator, dtype=torch.float64)) - 2
        return law_errors(self._pose, source, reference, generator, factor=10**exponent)

    def _pose(self, source: Geometry, reference: Geometry) -> Rigid:
        pose = as_rigid(self.solve(source, reference))
        return pose[0] if pose.rotation.dim() == 3 else pose


def _eager_routes(model: BITR) -> list[Route]:
    """float64, float32, and float32 with the products in bfloat16."""

    def route(path: str, precision: str, dtype: torch.dtype, autocast: bool = False) -> Route:
        own = _copy(model, dtype)

        def solve(source: Geometry, reference: Geometry) -> Rigid:
            x, y = (_as_cloud(piece, dtype, model.config) for piece in (source, reference))
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                return own(x, y)

        return Route(path, solve, precision, cloud_pair(POINTS))

    return [
        route("model, float64", "float64", torch.float64),
        route("model, float32", "float32", torch.float32),
        route("model, bfloat16 autocast", "bfloat16", torch.float32, autocast=True),
    ]


def _as_cloud(piece: Geometry, dtype: torch.dtype, config: BITRConfig) -> Cloud:
    """The features of a piece that a model of this config takes, as a batch of one."""
    wanted = piece.points, piece.normals if config.normals else None, piece.colors if config.colors else None
    points, *extras = (None if part is None else torch.from_numpy(part)[None].to(dtype) for part in wanted)
    assert points is not None
    return Cloud(points, *extras)


class _Matrix(nn.Module):
    """The model from points to a 4×4 matrix: tensors in, a tensor out."""

    def __init__(self, model: BITR) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Float[Tensor, "b n 3"], y: Float[Tensor, "b m 3"]) -> Float[Tensor, "b 4 4"]:
        return self.model(x, y).matrix()


def _traced_route(model: BITR, tracer: str) -> Route:
    """The model through one of ``TRACERS``, in float64; an ONNX file has float32 weights.

    A trace is for clouds of one size, which a swap must not change: equal halves.
    """
    if model.config.normals or model.config.colors:
        raise InputError("is tried on points alone; this model was made for normals or colours")
    make = cloud_pair(FEW_POINTS, share=0.5)
    if tracer == "ONNX":
        return Route("ONNX, float32", _onnx_solver(model), "float32", make)
    x, y = (_as_cloud(piece, torch.float64, model.config).points for piece in make(torch.Generator()))
    matrix = _Matrix(_copy(model, torch.float64))
    matrix(x, y)  # tables that are computed once must be there before a trace
    run: Callable[[Tensor, Tensor], Tensor]
    if tracer == "compiled":
        path, run = f"compiled ({BACKEND})", torch.compile(matrix, fullgraph=True, backend=BACKEND)
    else:
        path, run = tracer, torch.export.export(matrix, (x, y), strict=False).module()

    def solve(source: Geometry, reference: Geometry) -> Tensor:
        return run(torch.from_numpy(source.points)[None], torch.from_numpy(reference.points)[None])

    return Route(f"{path}, float64", solve, "float64", make)


def _onnx_solver(model: BITR) -> Solve:
    """The file that ``to_onnx`` writes, run by onnxruntime."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError('needs onnxruntime: pip install -e ".[export]"') from error
    from bitr.model.export import to_onnx

    half = FEW_POINTS // 2
    with tempfile.TemporaryDirectory() as folder:
        path = to_onnx(_copy(model, torch.float32), Path(folder) / "model.onnx", half, half)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x, y: session.run(["pose"], {"source": x.points[None], "reference": y.points[None]})[0]


def _copy(model: BITR, dtype: torch.dtype) -> BITR:
    return deepcopy(model).cpu().to(dtype).eval()


# Random pairs


def cloud_pair(n: int, share: float = 0.4) -> PairMaker:
    """Two pieces of a generated shape of ``n`` points, ``share`` of them in the source."""
    return lambda generator: _place(
        [_colored(piece) for piece in cut(bumpy_shape(n, generator), share, generator)], generator
    )


def overlapping_pair(n: int, noise: float) -> PairMaker:
    """Two pieces of ``n`` points that share half of them, up to noise: the first n/2 rows correspond."""

    def make(generator: torch.Generator) -> Pair:
        first, rest = cut(bumpy_shape(3 * n // 2, generator), 1 / 3, generator)
        common, last = rest[: n // 2], rest[n // 2 :]  # in the order of the cut: three slices
        pieces = torch.cat([common, first]), torch.cat([common, last])
        noises = [noise * torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in pieces]
        return _place([_colored(p + off) for p, off in zip(pieces, noises, strict=True)], generator)

    return make


def mesh_pair(n: int) -> PairMaker:
    """Two closed surfaces of ``n`` vertices each: the middle sees each direction once, and the hull of the
    directions has the faces."""

    def make(generator: torch.Generator) -> Pair:
        clouds = [_colored(bumpy_shape(n, generator)) for _ in range(2)]
        faces = [ConvexHull(cloud.normals).simplices.astype(np.int64) for cloud in clouds]
        meshes = [replace(c, normals=None, faces=f) for c, f in zip(clouds, faces, strict=True)]
        return _place(meshes, generator)

    return make


def _colored(points: Tensor) -> Geometry:
    """A cloud with directions from the middle as normals, and colours by place, for models that need them."""
    normals = points / points.norm(dim=-1, keepdim=True)
    return Geometry(points.numpy(), normals.numpy(), np.sin(3 * points.numpy()) / 2 + 0.5)


def _place(pieces: Sequence[Geometry], generator: torch.Generator) -> Pair:
    """Both pieces at random places."""
    x, y = (piece.moved(Rigid.random(generator).matrix().numpy()) for piece in pieces)
    return x, y
