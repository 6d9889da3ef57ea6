"""What a report says beside the answer: how the pair was assembled, and how well the laws are kept."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace

import numpy as np
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data import AssemblyPair
from bitr.evaluation.method import Method, law_errors_on, law_row
from bitr.io import Geometry

MOST_HYPOTHESES = 5
"""That a report shows, unless more were asked for."""

log = logging.getLogger("bitr")


def report_settings(settings: Settings) -> Settings:
    """For a report: the same answer, with more hypotheses beside it."""
    return replace(settings, hypotheses=max(settings.hypotheses, MOST_HYPOTHESES))


def best_of(assembly: Assembly, count: int) -> Assembly:
    """The answer with so many hypotheses at most, as if no more had been asked for."""
    kept = assembly.hypotheses[:count]
    total = sum(each.weight for each in kept)
    return replace(assembly, hypotheses=tuple(replace(each, weight=each.weight / total) for each in kept))


def report_rows(
    assembly: Assembly,
    source: Geometry,
    reference: Geometry,
    network: Network,
    settings: Settings,
    given: bool = False,
) -> list[tuple[str, str]]:
    """Rows of name and value. The laws are tried on this very pair: it is assembled three times more.

    Not where a pose was ``given``: it does not move with the pair.
    """
    told = ", ".join(f"{name} {value}" for name, value in asdict(settings).items() if value is not None)
    rows = [("settings", told)]
    if given:
        return rows

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        return assemble_geometries(pair.source, pair.reference, network, settings).transformation

    log.info("trying the laws")
    pair = AssemblyPair(source, reference, np.eye(4), "pair")  # its own answer is not looked at
    rng = np.random.default_rng(settings.seed)
    laws = law_errors_on(Method(network.name, solve), pair, assembly.transformation, rng)
    return [law_row(laws), *rows]
