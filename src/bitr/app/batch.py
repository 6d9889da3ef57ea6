"""Many pairs with one model: a row for each, whatever happens to it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bitr.app.manifest import Pair
from bitr.app.results import open_table
from bitr.app.rows import FIELDS
from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.errors import InputError
from bitr.io import read

Row = dict[str, Any]
Solver = Callable[[Sequence[Pair]], Iterable[Row]]
"""Turns pairs into rows, in any order."""

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Summary:
    """How a batch ended, rows of earlier runs included."""

    results: str
    pairs: int
    ok: int
    errors: int
    resumed: int
    """Rows that were there already."""


def run_batch(
    pairs: Sequence[Pair],
    network: Network,
    settings: Settings,
    table: Path,
    *,
    solver: Solver | None = None,
    force: bool = False,
    on_row: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Give every pair that has no row yet its row in the table; calls ``on_row(done, total)`` after each."""
    solve = solver if solver is not None else in_turn(network, settings)
    with open_table(table, made_with(pairs, network, settings), force=force) as rows:
        resumed = len(rows.statuses)
        on_row(resumed, len(pairs))
        todo = [pair for pair in pairs if pair.id not in rows.statuses]
        for row in solve(todo) if todo else ():
            rows.append(row)
            on_row(len(rows.statuses), len(pairs))
        errors = list(rows.statuses.values()).count("error")
        return Summary(str(table), len(pairs), len(rows.statuses) - errors, errors, resumed)


def in_turn(network: Network, settings: Settings) -> Solver:
    """Pairs one after the other in this process."""

    def solve(pairs: Sequence[Pair]) -> Iterator[Row]:
        for pair in pairs:
            yield solve_pair(pair, network, settings)

    return solve


def solve_pair(pair: Pair, network: Network, settings: Settings) -> Row:
    """The row of one pair; if it cannot be assembled, the row says why."""
    log.info("pair %s", pair.id)
    named = dict.fromkeys(FIELDS) | asdict(pair)
    try:
        assembly = assemble_geometries(read(pair.source), read(pair.reference), network, settings)
    except InputError as error:
        return named | {"status": "error", "error": str(error)}
    except Exception as error:  # one bad pair must not cost the others their rows
        log.debug("unexpected error in pair %s", pair.id, exc_info=True)
        return named | {"status": "error", "error": f"unexpected {type(error).__name__}: {error}"}
    return named | assembly.to_dict() | asdict(pair)


def made_with(pairs: Sequence[Pair], network: Network, settings: Settings) -> dict[str, Any]:
    """What the rows depend on: a table is continued only with the same."""
    return {
        "bitr": version("bitr"),
        **asdict(settings),
        "weights": _digest_of(network),
        "pairs": hashlib.sha256(json.dumps([asdict(p) for p in pairs]).encode("ascii")).hexdigest(),
    }


def _digest_of(network: Network) -> str:
    """Of the weights and of what comes with them."""
    told = [network.model.config.to_dict(), network.points, network.joints, network.verifier.to_dict()]
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode("ascii"))
    for name, value in sorted(network.model.state_dict().items()):
        digest.update(name.encode("ascii"))
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
