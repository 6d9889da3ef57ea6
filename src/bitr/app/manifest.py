"""Lists of pairs to assemble: from a manifest, or several sources for one reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bitr.io.manifest import distinct, read_rows

ANSWERS = ("pose", "split", "symmetry", "axis", "unit")


@dataclass(frozen=True)
class Pair:
    """Two files to assemble, as absolute paths, and what the pair is called in the results."""

    id: str
    source: str
    reference: str


def several_sources(sources: Iterable[Path], reference: Path) -> tuple[Pair, ...]:
    """Each source with the same reference; its name, as given, is the pair's id."""
    found = (Pair(str(s), str(s.absolute()), str(reference.absolute())) for s in sources)
    return distinct((f"source {i}", pair.id, pair) for i, pair in enumerate(found, 1))


def read_manifest(path: Path) -> tuple[Pair, ...]:
    """The pairs of a manifest; a bad row raises and is named by its line.

    Paths are relative to the manifest. A row without an id is called by its number, from 1. Columns that tell
    the answer, as in the manifests of ``bitr data make``, are not looked at.
    """
    rows = read_rows(path, needed=("source", "reference"), optional=("id", *ANSWERS))
    found = (
        (row.at, Pair(row.name("id", str(row.number)), str(row.file("source")), str(row.file("reference"))))
        for row in rows
    )
    return distinct((at, pair.id, pair) for at, pair in found)
