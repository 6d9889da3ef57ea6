"""Puzzles for the eye: a page with all pieces in their colours and the graph of joints, a page of several
puzzles, and a picture."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly
from bitr.assembly.puzzle import Joint, Puzzle
from bitr.data.poses import Pose
from bitr.files import whole_file
from bitr.io import Geometry, as_points, even_draw
from bitr.show.picture import (
    DPI,
    TEXT,
    Layer,
    bounding_box,
    new_figure,
    parse_color,
    shade,
)
from bitr.show.report import render_page
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
GRAPH = 150.0
"""Radius of the graph of joints."""
NUM_COLORS = 128
"""Colours of a picture: the pieces' and their shades."""
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

    def layer(self, view: Matrix, apart: float) -> Layer:
        turn, place = view @ self.rotation, view @ (self.place + apart * self.out)
        none = np.zeros((0, 3))
        points, normals = self.cloud.points @ turn.T + place, self.cloud.normals @ turn.T
        return Layer("", points, normals, none, self.cloud.spacing)


def write_puzzle_page(path: Path, pieces: Sequence[Geometry], puzzle: Puzzle, *, force: bool) -> None:
    """Write the page; without ``force`` an existing file is refused, and no partial file is ever left."""
    with whole_file(path, force=force) as temporary:
        temporary.write_text(render_puzzle(pieces, puzzle), encoding="utf-8", newline="\n")


def write_puzzle_png(path: Path, pieces: Sequence[Geometry], puzzle: Puzzle, *, force: bool) -> None:
    """Write a picture of the pieces drawn apart and in their places."""
    figure, canvas = new_figure(DPI)
    from PIL import Image  # comes with matplotlib

    standing, view = stand(pieces, puzzle)
    with whole_file(path, force=force) as temporary:
        figure.set_size_inches(WIDTH, HEIGHT + TITLE + LEGEND)
        whole = HEIGHT + TITLE + LEGEND
        for side, (title, apart) in enumerate((("Drawn apart", APART), ("Assembled", 0.0))):
            layers = [each.layer(view, apart) for each in standing]
            axes = figure.add_axes((side / 2, LEGEND / whole, 0.5, HEIGHT / whole))
            _scatter(axes, layers, [each.color for each in standing])
            figure.text(side / 2 + 0.25, 1 - 0.6 * TITLE / whole, title, ha="center", va="center", color=TEXT)
        words = _sentence(puzzle)
        figure.text(0.5, 0.5 * LEGEND / whole, words, ha="center", va="center", fontsize=9, color=TEXT)
        canvas.draw()
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3])
        image.quantize(NUM_COLORS, dither=Image.Dither.NONE).save(temporary, optimize=True)


def _scatter(axes: Any, layers: Sequence[Layer], colors: Sequence[str]) -> None:
    """Draw all points in one call, the farthest first."""
    low, high = bounding_box(layers)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
    scale = 72 * min(WIDTH / 2 / (high - low)[0], HEIGHT / (high - low)[1])
    depth = np.concatenate([layer.points[:, 2] for layer in layers])
    order, near, far = depth.argsort(kind="stable"), depth.max(), depth.min()
    shaded = [shade(layer, parse_color(c), near, far) for layer, c in zip(layers, colors, strict=True)]
    size = [np.full(len(a.points), np.clip(1.6 * a.spacing * scale, 0.8, 7.0) ** 2) for a in layers]
    place = np.concatenate([layer.points[:, :2] for layer in layers])
    axes.scatter(
        *place[order].T,
        s=np.concatenate(size)[order],
        c=np.concatenate(shaded)[order],
        linewidths=0,
    )


def stand(pieces: Sequence[Geometry], puzzle: Puzzle) -> tuple[list[Standing], Matrix]:
    """The place of every piece, and the view: the first group in place, what is not of it beside it."""
    most = max(200, MOST_POINTS // len(pieces))
    moves = set_apart(pieces, puzzle)
    clouds = []
    for piece in pieces:
        points = as_points(piece, most, seed=0).points
        clouds.append(choose_points(points[even_draw(len(points), most, seed=0)], None, most))
    places = [move[:3, :3] @ cloud.center + move[:3, 3] for move, cloud in zip(moves, clouds, strict=True)]
    origin = np.mean([places[k] for k in _first(puzzle)], axis=0)
    middles = {k: np.mean([places[n] for n in group], axis=0) for group in _together(puzzle) for k in group}
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
    moves, clouds = [pose.copy() for pose in puzzle.poses], [piece.points for piece in pieces]
    for number in puzzle.left_over:
        moves[number] = np.eye(4)
    row, edge = _together(puzzle), 0.0
    for place, members in enumerate(row):
        points = np.concatenate([clouds[k] @ moves[k][:3, :3].T + moves[k][:3, 3] for k in members])
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


def _first(puzzle: Puzzle) -> tuple[int, ...]:
    return _together(puzzle)[0]


def render_puzzle(pieces: Sequence[Geometry], puzzle: Puzzle) -> str:
    """Render the page: the pieces in 3-D, drawn apart by a slider, and the joints as graph and table."""
    names = [Path(name).name for name in puzzle.names]
    joined = {frozenset((joint.first, joint.second)) for joint in puzzle.joints}
    values = {
        "title": _sentence(puzzle),
        "left_over": [names[k] for k in puzzle.left_over],
        "pieces": _list_pieces(puzzle),
        "joints": [
            {
                "first": names[joint.first],
                "second": names[joint.second],
                "cells": (joint.method, f"{joint.alone:.0%}", f"{joint.confidence:.0%}"),
                "line": _line(joint.first, joint.second, len(pieces)),
                "label": _label(joint.first, joint.second, len(pieces)),
                "width": f"{1 + 5 * joint.confidence:.1f}",
                "pair": f"{joint.first},{joint.second}",
            }
            for joint in puzzle.joints
        ],
        "pairs": [
            {
                "names": f"{names[pair['first']]} – {names[pair['second']]}",
                "cells": (
                    pair["method"] or "not compared",
                    "–" if pair["confidence"] is None else f"{pair['confidence']:.0%}",
                    "yes" if {pair["first"], pair["second"]} in joined else "no",
                ),
            }
            for pair in sorted(puzzle.pairs, key=lambda pair: -(pair["confidence"] or 0.0))
        ],
        "nodes": [_node(k, len(pieces)) for k in range(len(pieces))],
        "facts": list_puzzle_facts(puzzle),
        "scene": _encode(pieces, puzzle),
    }
    return render_page("puzzle.html", values, STYLES, ("puzzle.js",))


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A puzzle among others on one page, and what is to be said of it."""

    title: str
    pieces: Sequence[Geometry]
    puzzle: Puzzle
    facts: Sequence[Row]


def write_exhibits(path: Path, title: str, exhibits: Sequence[Exhibit], *, force: bool) -> None:
    """Write one page that shows several puzzles, each with its pieces in 3-D and its facts."""
    values = {
        "title": title,
        "exhibits": [
            {
                "title": each.title,
                "facts": each.facts,
                "pieces": _list_pieces(each.puzzle),
                "scene": _encode(each.pieces, each.puzzle),
            }
            for each in exhibits
        ],
    }
    with whole_file(path, force=force) as temporary:
        text = render_page("exhibits.html", values, STYLES, ("puzzle.js",))
        temporary.write_text(text, encoding="utf-8", newline="\n")


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
    group = {k: number for number, members in enumerate(puzzle.groups, 1) for k in members}
    return [
        {
            "name": Path(name).name,
            "color": COLORS[k % len(COLORS)],
            "group": f"group {group[k]}" if k in group else "left over",
            "confidence": f"{puzzle.confidence[k]:.0%}",
            "text": json.dumps(puzzle.poses[k].tolist()),
        }
        for k, name in enumerate(puzzle.names)
    ]


def list_puzzle_facts(puzzle: Puzzle) -> list[Row]:
    """Describe the answer as rows of name and value."""
    names = [Path(name).name for name in puzzle.names]
    rows = [
        (f"group {number}" if len(puzzle.groups) > 1 else "group", ", ".join(names[k] for k in members))
        for number, members in enumerate(puzzle.groups, 1)
    ]
    rows.append(("left over", ", ".join(names[k] for k in puzzle.left_over) or "nothing"))
    rows += [("frame", names[puzzle.largest]), ("model", puzzle.model), ("time", f"{puzzle.seconds:.3g} s")]
    return [*rows, *(("warning", warning) for warning in puzzle.warnings)]


def tell_puzzle(puzzle: Puzzle) -> list[str]:
    """Tell the groups and the pieces that are left over, in a sentence each."""
    names = [Path(name).name for name in puzzle.names]
    told = [f"{_list_names([names[k] for k in members])} belong together." for members in puzzle.groups]
    left = [names[k] for k in puzzle.left_over]
    over = f"{_list_names(left)} {'is' if len(left) == 1 else 'are'}" if left else "Nothing is"
    return [*(told or ["No two pieces belong together."]), f"{over} left over."]


def _list_names(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _sentence(puzzle: Puzzle) -> str:
    count, groups, left = len(puzzle.names), len(puzzle.groups), len(puzzle.left_over)
    found = "no two belong together" if not groups else "one group" if groups == 1 else f"{groups} groups"
    return f"{count} pieces: {found}" + (f", {left} left over" if left and groups else "")


def _node(k: int, count: int) -> dict[str, str]:
    angle = 2 * np.pi * k / count - np.pi / 2
    x, y = GRAPH * np.cos(angle), GRAPH * np.sin(angle)
    return {"x": f"{x:.1f}", "y": f"{y:.1f}", "color": COLORS[k % len(COLORS)], "number": str(k + 1)}


def _line(a: int, b: int, count: int) -> tuple[str, str, str, str]:
    first, second = _node(a, count), _node(b, count)
    return first["x"], first["y"], second["x"], second["y"]


def _label(a: int, b: int, count: int) -> tuple[str, str]:
    """A place on the line, a third from its first end: the middles of many lines are one."""
    x1, y1, x2, y2 = map(float, _line(a, b, count))
    return f"{(2 * x1 + x2) / 3:.1f}", f"{(2 * y1 + y2) / 3:.1f}"


def _encode(pieces: Sequence[Geometry], puzzle: Puzzle) -> dict[str, Any]:
    """Numbers for the script."""
    standing, view = stand(pieces, puzzle)
    return {"view": view.ravel().tolist(), "pieces": [_encode_piece(each) for each in standing]}


def _encode_piece(each: Standing) -> dict[str, Any]:
    """Coordinates relative to the centre, as they stand, in float32."""
    return {
        "points": _encode_base64(each.cloud.points @ each.rotation.T, "<f4"),
        "normals": _encode_base64(np.round(127 * each.cloud.normals @ each.rotation.T), "i1"),
        "place": each.place.tolist(),
        "out": each.out.tolist(),
        "color": (255 * parse_color(each.color)).round().astype(int).tolist(),
        "spacing": each.cloud.spacing,
    }


def _encode_base64(rows: Float64[np.ndarray, "n 3"], kind: str) -> str:
    return base64.b64encode(rows.astype(kind).tobytes()).decode()
