"""``bitr demo``: the main job on a pair that comes with the package, beside its known answer."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.cli.outputs import Outputs
from bitr.cli.show import show
from bitr.errors import InputError
from bitr.groups import Rigid, rotation_angle
from bitr.io import Geometry, read
from bitr.show.report import best_of, report_rows, report_settings

ASSETS = Path(str(resources.files("bitr") / "assets"))
SOURCE, REFERENCE, TRUTH = (ASSETS / f"demo-{name}" for name in ("source.ply", "reference.ply", "pose.txt"))


def demo(folder: Path, model: str, seed: int) -> None:
    """Assemble the two pieces of a jug, compare with the truth, check the laws; write pictures."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose another with --out") from error
    outputs = _outputs(folder)
    outputs.check()
    network, settings = Network.of(model), Settings()
    x, y = read(SOURCE), read(REFERENCE)
    print(f"Two pieces of a generated jug, {len(x.points)} and {len(y.points)} points, each moved away.\n")
    shown = assemble_geometries(x, y, network, report_settings(settings))
    assembly = best_of(shown, settings.hypotheses)
    outputs.write(assembly, x, y, report_rows(assembly, x, y, network, settings), shown)
    show(assembly, outputs.files())
    _compare(assembly, x)
    _check_laws(assembly, x, y, network, settings, torch.Generator().manual_seed(seed))


def _outputs(folder: Path) -> Outputs:
    """All that can be written; the picture only where matplotlib is installed."""
    picture = folder / "demo.png" if find_spec("matplotlib") else None
    if picture is None:
        print('No picture will be drawn: it needs matplotlib, pip install "bitr[viz]".')
    return Outputs(
        SOURCE,
        REFERENCE,
        output=folder / "moved-source.ply",
        scene=folder / "assembled.ply",
        html=folder / "demo.html",
        picture=picture,
        force=True,
    )


def _compare(assembly: Assembly, source: Geometry) -> None:
    angle, offset = _difference(assembly.transformation, np.loadtxt(TRUTH), source)
    print(
        f"\nAgainst the known answer: {angle:.1f}° off, and {offset:.3f} of the piece's size from its place."
    )


def _check_laws(
    assembly: Assembly,
    x: Geometry,
    y: Geometry,
    network: Network,
    settings: Settings,
    generator: torch.Generator,
) -> None:
    """Move, swap and scale the inputs; what comes out must follow."""

    def solve(source: Geometry, reference: Geometry) -> Float64[np.ndarray, "4 4"]:
        return assemble_geometries(source, reference, network, settings).transformation

    g = assembly.transformation
    g1, g2 = (Rigid.random(generator, size=5.0).matrix().numpy() for _ in range(2))
    scaled = g.copy()
    scaled[:3, 3] *= 1000
    cases = {
        "both pieces moved": (solve(_moved(x, g1), _moved(y, g2)), g2 @ g @ np.linalg.inv(g1), _moved(x, g1)),
        "pieces swapped": (solve(y, x), np.linalg.inv(g), y),
        "both 1000 times as large": (
            solve(_scaled(x, 1000.0), _scaled(y, 1000.0)),
            scaled,
            _scaled(x, 1000.0),
        ),
    }
    print("\nThe answer moves with the pieces; how far it is from where the laws put it:")
    for name, (found, expected, source) in cases.items():
        angle, offset = _difference(found, expected, source)
        print(f"  {name:25} {angle:8.0e}°  {offset:8.0e} of the size")


def _difference(
    a: Float64[np.ndarray, "4 4"], b: Float64[np.ndarray, "4 4"], source: Geometry
) -> tuple[float, float]:
    """Angle in degrees, and displacement of the source's centroid over its root mean square radius."""
    angle = rotation_angle(torch.from_numpy(a[:3, :3] @ b[:3, :3].T)) * 180 / torch.pi
    center = np.append(source.points.mean(0), 1.0)
    size = np.sqrt(np.square(source.points - center[:3]).sum(1).mean())
    return float(angle), float(np.linalg.norm((a - b) @ center) / size)


def _moved(piece: Geometry, pose: Float64[np.ndarray, "4 4"]) -> Geometry:
    return replace(piece, points=piece.points @ pose[:3, :3].T + pose[:3, 3])


def _scaled(piece: Geometry, factor: float) -> Geometry:
    return replace(piece, points=piece.points * factor)
