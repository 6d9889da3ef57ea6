"""Fits the verifier that comes with bitr on held-out pairs of all kinds.

    python -m benchmarks.verifier --keep FOLDER --out src/bitr/weights/verifier.json

The candidates of every pair are kept in FOLDER, so that an interrupted run goes on. Needs BITR_DATA. No test
split is opened. Training splits are used as well where `default` has seen nothing of them:
open shapes, fragments, rooms and streets.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from bitr.assembly.network import Network
from bitr.assembly.orbit import with_symmetry
from bitr.data import AssemblyPair, dataset
from bitr.data.openshapes import DrawPairs
from bitr.data.poses import Pairs
from bitr.evaluation.calibrate import Origin, Rows, calibrate, collect
from bitr.files import whole_file

PAIRS = {
    ("shapes:cut", "val"): 41,
    ("openshapes:cut", "val"): 85,
    ("openshapes:cut", "train"): 164,
    ("shapes:crop", "val"): 106,
    ("openshapes:crop", "val"): 74,
    ("openshapes:crop", "train"): 107,
    ("shapes:noisy", "val"): 49,
    ("openshapes:noisy", "val"): 37,
    ("openshapes:noisy", "train"): 49,
    ("shapes:scan", "val"): 33,
    ("openshapes:scan", "val"): 33,
    ("openshapes:scan", "train"): 41,
    ("shapes:fracture", "val"): 49,
    ("openshapes:fracture", "val"): 41,
    ("openshapes:fracture", "train"): 57,
    ("shapes:vessel", "val"): 37,
    ("shapes:eroded", "val"): 33,
    ("winebottle", "val"): 15,
    ("winebottle", "train"): 20,
    ("indoor", "val"): 24,
    ("indoor", "train"): 41,
    ("indoor:low", "val"): 16,
    ("indoor:low", "train"): 41,
    ("outdoor", "train"): 6,
    ("airplane", "val"): 12,
    ("mug-hanging", "val"): 3,
    ("car-motorbike", "val"): 6,
    ("unrelated", "val"): 164,
}
"""Most pairs of each data set and split."""


def _pairs(name: str, split: str) -> Pairs:
    """The pairs of a split, which know their symmetries where they are of open shapes."""
    pairs = dataset(name, split)
    if isinstance(pairs.make, DrawPairs):
        return replace(pairs, make=replace(pairs.make, with_symmetry=True))
    return pairs


def _with_symmetry(pair: AssemblyPair) -> AssemblyPair:
    return pair if pair.symmetry is not None else with_symmetry(pair)


def kept_rows(folder: Path, network: Network, name: str, split: str, number: int) -> Rows:
    """The candidates of one pair, from the folder where they are there already."""
    path = folder / f"{name.replace(':', '-')}-{split}-{number}.npz"
    if not path.is_file():
        (rows,) = collect(network, [_pairs(name, split)[number : number + 1]], label=_with_symmetry)
        with whole_file(path, force=True) as temporary, open(temporary, "wb") as file:
            np.savez(
                file,
                evidence=rows.evidence,
                right=rows.right,
                poses=rows.poses,
                methods=np.array(rows.methods),
            )
    with np.load(path, allow_pickle=False) as found:
        methods = tuple(str(each) for each in found["methods"])
        return Rows(found["evidence"], found["right"], found["poses"], methods)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="default")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    network, rows, kinds = Network.of(given.model), [], []
    for (name, split), most in PAIRS.items():
        count = min(most, len(dataset(name, split)))
        found = [kept_rows(given.keep, network, name, split, number) for number in range(count)]
        print(f"{name}, {split}: {count} pairs, {np.mean([each.right.any() for each in found]):.0%} possible")
        rows += found
        kinds += [name] * count
    mixture = "+".join(dict.fromkeys(name for name, _ in PAIRS))
    verifier, check = calibrate(Origin(mixture, "val", 0, len(rows)), rows)
    told = {key: value for key, value in check.to_dict().items() if key != "bins"}
    print(json.dumps(told, indent=1))
    for name in dict.fromkeys(kinds):
        own = np.array(kinds) == name
        shares = (part[own].mean() for part in (check.possible, check.right, check.confidence < 0.2))
        possible, right, low = shares
        print(f"{name}, {own.sum()} pairs: {possible:.0%} possible, {right:.0%} right, {low:.0%} below 0.2")
    with whole_file(given.out, force=True) as temporary:
        temporary.write_text(json.dumps(verifier.to_dict()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
