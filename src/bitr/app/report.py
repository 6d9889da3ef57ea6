"""The report of an assembly: one HTML page that shows the pair in 3-D, and needs nothing but a browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.app.encoded import encoded, encoded_motion, quaternion_wxyz
from bitr.assembly.assemble import Assembly, Hypothesis
from bitr.files import whole_file
from bitr.pictures import web
from bitr.pictures.scene import Scene
from bitr.pictures.stage import Stage, staged
from bitr.pictures.web import as_text, asset, filled, in_script

COLUMNS = ("weight", "method", "from", "overlap", "seam", "confidence")
"""Of a table of hypotheses: what speaks for each."""


def write_html(path: Path, scene: Scene, assembly: Assembly | None = None, *, force: bool) -> None:
    """Write the page; an existing file is refused without ``force``, and nothing partial is ever left."""
    with whole_file(path, force=force) as temporary:
        temporary.write_text(html_page(scene, assembly), encoding="utf-8", newline="\n")


def html_page(scene: Scene, assembly: Assembly | None = None) -> str:
    """One self-contained page: the same scene gives the same text, and the page loads nothing.

    With the assembly it has a banner where the answer is not ok, and the hypotheses, each to be looked at.
    Text from outside is escaped, and the page's own policy allows no script and no style but those in it.
    """
    stage, hypotheses = staged(scene), assembly.hypotheses if assembly else ()
    poses = [each.transformation for each in hypotheses] or [scene.transformation]
    told = banner(assembly) if assembly else ""
    values = {
        "title": as_text(scene.title),
        "banner": told,
        "viewer": viewer_panel(stage),
        "hypotheses": hypotheses_panel(hypotheses),
        "pose": _poses(poses),
        "facts": facts_panel("Facts", [row for row in scene.facts if not (told and row[0] == "status")]),
        "scene": in_script(encoded(stage) | {"motions": [encoded_motion(stage, pose) for pose in poses]}),
    }
    return web.page("report.html", values, ("page.css", "report.css"), ("report.js",))


def banner(assembly: Assembly) -> str:
    """Status and reason, where the answer is not simply ok."""
    if assembly.status == "ok":
        return ""
    reason = f": {as_text(assembly.reason)}" if assembly.reason else ""
    return f'<p class="status" role="status"><strong>{as_text(assembly.status)}</strong>{reason}</p>'


def cells(hypothesis: Hypothesis) -> tuple[str, ...]:
    """What speaks for a hypothesis, in the order of ``COLUMNS``."""
    return (
        f"{hypothesis.weight:.0%}",
        hypothesis.method,
        hypothesis.origin,
        f"{hypothesis.evidence['overlap_larger']:.2f}",
        f"{hypothesis.evidence['seam']:.2f}",
        f"{hypothesis.confidence:.0%}",
    )


def hypotheses_panel(hypotheses: Sequence[Hypothesis]) -> str:
    """All poses with what speaks for them; a click on one shows it."""
    if not hypotheses:
        return ""
    head = "".join(f"<th scope=col>{name}</th>" for name in ("", *COLUMNS))
    rows = "".join(
        f'<tr data-motion="{number}" aria-current="{str(number == 0).lower()}">'
        f'<td><button type="button" aria-label="Show pose {number + 1}">{number + 1}</button></td>'
        + "".join(f"<td>{as_text(text)}</td>" for text in cells(each))
        + "</tr>"
        for number, each in enumerate(hypotheses)
    )
    hint = "best first; click one to see it" if len(hypotheses) > 1 else "no other was found"
    return (
        f"<section><h2>Hypotheses <small>{hint}</small></h2>"
        f'<div class="scroll"><table class="hypotheses"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _poses(poses: Sequence[Float64[np.ndarray, "4 4"]]) -> str:
    """All of them; the script shows one."""
    names = [f"Pose {number}" for number in range(1, len(poses) + 1)] if len(poses) > 1 else ["Pose"]
    return "".join(
        f'<div data-pose="{number}"{" hidden" if number else ""}>{pose_panel(pose, name)}</div>'
        for number, (pose, name) in enumerate(zip(poses, names, strict=True))
    )


def viewer_panel(stage: Stage) -> str:
    """The 3-D view and its buttons; the script finds what to draw in the elements of class ``scene``."""
    values = {
        "source_total": stage.source.count,
        "reference_total": stage.reference.count,
        "notes": "".join(f"<li>{escape(note)}</li>" for note in stage.notes),
    }
    return filled(asset("viewer.html"), values)


def pose_panel(pose: Float64[np.ndarray, "4 4"], name: str = "Pose") -> str:
    """The pose as a matrix and as a quaternion, to read and to copy."""
    quaternion, translation = quaternion_wxyz(pose[:3, :3]), pose[:3, 3].tolist()
    w, *xyz = quaternion
    values = {
        "name": name,
        "matrix": _matrix(pose),
        "quaternion": " ".join(_fixed(value) for value in quaternion),
        "translation": " ".join(_length(value) for value in translation),
        "angle": f"{np.rad2deg(2 * np.arctan2(np.linalg.norm(xyz), w)):.2f}",
        "matrix_text": escape(json.dumps(pose.tolist())),
        "quaternion_text": escape(json.dumps({"quaternion_wxyz": quaternion, "translation": translation})),
    }
    return filled(asset("pose.html"), values)


def _fixed(value: float) -> str:
    return f"{round(value, 6) + 0.0:.6f}"  # adding 0 takes the sign off -0.0


def _length(value: float) -> str:
    """Six decimals where they say enough: not for pieces of micrometres, nor for map coordinates."""
    return (
        _fixed(value)
        if value == 0 or 0.01 <= abs(value) < 1000
        else f"{value:.{7 if abs(value) < 1 else 10}g}"
    )


def _matrix(pose: Float64[np.ndarray, "4 4"]) -> str:
    rows = [[*(_fixed(value) for value in row[:3]), _length(row[3])] for row in pose.tolist()[:3]]
    rows.append(["0", "0", "0", "1"])
    return "".join(f"<tr>{''.join(f'<td>{value}</td>' for value in row)}</tr>" for row in rows)


def facts_panel(title: str, facts: Sequence[tuple[str, str]]) -> str:
    """Rows of name and value; a name that starts with "warning" stands out."""
    warnings = [value for name, value in facts if _is_warning(name)]
    rows = [(name, value) for name, value in facts if not _is_warning(name)]
    if not facts:
        return ""
    banners = "".join(f'<p class="warning">{as_text(text)}</p>' for text in warnings)
    lines = "".join(
        f"<tr><th scope=row>{as_text(name)}</th><td>{as_text(value)}</td></tr>" for name, value in rows
    )
    return f'<section><h2>{as_text(title)}</h2>{banners}<table class="facts">{lines}</table></section>'


def _is_warning(name: str) -> bool:
    return name.lower().startswith("warning")
