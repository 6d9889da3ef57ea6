"""What the page says, as HTML; whatever comes from outside is escaped."""

from __future__ import annotations

from html import escape

import numpy as np
import torch
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly
from bitr.groups import rotation_angle
from bitr.io import SUFFIXES
from bitr.viewer.files import MOST_BYTES, shown_name
from bitr.viewer.piece import Piece
from bitr.viewer.solver import Answer

BOX = "margin:0 0.6em 0.6em 0.6em;font-size:0.85em;line-height:1.45"
MONO = "font-family:ui-monospace,monospace;font-variant-numeric:tabular-nums"
NUMBER = "text-align:right;padding-left:0.7em"
LABEL = "color:#6b7280;padding-right:0.8em;vertical-align:top;white-space:nowrap"
BAD = "background:#fdecea;color:#8c1b12;border-radius:4px;padding:0.4em 0.6em;overflow-wrap:anywhere"
ZONE = "flex:1;border:1px dashed #9aa0a6;border-radius:4px;padding:0.5em;text-align:center;color:#6b7280"
LAW = "|Φ(g₁X, g₂Y) − g₂Φ(X, Y)g₁⁻¹|"


def answer_html(answer: Answer, number: int) -> str:
    """The facts of an answer; ``number`` counts the answers of the page."""
    assembly, session = answer.assembly, answer.session
    rmse = assembly.inlier_rmse
    source, reference = (session.problem.pieces[index] for index in session.order)
    rows = [
        ("source", _described(source)),
        ("reference", _described(reference)),
        ("time", f"{1000 * assembly.seconds:.0f} ms an answer"),
        ("law error", f'{answer.law_error:.1e}<br><span style="color:#6b7280">{LAW}</span>'),
        ("turned by", f"{_degrees(answer.pose):.1f}°"),
        ("fitness", f"{assembly.fitness:.3f}" + ("" if rmse is None else f", rmse {rmse:.3g}")),
        ("confidence", confidence_text(assembly)),
    ]
    cells = "".join(f'<tr><td style="{LABEL}">{name}</td><td>{value}</td></tr>' for name, value in rows)
    warnings = "".join(f'<div style="{BAD}">{escape(text)}</div>' for text in assembly.warnings)
    return (
        f'<div id="bitr-answer" data-number="{number}" data-law="{answer.law_error:.3e}" style="{BOX}">'
        f'<table style="border-spacing:0">{cells}</table>{warnings}</div>'
    )


def pose_html(answer: Answer) -> str:
    """The pose that takes the source's file onto the reference's, as it will be downloaded."""
    rows = "".join(
        "<tr>" + "".join(f'<td style="{NUMBER}">{v:.4g}</td>' for v in row) + "</tr>"
        for row in np.round(answer.pose_of_files, 6) + 0.0
    )
    return f'<div style="{BOX}"><table id="bitr-pose" style="{MONO}">{rows}</table></div>'


def confidence_text(assembly: Assembly) -> str:
    """How sure the answer is, and what makes it doubtful."""
    if assembly.confidence is not None:
        text = f"{assembly.confidence:.0%}"
    elif len(assembly.hypotheses) > 1:
        text = "not known for one of several"
    else:
        text = "not known: these weights come without a calibration"
    kind = "degenerate" if assembly.degenerate else "ambiguous" if assembly.ambiguous else ""
    return text + (f"<br>{kind}: {escape(assembly.reason or '')}" if kind else "")


def hypotheses_html(answer: Answer) -> str:
    """All hypotheses, best first: the share of the belief, and how far each is turned from the best."""
    back = np.linalg.inv(answer.assembly.hypotheses[0].transformation)
    rows = "".join(
        f'<tr><td style="{LABEL}">{number}</td><td style="{NUMBER}">{100 * each.weight:.0f} %</td>'
        f'<td style="{NUMBER}">{_degrees(each.transformation @ back):.0f}° from the best</td></tr>'
        for number, each in enumerate(answer.assembly.hypotheses, 1)
    )
    return f'<div style="{BOX}"><table id="bitr-hypotheses" style="border-spacing:0">{rows}</table></div>'


def message_html(text: str) -> str:
    """One line that says what went wrong; nothing for an empty text."""
    return (
        f'<div style="{BOX}"><div id="bitr-message" style="{BAD}">{escape(text)}</div></div>' if text else ""
    )


def legend_html(colors: dict[str, str]) -> str:
    """Which colour is which."""
    items = "".join(
        f'<span style="white-space:nowrap;margin-right:1em"><span style="display:inline-block;width:0.75em;'
        f'height:0.75em;border-radius:50%;background:{color};margin-right:0.35em"></span>{name}</span>'
        for name, color in colors.items()
    )
    return f'<div style="{BOX}">{items}<br>large dots: key points; pale dots: not seen by the model</div>'


def caption_html(title: str, text: str) -> str:
    """What the gallery shows, and which pair is open."""
    second = f'<div id="bitr-pair"><b>{escape(text)}</b></div>' if text else "click on a picture"
    return f'<div style="{BOX};overflow-wrap:anywhere"><div>{escape(title)}</div>{second}</div>'


def drop_html(labels: tuple[str, str]) -> str:
    """Two places to drop a file on; each hands it to the upload button with its label.

    A file that is dropped elsewhere would replace the page: the browser is told not to.
    """
    keep = "document.ondragover=document.ondrop=(e)=>e.preventDefault()"
    zones = "".join(
        f'<div class="bitr-drop" style="{ZONE}" {_on_drop(label)}>drop {label.lower()}</div>'
        for label in labels
    )
    blank = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    limits = f"{' '.join(SUFFIXES.read)}; at most {MOST_BYTES // 2**20} MB each"
    return (
        f'<div style="{BOX}"><div style="display:flex;gap:0.6em">{zones}</div>'
        f'<div style="color:#6b7280;margin-top:0.3em">{limits}</div>'
        f'<img src="{blank}" alt="" style="display:none" onload="{keep}"></div>'
    )


def _on_drop(label: str) -> str:
    hand_on = (
        "event.preventDefault();event.stopPropagation();"
        f"const b=[...document.querySelectorAll('button')].find((b)=>b.textContent.trim()==='{label}');"
        "const i=b.parentElement.querySelector('input[type=file]');"
        "i.files=event.dataTransfer.files;i.dispatchEvent(new Event('change',{bubbles:true}))"
    )
    return f'ondragover="event.preventDefault()" ondrop="{hand_on}"'


def _described(piece: Piece) -> str:
    points, seen = len(piece.cloud.points), len(piece.seen.points)
    name = escape(shown_name(piece.file.name))
    return f"{name}<br>{points:,} points" + (f", {seen:,} seen" if seen < points else "")


def _degrees(pose: Float64[np.ndarray, "4 4"]) -> float:
    return float(rotation_angle(torch.from_numpy(pose[:3, :3]))) * 180 / torch.pi
