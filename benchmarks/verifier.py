"""Fits the verifier that comes with bitr on held-out pairs of all kinds.

    python -m benchmarks.verifier --keep FOLDER --base OLD.json --out src/bitr/weights/verifier.json

The candidates of every pair are kept in FOLDER, so that an interrupted run goes on; all cores are used. Needs
BITR_DATA. No test split is opened. Training splits are used as well where the weights `default` and
`fracture` have seen nothing of them: cuts and crops of open shapes, Breaking Bad's fragments, and rooms.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bitr.assembly.network import Network
from bitr.assembly.orbit import with_symmetry
from bitr.assembly.verify import Verifier
from bitr.data import AssemblyPair, dataset
from bitr.data.generated.dataset import HELD_OUT
from bitr.data.openshapes import DrawPairs
from bitr.data.poses import Pairs
from bitr.evaluation.calibrate import Origin, Rows, calibrate, collect
from bitr.files import whole_file

PAIRS = {
    ("openshapes:fracture", "val"): (0, 340),
    ("shapes:fracture", "val"): (0, 160),
    ("shapes:vessel", "val"): (0, 60),
    ("shapes:eroded", "val"): (0, 50),
    ("openshapes:eroded", "val"): (0, 40),
    ("shapes:chip", "val"): (0, 30),
    ("unrelated:broken", "val"): (0, 180),
    ("winebottle", "val"): (0, 18),
    ("winebottle", "train"): (80, 116),
    ("vase", "train"): (0, 30),
    ("mug", "train"): (0, 25),
    ("bowl", "train"): (0, 25),
    ("pillbottle", "train"): (0, 25),
    ("wineglass", "train"): (0, 50),
    ("shapes:cut", "val"): (140, 170),
    ("openshapes:cut", "train"): (200, 400),
    ("shapes:crop", "val"): (200, 250),
    ("openshapes:crop", "train"): (60, 160),
    ("shapes:noisy", "val"): (110, 150),
    ("openshapes:noisy", "train"): (0, 50),
    ("indoor", "train"): (80, 110),
    ("indoor:low", "train"): (90, 100),
    ("indoor:low", "val"): (50, 79),
    ("unrelated", "train"): (300, 450),
    ("shapes:scan", "val"): (30, 45),
    ("openshapes:scan", "train"): (0, 40),
}
"""First pair of each data set and split, and the one after the last: broken pieces, whose evidence is new,
and of the others those that the verifiers before have not seen."""

CARD = {
    "command": "python -m benchmarks.verifier --keep FOLDER --base OLD.json --out verifier.json",
    "base": "the verifier of 1,836 earlier pairs; the difference from it is fitted on these",
    "for": "two pieces that overlap, meet at borders or breaks, or do not belong together",
    "limits": "fitted on pairs of about 1,000 points a piece; kinds of pieces that are not listed may differ",
    "terms": "numbers fitted on generated and openly licensed shapes, public scans and fractures",
}
"""What a user should know of the verifier, kept with it."""


def _pairs(name: str, split: str) -> Pairs:
    """The pairs of a split, which know their symmetries where they are of open shapes."""
    pairs = dataset(name, split)
    if isinstance(pairs.make, DrawPairs):
        return replace(pairs, make=replace(pairs.make, with_symmetry=True))
    return pairs


def _with_symmetry(pair: AssemblyPair) -> AssemblyPair:
    return pair if pair.symmetry is not None else with_symmetry(pair)


@cache
def network_of(model: str) -> Network:
    """The network of this process, which has one thread."""
    torch.set_num_threads(1)
    return Network.of(model)


def write_rows(path: Path, rows: Rows, id: str) -> None:
    """Keep the candidates of a pair."""
    with whole_file(path, force=True) as temporary, open(temporary, "wb") as file:
        np.savez(
            file,
            evidence=rows.evidence,
            right=rows.right,
            poses=rows.poses,
            methods=np.array(rows.methods),
            id=np.array(id),
        )


def read_rows(path: Path) -> tuple[Rows, str]:
    """The candidates of a pair and its id."""
    with np.load(path, allow_pickle=False) as found:
        methods = tuple(str(each) for each in found["methods"])
        return Rows(found["evidence"], found["right"], found["poses"], methods), str(found["id"])


def keep_rows(folder: Path, model: str, name: str, split: str, number: int) -> tuple[Rows, str]:
    """The candidates of one pair and the object it is of, from the folder where they are there already."""
    path = folder / f"{name.replace(':', '-')}-{split}-{number}.npz"
    if not path.is_file():
        pair = _pairs(name, split)[number]
        (rows,) = collect(network_of(model), [[pair]], label=_with_symmetry)
        write_rows(path, rows, pair.id)
    rows, id = read_rows(path)
    return rows, _object(name, id)


def _object(name: str, id: str) -> str:
    """What a pair is of: its mesh, its generated shape, or itself."""
    base, parts = name.partition(":")[0], id.split("/")
    if base == "openshapes":
        return f"{base}/{parts[1]}"
    if base == "shapes":
        return f"{base}/{int(parts[1]) % HELD_OUT}"
    return f"{name}/{id}"


def fit_parser(description: str | None) -> argparse.ArgumentParser:
    """The options of every fit: a folder where its rows are kept, and the file that it writes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def write_fit(path: Path, values: Mapping[str, Any]) -> None:
    """Write what was fitted as JSON in one line."""
    with whole_file(path, force=True) as temporary:
        temporary.write_text(json.dumps(values) + "\n", encoding="utf-8")


def main() -> None:
    parser = fit_parser(__doc__)
    parser.add_argument("--model", default="default")
    parser.add_argument("--base", type=Path, help="a verifier; only the difference from it is fitted")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    rows, kinds, objects = [], [], []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for (name, split), (first, end) in PAIRS.items():
            numbers = range(first, min(end, len(dataset(name, split))))
            found = list(pool.map(partial(keep_rows, given.keep, given.model, name, split), numbers))
            possible = np.mean([each.right.any() for each, _ in found])
            print(f"{name}, {split}: {len(found)} pairs, {possible:.0%} possible", flush=True)
            rows += [each for each, _ in found]
            objects += [own for _, own in found]
            kinds += [name] * len(found)
    mixture = "+".join(dict.fromkeys(name for name, _ in PAIRS))
    base = None if given.base is None else Verifier.from_dict(json.loads(given.base.read_text("utf-8")))
    verifier, check = calibrate(Origin(mixture, "val", 0, len(rows)), rows, objects=objects, base=base)
    verifier = replace(verifier, origin={**verifier.origin, **CARD})
    told = {key: value for key, value in check.to_dict().items() if key != "bins"}
    print(json.dumps(told, indent=1))
    for name in dict.fromkeys(kinds):
        own = np.array(kinds) == name
        shares = (part[own].mean() for part in (check.possible, check.right, check.confidence < 0.2))
        possible, right, low = shares
        print(f"{name}, {own.sum()} pairs: {possible:.0%} possible, {right:.0%} right, {low:.0%} below 0.2")
    write_fit(given.out, verifier.to_dict())


if __name__ == "__main__":
    main()
