"""What a report says beside the answer: how the pair was assembled, and how well the laws are kept."""

from __future__ import annotations

import logging
from dataclasses import asdict

import numpy as np
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data import AssemblyPair
from bitr.evaluation.laws import as_row, law_errors_on
from bitr.evaluation.method import Method
from bitr.io import Geometry

NOT_KNOWN = "not known: these weights come without a calibration"

log = logging.getLogger("bitr")


def report_rows(
    assembly: Assembly, source: Geometry, reference: Geometry, network: Network, settings: Settings
) -> list[tuple[str, str]]:
    """Rows of name and value. The laws are tried on this very pair: it is assembled three times more."""

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        return assemble_geometries(pair.source, pair.reference, network, settings).transformation

    log.info("trying the laws")
    pair = AssemblyPair(source, reference, np.eye(4), "pair")  # its own answer is not looked at
    rng = np.random.default_rng(settings.seed)
    laws = law_errors_on(Method(network.name, solve), pair, assembly.transformation, rng)
    told = ", ".join(f"{name} {value}" for name, value in asdict(settings).items() if value is not None)
    unknown = [("confidence", NOT_KNOWN)] if assembly.confidence is None else []
    return [*unknown, as_row(laws), ("settings", told)]
