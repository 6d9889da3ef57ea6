"""PLY, in text and in both byte orders: the header becomes a numpy type, the body an array of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray

from bitr.io.columns import COLOR, NORMAL, POSITION, pick, with_colors
from bitr.io.faces import Polygons, parse_polygons
from bitr.io.geometry import Geometry
from bitr.io.ply_binary import read_rows
from bitr.io.ply_header import INDICES, Element, parse_header
from bitr.io.source import Source
from bitr.io.text import Lines, lines_of, parse

Columns = dict[str, NDArray[np.generic] | Polygons]
"""By name of property: one value a row, or a list a row."""


def read_ply(source: Source) -> Geometry:
    """The vertices of a ply file, with their faces if it has some."""
    header = parse_header(source)
    text = Lines([], [])
    position = header.size if header.order else 0
    if not header.order:
        text = lines_of(source.data[header.size :].splitlines(), header.lines + 1)
    geometry: Geometry | None = None
    faces: Int64[np.ndarray, "f 3"] | None = None
    for element in header.elements:
        if header.order:
            columns, position = read_rows(source, header.order, element, position)
        else:
            columns, position = _ascii(source, element, text, position)
        if element.name == "vertex":
            geometry = _vertices(source, element, columns)
        elif element.name == "face" and element.count:
            faces = _faces(source, element, columns)
    if geometry is None:
        raise source.error("the ply header has no element 'vertex'")
    return replace(geometry, faces=faces)


def _ascii(source: Source, element: Element, body: Lines, start: int) -> tuple[Columns, int]:
    stop = start + element.count
    if stop > len(body):
        raise source.error(
            f"truncated: the header claims {element.count} rows of element '{element.name}', found "
            f"{max(len(body) - start, 0)} lines"
        )
    lines, properties = body.part(start, stop), element.properties
    lists = [i for i, p in enumerate(properties) if p.length is not None]
    if lists:  # the first list; what follows it on the line is not needed
        return {properties[lists[0]].name: parse_polygons(source, lines, skip=lists[0])}, stop
    table = parse(source, lines)
    if element.count and table.shape != (element.count, len(properties)):
        raise source.error(
            f"element '{element.name}' has {len(table)} rows of {table.shape[1]} numbers, the header claims "
            f"{element.count} rows of {len(properties)}"
        )
    return {p.name: table[:, i].astype(p.kind) for i, p in enumerate(properties) if element.count}, stop


def _vertices(source: Source, element: Element, columns: Columns) -> Geometry:
    if not element.count:
        raise source.error("the ply file has 0 vertices, expected points or a mesh")
    points = _triple(source, element, columns, POSITION)
    if points is None:
        names = ", ".join(element.names)[:80] or "no properties"
        flat = "two dimensions only: " if {"x", "y"} <= set(element.names) else ""
        raise source.error(f"{flat}the ply element 'vertex' has {names}; expected x, y and z")
    normals, colors = (_triple(source, element, columns, kind) for kind in (NORMAL, COLOR))
    geometry = Geometry(points.astype(np.float64), name=str(source.path))
    if normals is not None:
        geometry = replace(geometry, normals=normals.astype(np.float64))
    return geometry if colors is None else with_colors(geometry, colors)


def _triple(
    source: Source, element: Element, columns: Columns, kind: tuple[tuple[str, str, str], ...]
) -> NDArray[np.generic] | None:
    at = pick(element.names, kind)
    if at is None:
        return None
    picked = [columns.get(element.names[i]) for i in at]
    values = [column for column in picked if isinstance(column, np.ndarray)]
    if len(values) < 3:
        raise source.error(f"the ply element 'vertex' has lists, expected one number for each of {kind[0]}")
    return np.stack(values, axis=1)


def _faces(source: Source, element: Element, columns: Columns) -> Int64[np.ndarray, "f 3"]:
    polygons = next((columns[n] for n in element.names if n in INDICES and n in columns), None)
    if not isinstance(polygons, Polygons):
        raise source.error(f"the ply element 'face' has no list {' or '.join(INDICES)} in front")
    return polygons.fans()
