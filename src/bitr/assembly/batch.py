"""Many pairs with one model: a list of pairs in, a table of results out, in this process or on Ray.

Each pair gets its row, whatever happens to it. A row is on disk as soon as it is there and never written
twice, so a batch that was stopped continues where it stopped. Beside the table,
``<table>.settings.json`` names what the rows were made with.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import torch

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.errors import InputError
from bitr.files import check_target, whole_file
from bitr.io import read
from bitr.io.manifest import distinct, read_rows

ANSWERS = ("pose", "split", "symmetry", "axis", "unit")
"""Columns of manifests that tell the answer; a batch does not look at them."""
FIELDS = (
    *("id", "status", "error", "transformation", "confidence", "reason", "method", "evidence", "hypotheses"),
    *("fitness", "inlier_rmse", "penetration_before", "penetration_after", "seconds", "model"),
    *("source", "reference", "warnings"),
)
STATUSES = ("ok", "ambiguous", "unsure", "degenerate", "error")
"""Statuses of an answer, and of a pair without one."""
BLOCKS, PER_BLOCK = 1000, 16
"""Up to so many pairs travel to Ray one by one; of more, up to ``PER_BLOCK`` go together."""
QUIET = {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray reads these variables when it is imported."""

Row = dict[str, Any]

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Pair:
    """Two files to assemble, as absolute paths, and the name of the pair in the results."""

    id: str
    source: str
    reference: str


Solver = Callable[[Sequence[Pair]], Iterable[Row]]
"""Turns pairs into rows, in any order."""


@dataclass(frozen=True)
class Summary:
    """Counts of a finished batch, with the rows of earlier runs."""

    results: str
    pairs: int
    ok: int
    errors: int
    resumed: int
    """Number of rows that were there already."""


def pair_sources(sources: Iterable[Path], reference: Path) -> tuple[Pair, ...]:
    """Pair each source with the same reference; its name, as given, is the pair's id."""
    found = (Pair(str(s), str(s.absolute()), str(reference.absolute())) for s in sources)
    return distinct((f"source {i}", pair.id, pair) for i, pair in enumerate(found, 1))


def read_manifest(path: Path) -> tuple[Pair, ...]:
    """Read the pairs of a manifest; paths are relative to it, and a row without an id is named by its number.

    An error names the line of the bad row.
    """
    rows = read_rows(path, needed=("source", "reference"), optional=("id", *ANSWERS))
    found = (
        (row.at, Pair(row.name("id", str(row.number)), str(row.file("source")), str(row.file("reference"))))
        for row in rows
    )
    return distinct((at, pair.id, pair) for at, pair in found)


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
    """Give every pair that has no row yet its row in the table; call ``on_row(done, total)`` after each.

    Without a solver, pairs are solved one after the other in this process.
    """
    solve = solver or (lambda todo: (solve_pair(pair, network, settings) for pair in todo))
    with open_table(table, _describe(pairs, network, settings), force=force) as rows:
        resumed = len(rows.statuses)
        on_row(resumed, len(pairs))
        todo = [pair for pair in pairs if pair.id not in rows.statuses]
        for row in solve(todo) if todo else ():
            rows.append(row)
            on_row(len(rows.statuses), len(pairs))
        errors = list(rows.statuses.values()).count("error")
        return Summary(str(table), len(pairs), len(rows.statuses) - errors, errors, resumed)


def solve_pair(pair: Pair, network: Network, settings: Settings) -> Row:
    """Make the row of one pair; if it cannot be assembled, the row says why."""
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


def _describe(pairs: Sequence[Pair], network: Network, settings: Settings) -> dict[str, Any]:
    """Describe what the rows depend on: a table is continued only with the same."""
    told = [network.model.config.to_dict(), network.points, network.joints, network.verifier.to_dict()]
    weights = hashlib.sha256(json.dumps(told, sort_keys=True).encode("ascii"))
    for name, value in sorted(network.model.state_dict().items()):
        weights.update(name.encode("ascii"))
        weights.update(value.detach().cpu().contiguous().numpy().tobytes())
    return {
        "bitr": version("bitr"),
        **asdict(settings),
        "weights": weights.hexdigest(),
        "pairs": hashlib.sha256(json.dumps([asdict(p) for p in pairs]).encode("ascii")).hexdigest(),
    }


class JsonLines:
    """Rows as one JSON object a line, in ASCII."""

    header = b""

    def encode(self, row: Mapping[str, Any]) -> bytes:
        return json.dumps({name: row[name] for name in FIELDS}, allow_nan=False).encode("ascii") + b"\n"

    def decode(self, record: bytes) -> Mapping[str, Any]:
        return json.loads(record)

    def is_whole(self, record: bytes) -> bool:
        return record.endswith(b"\n")


class Csv:
    """Rows as records of a csv file: text as it is, None as nothing, and JSON for numbers and lists."""

    def __init__(self) -> None:
        self.header = self._join(FIELDS)

    def encode(self, row: Mapping[str, Any]) -> bytes:
        values = (row[name] for name in FIELDS)
        return self._join(
            v if isinstance(v, str) else "" if v is None else json.dumps(v, allow_nan=False) for v in values
        )

    def decode(self, record: bytes) -> Mapping[str, Any]:
        text = record.decode("utf-8", errors="surrogateescape")
        return dict(zip(FIELDS, next(csv.reader([text], strict=True)), strict=True))

    def is_whole(self, record: bytes) -> bool:
        """A line break between quotes is part of the record; quotes inside a cell are doubled."""
        return record.endswith(b"\n") and record.count(b'"') % 2 == 0

    def _join(self, cells: Iterable[str]) -> bytes:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue().encode("utf-8", errors="surrogateescape")


FORMATS: dict[str, JsonLines | Csv] = {".jsonl": JsonLines(), ".csv": Csv()}


class Table:
    """Rows on disk, with their statuses by id; a row that was left unfinished is cut off."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file, self.form = path, file, FORMATS[path.suffix.lower()]
        self.statuses: dict[str, str] = {}
        record, end, number = b"", 0, 0
        for line in file:
            record += line
            if self.form.is_whole(record):
                end, number = end + len(record), number + 1
                self._count(record, number)
                record = b""
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


def settings_file(table: Path) -> Path:
    """The file beside a table that names what its rows were made with."""
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


@contextmanager
def open_table(path: Path, settings: Mapping[str, Any], *, force: bool) -> Iterator[Table]:
    """Open a new table, or continue one whose rows were made with the same settings."""
    check_table(path, force=force)
    with open(path, "a+b") as file:
        _lock(path, file)
        if force:
            file.truncate(0)
        if file.seek(0, os.SEEK_END) == 0:
            with whole_file(settings_file(path), force=True) as temporary:
                temporary.write_text(json.dumps(dict(settings), indent=1), encoding="ascii")
        else:
            _check_settings(path, settings)
        file.seek(0)
        yield Table(path, file)


def _lock(path: Path, file: BinaryIO) -> None:
    """Keep other processes from writing to the table, where the system has locks."""
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


def solve_on_cores(
    model: str, settings: Settings, workers: int, joints: tuple[str, ...] | None = None
) -> Solver:
    """Make a solver with processes of this machine, each with its own model and one thread.

    ``joints`` limits the kinds of joint that are tried; None: those that the weights are for.
    """

    def solve(pairs: Sequence[Pair]) -> Iterator[Row]:
        spawn = multiprocessing.get_context("spawn")
        given = (model, model, settings, joints)
        pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_start, initargs=given)
        try:
            for done in as_completed([pool.submit(_solve_in_process, pair) for pair in pairs]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)

    return solve


_worker: Worker | None = None
"""The worker of this process, where it is one of ``solve_on_cores``."""


def _start(path: str, name: str, settings: Settings, joints: tuple[str, ...] | None) -> None:
    global _worker
    torch.set_num_threads(1)
    _worker = Worker(path, name, settings, joints)


def _solve_in_process(pair: Pair) -> Row:
    assert _worker is not None  # _start
    return solve_pair(pair, _worker.network, _worker.settings)


def solve_on_ray(
    model: str, settings: Settings, workers: int | None = None, joints: tuple[str, ...] | None = None
) -> Solver:
    """Make a solver on the cluster at RAY_ADDRESS or, without one, on this machine.

    Each worker loads the model once. Clouds, and weights given by a path, must be on all machines of the
    cluster under the same absolute path. ``joints`` is that of ``solve_on_cores``.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        ray: Any = import_module("ray")
        import_module("ray.data")
    except ImportError as error:
        raise InputError('--ray needs Ray: pip install -e ".[ray]" in the clone') from error
    if workers is not None and workers < 1:
        raise InputError(f"workers = {workers}: expected at least 1")
    path = str(Path(model).absolute()) if Path(model).exists() else model

    def solve(pairs: Sequence[Pair]) -> Iterator[Row]:
        with _cluster(ray, workers):
            most = workers if workers is not None else int(ray.cluster_resources().get("CPU", 1))
            items = [{"pair": json.dumps(asdict(pair))} for pair in pairs]
            blocks = min(len(items), max(BLOCKS, len(items) // PER_BLOCK))
            rows = ray.data.from_items(items, override_num_blocks=blocks).map(
                Worker,
                fn_constructor_args=(path, model, settings, joints),
                concurrency=max(1, min(most, len(items))),
                num_cpus=1,
            )
            for row in rows.iter_rows():
                yield json.loads(row["row"])

    return solve


class Worker:
    """A process of the cluster, with its own model; pairs and rows travel as JSON."""

    def __init__(
        self, path: str, name: str, settings: Settings, joints: tuple[str, ...] | None = None
    ) -> None:
        network = replace(Network.of(path), name=name)
        self.network = network if joints is None else replace(network, joints=joints)
        self.settings = settings

    def __call__(self, item: dict[str, Any]) -> dict[str, str]:
        row = solve_pair(Pair(**json.loads(item["pair"])), self.network, self.settings)
        return {"row": json.dumps(row)}


@contextmanager
def _cluster(ray: Any, workers: int | None) -> Iterator[None]:
    """Connect to Ray, quietly; a connection that was there before stays."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    address = os.environ.get("RAY_ADDRESS", "local")
    local: dict[str, Any] = {"include_dashboard": False, "num_cpus": workers} if address == "local" else {}
    connect = not ray.is_initialized()
    with redirect_stdout(sys.stderr):  # where Ray's own messages belong
        if connect:
            with _mute_stderr():
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, **local)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # an error comes as an exception, too
        try:
            yield
        finally:
            if connect:
                ray.shutdown()


@contextmanager
def _mute_stderr() -> Iterator[None]:
    """Silence what Ray's C++ part writes as it starts; a failure comes as an exception."""
    saved = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
