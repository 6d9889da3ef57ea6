"""An assembly for people to read."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text

from bitr.app.assembly import Assembly
from bitr.cli.text import one_line
from bitr.groups import rotation_angle


def facts(assembly: Assembly) -> list[tuple[str, str]]:
    """What there is to say beside the pose, as rows of name and value."""
    rotation = torch.from_numpy(assembly.transformation[:3, :3])
    gap = assembly.inlier_rmse
    rows = [
        ("source", assembly.source),
        ("reference", assembly.reference),
        ("turned by", f"{float(rotation_angle(rotation)) * 180 / torch.pi:.2f}°"),
        ("fitness", f"{assembly.fitness:.3f} of the points have a partner on the other piece"),
        ("inlier rmse", "no partners" if gap is None else f"{gap:.4g}, in the unit of the files"),
        ("time", f"{assembly.seconds:.2f} s, without reading and writing"),
        ("model", assembly.model),
    ]
    return [(name, one_line(value)) for name, value in rows] + [
        ("warning", one_line(warning)) for warning in assembly.warnings
    ]


def show(assembly: Assembly, written: list[Path]) -> None:
    """Print the pose, the facts and the files that were written; lines are not wrapped."""
    console = Console(highlight=False)
    pose = Text("\n".join(_row(row) for row in assembly.transformation.tolist()))
    lines = [Text("the motion that takes the source onto the reference", style="bold"), pose, Text("")]
    rows = facts(assembly) + [("wrote", one_line(str(path))) for path in written]
    for name, value in rows:
        style = {"warning": "yellow", "wrote": "green"}.get(name, "cyan")
        lines.append(Text.assemble((f"{name:<12}", style), value))
    for line in lines:
        console.print(line, soft_wrap=True)


def _row(row: list[float]) -> str:
    """Three numbers of a rotation and one of a translation, which may be of any size."""
    return "  " + " ".join(f"{value:11.8f}" for value in row[:3]) + f"  {row[3]:16.9g}"
