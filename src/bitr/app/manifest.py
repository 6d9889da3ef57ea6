"""Lists of pairs: from a manifest, csv or jsonl, or several sources for one reference."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitr.errors import InputError

KEYS = ("source", "reference", "id")
NEEDED = KEYS[:2]


@dataclass(frozen=True)
class Pair:
    """Two files to assemble, as absolute paths, and what the pair is called in the results."""

    id: str
    source: str
    reference: str


def several_sources(sources: Iterable[Path], reference: Path) -> tuple[Pair, ...]:
    """Each source with the same reference; its name, as given, is the pair's id."""
    found = (Pair(str(s), str(s.absolute()), str(reference.absolute())) for s in sources)
    return _distinct((f"source {i}", pair) for i, pair in enumerate(found, 1))


def read_manifest(path: Path) -> tuple[Pair, ...]:
    """The pairs of a manifest; a bad row raises and is named by its line.

    Paths are relative to the manifest. A row without an id is called by its number, from 1.
    """
    readers = {".csv": _csv_rows, ".jsonl": _jsonl_rows}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: found a {path.suffix or 'name without a suffix'}, expected .csv or .jsonl")
    try:
        # Names of files are bytes; those that are no UTF-8 pass through unharmed.
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            rows = enumerate(readers[path.suffix.lower()](path, file), 1)
            pairs = _distinct((f"{path}, {at}", _pair(path, at, row, number)) for number, (at, row) in rows)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}), expected a list of pairs") from error
    if not pairs:
        raise InputError(f"{path}: holds no pairs, expected rows with source and reference")
    return pairs


def _csv_rows(path: Path, file: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.reader(file, strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            at = f"line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                _check_keys(path, at, header)
            elif len(cells) != len(header):
                raise InputError(f"{path}, {at}: found {len(cells)} cells, expected {len(header)}")
            else:
                yield at, {key: cell for key, cell in zip(header, cells, strict=True) if cell}
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not a row of a csv file ({error})") from error


def _jsonl_rows(path: Path, file: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        at = f"line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, {at}: not a JSON object ({error})") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}, {at}: found {line.strip()[:40]}, expected a JSON object")
        _check_keys(path, at, list(row))
        yield at, row


def _check_keys(path: Path, at: str, keys: list[str]) -> None:
    wrong = [key for key in keys if key not in KEYS] + [key for key in NEEDED if key not in keys]
    if wrong or len(set(keys)) != len(keys):
        raise InputError(
            f"{path}, {at}: found {', '.join(keys)[:80]}; expected source, reference and, if wanted, id"
        )


def _pair(path: Path, at: str, row: dict[str, Any], number: int) -> Pair:
    found = {key: row.get(key) for key in NEEDED} | {"id": row.get("id", str(number))}
    if type(found["id"]) is int:
        found["id"] = str(found["id"])
    for key, value in found.items():
        if not isinstance(value, str) or not value or not _can_be_a_name(value):
            raise InputError(
                f"{path}, {at}: found {key} = {value!r:.60}, expected the name of a file or pair"
            )
    folder = path.absolute().parent
    return Pair(str(found["id"]), str(folder / str(found["source"])), str(folder / str(found["reference"])))


def _can_be_a_name(value: str) -> bool:
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return "\0" not in value


def _distinct(pairs: Iterable[tuple[str, Pair]]) -> tuple[Pair, ...]:
    found: dict[str, Pair] = {}
    for at, pair in pairs:
        if pair.id in found:
            raise InputError(f"{at}: the id {pair.id} is taken already, expected each only once")
        found[pair.id] = pair
    return tuple(found.values())
