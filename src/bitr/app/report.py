"""The report of an assembly: one HTML page that shows the pair in 3-D, and needs nothing but a browser."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.app.encoded import encoded, quaternion_wxyz
from bitr.files import whole_file
from bitr.pictures import web
from bitr.pictures.scene import Scene
from bitr.pictures.stage import Stage, staged
from bitr.pictures.web import as_text, asset, filled, in_script


def write_html(path: Path, scene: Scene, *, force: bool) -> None:
    """Write the page; an existing file is refused without ``force``, and nothing partial is ever left."""
    with whole_file(path, force=force) as temporary:
        temporary.write_text(html_page(scene), encoding="utf-8", newline="\n")


def html_page(scene: Scene) -> str:
    """One self-contained page: the same scene gives the same text, and the page loads nothing.

    Text from outside is escaped, and the page's own policy allows no script and no style but those in it.
    """
    stage = staged(scene)
    values = {
        "title": as_text(scene.title),
        "viewer": viewer_panel(stage),
        "pose": pose_panel(scene.transformation),
        "facts": facts_panel("Facts", scene.facts),
        "scene": in_script(encoded(stage)),
    }
    return web.page("report.html", values, ("page.css", "report.css"), ("report.js",))


def viewer_panel(stage: Stage) -> str:
    """The 3-D view and its buttons; the script finds what to draw in the elements of class ``scene``."""
    values = {
        "source_total": stage.source.count,
        "reference_total": stage.reference.count,
        "notes": "".join(f"<li>{escape(note)}</li>" for note in stage.notes),
    }
    return filled(asset("viewer.html"), values)


def pose_panel(pose: Float64[np.ndarray, "4 4"]) -> str:
    """The pose as a matrix and as a quaternion, to read and to copy."""
    quaternion, translation = quaternion_wxyz(pose[:3, :3]), pose[:3, 3].tolist()
    w, *xyz = quaternion
    values = {
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
