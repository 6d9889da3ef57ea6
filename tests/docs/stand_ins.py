"""Small files under the names that the documents use, so that their commands run as they stand there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import torch

import bitr
from bitr.data import bumpy_shape, cut, jug
from bitr.io import Geometry, write
from tests.docs.documents import ROOT

POINTS = 240
"""Of a shape that is cut in two: enough for every command, and quick."""


def make_stand_ins(folder: Path) -> None:
    """Pieces, pairs of one's own in every form, a checkpoint, configs, and a shape in the bunny's place."""
    for name in ("sherd-a.ply", "sherd-b.ply"):
        shutil.copy(ROOT / "src" / "bitr" / "assets" / name, folder)
    rng = torch.Generator().manual_seed(0)
    x, y, pose = _pair(rng)
    sherds = {"sherd1": x, "sherd2": y, "sherd3": _pair(rng)[0]}
    for name, piece in {"handle": x, "mug": y, "hook": y, **sherds}.items():
        write(folder / f"{name}.ply", piece)
    for name in ("hooks", "my-pairs", "pairs"):
        for split, count in (("train", 5), ("test", 2)):
            for i in range(count):
                _write_pair(folder / name / split / f"mug-{i:02d}", rng)
    np.savetxt(folder / "pose.txt", pose)
    rows = [
        "source,reference,pose,id",
        "handle.ply,mug.ply,pose.txt,first",
        "handle.ply,mug.ply,pose.txt,second",
    ]
    (folder / "pairs.csv").write_text("\n".join(rows) + "\n")
    answer = {"id": "first", "transformation": pose.tolist()}
    (folder / "poses.jsonl").write_text(f"{json.dumps(answer)}\n{json.dumps(answer | {'id': 'second'})}\n")
    (folder / "runs" / "mine").mkdir(parents=True)
    bitr.save(bitr.load("default"), folder / "runs" / "mine" / "model.safetensors")
    shutil.copytree(ROOT / "configs", folder / "configs")
    bunny = folder / "data" / "bunny" / "reconstruction"
    bunny.mkdir(parents=True)
    write(bunny / "bun_zipper.ply", Geometry(bumpy_shape(2500, rng).numpy()))


def _pair(rng: torch.Generator) -> tuple[Geometry, Geometry, np.ndarray]:
    source, reference = cut(jug(POINTS, rng), 0.5, rng)
    pose = bitr.Rigid.random(rng)
    return Geometry(source.numpy()), Geometry(pose.act(reference).numpy()), pose.matrix().numpy()


def _write_pair(folder: Path, rng: torch.Generator) -> None:
    source, reference, pose = _pair(rng)
    folder.mkdir(parents=True)
    write(folder / "source.ply", source)
    write(folder / "reference.ply", reference)
    np.savetxt(folder / "pose.txt", pose)
