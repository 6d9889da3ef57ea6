"""Many pairs with one model: a list of pairs in, a table of results out, in this process or on Ray.

Each pair gets its row, whatever happens to it. A row is on disk as soon as it is there, so a batch that was
stopped continues where it stopped; rows of pairs that failed make way for another try. Beside the table,
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
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import torch

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data.own import Row as ManifestRow
from bitr.data.own import distinct, read_rows
from bitr.errors import InputError, NoSpaceError, is_full, require
from bitr.files import check_target, lock_file, whole_file
from bitr.io import read

ANSWERS = ("pose", "split", "symmetry", "axis", "unit")
"""Columns of manifests that tell the answer; a batch does not look at them."""
FIELDS = (
    *("id", "status", "error", "transformation", "confidence", "reason", "method", "evidence", "hypotheses"),
    *("fitness", "inlier_rmse", "penetration_before", "penetration_after", "seconds", "model"),
    *("source", "reference", "warnings", "scale"),
)
BUSY = "another process is writing to it; wait for it to end"
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
    problem: str | None = None
    """The reason why the row of a manifest names no such pair; None where it does."""


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

    A bad row is a pair with a problem, which names the line. Of rows with one id the first has it; the others
    get their lines behind it.
    """
    pairs: dict[str, Pair] = {}
    for row in read_rows(path, ("source", "reference"), ("id", *ANSWERS), strict=False):
        pair = _pair_of_row(row)
        if pair.id in pairs:
            problem = pair.problem or f"{row.at}: the id {pair.id} is taken already, expected each only once"
            pair = replace(pair, problem=problem)
            while pair.id in pairs:
                pair = replace(pair, id=f"{pair.id} (line {row.line})")
        pairs[pair.id] = pair
    return tuple(pairs.values())


def _pair_of_row(row: ManifestRow) -> Pair:
    problems = [f"{row.at}: {row.problem}"] if row.problem else []

    def take(find: Callable[..., object], *arguments: str, otherwise: str = "") -> str:
        try:
            return str(find(*arguments))
        except InputError as error:
            problems.append(str(error))
            return otherwise

    number = str(row.number)
    name = take(row.name, "id", number, otherwise=number)
    source, reference = take(row.file, "source"), take(row.file, "reference")
    return Pair(name, source, reference, problems[0] if problems else None)


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
    try:
        with open_table(table, _describe(network, settings), force=force, pairs=pairs) as rows:
            resumed = len(rows.statuses)
            on_row(resumed, len(pairs))
            todo = [pair for pair in pairs if pair.id not in rows.statuses]
            bad = [_failed(pair, pair.problem) for pair in todo if pair.problem is not None]
            good = [pair for pair in todo if pair.problem is None]
            for row in chain(bad, solve(good) if good else ()):
                rows.append(row)
                on_row(len(rows.statuses), len(pairs))
            errors = list(rows.statuses.values()).count("error")
            return Summary(str(table), len(pairs), len(rows.statuses) - errors, errors, resumed)
    except OSError as error:
        if not is_full(error):
            raise
        raise NoSpaceError(
            f"{table}: no space left on the disk; the rows there are whole: make room and go on with the "
            "same command"
        ) from error


def solve_pair(pair: Pair, network: Network, settings: Settings) -> Row:
    """Make the row of one pair; if it cannot be assembled, the row says why."""
    log.info("pair %s", pair.id)
    try:
        assembly = assemble_geometries(read(pair.source), read(pair.reference), network, settings)
    except InputError as error:
        return _failed(pair, str(error))
    except Exception as error:  # one bad pair must not cost the others their rows
        log.debug("unexpected error in pair %s", pair.id, exc_info=True)
        return _failed(pair, f"unexpected {type(error).__name__}: {error}")
    return dict.fromkeys(FIELDS) | assembly.to_dict() | _named(pair)


def _failed(pair: Pair, why: str) -> Row:
    return dict.fromkeys(FIELDS) | _named(pair) | {"status": "error", "error": why}


def _named(pair: Pair) -> Row:
    return {"id": pair.id, "source": pair.source, "reference": pair.reference}


def _describe(network: Network, settings: Settings) -> dict[str, Any]:
    """Describe what the rows depend on: a table is continued only with the same."""
    told = [network.model.config.to_dict(), network.points, network.joints, network.verifier.to_dict()]
    weights = hashlib.sha256(json.dumps(told, sort_keys=True).encode("ascii"))
    for name, value in sorted(network.model.state_dict().items()):
        weights.update(name.encode("ascii"))
        weights.update(value.detach().cpu().contiguous().numpy().tobytes())
    return {"bitr": version("bitr"), **asdict(settings), "weights": weights.hexdigest()}


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
        self.good: list[bytes] = []
        """Records that were there, without those of pairs that failed."""
        self.files: dict[str, tuple[str, str]] = {}
        """Source and reference of these, by id."""
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

    def check(self, pairs: Iterable[Pair]) -> None:
        """Raise where a row is of a pair that is not among these, or that has other files by now."""
        asked = {pair.id: (pair.source, pair.reference) for pair in pairs}
        for name, files in self.files.items():
            if asked.get(name) != files:
                now = " and ".join(asked[name]) if name in asked else "no such pair"
                raise InputError(
                    f"{self.path}: holds results of another batch (the pair {name}: {' and '.join(files)} "
                    f"there, {now} here); choose another name, or start again with --force"
                )

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
            self.good.append(record)
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
        if status != "error":
            self.good.append(record)
            self.files[name] = str(row.get("source")), str(row.get("reference"))


def settings_file(table: Path) -> Path:
    """The file beside a table that names what its rows were made with."""
    return table.with_name(table.name + ".settings.json")


def check_table(table: Path, *, force: bool) -> None:
    """Raise when a table of results cannot be written or continued there."""
    names = " or ".join(FORMATS)
    is_table = table.suffix.lower() in FORMATS
    require(is_table, f"{table}: a batch writes a table of results, expected a name in {names}")
    try:
        check_target(table, force=True)
    except OSError as error:
        raise InputError(f"{table}: cannot be written ({error.strerror})") from error
    is_ours = force or not (table.exists() and table.stat().st_size) or settings_file(table).exists()
    require(is_ours, f"{table}: exists already and is not of a batch; choose another name, or use --force")


@contextmanager
def open_table(
    path: Path, settings: Mapping[str, Any], *, force: bool, pairs: Sequence[Pair] | None = None
) -> Iterator[Table]:
    """Open a new table, or continue one whose rows were made with the same settings, of some of the pairs.

    Rows of pairs that failed are taken out of it.
    """
    check_table(path, force=force)
    with lock_file(path, BUSY) as file:
        if force:
            file.truncate(0)
        if file.seek(0, os.SEEK_END) == 0:
            with whole_file(settings_file(path), force=True) as temporary:
                temporary.write_text(json.dumps(dict(settings), indent=1), encoding="ascii")
        else:
            _check_settings(path, settings)
        file.seek(0)
        table = Table(path, file)
        if pairs is not None:
            table.check(pairs)
        if "error" not in table.statuses.values():
            yield table
            return
        with whole_file(path, force=True) as temporary:
            temporary.write_bytes(b"".join(table.good))
    with lock_file(path, BUSY) as file:
        file.seek(0)
        yield Table(path, file)


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


class Cores:
    """Processes of this machine, each with its own model and one thread; they stay until they are closed."""

    def __init__(self, model: str, workers: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_start, initargs=(model,))

    def solver(self, settings: Settings, changes: Mapping[str, Any]) -> Solver:
        """Make a solver; ``changes`` are fields of the network that differ from those of the weights."""

        def solve(pairs: Sequence[Pair]) -> Iterator[Row]:
            jobs = [self._pool.submit(_solve_in_process, pair, settings, changes) for pair in pairs]
            try:
                for done in as_completed(jobs):
                    yield done.result()
            finally:
                for job in jobs:
                    job.cancel()

        return solve

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


_network: Network | None = None
"""The model of this process, where it is one of ``Cores``."""


def _start(model: str) -> None:
    global _network
    torch.set_num_threads(1)
    _network = Network.of(model)


def _solve_in_process(pair: Pair, settings: Settings, changes: Mapping[str, Any]) -> Row:
    assert _network is not None  # _start
    return solve_pair(pair, replace(_network, **changes), settings)


def solve_on_ray(
    model: str, settings: Settings, workers: int | None = None, changes: Mapping[str, Any] | None = None
) -> Solver:
    """Make a solver on the cluster at RAY_ADDRESS or, without one, on this machine.

    Each worker loads the model once. Clouds, and weights given by a path, must be on all machines of the
    cluster under the same absolute path. ``changes`` are fields of the network that differ from those of the
    weights.
    """
    ray = _import_ray()
    require(workers is None or workers >= 1, f"workers = {workers}: expected at least 1")
    path = str(Path(model).absolute()) if Path(model).exists() else model

    def solve(pairs: Sequence[Pair]) -> Iterator[Row]:
        with ray_cluster(workers):
            most = workers if workers is not None else int(ray.cluster_resources().get("CPU", 1))
            items = [{"pair": json.dumps(asdict(pair))} for pair in pairs]
            blocks = min(len(items), max(BLOCKS, len(items) // PER_BLOCK))
            rows = ray.data.from_items(items, override_num_blocks=blocks).map(
                Worker,
                fn_constructor_args=(path, model, settings, changes),
                concurrency=max(1, min(most, len(items))),
                num_cpus=1,
            )
            for row in rows.iter_rows():
                yield json.loads(row["row"])

    return solve


class Worker:
    """A process of the cluster, with its own model; pairs and rows travel as JSON."""

    def __init__(
        self, path: str, name: str, settings: Settings, changes: Mapping[str, Any] | None = None
    ) -> None:
        self.network = replace(Network.of(path), name=name, **(changes or {}))
        self.settings = settings

    def __call__(self, item: dict[str, Any]) -> dict[str, str]:
        row = solve_pair(Pair(**json.loads(item["pair"])), self.network, self.settings)
        return {"row": json.dumps(row)}


def _import_ray() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        ray: Any = import_module("ray")
        import_module("ray.data")
    except ImportError as error:
        raise InputError('--ray needs Ray: pip install -e ".[ray]" in the clone') from error
    return ray


@contextmanager
def ray_cluster(workers: int | None = None) -> Iterator[None]:
    """Connect to Ray, quietly; a connection that was there before stays."""
    ray = _import_ray()
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
