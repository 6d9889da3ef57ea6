"""Numbers in text: a fast parser, and a slow one that finds the line of the first mistake."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.io.columns import from_columns
from bitr.io.geometry import Geometry
from bitr.io.source import Source

COMMENTS = (b"#", b"//", b"%", b"!")


@dataclass(frozen=True)
class Lines:
    """Lines of a text file that hold something, with their numbers counted from 1."""

    rows: Sequence[bytes]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, stop: int) -> Lines:
        return Lines(self.rows[start:stop], self.numbers[start:stop])


def lines_of(rows: Sequence[bytes], first: int = 1) -> Lines:
    """Those rows that are neither blank nor comments; the first row has the number ``first``."""
    kept = [i for i, row in enumerate(rows) if (text := row.lstrip()) and not text.startswith(b"#")]
    if len(kept) == len(rows):
        return Lines(rows, range(first, first + len(rows)))
    return Lines([rows[i] for i in kept], [first + i for i in kept])


def parse(source: Source, lines: Lines, delimiter: str | None = None) -> Float64[np.ndarray, "n c"]:
    """The numbers of all lines, which must have the same number of columns."""
    if not len(lines):
        return np.zeros((0, 0))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about lines without numbers, which are told below
            rows = list(lines.rows)
            table = np.loadtxt(rows, delimiter=delimiter, comments="#", ndmin=2, encoding="latin-1")
    except (ValueError, OverflowError) as error:
        _find_mistake(source, lines, delimiter)
        raise source.broken("text", error) from error
    if len(table) != len(lines):  # loadtxt skips what is empty
        _find_mistake(source, lines, delimiter)
    return table


def _find_mistake(source: Source, lines: Lines, delimiter: str | None) -> None:
    columns = None
    for row, number in zip(lines.rows, lines.numbers, strict=True):
        tokens = row.split(b"#")[0].decode("latin-1").split(delimiter)
        for token in tokens or [""]:
            if not is_number(token):
                raise source.error(f"line {number}: found {token.strip()[:40]!r}, expected a number")
        columns = len(tokens) if columns is None else columns
        if len(tokens) != columns:
            raise source.error(
                f"line {number}: found {len(tokens)} columns, expected {columns} as in the lines before it"
            )


def is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return "_" not in token  # Python reads 1_000, no file means it


def read_text(source: Source) -> Geometry:
    """A table of numbers: any delimiter, comments, and a first line with a count or with names of columns."""
    if b"\0" in source.data:
        raise source.error("holds binary data, expected lines of numbers")
    rows = source.data.removeprefix(b"\xef\xbb\xbf").splitlines()
    start, names, count = _head(source, rows)
    delimiter = next((d for d in ";,|" if d.encode() in rows[start]), None)
    table = parse(source, lines_of(rows[start:], start + 1), delimiter)
    if count is not None and count != len(table):
        raise source.error(f"truncated: the first line claims {count} points, found {len(table)} rows")
    if names is not None and len(names) != table.shape[1]:
        names = None
    return from_columns(table, str(source.path), names, source.suffix)


def _head(source: Source, rows: list[bytes]) -> tuple[int, list[str] | None, int | None]:
    """Index of the first row of numbers, the names of the columns and the count above it, where given."""
    names: list[str] | None = None
    count: int | None = None
    for i, row in enumerate(rows):
        text = row.strip()
        comment = next((c for c in COMMENTS if text.startswith(c)), None)
        tokens = re.sub(rb"[,;|\"']", b" ", text.removeprefix(comment or b"")).decode("latin-1").split()
        if comment is not None:
            names = tokens if {"x", "y", "z"} <= {t.lower() for t in tokens} else names
        elif tokens and not any(is_number(t) for t in tokens):
            if names is not None:
                raise source.error(f"line {i + 1}: found {text[:40].decode('latin-1')!r}, expected numbers")
            names = tokens
        elif len(tokens) == 1 and tokens[0].isdecimal() and count is None:
            count = int(tokens[0][:18])
        elif tokens:
            return i, names, count
    raise source.error("no line of numbers found, expected rows of at least three columns: x y z")
