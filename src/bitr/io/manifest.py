"""Manifests: lists of pairs in csv or jsonl files; errors name the line of a bad row.

A list that cannot be read at all raises. A row that cannot be used raises too or, for those who ask, comes
with its problem, so that the other rows can be.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bitr.errors import InputError

T = TypeVar("T")
CheckKeys = Callable[[int, list[str]], None]
"""Raises for a line whose keys are not those expected."""
Found = tuple[int, dict[str, Any], InputError | None]
"""A line, its values, and what is wrong with it."""


@dataclass(frozen=True)
class Row:
    """The values of a row by their keys, without the empty cells of a csv file."""

    path: Path
    line: int
    number: int
    """From 1, blank lines not counted."""
    values: dict[str, Any]
    problem: InputError | None = None
    """The reason why the row cannot be used; None where it can."""

    @property
    def at(self) -> str:
        return f"{self.path}, line {self.line}"

    def name(self, key: str, otherwise: str | None = None) -> str:
        """The name of a file or pair under a key; anything else raises."""
        value = self.values.get(key, otherwise)
        value = str(value) if type(value) is int and key == "id" else value
        if not isinstance(value, str) or not value or not _can_be_a_name(value):
            raise InputError(f"{self.at}: found {key} = {value!r:.60}, expected the name of a file or pair")
        return value

    def file(self, key: str) -> Path:
        """The file named under a key, as an absolute path; names are relative to the manifest."""
        return self.path.absolute().parent / self.name(key)


def read_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str] | None, *, strict: bool = True
) -> tuple[Row, ...]:
    """The rows of a manifest, which must have the needed keys and may have the optional ones (None: any).

    A row that cannot be used raises; unless ``strict`` it has a problem instead.
    """

    def check_keys(line: int, found: list[str]) -> None:
        known = found if optional is None else (*needed, *optional)
        if not set(needed) <= set(found) <= set(known) or len(set(found)) != len(found):
            more = f" and, if wanted, {', '.join(optional)}" if optional else ""
            raise InputError(
                f"{path}, line {line}: found {', '.join(found)[:80]}; expected {', '.join(needed)}{more}"
            )

    readers = {".csv": _read_csv, ".jsonl": _read_jsonl}
    read = readers.get(path.suffix.lower())
    if read is None:
        raise InputError(f"{path}: found a {path.suffix or 'name without a suffix'}, expected .csv or .jsonl")
    try:
        # Names of files are bytes; those that are no UTF-8 pass through unharmed.
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            found = enumerate(read(path, file, check_keys), 1)
            rows = tuple(Row(path, line, number, values, bad) for number, (line, values, bad) in found)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}), expected a list of pairs") from error
    if not rows:
        raise InputError(f"{path}: holds no pairs, expected rows with {' and '.join(needed)}")
    for row in rows:
        if strict and row.problem is not None:
            raise row.problem
    return rows


def _read_csv(path: Path, file: Iterable[str], check_keys: CheckKeys) -> Iterator[Found]:
    reader = csv.reader(file, strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            line = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                check_keys(line, header)
            else:
                problem = None
                if len(cells) != len(header):
                    problem = InputError(
                        f"{path}, line {line}: found {len(cells)} cells, expected {len(header)}"
                    )
                yield line, {key: cell for key, cell in zip(header, cells, strict=False) if cell}, problem
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a row of a csv file ({error})") from error


def _read_jsonl(path: Path, file: Iterable[str], check_keys: CheckKeys) -> Iterator[Found]:
    for line, text in enumerate(file, 1):
        if not text.strip():
            continue
        row: Any = None
        try:
            row = json.loads(text)
            if not isinstance(row, dict):
                raise InputError(f"{path}, line {line}: found {text.strip()[:40]}, expected a JSON object")
            check_keys(line, list(row))
        except InputError as error:
            yield line, row if isinstance(row, dict) else {}, error
        except (ValueError, RecursionError) as error:
            yield line, {}, InputError(f"{path}, line {line}: not a JSON object ({error})")
        else:
            yield line, row, None


def distinct(found: Iterable[tuple[str, str, T]]) -> tuple[T, ...]:
    """The items of (place, id, item); an id that comes twice raises an error that names its place."""
    by_id: dict[str, T] = {}
    for at, name, item in found:
        if name in by_id:
            raise InputError(f"{at}: the id {name} is taken already, expected each only once")
        by_id[name] = item
    return tuple(by_id.values())


def _can_be_a_name(value: str) -> bool:
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return "\0" not in value
