"""What the page says, as HTML; whatever comes from outside is escaped."""

from __future__ import annotations

from html import escape

import numpy as np
import torch
from jaxtyping import Float64

from bitr.app.report import COLUMNS, cells
from bitr.assembly.assemble import Assembly, Hypothesis
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
GRAY = "color:#6b7280"
WARN = (
    "background:#fff6df;color:#8a5a00;border:1px solid #8a5a00;border-radius:4px;padding:0.4em 0.6em;"
    "margin-bottom:0.6em;overflow-wrap:anywhere"
)
CELL = "padding:0.15em 0.45em 0.15em 0;white-space:nowrap;border-top:1px solid #e2e2de"
BUTTON = (
    "font:inherit;color:#1f5fc4;background:transparent;border:1px solid #9aa0a6;border-radius:4px;"
    "padding:0.15em 0.7em;cursor:pointer"
)
LAW = "|Φ(g₁X, g₂Y) − g₂Φ(X, Y)g₁⁻¹|"
CARRIED = "The pose is carried along with the pieces, g₂ g g₁⁻¹, and computed anew once they rest."
LOOK_AT = "Look at pose"
"""Label of the buttons that a click on the table is handed to."""


def answer_html(answer: Answer, number: int) -> str:
    """The facts of an answer; ``number`` counts the answers of the page."""
    assembly, session = answer.assembly, answer.session
    rmse = assembly.inlier_rmse
    source, reference = (session.problem.pieces[index] for index in session.order)
    law = "measured once the pieces rest" if answer.carried else f"{answer.law_error:.1e}"
    rows = [
        ("confidence", f"{assembly.confidence:.0%}"),
        ("method", escape(assembly.method)),
        ("law error", f'{law}<br><span style="{GRAY}">{LAW}</span>'),
        ("turned by", f"{_degrees(answer.pose_of_files):.1f}°, from file to file"),
        ("fitness", f"{assembly.fitness:.3f}" + ("" if rmse is None else f", rmse {rmse:.3g}")),
        ("time", f"{_time(assembly.seconds)} an answer"),
        ("source", _described(source)),
        ("reference", _described(reference)),
    ]
    cells = "".join(f'<tr><td style="{LABEL}">{name}</td><td>{value}</td></tr>' for name, value in rows)
    warnings = "".join(f'<div style="{BAD}">{escape(text)}</div>' for text in assembly.warnings)
    carried = f'<div id="bitr-carried" style="{GRAY}">{CARRIED}</div>' if answer.carried else ""
    return (
        f'<div id="bitr-answer" data-number="{number}" data-law="{answer.law_error:.3e}" style="{BOX}">'
        f'{status_html(assembly)}<table style="border-spacing:0">{cells}</table>{carried}{warnings}</div>'
    )


def status_html(assembly: Assembly) -> str:
    """Status and reason, where the answer is not simply ok."""
    if assembly.status == "ok":
        return ""
    reason = f": {escape(assembly.reason)}" if assembly.reason else ""
    return f'<div id="bitr-status" style="{WARN}"><b>{escape(assembly.status)}</b>{reason}</div>'


def pose_html(answer: Answer) -> str:
    """The pose that takes the source's file onto the reference's, to read and to copy with all digits."""
    pose = answer.pose_of_files
    rows = "".join(
        "<tr>" + "".join(f'<td style="{NUMBER}">{v:.4g}</td>' for v in row) + "</tr>"
        for row in np.round(pose, 6) + 0.0
    )
    text = "\n".join(" ".join(f"{value:.17g}" for value in row) for row in pose)
    return (
        f'<div style="{BOX}"><table id="bitr-pose" style="{MONO}">{rows}</table>'
        f'<button type="button" id="bitr-copy" style="{BUTTON};margin-top:0.5em" data-copy="{escape(text)}" '
        f'onclick="{escape(COPY)}">Copy pose {answer.choice + 1}</button></div>'
    )


COPY = (
    "const b=this,label=b.textContent,say=(t)=>{b.textContent=t;setTimeout(()=>{b.textContent=label},1500)},"
    "old=()=>{const a=document.body.appendChild(document.createElement('textarea'));a.value=b.dataset.copy;"
    "a.select();const done=document.execCommand('copy');a.remove();say(done?'Copied':'Could not copy')};"
    "navigator.clipboard?navigator.clipboard.writeText(b.dataset.copy).then(()=>say('Copied'),old):old()"
)
"""Where the page was not served securely, a browser has no clipboard, and the old way is used."""


def hypotheses_html(answer: Answer) -> str:
    """All hypotheses, best first, with what speaks for each; a click on one shows it."""
    head = "".join(
        f'<th style="{CELL};border-top:0;{GRAY};font-weight:400;text-align:{_align(name)}">{name}</th>'
        for name in ("", *COLUMNS)
    )
    rows = "".join(
        _hypothesis_row(number, each, number == answer.choice)
        for number, each in enumerate(answer.assembly.hypotheses)
    )
    return (
        f'<div style="{BOX};font-size:0.75em;overflow-x:auto"><table id="bitr-hypotheses" '
        f'style="border-spacing:0;width:100%"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _hypothesis_row(number: int, hypothesis: Hypothesis, current: bool) -> str:
    texts = zip(("", *COLUMNS), (str(number + 1), *cells(hypothesis)), strict=True)
    found = "".join(
        f'<td style="{CELL};text-align:{_align(name)}">{escape(text)}</td>' for name, text in texts
    )
    click = (
        "[...document.querySelectorAll('button')]"
        f".find((b)=>b.textContent.trim()==='{option(number)}').click()"
    )
    style = "cursor:pointer" + (";background:#e9f0fb;font-weight:600" if current else "")
    return (
        f'<tr style="{style}" aria-current="{str(current).lower()}" title="look at pose {number + 1}" '
        f'onclick="{click}">{found}</tr>'
    )


def option(number: int) -> str:
    """What the button says that shows a hypothesis."""
    return f"{number + 1}"


def _align(name: str) -> str:
    return "left" if name in ("", "method", "from") else "right"


def working_html(working: bool) -> str:
    """A line while the engine is at work."""
    return (
        f'<div style="{BOX}"><span id="bitr-working" style="{GRAY}">computing …</span></div>'
        if working
        else ""
    )


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
    return f'<div style="{BOX}">{items}<br>large dots: key points</div>'


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
    points, dense = len(piece.cloud.points), len(piece.dense.points)
    name = escape(shown_name(piece.file.name))
    return f"{name}<br>{points:,} points" + (f", the engine uses {dense:,}" if dense < points else "")


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _degrees(pose: Float64[np.ndarray, "4 4"]) -> float:
    return float(rotation_angle(torch.from_numpy(pose[:3, :3]))) * 180 / torch.pi
