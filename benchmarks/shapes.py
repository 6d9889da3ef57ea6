"""``python -m benchmarks.shapes --n 2000 --processes 2`` prints how many pairs a second are made."""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from bitr.data.generated.dataset import ShapesConfig, shapes
from bitr.data.storage import SPLITS


def main() -> None:
    """Make the shapes that the first n pairs need, then time the pairs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=main.__doc__)
    parser.add_argument("--n", type=int, default=2000, help="pairs")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--root", type=Path, help="shapes are stored in its folder generated, if it has one")
    parser.add_argument("--solids", type=int, default=ShapesConfig().solids, help="training shapes")
    given = parser.parse_args()
    work = partial(_time_pairs, given.split, given.root, ShapesConfig(solids=given.solids))
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for turn in ("first", "again"):
            start = time.perf_counter()
            rows = [range(k, given.n, given.processes) for k in range(given.processes)]
            each = 1000 * sum(pool.map(work, rows)) / given.n
            seconds = time.perf_counter() - start
            print(f"{turn}: {given.n / seconds:.0f} pairs/s, {each:.1f} ms of processor time a pair")


def _time_pairs(split: str, root: Path | None, config: ShapesConfig, rows: range) -> float:
    """Processor seconds for the pairs of these numbers."""
    start = time.process_time()
    pairs = shapes(split, root, config=config)
    for i in rows:
        _ = pairs[i]
    return time.process_time() - start


if __name__ == "__main__":  # worker processes import this file, too
    main()
