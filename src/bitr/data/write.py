"""Pairs to files, in the form in which users keep their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bitr.data.own import MANIFESTS, SYMMETRIES
from bitr.data.pair import AssemblyPair
from bitr.errors import InputError
from bitr.files import whole_file
from bitr.io import write

MANIFEST = MANIFESTS[1]


def write_pairs(
    folder: Path,
    pairs: Iterable[AssemblyPair],
    split: str,
    on_pair: Callable[[int], None] = lambda done: None,
) -> Path:
    """Write ``pairs/NUMBER/`` with source.npz, reference.npz and pose.txt for each, and a manifest of all.

    The manifest is written last: a folder that has one is complete. One that has files already is refused.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already and is not an empty folder; choose another name")
    rows = []
    for i, pair in enumerate(pairs):
        place = folder / "pairs" / f"{i:06d}"
        place.mkdir(parents=True)
        rows.append(json.dumps(_write_pair(folder, place, pair, split)))
        on_pair(i + 1)
    manifest = folder / MANIFEST
    with whole_file(manifest, force=False) as temporary:
        temporary.write_text("".join(f"{row}\n" for row in rows), encoding="ascii")
    return manifest


def _write_pair(folder: Path, place: Path, pair: AssemblyPair, split: str) -> dict[str, str]:
    """The pair's row in the manifest, its files written."""
    if not pair.related:
        raise InputError(
            f"{pair.id}: its pieces do not belong together, expected a pair with a pose to write"
        )
    for name in ("source", "reference"):
        write(place / f"{name}.npz", replace(getattr(pair, name), name=name))
    np.savetxt(place / "pose.txt", pair.ref_from_src, fmt="%.17g")
    within = place.relative_to(folder).as_posix()
    row = {"id": pair.id, "source": f"{within}/source.npz", "reference": f"{within}/reference.npz"}
    row |= {"pose": f"{within}/pose.txt", "split": split}
    for name in SYMMETRIES:
        if getattr(pair, name) is not None:
            np.save(place / f"{name}.npy", getattr(pair, name))
            row[name] = f"{within}/{name}.npy"
    return row | ({"unit": pair.unit} if pair.unit else {})
