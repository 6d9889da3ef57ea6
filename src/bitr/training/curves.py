"""The curves of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bitr.files import whole_file
from bitr.training.log import read_log

FILE_NAME = "curves.png"
TRAIN, VAL, CHANCE = "#9aa4b1", "#d1462f", "#33363a"
CHANCE_DEG = 126.5
"""Mean angle of a rotation drawn uniformly."""


def draw_curves(folder: Path, title: str) -> Path:
    """Loss, Δr and displacement against steps, training and held-out pairs; needs matplotlib (``viz``)."""
    from matplotlib.figure import Figure

    rows = read_log(folder)
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    panels = (
        ("loss", "loss", "val_loss"),
        ("Δr (degrees)", "rotation_deg", "val_rotation_deg"),
        ("displacement (of the pair's size)", "displacement", "val_displacement"),
    )
    for ax, (label, train, val) in zip(axes, panels, strict=True):
        ax.plot(*_points(rows, train), color=TRAIN, linewidth=1, label="training")
        ax.plot(*_points(rows, val), "o-", color=VAL, markersize=3, label="held out, averaged weights")
        ax.set_xlabel("step")
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    median = _points(rows, "val_median_deg")
    axes[1].plot(*median, "--", color=VAL, linewidth=1, label="held out, median")
    axes[1].axhline(CHANCE_DEG, color=CHANCE, linewidth=0.8, linestyle=":", label="chance")
    axes[1].legend(frameon=False, fontsize=8)
    axes[0].legend(frameon=False, fontsize=8)
    for ax in axes:
        ax.set_ylim(bottom=0)
    figure.suptitle(title, fontsize=10)
    with whole_file(folder / FILE_NAME, force=True) as temporary:
        figure.savefig(temporary, dpi=150)
    return folder / FILE_NAME


def _points(rows: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    there = [row for row in rows if row[name] is not None]
    return [row["step"] for row in there], [row[name] for row in there]
