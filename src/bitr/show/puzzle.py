"""Puzzles for the eye: a page with all pieces in their colours and the graph of joints, a page of several
puzzles, and a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bitr.assembly.assemble import Assembly
from bitr.assembly.puzzle import Joint, Puzzle
from bitr.data.poses import Pose
from bitr.files import write_text
from bitr.io import Geometry, as_points, even_draw
from bitr.show.picture import DPI, TEXT, draw_panel, parse_color, place_layer, write_figure
from bitr.show.report import encode, render_page
from bitr.show.stage import Matrix, Shown, Vector, choose_points, choose_view

MOST_POINTS = 40_000
"""Most points of all pieces together on a page or in a picture."""
COLORS = (
    *("#dd4033", "#3b7ddd", "#eeb211", "#3f9b4f", "#8f5fc8", "#e8823a", "#22a3a8", "#c2508f"),
    *("#8a6b3d", "#6b7a8f", "#a3b52a", "#4b4fb0"),
)
"""Colours of the pieces in turn."""
BESIDE = 1.15
"""Distance between things that stand beside each other, in sums of their radii."""
APART = 0.9
"""How far the pieces of the picture's first panel stand from their places, in distances from the middle."""
WIDTH, HEIGHT, TITLE, LEGEND = 9.0, 4.4, 0.35, 0.3
"""In inches: the picture, its panels, and the lines above and below."""
STYLES = ("page.css", "report.css", "puzzle.css")

Row = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Standing:
    """A piece as it is shown: turned, its centre at ``place``; ``out`` leads away from the middle."""

    cloud: Shown
    rotation: Matrix
    place: Vector
    out: Vector
    color: str


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A puzzle among others on one page, and what is to be said of it."""

    title: str
    pieces: Sequence[Geometry]
    puzzle: Puzzle
    facts: Sequence[Row]


def write_puzzle_page(path: Path, pieces: Sequence[Geometry], puzzle: Puzzle, *, force: bool) -> None:
    """Write the page of a puzzle."""
    write_text(path, render_puzzle(pieces, puzzle), force=force)


def render_puzzle(pieces: Sequence[Geometry], puzzle: Puzzle) -> str:
    """Render the page: the pieces in 3-D, drawn apart by a slider, and the joints as graph and table."""
    around = 2 * np.pi * np.arange(len(pieces)) / len(pieces) - np.pi / 2
    nodes = [
        {"x": x, "y": y, "color": COLORS[k % len(COLORS)]}
        for k, (x, y) in enumerate((150.0 * np.stack([np.cos(around), np.sin(around)], axis=1)).tolist())
    ]
    joined = [{joint.first, joint.second} for joint in puzzle.joints]
    values = {
        "title": _sentence(puzzle),
        "puzzle": puzzle,
        "names": _names(puzzle),
        "pairs": [
            pair | {"joint": "yes" if {pair["first"], pair["second"]} in joined else "no"}
            for pair in sorted(puzzle.pairs, key=lambda pair: -(pair["confidence"] or 0.0))
        ],
        "pieces": _list_pieces(puzzle),
        "nodes": nodes,
        "facts": list_puzzle_facts(puzzle),
        "scene": _encode(pieces, puzzle),
    }
    return render_page("puzzle.html", values, STYLES, ("puzzle.js",))


def write_exhibits(path: Path, title: str, exhibits: Sequence[Exhibit], *, force: bool) -> None:
    """Write one page that shows several puzzles, each with its pieces in 3-D and its facts."""
    shown = [
        {
            "title": each.title,
            "facts": each.facts,
            "pieces": _list_pieces(each.puzzle),
            "scene": _encode(each.pieces, each.puzzle),
        }
        for each in exhibits
    ]
    page = render_page("exhibits.html", {"title": title, "exhibits": shown}, STYLES, ("puzzle.js",))
    write_text(path, page, force=force)


def write_puzzle_png(path: Path, pieces: Sequence[Geometry], puzzle: Puzzle, *, force: bool) -> None:
    """Write a picture of the pieces drawn apart and in their places."""
    standing, view = stand(pieces, puzzle)
    whole = HEIGHT + TITLE + LEGEND

    def draw(figure: Any) -> None:
        figure.set_size_inches(WIDTH, whole)
        centered = {"ha": "center", "va": "center", "color": TEXT}
        for side, (title, apart) in enumerate((("Drawn apart", APART), ("Assembled", 0.0))):
            layers = [
                place_layer(
                    each.cloud, view @ each.rotation, view @ (each.place + apart * each.out), each.color
                )
                for each in standing
            ]
            draw_panel(figure, (side * WIDTH / 2, LEGEND), (WIDTH / 2, HEIGHT), layers)
            figure.text(side / 2 + 0.25, 1 - 0.6 * TITLE / whole, title, **centered)
        figure.text(0.5, 0.5 * LEGEND / whole, _sentence(puzzle), fontsize=9, **centered)

    write_figure(path, draw, DPI, colors=128, force=force)


def stand(pieces: Sequence[Geometry], puzzle: Puzzle) -> tuple[list[Standing], Matrix]:
    """The place of every piece, and the view: the first group in place, what is not of it beside it."""
    most = max(200, MOST_POINTS // len(pieces))
    moves = set_apart(pieces, puzzle)
    clouds = []
    for piece in pieces:
        points = as_points(piece, most, seed=0).points
        clouds.append(choose_points(points[even_draw(len(points), most, seed=0)], None, most))
    places = [move[:3, :3] @ cloud.center + move[:3, 3] for move, cloud in zip(moves, clouds, strict=True)]
    groups = _together(puzzle)
    origin = np.mean([places[k] for k in groups[0]], axis=0)
    middles = {k: np.mean([places[n] for n in group], axis=0) for group in groups for k in group}
    standing = [
        Standing(cloud, move[:3, :3], place - origin, place - middles[k], COLORS[k % len(COLORS)])
        for k, (cloud, move, place) in enumerate(zip(clouds, moves, places, strict=True))
    ]
    shown = np.concatenate([each.cloud.points @ each.rotation.T + each.place for each in standing])
    # the broad side of the whole; two halves of its points stand for the two pieces of a pair
    order = np.argsort(shown @ np.linalg.svd(shown - shown.mean(0), full_matrices=False)[2][0], kind="stable")
    half = len(order) // 2
    return standing, choose_view(shown[order[:half]], shown[order[half:]])


def set_apart(pieces: Sequence[Geometry], puzzle: Puzzle) -> list[Pose]:
    """The poses of the pieces, with other groups and pieces that are left over beside the first group."""
    moves, edge = [pose.copy() for pose in puzzle.poses], 0.0
    for number in puzzle.left_over:
        moves[number] = np.eye(4)
    for place, members in enumerate(_together(puzzle)):
        points = np.concatenate([pieces[k].moved(moves[k]).points for k in members])
        middle = (points.min(0) + points.max(0)) / 2
        radius = float(np.linalg.norm(points - middle, axis=1).max())
        if place == 0:
            start, edge = middle, radius
            continue
        edge += BESIDE * radius
        for k in members:
            moves[k][:3, 3] += start + np.array([edge, 0.0, 0.0]) - middle
        edge += BESIDE * radius
    return moves


def _together(puzzle: Puzzle) -> list[tuple[int, ...]]:
    """The groups, then every piece that is left over by itself."""
    return [*puzzle.groups, *((k,) for k in puzzle.left_over)]


def as_puzzle(assembly: Assembly) -> Puzzle:
    """The answer for a pair as that of a puzzle of two pieces, in the frame of the reference."""
    motion, sure = assembly.transformation, assembly.confidence
    return Puzzle(
        names=(assembly.source, assembly.reference),
        poses=np.stack([motion, np.eye(4)]),
        groups=((1, 0),),
        left_over=(),
        confidence=(sure, sure),
        joints=(Joint(1, 0, motion, sure, sure, assembly.method),),
        pairs=(),
        seconds=assembly.seconds,
        model=assembly.model,
        warnings=assembly.warnings,
    )


def _list_pieces(puzzle: Puzzle) -> list[dict[str, str]]:
    group = {k: f"group {number}" for number, members in enumerate(puzzle.groups, 1) for k in members}
    return [
        {
            "name": name,
            "color": COLORS[k % len(COLORS)],
            "group": group.get(k, "left over"),
            "confidence": f"{puzzle.confidence[k]:.0%}",
            "text": json.dumps(puzzle.poses[k].tolist()),
        }
        for k, name in enumerate(_names(puzzle))
    ]


def list_puzzle_facts(puzzle: Puzzle) -> list[Row]:
    """Describe the answer as rows of name and value."""
    names = _names(puzzle)
    rows = [
        (f"group {number}" if len(puzzle.groups) > 1 else "group", ", ".join(names[k] for k in members))
        for number, members in enumerate(puzzle.groups, 1)
    ]
    rows.append(("left over", ", ".join(names[k] for k in puzzle.left_over) or "nothing"))
    rows += [("frame", names[puzzle.largest]), ("model", puzzle.model), ("time", f"{puzzle.seconds:.3g} s")]
    return [*rows, *(("warning", warning) for warning in puzzle.warnings)]


def tell_puzzle(puzzle: Puzzle) -> list[str]:
    """Tell the groups and the pieces that are left over, in a sentence each."""

    def told(numbers: Sequence[int]) -> str:
        *others, last = (_names(puzzle)[k] for k in numbers)
        return f"{', '.join(others)} and {last}" if others else last

    groups = [f"{told(members)} belong together." for members in puzzle.groups]
    left = puzzle.left_over
    over = f"{told(left)} {'is' if len(left) == 1 else 'are'}" if left else "Nothing is"
    return [*(groups or ["No two pieces belong together."]), f"{over} left over."]


def _names(puzzle: Puzzle) -> list[str]:
    return [Path(name).name for name in puzzle.names]


def _sentence(puzzle: Puzzle) -> str:
    count, groups, left = len(puzzle.names), len(puzzle.groups), len(puzzle.left_over)
    found = "no two belong together" if not groups else "one group" if groups == 1 else f"{groups} groups"
    return f"{count} pieces: {found}" + (f", {left} left over" if left and groups else "")


def _encode(pieces: Sequence[Geometry], puzzle: Puzzle) -> dict[str, Any]:
    """Numbers for the script: coordinates relative to the centres, as the pieces stand."""
    standing, view = stand(pieces, puzzle)
    shown = [
        {
            "points": encode(each.cloud.points @ each.rotation.T),
            "normals": encode(127 * each.cloud.normals @ each.rotation.T, "i1"),
            "place": each.place.tolist(),
            "out": each.out.tolist(),
            "color": (255 * parse_color(each.color)).round().astype(int).tolist(),
            "spacing": each.cloud.spacing,
        }
        for each in standing
    ]
    return {"view": view.ravel().tolist(), "pieces": shown}
