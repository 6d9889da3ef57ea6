"""Where data lies, and what is there of it."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "BITR_DATA"


def data_root(root: str | os.PathLike[str] | None) -> Path | None:
    """The folder of data sets: as given, or else what the variable BITR_DATA names."""
    named = root if root is not None else os.environ.get(VARIABLE) or None
    return None if named is None else Path(named)


def below(root: Path | None, *patterns: str) -> list[Path]:
    """The files below the root that match, those of the first pattern first."""
    if root is None:
        return []
    return [path for pattern in patterns for path in sorted(root.glob(pattern))]
