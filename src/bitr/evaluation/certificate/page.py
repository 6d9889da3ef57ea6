"""The certificate as one HTML page: static, and it loads nothing."""

from __future__ import annotations

import math

from bitr.evaluation.certificate.bounds import BOUNDS, LAWS
from bitr.evaluation.certificate.certificate import Certificate, Kind, Row
from bitr.show.web import as_text, render_page

TITLES: dict[Kind, str] = {"layer": "Layer by layer, in float64", "end to end": "End to end"}
LOWEST, HIGHEST = -17, 1
"""Powers of ten at the ends of a bar."""
WIDTH = 200


def html_page(certificate: Certificate) -> str:
    """Text from outside is escaped, and the page's own policy allows no script and no style but its own."""
    values = {
        "model": as_text(certificate.model),
        "verdict": f'<p class="verdict {_color(certificate.ok)}">{as_text(verdict(certificate))}</p>',
        "tables": "".join(_table(certificate, kind) for kind in TITLES) + _skipped(certificate),
        "bounds": _bounds(certificate),
        "trials": str(min(row.trials for row in certificate.rows)),
        "seed": str(certificate.seed),
    }
    return render_page("certificate.html", values, ("page.css", "certificate.css"))


def verdict(certificate: Certificate) -> str:
    """One sentence: whether the laws hold, and where the first one breaks."""
    if certificate.ok:
        return "All three laws hold."
    parts = []
    for law in certificate.broken:
        layer = certificate.first_broken_layer(law)
        parts.append(f"Δ_{law}" + ("" if layer is None else f" (first in {layer})"))
    return f"Broken: {', '.join(parts)}."


def _table(certificate: Certificate, kind: Kind) -> str:
    rows = [row for row in certificate.rows if row.kind == kind]
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("", *(f"Δ_{law}" for law in LAWS)))
    lines = ""
    for path in dict.fromkeys(row.path for row in rows):
        cells = "".join(_cell(row) for row in rows if row.path == path)
        lines += f"<tr><th scope=row>{as_text(path)}</th>{cells}</tr>"
    return (
        f"<section><h2>{TITLES[kind]}</h2><table><thead><tr>{head}</tr></thead>"
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
    """Where an error stands on a bar, in its own units; what is no number stands at the end."""
    if error <= 0:
        return 0.0
    power = math.log10(error) if math.isfinite(error) else HIGHEST
    return WIDTH * (min(max(power, LOWEST), HIGHEST) - LOWEST) / (HIGHEST - LOWEST)


def _bounds(certificate: Certificate) -> str:
    used = dict.fromkeys(row.precision for row in certificate.rows)
    lines = ""
    for name in used:
        bounds = BOUNDS[name]
        cells = (*(f"{getattr(bounds, law):.0e}" for law in LAWS), bounds.judged, bounds.reason)
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
