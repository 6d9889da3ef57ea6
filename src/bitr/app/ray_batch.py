"""The pairs of a batch on a Ray cluster: the same rows, in the order in which they come."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from bitr.app.batch import Row, Solver, solve_pair
from bitr.app.manifest import Pair
from bitr.assembly.assemble import Settings
from bitr.assembly.network import Network
from bitr.errors import InputError

BLOCKS = 1000
"""Up to so many pairs travel one by one; of more, up to ``PER_BLOCK`` go together."""
PER_BLOCK = 16
QUIET = {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_USAGE_STATS_ENABLED": "0"}
"""Read by Ray when it is imported."""


def on_ray(model: str, settings: Settings, workers: int | None = None) -> Solver:
    """Pairs on the cluster at RAY_ADDRESS or, without one, on this machine; each worker loads the model once.

    Clouds, and weights given by a path, must be on all machines of the cluster under the same absolute path.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        ray: Any = import_module("ray")
        import_module("ray.data")
    except ImportError as error:
        raise InputError('--ray needs Ray, which is not installed: pip install "bitr[ray]"') from error
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
                fn_constructor_args=(path, model, settings),
                concurrency=max(1, min(most, len(items))),
                num_cpus=1,
            )
            for row in rows.iter_rows():
                yield json.loads(row["row"])

    return solve


class Worker:
    """A process of the cluster, with its own model; pairs and rows travel as JSON."""

    def __init__(self, path: str, name: str, settings: Settings) -> None:
        self.network, self.settings = replace(Network.of(path), name=name), settings

    def __call__(self, item: dict[str, Any]) -> dict[str, str]:
        row = solve_pair(Pair(**json.loads(item["pair"])), self.network, self.settings)
        return {"row": json.dumps(row)}


@contextmanager
def _cluster(ray: Any, workers: int | None) -> Iterator[None]:
    """Connected, quietly; a connection that was there before stays."""
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    address = os.environ.get("RAY_ADDRESS", "local")
    local: dict[str, Any] = {"include_dashboard": False, "num_cpus": workers} if address == "local" else {}
    connect = not ray.is_initialized()
    with redirect_stdout(sys.stderr):  # where Ray's own messages belong
        if connect:
            with _hushed():
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, **local)
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # an error comes as an exception, too
        try:
            yield
        finally:
            if connect:
                ray.shutdown()


@contextmanager
def _hushed() -> Iterator[None]:
    """Ray's C++ part reports on standard error how much it will report; a failure comes as an exception."""
    saved = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
