"""Which shapes, scenes and frames are to train with, to validate and to test: files that never change."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files

SPLITS = ("train", "val", "test")


@cache
def frozen_splits(name: str) -> dict[str, str]:
    """Every id that ``splits/NAME.json`` lists, and the split that it belongs to."""
    text = files("bitr.data").joinpath("splits", f"{name}.json").read_text(encoding="utf-8")
    content = json.loads(text)
    return {id: split for split in SPLITS for id in content[split]}


def split_of(name: str, id: str) -> str:
    """The split of an id: as listed, or else by its hash, 80% to train with, 10% to validate and 10% to test.

    A hash leaves every id where it is when others come or go.
    """
    listed = frozen_splits(name).get(id)
    return split_by_hash(id) if listed is None else listed


def split_by_hash(id: str) -> str:
    share = int.from_bytes(hashlib.sha256(id.encode()).digest()[:4], "big") / 2**32
    return "train" if share < 0.8 else "val" if share < 0.9 else "test"
