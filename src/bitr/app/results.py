"""The table of results of a batch: a row for each pair, on disk as soon as it is there, never twice.

Beside the table lies ``<table>.settings.json``: what the rows were made with. Rows are added one at a time
and forced to disk; what a killed process left unfinished at the end is cut off.
"""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bitr.app.rows import FORMATS, whole_records
from bitr.errors import InputError
from bitr.files import check_target, whole_file

STATUSES = ("ok", "ambiguous", "unsure", "degenerate", "error")
"""Of a row: those of an answer, or that there is none."""

log = logging.getLogger("bitr")


def settings_file(table: Path) -> Path:
    return table.with_name(table.name + ".settings.json")


def check_table(table: Path, *, force: bool) -> None:
    """Raise when a table of results cannot be written or continued there."""
    if table.suffix.lower() not in FORMATS:
        raise InputError(
            f"{table}: a batch writes a table of results, expected a name in {' or '.join(FORMATS)}"
        )
    try:
        check_target(table, force=True)
    except OSError as error:
        raise InputError(f"{table}: cannot be written ({error.strerror})") from error
    if table.exists() and table.stat().st_size and not force and not settings_file(table).exists():
        raise InputError(
            f"{table}: exists already and is not of a batch; choose another name, or use --force"
        )


class Table:
    """Rows on disk: ``statuses`` says what is there, by id. What was left unfinished is cut off."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file, self.form = path, file, FORMATS[path.suffix.lower()]
        self.statuses: dict[str, str] = {}
        end = 0
        for number, (record, stop) in enumerate(whole_records(file, self.form), 1):
            self._count(record, number)
            end = stop
        file.truncate(end)
        if end == 0:
            self._add(self.form.header)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add the row of one pair; when this returns it is on disk."""
        if row["id"] in self.statuses:
            raise ValueError(f"{self.path}: the pair {row['id']} has a row already")
        self._add(self.form.encode(row))
        self.statuses[row["id"]] = row["status"]

    def _add(self, record: bytes) -> None:
        self.file.seek(0, os.SEEK_END)
        self.file.write(record)
        self.file.flush()
        os.fsync(self.file.fileno())

    def _count(self, record: bytes, number: int) -> None:
        if number == 1 and record == self.form.header:
            return
        try:
            row = self.form.decode(record)
            name, status = row["id"], row["status"]
            if name in self.statuses or status not in STATUSES:
                raise ValueError("a second row, or no status")
        except (ValueError, KeyError, TypeError, StopIteration, RecursionError, csv.Error) as error:
            raise InputError(
                f"{self.path}, row {number}: not a row of a batch ({error}); start again with --force"
            ) from error
        self.statuses[name] = status


@contextmanager
def open_table(path: Path, settings: Mapping[str, Any], *, force: bool) -> Iterator[Table]:
    """The table to add rows to: new, or continued if its rows were made with the same settings."""
    check_table(path, force=force)
    with open(path, "a+b") as file:
        _lock(path, file)
        if force:
            file.truncate(0)
        if file.seek(0, os.SEEK_END) == 0:
            _write_settings(settings_file(path), settings)
        else:
            _check_settings(path, settings)
        file.seek(0)
        yield Table(path, file)


def _lock(path: Path, file: BinaryIO) -> None:
    """Two processes must not write to one table; where there are no locks, that is up to the user."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(f"{path}: another process is writing to it; wait for it to end") from error
    except OSError:
        log.debug("%s: the file system has no locks", path)


def _write_settings(path: Path, settings: Mapping[str, Any]) -> None:
    with whole_file(path, force=True) as temporary, open(temporary, "w", encoding="ascii") as file:
        json.dump(dict(settings), file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _check_settings(table: Path, settings: Mapping[str, Any]) -> None:
    path = settings_file(table)
    try:
        found = json.loads(path.read_text(encoding="ascii"))
        different = [key for key in {**found, **settings} if found.get(key) != settings.get(key)]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path}: does not say what the results were made with; start again with --force"
        ) from error
    if different:
        first = different[0]
        raise InputError(
            f"{table}: holds results of another batch ({first}: {found.get(first)!r:.60} there, "
            f"{settings.get(first)!r:.60} here); choose another name, or start again with --force"
        )
