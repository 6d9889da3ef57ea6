"""The certificate of a model as the command makes and prints it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from rich.console import Console
from rich.text import Text

from bitr.app.assemble import assemble_geometries
from bitr.app.settings import Network, Settings
from bitr.cli.text import one_line
from bitr.errors import InputError
from bitr.evaluation.certificate import Certificate, Route, Row
from bitr.evaluation.certificate.bounds import BOUNDS, LAWS
from bitr.evaluation.certificate.page import verdict
from bitr.evaluation.certificate.pairs import cloud_pair, mesh_pair
from bitr.io import Geometry
from bitr.model import BITR

BUDGET = 300
"""Points that the model sees of a piece, so that clouds of a few thousand points are subsampled."""
REFINEMENTS = ("none", "icp", "ot")
"""What ``Settings`` may know; those that it refuses are left out."""


def assemble_routes(model: BITR, name: str) -> list[Route]:
    """The whole pipeline on clouds larger than the budget and on meshes, with every refinement there is."""
    network = Network(deepcopy(model).double(), name)
    kinds = {"cloud": cloud_pair(5000), "mesh": mesh_pair(400)}
    return [
        Route(
            f"assemble, {kind}, refine {settings.refine}",
            _assembling(network, settings),
            "float64" if settings.refine == "none" else "method",
            make,
        )
        for settings in _accepted()
        for kind, make in kinds.items()
    ]


def _accepted() -> list[Settings]:
    found = []
    for refine in REFINEMENTS:
        try:
            found.append(Settings(refine=refine, budget=BUDGET))
        except InputError:  # not in this version
            continue
    return found


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
    sentence = f"{one_line(certificate.model)}: {verdict(certificate)}"
    console.print(Text(sentence, style="green" if certificate.ok else "bold red"), soft_wrap=True)


def _label(row: Row) -> str:
    return one_line(row.path) + (" (median)" if BOUNDS[row.precision].judged == "median" else "")
