"""Reports as one HTML page that needs nothing but a browser: of an assembly, and of an evaluation."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bitr.assembly.assemble import Assembly, Hypothesis, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data import AssemblyPair
from bitr.evaluation.certificate import Certificate
from bitr.evaluation.method import Method, law_errors_on, law_row
from bitr.evaluation.report import (
    NONE,
    NOTES,
    Ranked,
    Report,
    columns,
    ranked,
    recall_curve,
    rotation_histogram,
    spread,
)
from bitr.files import write_text
from bitr.io import Geometry
from bitr.show.stage import MOST_SHOWN, Matrix, Scene, Shown, Stage, quaternion_wxyz, set_stage, show_pair

COLUMNS = ("weight", "method", "from", "overlap", "seam", "contact", "confidence")
"""Columns of a table of hypotheses."""
REPORT_HYPOTHESES = 5
MOST_EXAMPLES, MOST_TRIED = 25, 3
"""Pairs of an evaluation to look at, and those whose laws are tried: the best, the median and the worst."""
MOST_POINTS, MOST_ROWS = 150_000, 5000
"""Most points of all examples of an evaluation together (three megabytes), and most rows of its list."""

Pose = Float64[np.ndarray, "4 4"]
Row = tuple[str, str]

log = logging.getLogger("bitr")


def write_html(path: Path, scene: Scene, assembly: Assembly | None = None, *, force: bool) -> None:
    """Write the report, whole or not at all."""
    write_text(path, render_assembly(scene, assembly), force=force)


def render_assembly(scene: Scene, assembly: Assembly | None = None) -> str:
    """Render the report of an assembly, with a banner where it is not ok, and its hypotheses."""
    stage, hypotheses = set_stage(scene), assembly.hypotheses if assembly else ()
    poses = [each.transformation for each in hypotheses] or [scene.transformation]
    doubtful = assembly if assembly and assembly.status != "ok" else None
    values = {
        "title": scene.title,
        "doubtful": doubtful,
        "stage": stage,
        "columns": COLUMNS,
        "hypotheses": [list_evidence(each) for each in hypotheses],
        "poses": [describe_pose(pose) for pose in poses],
        "facts": [row for row in scene.facts if not (doubtful and row[0] == "status")],
        "scene": _encode_scene(stage, poses),
    }
    return render_page("report.html", values, ("page.css", "report.css"), ("report.js",))


def render_evaluation(
    report: Report, pairs: Sequence[Ranked], examples: Mapping[int, Scene], title: str
) -> str:
    """Render the report of an evaluation; ``examples`` are some of the ranked ``pairs``, by their place."""
    most = min(MOST_SHOWN, MOST_POINTS // (2 * len(examples)))
    stages = {place: set_stage(example, most) for place, example in examples.items()}
    errors = {row.name: row.pooled.values("rotation_error_deg") for row in report.rows}
    listed = sorted({*spread(len(pairs), MOST_ROWS), *examples})
    some = f"{len(listed):,} of the " if len(listed) < len(pairs) else ""
    table = [[head, *cells, guess] for head, cells, guess in columns(report.rows)]
    values = {
        "title": title,
        "table": list(zip(*table, strict=True)),
        "notes": NOTES,
        "histogram": rotation_histogram(errors).to_uri(),
        "recall": recall_curve(errors).to_uri(),
        "settings": [(name, str(value)) for name, value in report.settings.items() if value is not None],
        "listed": f"{some}{len(pairs):,}",
        "rows": [(place, pairs[place].name, _list_errors(pairs[place])) for place in listed],
        "examples": {
            place: {
                "title": example.title,
                "facts": example.facts,
                "pose": describe_pose(example.transformation),
                "stage": stages[place],
                "scene": _encode_scene(stages[place], [example.transformation]),
            }
            for place, example in examples.items()
        },
        "first": sorted(examples)[len(examples) // 2],
    }
    styles = "page.css", "report.css", "evaluation.css"
    return render_page("evaluation.html", values, styles, ("report.js",))


def render_certificate(certificate: Certificate) -> str:
    """Render the equivariance certificate."""
    return render_page("certificate.html", {"certificate": certificate}, ("page.css", "certificate.css"))


def write_evaluation(
    path: Path,
    report: Report,
    title: str,
    pairs_of: Callable[[int], Sequence[AssemblyPair]],
    method_of: Callable[[int], Method] | None,
    seed: int,
    *,
    force: bool,
) -> None:
    """Write the report of an evaluation; without ``method_of``, the method of a sampling, no law errors."""
    pairs = ranked(report.rows[0])
    shown = spread(sum(pair.score.errors is not None for pair in pairs), MOST_EXAMPLES)
    tried = {shown[index] for index in spread(len(shown), MOST_TRIED)}
    samplings = {number: pairs_of(number) for number in {pairs[place].sampling for place in shown}}
    examples = {}
    for done, place in enumerate(shown):
        log.info("the page: pair %d of %d", done + 1, len(shown))
        found = pairs[place]
        pair, pose = samplings[found.sampling][found.number], found.score.transformation
        assert pose is not None  # only pairs with an answer are shown
        facts = error_rows(found)
        if method_of is not None and place in tried:
            rng = np.random.default_rng([seed, found.sampling, found.number])
            facts.append(law_row(law_errors_on(method_of(found.sampling), pair, pose, rng)))
        examples[place] = replace(show_pair(pair, pose, found.name), facts=facts)
    write_text(path, render_evaluation(report, pairs, examples, title), force=force)


def list_evidence(hypothesis: Hypothesis) -> tuple[str, ...]:
    """The cells of a hypothesis, in the order of ``COLUMNS``."""
    scores = (f"{hypothesis.evidence[name]:.2f}" for name in ("overlap_larger", "seam", "mate_larger"))
    sure = f"{hypothesis.confidence:.0%}"
    return f"{hypothesis.weight:.0%}", hypothesis.method, hypothesis.origin, *scores, sure


def _list_errors(pair: Ranked) -> tuple[str, ...]:
    """The errors of an answer, or one cell that says why there are none."""
    if (errors := pair.score.errors) is None:
        missing = "no answer: " if pair.score.transformation is None else ""  # else no answer is right
        return (missing + (pair.score.failure or NONE),)
    lengths = errors.translation_error, errors.displacement
    return f"{errors.rotation_error_deg:.2f}", *(f"{length:.3g}" for length in lengths)


def error_rows(pair: Ranked) -> list[Row]:
    """Describe an answer of an evaluation as rows of name and value; lengths in the unit of the pair."""
    score = pair.score
    if score.errors is None:
        return [("no answer", score.failure or NONE)]
    found, unit = score.errors, f" {score.unit}" if score.unit else ""
    rmse = found.registration_rmse
    rows = [
        ("right", "yes" if score.right else "no"),
        ("confidence", None if score.confidence is None else f"{score.confidence:.0%}"),
        ("Δr", f"{found.rotation_error_deg:.2f}°"),
        ("Δt", f"{found.translation_error:.4g}{unit}"),
        ("displacement", f"{found.displacement:.4g}{unit}"),
        ("ADD-S", f"{found.add_s:.4g}{unit}"),
        ("Chamfer", f"{found.part_chamfer:.4g}{unit + '²' if unit else ''}"),
        ("RMSE", None if rmse is None else f"{rmse:.4g}{unit}"),
        ("time", None if score.seconds is None else f"{score.seconds:.3g} s"),
    ]
    return [(name, value) for name, value in rows if value is not None]


def report_settings(settings: Settings) -> Settings:
    """Settings of the same answer, with more hypotheses beside it."""
    return replace(settings, hypotheses=max(settings.hypotheses, REPORT_HYPOTHESES))


def best_of(assembly: Assembly, count: int) -> Assembly:
    """Keep at most ``count`` hypotheses, as if no more had been asked for."""
    kept = assembly.hypotheses[:count]
    total = sum(each.weight for each in kept)
    return replace(assembly, hypotheses=tuple(replace(each, weight=each.weight / total) for each in kept))


def report_rows(
    assembly: Assembly,
    source: Geometry,
    reference: Geometry,
    network: Network,
    settings: Settings,
    given: bool = False,
) -> list[Row]:
    """Rows of name and value: the law errors on this very pair, which is assembled three times more, and the
    settings. A ``given`` pose does not move with the pair, and one that may not turn freely moves with few
    motions of it: their laws are not tried. Nor are those of pieces in different units, which a swap inverts.
    """
    given_ones = (item for item in asdict(settings).items() if item[1] is not None and item[1] is not False)
    rows = [("settings", ", ".join(f"{name} {value}" for name, value in given_ones))]
    if given or not settings.freedom.is_full or settings.scale is not None:
        return rows

    def solve(pair: AssemblyPair) -> Pose:
        return assemble_geometries(pair.source, pair.reference, network, settings).transformation

    log.info("trying the laws")
    pair = AssemblyPair(source, reference, np.eye(4), "pair")  # its own answer is not used
    rng = np.random.default_rng(settings.seed)
    laws = law_errors_on(Method(network.name, solve), pair, assembly.transformation, rng)
    return [law_row(laws), *rows]


def describe_pose(pose: Pose) -> dict[str, Any]:
    """A pose as matrix and quaternion, rounded to read and exact to copy."""
    quaternion, translation = quaternion_wxyz(pose[:3, :3]).tolist(), pose[:3, 3].tolist()
    w, *xyz = quaternion
    rows = [[*map(_round, row[:3]), _round_length(row[3])] for row in pose.tolist()[:3]]
    return {
        "rows": [*rows, ["0", "0", "0", "1"]],
        "quaternion": " ".join(map(_round, quaternion)),
        "translation": " ".join(map(_round_length, translation)),
        "angle": f"{np.rad2deg(2 * np.arctan2(np.linalg.norm(xyz), w)):.2f}",
        "matrix_text": json.dumps(pose.tolist()),
        "quaternion_text": json.dumps({"quaternion_wxyz": quaternion, "translation": translation}),
    }


def _round(value: float) -> str:
    return f"{round(value, 6) + 0.0:.6f}"  # adding 0 takes the sign off -0.0


def _round_length(value: float) -> str:
    """Six decimals are too few for pieces of micrometres and too many for map coordinates."""
    if value == 0 or 0.01 <= abs(value) < 1000:
        return _round(value)
    return f"{value:.{7 if abs(value) < 1 else 10}g}"


def _encode_scene(stage: Stage, poses: Sequence[Pose]) -> dict[str, Any]:
    """Numbers for the script: coordinates relative to centres in float32, all else in full.

    ``motions`` has what differs from pose to pose; the numbers of the first are also those of the scene.
    """

    def encode_motion(pose: Pose) -> dict[str, Any]:
        after = pose[:3, :3] @ stage.source.center + pose[:3, 3] - stage.reference.center
        ends = stage.source.points + stage.before, stage.source.points @ pose[:3, :3].T + after
        return {
            "quaternion": quaternion_wxyz(pose[:3, :3]).tolist(),
            "after": after.tolist(),
            "fit": [_fit_ball(stage.view, np.concatenate([end, stage.reference.points])) for end in ends],
        }

    motions = list(map(encode_motion, poses))
    return {
        "source": _encode_cloud(stage.source),
        "reference": _encode_cloud(stage.reference),
        "before": stage.before.tolist(),
        "view": stage.view.ravel().tolist(),
        "notes": stage.notes,
        "motions": motions,
        **motions[0],
    }


def _encode_cloud(cloud: Shown) -> dict[str, Any]:
    return {
        "center": cloud.center.tolist(),
        "points": encode(cloud.points),
        "normals": encode(127 * cloud.normals, "i1"),
        "keypoints": encode(cloud.keypoints) if len(cloud.keypoints) else None,
        "spacing": cloud.spacing,
        "count": cloud.count,
    }


def encode(rows: Float64[np.ndarray, "n 3"], kind: str = "<f4") -> str:
    """Numbers in base64, rounded where the kind is of integers."""
    rows = np.round(rows) if kind == "i1" else rows
    return base64.b64encode(rows.astype(kind).tobytes()).decode()


def _fit_ball(view: Matrix, points: Float64[np.ndarray, "n 3"]) -> dict[str, Any]:
    """A ball that holds all points, in the middle of the picture seen from ``view``."""
    seen = points @ view.T
    center = (seen.min(0) + seen.max(0)) / 2
    radius = float(np.linalg.norm(seen - center, axis=1).max())
    return {"center": (center @ view).tolist(), "radius": radius or 1.0}


def render_page(
    template: str, values: Mapping[str, Any], styles: Sequence[str], scripts: Sequence[str] = ()
) -> str:
    """Fill a template; styles and scripts are put into the page, and its policy allows no others."""
    folder = resources.files("bitr.show") / "templates"
    style, script = (
        Markup("".join((folder / name).read_text(encoding="utf-8") for name in names))
        for names in (styles, scripts)
    )
    hashes = {"style_hash": _hash(style), "script_hash": _hash(script)}
    page = environment().get_template(template).render(**values, style=style, script=script, **hashes)
    return page.encode("utf-8", "replace").decode()


def render_part(template: str, macro: str, **values: Any) -> str:
    """Fill one macro of a template: a piece of HTML for a page that something else serves."""
    return str(getattr(environment().get_template(template).module, macro)(**values))


@cache
def environment() -> Environment:
    """Templates in which text is escaped, JSON cannot end its script element, and no value is missing."""
    loader = PackageLoader("bitr.show")
    found = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return found


def _hash(text: str) -> str:
    """The name of an inline script or style in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
