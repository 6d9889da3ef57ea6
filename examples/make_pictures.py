"""Makes pictures of the documentation: three kinds of pieces, key points, and how an answer follows.

python examples/make_pictures.py docs/pictures
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image
from scipy.spatial.transform import Rotation

import bitr
from bitr.data.generated.dataset import MIXES, shapes
from bitr.io import Geometry, read
from bitr.show.picture import (
    COLORS,
    DPI,
    HAZE,
    TEXT,
    Layer,
    place_after,
    place_beside,
    shade,
    write_png,
)
from bitr.show.stage import Scene, set_stage

ASSETS = Path(str(resources.files("bitr") / "assets"))
PICTURES = ("pieces.png", "demo.png", "follows.png")
WIDTH = 900
"""Of the pictures, in pixels."""
POSES = 3
"""Ways in which the pieces lie; the first is that of the files."""
VIEW = torch.linalg.matrix_exp(torch.tensor([[0, 0.5, 0.7], [-0.5, 0, 1.0], [-0.7, -1.0, 0]])).numpy()
"""A rotation from the reference's own axes to the viewer's, so that the jug is seen from its side."""
APART = np.array([2.4, 0.0, 0.0])
"""From one piece to the other before they are assembled, so that both can be seen."""
BESIDE = 1.1
"""Distance between the pieces of a pair that is drawn apart, in sums of their radii."""
GENERATED = {"broken": ("fracture", 636), "overlapping": ("crop", 636)}
"""Test pairs of generated shapes beside the demo's: their kind and number."""
POINTS = 4000
"""Points of either piece of a generated pair."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    source, reference = (read(ASSETS / f"demo-{name}.ply") for name in ("source", "reference"))
    a = bitr.assemble(source, reference)
    keypoints = a.source_keypoints, a.reference_keypoints
    scene = Scene(source.points, reference.points, a.transformation, *keypoints)
    write_png(folder / "demo.png", scene, force=True)
    truth = np.loadtxt(ASSETS / "demo-pose.txt")
    pairs = {"cut in two": answered(source, reference, a.transformation, truth)}
    gallery(folder / "pieces.png", pairs | {name: generated(*place) for name, place in GENERATED.items()})
    follows(folder / "follows.png", source, reference)
    for name in PICTURES:
        shrink(folder / name)


def generated(kind: str, number: int) -> tuple[Scene, float]:
    """A test pair of generated shapes, as the default command answers it."""
    config = replace(MIXES[kind][0], points=POINTS, unevenness=0.0, noise=0.002)
    pair = shapes("test", config=config)[number]
    a = bitr.assemble(pair.source, pair.reference)
    return answered(pair.source, pair.reference, a.transformation, pair.ref_from_src)


def answered(x: Geometry, y: Geometry, found: np.ndarray, truth: np.ndarray) -> tuple[Scene, float]:
    """The scene of an answer, and its rotation error in degrees."""
    turn = Rotation.from_matrix(found[:3, :3] @ truth[:3, :3].T)
    return Scene(x.points, y.points, found), float(np.degrees(turn.magnitude()))


def gallery(path: Path, pairs: dict[str, tuple[Scene, float]]) -> None:
    """Each pair apart above, and as it was assembled below, with its error."""
    figure = Figure(figsize=(9, 5.2), dpi=DPI, layout="constrained")
    axes = figure.subplots(2, len(pairs), height_ratios=(1, 1.3))
    for (above, below), (name, (scene, error)) in zip(axes.T, pairs.items(), strict=True):
        stage = set_stage(scene)
        above.set_title(name, color=TEXT, fontsize=12)
        draw_layers(above, place_beside(stage, BESIDE), size=6)
        draw_layers(below, place_after(stage), size=16)
        below.set_xlabel(f"{error:.1f}° off the truth", color=TEXT, fontsize=10)
    add_legend(figure, axes[0, 0])
    figure.savefig(path)


def draw_layers(axes: Axes, layers: list[Layer], size: float) -> None:
    """Shaded points of a scene, the farthest first."""
    points = np.concatenate([layer.points for layer in layers])
    near, far = points[:, 2].max(), points[:, 2].min()
    color = np.concatenate([shade(layer, near, far) for layer in layers])
    order = points[:, 2].argsort(kind="stable")
    axes.scatter(*points[order, :2].T, c=color[order], s=size, linewidths=0)
    axes.margins(0.03)
    axes.set(xticks=[], yticks=[])
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[:].set_visible(False)


def add_legend(figure: Figure, axes: Axes) -> None:
    dots = [axes.scatter([], [], s=24, c=color, linewidths=0) for color in COLORS.values()]
    figure.legend(
        dots, COLORS, loc="outside lower center", ncol=3, frameon=False, fontsize=9, labelcolor=TEXT
    )


def follows(path: Path, source: Geometry, reference: Geometry) -> None:
    """The pieces in several poses above; below, what comes out, seen from the same side of the reference."""
    figure = Figure(figsize=(9, 4.6), dpi=DPI, layout="constrained")
    axes = figure.subplots(2, POSES, height_ratios=(1, 1.25))
    generator = torch.Generator().manual_seed(7)
    for column, (above, below) in enumerate(axes.T):
        g1, g2 = (np.eye(4) if column == 0 else random_motion(generator) for _ in range(2))
        x, y = source.moved(g1), reference.moved(g2)
        draw(above, {"reference": about(y, y), "source": about(x, x) + APART}, ((-1.3, 3.7), (-1.3, 1.3)))
        placed = bitr.assemble(x, y).moved(x).moved(np.linalg.inv(g2))
        both = {"reference": about(reference, reference), "source, moved": about(placed, reference)}
        draw(below, both, ((-2.0, 1.4), (-1.5, 1.5)))
    for label, row in zip(("what goes in", "what comes out"), axes[:, 0], strict=True):
        row.set_ylabel(label, color=TEXT)
    add_legend(figure, axes[0, 0])
    figure.savefig(path)


def random_motion(generator: torch.Generator) -> np.ndarray:
    return bitr.Rigid.random(generator, size=2.0).matrix().numpy()


def about(piece: Geometry, middle: Geometry) -> np.ndarray:
    return (piece.points - middle.points.mean(0)) @ VIEW.T


def draw(axes: Axes, pieces: dict[str, np.ndarray], limits: tuple[tuple[float, float], ...]) -> None:
    """All points by depth, the farthest first and palest."""
    points = np.concatenate(list(pieces.values()))
    colors = np.concatenate([np.tile(to_rgb(COLORS[name]), (len(each), 1)) for name, each in pieces.items()])
    depth = points[:, 2]
    haze = 2 * HAZE * (depth.max() - depth) / np.ptp(depth)
    colors = colors + (1 - colors) * haze[:, None]
    order = depth.argsort()
    axes.scatter(points[order, 0], points[order, 1], c=colors[order], s=4, linewidths=0)
    axes.set(aspect="equal", xticks=[], yticks=[], xlim=limits[0], ylim=limits[1])
    axes.spines[:].set_visible(False)


def shrink(path: Path) -> None:
    """To the width of a page, in 256 colours: a seventh of the bytes."""
    with Image.open(path) as picture:
        size = WIDTH, round(picture.height * WIDTH / picture.width)
        small = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    small.quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
