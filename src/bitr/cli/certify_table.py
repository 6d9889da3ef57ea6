"""The certificate of a model as the command makes and prints it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from rich.console import Console
from rich.text import Text

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.cli.certify_subject import is_checkpoint
from bitr.cli.text import one_line
from bitr.evaluation.certificate import (
    BOUNDS,
    LAWS,
    MOST_TRIALS,
    Certificate,
    Route,
    Row,
    mesh_pair,
    overlapping_pair,
)
from bitr.io import Geometry
from bitr.model import BITR

POINTS = 100
"""That the model sees of a piece, so that small clouds and meshes are subsampled, too."""
WAYS = {"fast": Settings(fast=True, points=POINTS), "auto": Settings(points=POINTS)}
REFINED_TRIALS = 2


def assemble_routes(model: BITR, name: str) -> list[Route]:
    """The whole pipeline on clouds larger than what the model sees and on meshes, fast and by default."""
    network = Network.of(name) if is_checkpoint(name) else Network(deepcopy(model).double(), name)
    kinds = {"cloud": overlapping_pair(500, noise=0.003), "mesh": mesh_pair(400)}
    return [
        Route(
            f"assemble, {kind}, {way}",
            _assembling(network, settings),
            "float64",
            make,
            most=MOST_TRIALS if settings.fast else REFINED_TRIALS,
        )
        for way, settings in WAYS.items()
        for kind, make in kinds.items()
    ]


def _assembling(network: Network, settings: Settings) -> Callable[[Geometry, Geometry], Any]:
    return lambda x, y: assemble_geometries(x, y, network, settings).transformation


def show(certificate: Certificate) -> None:
    """A line for each path: the worst error of each law (or the median, where that counts) and its bound."""
    console = Console(highlight=False)
    rows, width = certificate.rows, max(len(_label(row)) for row in certificate.rows)
    head = f"{'worst error / bound':{width}}" + "".join(f"   {f'Δ_{law}':<15}" for law in LAWS)
    console.print(Text(head.rstrip(), style="bold"), soft_wrap=True)
    for label in dict.fromkeys(_label(row) for row in rows):
        line = Text(f"{label:{width}}")
        for row in (row for row in rows if _label(row) == label):
            cell = f"{row.judged_error:.0e} / {row.bound:.0e}"
            line.append("   " + cell + (" " if row.ok else "!"), style="" if row.ok else "bold red")
        console.print(line, soft_wrap=True)
    for each in certificate.skipped:
        console.print(Text(f"not measured: {each.path} ({one_line(each.why)})", style="dim"), soft_wrap=True)
    sentence = f"{one_line(certificate.model)}: {certificate.verdict}"
    console.print(Text(sentence, style="green" if certificate.ok else "bold red"), soft_wrap=True)


def _label(row: Row) -> str:
    return one_line(row.path) + (", median" if BOUNDS[row.precision].judged == "median" else "")
