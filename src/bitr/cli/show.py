"""An assembly for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text
from torch import Tensor

from bitr.assembly.assemble import Assembly
from bitr.cli.text import one_line
from bitr.groups import rotation_angle

METHODS = {
    "overlap": "overlap: the pieces share a surface",
    "seam": "seam: open borders meet",
    "touch": "touch: the pieces lie against each other",
    "model": "model: its pose, as nothing of the pieces' surfaces decides",
    "given": "given: the pose that you gave",
}


def facts(assembly: Assembly) -> list[tuple[str, str]]:
    """What there is to say beside the pose, as rows of name and value."""
    rotation = torch.from_numpy(assembly.transformation[:3, :3])
    gap = assembly.inlier_rmse
    rows = [
        ("source", assembly.source),
        ("reference", assembly.reference),
        ("status", assembly.status + (f": {assembly.reason}" if assembly.reason else "")),
        (
            "confidence",
            f"{assembly.confidence:.0%} that the pose is within 15° and a tenth of the shape's radius",
        ),
        ("method", METHODS[assembly.method]),
        ("turned by", _degrees(rotation_angle(rotation))),
        ("fitness", f"{assembly.fitness:.3f} of the points have a partner on the other piece"),
        ("inlier rmse", "no partners" if gap is None else f"{gap:.4g}, in the unit of the files"),
        *_penetration(assembly),
        ("time", f"{assembly.seconds:.2f} s, without reading and writing"),
        ("model", assembly.model),
        *(("warning", warning) for warning in assembly.warnings),
    ]
    return [(name, one_line(value)) for name, value in rows]


def _penetration(assembly: Assembly) -> Iterator[tuple[str, str]]:
    if assembly.penetration_before is not None:
        depths = f"{assembly.penetration_before:.4g} before, {assembly.penetration_after:.4g} after"
        yield "penetration", f"{depths}, in the unit of the files"


def hypotheses(assembly: Assembly) -> Iterator[tuple[str, str]]:
    """Each pose with what speaks for it, where there are several."""
    first = assembly.transformation[:3, :3]
    for number, each in enumerate(assembly.hypotheses if len(assembly.hypotheses) > 1 else (), 1):
        turn = rotation_angle(torch.from_numpy(each.transformation[:3, :3] @ first.T))
        yield (
            f"pose {number}",
            f"weight {each.weight:.3f}, {each.method} from {each.origin}, overlap "
            f"{each.evidence['overlap_larger']:.2f}, seam {each.evidence['seam']:.2f}, "
            f"{_degrees(turn)} from the first",
        )


def _degrees(angle: Tensor) -> str:
    return f"{float(angle) * 180 / torch.pi:.2f}°"


def show(assembly: Assembly, written: list[Path]) -> None:
    """Print the pose, the facts and the files that were written; lines are not wrapped."""
    console = Console(highlight=False)
    pose = Text("\n".join(_row(row) for row in assembly.transformation.tolist()))
    lines = [Text("the motion that takes the source onto the reference", style="bold"), pose, Text("")]
    rows = [*facts(assembly), *hypotheses(assembly), *(("wrote", one_line(str(path))) for path in written)]
    for name, value in rows:
        style = {"warning": "yellow", "wrote": "green"}.get(name, "cyan")
        if name == "status" and assembly.status != "ok":
            style = "bold yellow"
        lines.append(Text.assemble((f"{name:<12}", style), value))
    for line in lines:
        console.print(line, soft_wrap=True)


def _row(row: list[float]) -> str:
    """Three numbers of a rotation and one of a translation, which may be of any size."""
    return "  " + " ".join(f"{value:11.8f}" for value in row[:3]) + f"  {row[3]:16.9g}"
