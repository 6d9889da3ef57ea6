"""The report of an evaluation: one HTML page with the table, the figures, and pairs to look at in 3-D."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bitr.app.encoded import encoded
from bitr.app.report import facts_panel, pose_panel, viewer_panel
from bitr.evaluation import charts
from bitr.evaluation.charts import spread
from bitr.evaluation.report import NONE, NOTES, Ranked, Repeated, Report, columns
from bitr.pictures import web
from bitr.pictures.scene import Scene
from bitr.pictures.stage import MOST_SHOWN, Stage, staged
from bitr.pictures.web import as_text, in_script

MOST_EXAMPLES = 25
MOST_POINTS = 150_000
"""Of all examples together: three megabytes."""
MOST_ROWS = 5000
"""Of the list of pairs."""


@dataclass(frozen=True, eq=False)
class Example:
    """A pair that can be looked at: as it was answered, and what there is to say of it."""

    scene: Scene
    facts: Sequence[tuple[str, str]]


def html_page(report: Report, pairs: Sequence[Ranked], examples: Mapping[int, Example], title: str) -> str:
    """One self-contained page: the same report gives the same text, and the page loads nothing.

    ``pairs`` are those of the first row of the report from the best to the worst, and ``examples`` some of
    them by their place in that list. Text from outside is escaped.
    """
    most = min(MOST_SHOWN, MOST_POINTS // (2 * len(examples)))
    stages = {place: staged(example.scene, most) for place, example in examples.items()}
    first = sorted(examples)[len(examples) // 2]
    errors = {row.name: row.pooled.values("rotation_error_deg") for row in report.rows}
    settings = [(name, str(value)) for name, value in report.settings.items() if value is not None]
    values = {
        "title": as_text(title),
        "table": _table(report.rows),
        "notes": as_text(NOTES),
        "histogram": charts.rotation_histogram(errors).to_svg(),
        "recall": charts.recall_curve(errors).to_svg(),
        "settings": facts_panel("Settings", settings),
        "viewer": viewer_panel(stages[first]),
        "pairs": _list(pairs, examples, first),
        "about": "".join(_about(place, example, place == first) for place, example in examples.items()),
        "scenes": "".join(
            _scene(place, stages[place]) for place in [first, *(p for p in stages if p != first)]
        ),
    }
    return web.page("evaluation.html", values, ("page.css", "report.css", "evaluation.css"), ("report.js",))


def _table(rows: Sequence[Repeated]) -> str:
    """A row for each method, the chance level below them, as in the table of ``bitr evaluate``."""
    found = [[head, *cells, guess] for head, cells, guess in columns(rows)]
    head, *lines = zip(*found, strict=True)
    body = "".join(f"<tr><th scope=row>{as_text(name)}</th>{_cells(cells)}</tr>" for name, *cells in lines)
    top = "".join(f"<th>{as_text(name)}</th>" for name in head)
    return f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"


def _list(pairs: Sequence[Ranked], examples: Mapping[int, Example], first: int) -> str:
    """All pairs in a table; those that can be looked at have a button, and the script makes the row one."""
    listed = sorted({*spread(len(pairs), MOST_ROWS), *examples})
    rows = "".join(_row(place, pairs[place], place in examples, place == first) for place in listed)
    some = f"{len(listed):,} of the {len(pairs):,}" if len(listed) < len(pairs) else f"{len(pairs):,}"
    top = "".join(f"<th>{name}</th>" for name in ("", "pair", "Δr (°)", "Δt", "displaced"))
    return (
        f"<h2>Pairs <small>{some}, the best first; those in colour can be seen in 3-D</small></h2>"
        f'<div class="list"><table class="pairs"><thead><tr>{top}</tr></thead><tbody>{rows}</tbody>'
        "</table></div>"
    )


def _row(place: int, pair: Ranked, seen: bool, current: bool) -> str:
    name, errors = as_text(pair.name), pair.score.errors
    if errors is None:
        missing = "no answer: " if pair.score.transformation is None else ""  # else there is no right one
        cells = f"<td colspan=3>{missing}{as_text(pair.score.failure or NONE)}</td>"
    else:
        lengths = (f"{length:.3g}" for length in (errors.translation_error, errors.displacement))
        cells = _cells([f"{errors.rotation_error_deg:.2f}", *lengths])
    if not seen:
        return f"<tr><td>{place + 1}</td><td>{name}</td>{cells}</tr>"
    mark = f'data-scene="scene-{place}" aria-current="{str(current).lower()}"'
    return f'<tr {mark}><td>{place + 1}</td><td><button type="button">{name}</button></td>{cells}</tr>'


def _cells(texts: Sequence[str]) -> str:
    return "".join(f"<td>{as_text(text)}</td>" for text in texts)


def _about(place: int, example: Example, current: bool) -> str:
    hidden = "" if current else " hidden"
    return (
        f'<div data-about="scene-{place}"{hidden}>{facts_panel(example.scene.title, example.facts)}'
        f"{pose_panel(example.scene.transformation)}</div>"
    )


def _scene(place: int, stage: Stage) -> str:
    numbers = in_script(encoded(stage))
    return f'<script type="application/json" class="scene" id="scene-{place}">{numbers}</script>\n'


def error_rows(pair: Ranked) -> list[tuple[str, str]]:
    """What is known of an answer, as rows of name and value; lengths in the unit of the pair."""
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
