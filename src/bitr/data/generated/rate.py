"""How many pairs a second: ``python -m bitr.data.generated --n 2000 --processes 2``."""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from bitr.data.generated.config import ShapesConfig
from bitr.data.generated.dataset import shapes


def main() -> None:
    """Make the shapes that the first n pairs need, then time the pairs."""
    parser = argparse.ArgumentParser(prog="python -m bitr.data.generated", description=main.__doc__)
    parser.add_argument("--n", type=int, default=2000, help="pairs")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--split", choices=("train", "val", "test"), default="train")
    parser.add_argument("--root", type=Path, help="shapes are stored in its folder `shapes`, if it has one")
    parser.add_argument(
        "--solids", type=int, default=ShapesConfig().solids, help="different ones to train on"
    )
    given = parser.parse_args()
    config = ShapesConfig(solids=given.solids)
    work = partial(_busy, given.split, given.root, config)
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for turn in ("first", "again"):
            start = time.perf_counter()
            rows = [range(k, given.n, given.processes) for k in range(given.processes)]
            busy = sum(pool.map(work, rows))
            seconds = time.perf_counter() - start
            each = 1000 * busy / given.n
            print(f"{turn}: {given.n / seconds:.0f} pairs/s, {each:.1f} ms of processor time a pair")


def _busy(split: str, root: Path | None, config: ShapesConfig, rows: range) -> float:
    """Seconds that a processor works on the pairs of these numbers, whatever else keeps it busy."""
    start = time.process_time()
    pairs = shapes(split, root, config=config)
    for i in rows:
        _ = pairs[i]
    return time.process_time() - start
