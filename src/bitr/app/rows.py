"""How the rows of a table of results are written down: a JSON object a line, or a record of a csv file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

FIELDS = (
    "id",
    "status",
    "error",
    "transformation",
    "confidence",
    "reason",
    "method",
    "evidence",
    "hypotheses",
    "fitness",
    "inlier_rmse",
    "penetration_before",
    "penetration_after",
    "seconds",
    "model",
    "source",
    "reference",
    "warnings",
)


class JsonLines:
    """An object in each line, plain ASCII."""

    header = b""

    def encode(self, row: Mapping[str, Any]) -> bytes:
        return json.dumps({name: row[name] for name in FIELDS}, allow_nan=False).encode("ascii") + b"\n"

    def decode(self, record: bytes) -> Mapping[str, Any]:
        return json.loads(record)

    def is_whole(self, record: bytes) -> bool:
        return record.endswith(b"\n")


class Csv:
    """Text as it is, nothing for what is not known, and JSON for numbers and lists."""

    def __init__(self) -> None:
        self.header = self._record(FIELDS)

    def encode(self, row: Mapping[str, Any]) -> bytes:
        return self._record(_cell(row[name]) for name in FIELDS)

    def decode(self, record: bytes) -> Mapping[str, Any]:
        text = record.decode("utf-8", errors="surrogateescape")
        cells = next(csv.reader([text], strict=True))
        return dict(zip(FIELDS, cells, strict=True))

    def is_whole(self, record: bytes) -> bool:
        """A line break between quotes is part of the record; quotes inside a cell are doubled."""
        return record.endswith(b"\n") and record.count(b'"') % 2 == 0

    def _record(self, cells: Iterable[str]) -> bytes:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue().encode("utf-8", errors="surrogateescape")


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, allow_nan=False)


FORMATS: dict[str, JsonLines | Csv] = {".jsonl": JsonLines(), ".csv": Csv()}


def whole_records(file: Iterable[bytes], form: JsonLines | Csv) -> Iterator[tuple[bytes, int]]:
    """The records of a file and where each ends; what is left over at the end is not among them."""
    record, end = b"", 0
    for line in file:
        record += line
        if form.is_whole(record):
            end += len(record)
            yield record, end
            record = b""
