"""OFF: counts, vertices, polygons, all in text; with colours as COFF, with normals as NOFF."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from bitr.io.columns import with_colors
from bitr.io.faces import parse_polygons
from bitr.io.geometry import Geometry
from bitr.io.source import Source
from bitr.io.text import Lines, lines_of, parse

MAGIC = re.compile(rb"(C?)(N?)OFF(?=[\s\d#])")


def read_off(source: Source) -> Geometry:
    """The mesh of an off file, or its vertices where it has no faces."""
    lines = lines_of(source.data.splitlines())
    magic = MAGIC.match(lines.rows[0].lstrip() + b"\n") if len(lines) else None
    if magic is None:
        raise source.error("does not start with OFF, COFF, NOFF or CNOFF, expected an off file")
    # Some files have the counts on the first line, even without a space before them.
    rest = lines.rows[0].lstrip()[magic.end() :]
    lines = Lines([rest, *lines.rows[1:]], lines.numbers) if rest.strip() else lines.part(1, len(lines))
    counts = lines.rows[0].split()[:2] if len(lines) else []
    if len(counts) < 2 or not all(c.isdigit() for c in counts):
        raise source.error("no line with the numbers of vertices and faces after OFF")
    vertices, faces = (int(c[:18]) for c in counts)
    if vertices + faces > len(lines) - 1:
        raise source.error(
            f"truncated: the header claims {vertices} vertices and {faces} faces, found "
            f"{len(lines) - 1} lines"
        )
    table = parse(source, lines.part(1, 1 + vertices))
    colored, with_normals = bool(magic[1]), bool(magic[2])
    needed = 3 + 3 * with_normals + 3 * colored
    if table.shape[1] < needed:
        raise source.error(f"vertices of {table.shape[1]} numbers, expected {needed}")
    geometry = Geometry(np.ascontiguousarray(table[:, :3]), name=str(source.path))
    if with_normals:
        geometry = replace(geometry, normals=np.ascontiguousarray(table[:, 3:6]))
    if colored:
        geometry = with_colors(geometry, table[:, needed - 3 : needed])
    if not faces:
        return geometry
    polygons = parse_polygons(source, lines.part(1 + vertices, 1 + vertices + faces))
    return replace(geometry, faces=polygons.fans())
