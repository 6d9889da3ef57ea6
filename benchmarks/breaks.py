"""Fits the network that says where a piece is broken, and checks it on held-out shapes.

    python -m benchmarks.breaks --keep FOLDER --out src/bitr/weights/breaks.json

The described points of every data set are kept in FOLDER, so that an interrupted run goes on; all cores are
used. Needs BITR_DATA. Training splits are fitted on, validation splits are told of, and no test split is
opened.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import cKDTree

from benchmarks.verifier import fit_parser, write_fit
from bitr.assembly.align import Poses, moved
from bitr.assembly.breaks import POINTS, BreakFinder, Described, describe
from bitr.assembly.mate import Sheets
from bitr.assembly.sample import sample
from bitr.data import dataset
from bitr.data.poses import inverse
from bitr.evaluation.calibrate import auroc
from bitr.files import whole_file
from bitr.io import farthest_points
from bitr.model import BITRConfig

FITTED = {
    "openshapes:fracture": 500,
    "shapes:fracture": 200,
    "shapes:vessel": 60,
    "shapes:eroded": 60,
    "winebottle": 80,
    "vase": 40,
    "mug": 40,
    "bowl": 40,
}
"""Most pairs of each training split."""
CHECKED = {**dict.fromkeys(FITTED, 20), "openshapes:fracture": 110, "shapes:fracture": 60}
"""Most pairs of each validation split."""
TOUCHES, FACES = 2.0, -0.5
"""Spacings within which the other piece touches a point, and the cosine below which its normal faces it."""
HIDDEN, STEPS, BATCH, RATE, DECAY = 48, 3000, 4096, 3e-3, 1e-2
"""The network and its fit."""
CARD = {
    "command": "python -m benchmarks.breaks --keep FOLDER --out breaks.json",
    "for": "closed pieces of broken things, with normals that point outwards",
    "terms": "numbers fitted on generated and openly licensed shapes, and public fractures",
}


def one_side(x: Sheets, y: Sheets, motion: Poses) -> tuple[Described, np.ndarray]:
    """The described points of a piece, and which of them the other touches under the true motion."""
    rows = farthest_points(x.points, min(POINTS, len(x.points)))
    points, normals = x.points[rows], x.normals[rows]
    near = cKDTree(y.points).query_ball_point(moved(points, motion), TOUCHES * max(x.spacing, y.spacing))
    turned = normals @ motion[:3, :3].T
    touched = [
        bool((y.normals[own] @ normal < FACES).any()) for own, normal in zip(near, turned, strict=True)
    ]
    return describe(points, normals), np.array(touched)


def one_pair(name: str, split: str, number: int) -> list[tuple[Described, np.ndarray]]:
    """Both pieces of a pair; none where one of them counts as open."""
    torch.set_num_threads(1)
    pair = dataset(name, split)[number]
    sampled = sample(pair.source, pair.reference, BITRConfig(), POINTS, 1)
    if sampled.sheets is None:
        return []
    (x, y), motion = sampled.sheets, sampled.frame.inside(pair.ref_from_src)
    return [one_side(x, y, motion), one_side(y, x, inverse(motion))]


def points_of(folder: Path, name: str, split: str, most: int) -> tuple[Described, np.ndarray]:
    """All described points of a split with their labels, from the folder where they are there already."""
    path = folder / f"{name.replace(':', '-')}-{split}-{most}.npz"
    if not path.is_file():
        count = min(most, len(dataset(name, split)))
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            found = [side for pair in pool.map(partial(one_pair, name, split), range(count)) for side in pair]
        described, touched = (np.concatenate(part) for part in zip(*found, strict=True))
        with whole_file(path, force=True) as temporary, open(temporary, "wb") as file:
            np.savez(file, described=described.astype(np.float32), touched=touched)
    with np.load(path) as kept:
        return kept["described"], kept["touched"]


def fit(described: Described, touched: np.ndarray) -> dict[str, object]:
    """The network by cross entropy, as it is written: rounded to five digits."""
    torch.manual_seed(0)
    mean, spread = described.mean(0), described.std(0) + 1e-6
    x = torch.from_numpy(np.clip((described - mean) / spread, -4, 4))
    y = torch.from_numpy(touched).float()
    sizes = (x.shape[1], HIDDEN, HIDDEN, 1)
    layers = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    silu = torch.nn.SiLU()
    network = torch.nn.Sequential(layers[0], silu, layers[1], silu, layers[2])
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
        rows = torch.randint(len(x), (BATCH,))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(network(x[rows])[:, 0], y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def written(values: np.ndarray) -> list[object]:
        return [written(row) for row in values] if values.ndim > 1 else [float(f"{v:.5g}") for v in values]

    weights = [
        [written(each.weight.detach().numpy().T), written(each.bias.detach().numpy())] for each in layers
    ]
    return {"mean": written(mean), "spread": written(spread), "layers": weights}


def precision(logits: np.ndarray, touched: np.ndarray) -> float:
    """Mean precision over all thresholds; a ranking at random has the share of the touched points."""
    right = touched[np.argsort(-logits, kind="stable")]
    return float((np.cumsum(right)[right] / (np.flatnonzero(right) + 1)).mean())


def main() -> None:
    given = fit_parser(__doc__).parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    found = [points_of(given.keep, name, "train", most) for name, most in FITTED.items()]
    values = fit(*(np.concatenate(part) for part in zip(*found, strict=True)))
    finder = BreakFinder.from_dict(values)
    checks = {}
    for name, most in CHECKED.items():
        described, touched = points_of(given.keep, name, "val", most)
        logits = finder.logits(described.astype(np.float64))
        told = {
            "share": touched.mean(),
            "auroc": auroc(logits, touched),
            "precision": precision(logits, touched),
        }
        checks[name] = {key: round(float(value or 0), 3) for key, value in told.items()}
        print(name, checks[name], flush=True)
    origin = CARD | {"data": FITTED, "held_out": checks}
    write_fit(given.out, {**values, "origin": origin})


if __name__ == "__main__":
    main()
