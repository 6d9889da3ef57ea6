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
from bitr.show.web import as_text, render_page
from bitr.testing import Laws, as_rigid, law_errors

LAWS = ("bi", "swap", "scale")
POINTS = 700
"""Points of a shape that is cut in two."""
FEW_POINTS = 120
"""The same for compiled and exported models: tracing takes the longer the larger the clouds are."""
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

    Also ``traced`` in these ways ("compiled", "torch.export", "ONNX"), and on ``routes`` around the model,
    such as preprocessing.
    """
    _check_trials(trials)
    rows: list[Row] = []
    for route in (*_eager_routes(model), *routes):
        log.info("checking %s", route.path)
        rows += route.rows(trials, seed)
    skipped = []
    for path, make in TRACED.items():
        if path not in traced:
            skipped.append(Skipped(path, "not asked for"))
            continue
        log.info("checking %s, which takes a while", path)
        try:
            rows += make(model).rows(trials, seed)
        except Exception as error:  # a failed trace breaks no law; tracers raise all kinds of errors
            first = (str(error).strip().splitlines() or [""])[0]
            skipped.append(Skipped(path, first if isinstance(error, InputError) else f"failed: {first}"))
    return Certificate(name, seed, tuple(rows), tuple(skipped))


def audit(method: Method, *, name: str = "method", trials: int = 10, seed: int = 0) -> Certificate:
    """The laws of any function of two (n, 3) float64 arrays of equally many points.

    An answer in float32 is held to the bounds of float32.
    """
    _check_trials(trials)

    def solve(source: Geometry, reference: Geometry) -> Any:
        return _checked(method(source.points.copy(), reference.points.copy()), name)

    make = cloud_pair(POINTS, share=0.5)
    first = solve(*make(torch.Generator().manual_seed(seed)))
    kind = (first.rotation if isinstance(first, Rigid) else torch.as_tensor(first)).dtype
    route = Route(name, solve, "float32" if kind == torch.float32 else "method", make)
    return Certificate(name, seed, tuple(route.rows(trials, seed)))


def _check_trials(trials: int) -> None:
    if not 1 <= trials <= MOST_TRIALS:
        raise InputError(f"trials = {trials}: expected a whole number from 1 to {MOST_TRIALS}")


def _checked(answer: Any, name: str) -> Any:
    """The answer itself; one that is no pose raises."""
    if isinstance(answer, Rigid):
        shape: tuple[int, ...] = (*answer.rotation.shape[:-2], 4, 4)
    else:
        try:
            shape = tuple(torch.as_tensor(answer).shape)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name}: returned {type(answer).__name__}, expected a 4×4 matrix") from error
    if shape not in ((4, 4), (1, 4, 4)):
        raise InputError(f"{name}: returned shape {shape}, expected a 4×4 matrix or a Rigid")
    return answer


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

    def to_json(self) -> str:
        """One JSON object in one line; an error that is not a finite number is null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """The keys and values of ``to_json``."""
        used = {row.precision for row in self.rows}
        return {
            "model": self.model,
            "ok": self.ok,
            "broken": list(self.broken),
            "seed": self.seed,
            "rows": [
                asdict(row) | {"worst": _finite(row.worst), "median": _finite(row.median), "ok": row.ok}
                for row in self.rows
            ],
            "skipped": [asdict(each) for each in self.skipped],
            "bounds": {name: asdict(bounds) for name, bounds in BOUNDS.items() if name in used},
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


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


def _compiled_route(model: BITR) -> Route:
    """``torch.compile`` into one graph, in float64."""
    compiled = torch.compile(_warm(model), fullgraph=True, backend=BACKEND)
    return _traced(f"compiled ({BACKEND}), float64", compiled, "float64")


def _exported_route(model: BITR) -> Route:
    """``torch.export``, in float64, for clouds of one size."""
    program = torch.export.export(_warm(model), _example(), strict=False)
    return _traced("torch.export, float64", program.module(), "float64")


def _onnx_route(model: BITR) -> Route:
    """The file that ``to_onnx`` writes, run by onnxruntime: float64 points, float32 weights."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError('needs onnxruntime: pip install -e ".[export]"') from error
    from bitr.model.export import to_onnx

    n_source, n_reference = (points.shape[1] for points in _example())
    with tempfile.TemporaryDirectory() as folder:
        path = to_onnx(_copy(model, torch.float32), Path(folder) / "model.onnx", n_source, n_reference)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(x: Tensor, y: Tensor) -> Any:
        return session.run(["pose"], {"source": x.numpy(), "reference": y.numpy()})[0]

    return _traced("ONNX, float32", run, "float32")


TRACED = {"compiled": _compiled_route, "torch.export": _exported_route, "ONNX": _onnx_route}


class _Matrix(nn.Module):
    """The model from points to a 4×4 matrix: tensors in, a tensor out."""

    def __init__(self, model: BITR) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Float[Tensor, "b n 3"], y: Float[Tensor, "b m 3"]) -> Float[Tensor, "b 4 4"]:
        return self.model(x, y).matrix()


def _warm(model: BITR) -> _Matrix:
    """The model in float64, called once: tables that are computed once must be there before a trace."""
    if model.config.normals or model.config.colors:
        raise InputError("is tried on points alone; this model was made for normals or colours")
    matrix = _Matrix(_copy(model, torch.float64))
    matrix(*_example())
    return matrix


def _copy(model: BITR, dtype: torch.dtype) -> BITR:
    return deepcopy(model).cpu().to(dtype).eval()


def _example() -> tuple[Tensor, Tensor]:
    source, reference = cloud_pair(FEW_POINTS, share=0.5)(torch.Generator().manual_seed(0))
    return _points(source), _points(reference)


def _points(piece: Geometry) -> Tensor:
    return torch.from_numpy(piece.points)[None]


def _traced(path: str, run: Callable[[Tensor, Tensor], Any], precision: str) -> Route:
    """A trace is for clouds of one size, which a swap must not change: equal halves."""

    def solve(source: Geometry, reference: Geometry) -> Any:
        return run(_points(source), _points(reference))

    return Route(path, solve, precision, cloud_pair(FEW_POINTS, share=0.5))


def _on_clouds(run: Callable[[Cloud, Cloud], Rigid], model: BITR, dtype: torch.dtype) -> Solve:
    def solve(source: Geometry, reference: Geometry) -> Rigid:
        return run(_as_cloud(source, dtype, model.config), _as_cloud(reference, dtype, model.config))

    return solve


def _as_cloud(geometry: Geometry, dtype: torch.dtype, config: BITRConfig) -> Cloud:
    """The features of a piece that a model of this config takes, as a batch of one."""
    normals = geometry.normals if config.normals else None
    colors = geometry.colors if config.colors else None
    extras = (None if part is None else torch.from_numpy(part)[None].to(dtype) for part in (normals, colors))
    return Cloud(_points(geometry).to(dtype), *extras)


# Random pairs


def cloud_pair(n: int, share: float = 0.4) -> PairMaker:
    """Two pieces of a generated shape of ``n`` points, ``share`` of them in the source."""

    def make(generator: torch.Generator) -> Pair:
        x, y = cut(bumpy_shape(n, generator), share, generator)
        return _placed(_colored(x), generator), _placed(_colored(y), generator)

    return make


def overlapping_pair(n: int, noise: float) -> PairMaker:
    """Two pieces of ``n`` points that share half of them, up to noise: the first n/2 rows correspond."""

    def make(generator: torch.Generator) -> Pair:
        shape = bumpy_shape(3 * n // 2, generator)
        first, rest = cut(shape, 1 / 3, generator)
        common, last = rest[: n // 2], rest[n // 2 :]  # in the order of the cut: three slices
        x, y = (
            _colored(piece + noise * torch.randn(piece.shape, generator=generator, dtype=piece.dtype))
            for piece in (torch.cat([common, first]), torch.cat([common, last]))
        )
        return _placed(x, generator), _placed(y, generator)

    return make


def mesh_pair(n: int) -> PairMaker:
    """Two closed surfaces of ``n`` vertices each."""

    def make(generator: torch.Generator) -> Pair:
        x, y = (_closed(_colored(bumpy_shape(n, generator))) for _ in range(2))
        return _placed(x, generator), _placed(y, generator)

    return make


def _colored(points: Tensor) -> Geometry:
    """A cloud with directions from the middle as normals, and colours by place, for models that need them."""
    normals = points / points.norm(dim=-1, keepdim=True)
    return Geometry(points.numpy(), normals.numpy(), np.sin(3 * points.numpy()) / 2 + 0.5)


def _closed(cloud: Geometry) -> Geometry:
    """A surface through the points: the middle sees each direction once, and the hull of the directions has
    the faces."""
    assert cloud.normals is not None
    faces = ConvexHull(cloud.normals).simplices.astype(np.int64)
    return replace(cloud, normals=None, faces=faces)


def _placed(geometry: Geometry, generator: torch.Generator) -> Geometry:
    return geometry.moved(Rigid.random(generator).matrix().numpy())


# The page


def html_page(certificate: Certificate) -> str:
    """One static page: text from outside is escaped, and its policy allows no script."""
    values = {
        "model": as_text(certificate.model),
        "verdict": f'<p class="verdict {_color(certificate.ok)}">{as_text(certificate.verdict)}</p>',
        "tables": _table(certificate) + _skipped(certificate),
        "bounds": _bounds(certificate),
        "trials": str(min(row.trials for row in certificate.rows)),
        "seed": str(certificate.seed),
    }
    return render_page("certificate.html", values, ("page.css", "certificate.css"))


def _table(certificate: Certificate) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("", *(f"Δ_{law}" for law in LAWS)))
    lines = ""
    for path in dict.fromkeys(row.path for row in certificate.rows):
        cells = "".join(_cell(row) for row in certificate.rows if row.path == path)
        lines += f"<tr><th scope=row>{as_text(path)}</th>{cells}</tr>"
    return (
        f"<section><h2>End to end</h2><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{lines}</tbody></table></section>"
    )


def _cell(row: Row) -> str:
    worst, median, bound = _place(row.worst), _place(row.median), _place(row.bound)
    return (
        f'<td class="{_color(row.ok)}"><svg viewBox="0 0 {WIDTH} 8" aria-hidden="true">'
        f'<rect class="track" width="{WIDTH}" height="8"/><rect class="bar" width="{worst:.1f}" height="8"/>'
        f'<rect class="middle" x="{median:.1f}" y="2" width="1.5" height="4"/>'
        f'<rect class="bound" x="{bound:.1f}" width="2" height="8"/></svg>'
        f"<b>{row.worst:.1e}</b> <small>median {row.median:.1e}, bound {row.bound:.0e}</small></td>"
    )


def _place(error: float) -> float:
    """Position of an error on a bar, in its own units; an error that is no number stands at the end."""
    if error <= 0:
        return 0.0
    power = math.log10(error) if math.isfinite(error) else HIGHEST
    return WIDTH * (min(max(power, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST)


def _bounds(certificate: Certificate) -> str:
    lines = ""
    for name in dict.fromkeys(row.precision for row in certificate.rows):
        bounds = BOUNDS[name]
        cells = (*(f"{getattr(bounds, law):.0e}" for law in LAWS), bounds.judged)
        lines += f"<tr><th scope=row>{name}</th>{''.join(f'<td>{as_text(cell)}</td>' for cell in cells)}</tr>"
    return lines


def _skipped(certificate: Certificate) -> str:
    if not certificate.skipped:
        return ""
    lines = "".join(
        f"<tr><th scope=row>{as_text(each.path)}</th><td>{as_text(each.why)}</td></tr>"
        for each in certificate.skipped
    )
    return f"<section><h2>Not measured</h2><table><tbody>{lines}</tbody></table></section>"


def _color(ok: bool) -> str:
    return "good" if ok else "bad"
