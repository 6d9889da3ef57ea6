"""The report of an assembly: one HTML page that shows the pair in 3-D, and needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.app.encoded import encoded
from bitr.files import whole_file
from bitr.pictures.scene import Scene
from bitr.pictures.stage import Shown, staged


def write_html(path: Path, scene: Scene, *, force: bool) -> None:
    """Write the page; an existing file is refused without ``force``, and nothing partial is ever left."""
    with whole_file(path, force=force) as temporary:
        temporary.write_text(html_page(scene), encoding="utf-8", newline="\n")


def html_page(scene: Scene) -> str:
    """One self-contained page: the same scene gives the same text, and the page loads nothing.

    Text from outside is escaped, and the page's own policy allows no script and no style but those in it.
    """
    stage, pose = staged(scene), scene.transformation
    x, y, z, w = Rotation.from_matrix(pose[:3, :3]).as_quat(canonical=True).tolist()
    quaternion, translation = [w, x, y, z], pose[:3, 3].tolist()
    style, script = _asset("report.css"), _asset("report.js")
    return _filled(
        _asset("report.html"),
        {
            "title": _text(scene.title),
            "source_total": _count(stage.source),
            "reference_total": _count(stage.reference),
            "notes": _notes(stage.notes),
            "matrix": _matrix(pose),
            "quaternion": " ".join(_fixed(value) for value in quaternion),
            "translation": " ".join(_length(value) for value in translation),
            "angle": f"{np.rad2deg(2 * np.arctan2(np.linalg.norm([x, y, z]), w)):.2f}",
            "matrix_text": escape(json.dumps(pose.tolist())),
            "quaternion_text": escape(
                json.dumps({"quaternion_wxyz": quaternion, "translation": translation})
            ),
            "facts": _facts(scene.facts),
            "scene": _in_script(encoded(stage, quaternion)),
            "style": style,
            "style_hash": _hash(style),
            "script": script,
            "script_hash": _hash(script),
        },
    )


def _filled(template: str, values: dict[str, str]) -> str:
    """The template with each ``{{name}}`` replaced, in one pass: what is filled in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def _asset(name: str) -> str:
    return (resources.files("bitr") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a Content-Security-Policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _text(text: str) -> str:
    """Text from outside, as HTML; a file name may hold bytes that are no text, which show as "?"."""
    return escape(text.encode("utf-8", "replace").decode())


def _in_script(values: dict[str, Any]) -> str:
    """JSON in which no ``<`` can end the script element early."""
    return json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")


def _count(cloud: Shown) -> str:
    return f"{cloud.total:,} point{'s' if cloud.total != 1 else ''}"


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


def _notes(notes: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="notes">{lines}</ul>' if notes else ""


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    warnings = [value for name, value in facts if _is_warning(name)]
    rows = [(name, value) for name, value in facts if not _is_warning(name)]
    if not facts:
        return ""
    banners = "".join(f'<p class="warning">{_text(text)}</p>' for text in warnings)
    lines = "".join(
        f"<tr><th scope=row>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows
    )
    return f'<section><h2>Facts</h2>{banners}<table class="facts">{lines}</table></section>'


def _is_warning(name: str) -> bool:
    return name.lower().startswith("warning")
