"""The header of a pcd file: what each point is made of, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bitr.io.source import Source

KINDS = {"F": "f", "U": "u", "I": "i"}
SIZES = {"F": (4, 8), "U": (1, 2, 4, 8), "I": (1, 2, 4, 8)}
DATA = ("ascii", "binary", "binary_compressed")


@dataclass(frozen=True)
class Header:
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    """Numpy types, little endian."""
    counts: tuple[int, ...]
    points: int
    data: str
    size: int
    """Bytes up to the body."""
    lines: int

    @property
    def row(self) -> int:
        """Bytes of one point."""
        return sum(np.dtype(k).itemsize * c for k, c in zip(self.kinds, self.counts, strict=True))


def parse_header(source: Source) -> Header:
    """What the file claims to hold; nothing is compared with its size yet."""
    values: dict[str, list[str]] = {}
    at = lines = 0
    while "DATA" not in values:
        stop = source.data.find(b"\n", at, at + 100_000)
        if stop < 0:
            raise source.error("the pcd header has no line DATA: the file is truncated or damaged")
        key, *rest = source.data[at:stop].decode("latin-1").split() or ["#"]
        if not key.startswith("#"):
            values[key] = rest
        at, lines = stop + 1, lines + 1
    names = values.get("FIELDS") or values.get("COLUMNS") or []
    try:
        sizes = [int(v) for v in values.get("SIZE", [])]
        counts = [int(v) for v in values.get("COUNT", ["1"] * len(names))]
        area = int((values.get("WIDTH") or ["0"])[0]) * int((values.get("HEIGHT") or ["1"])[0])
        points = int((values.get("POINTS") or [str(area)])[0])
    except ValueError as error:
        raise source.broken("pcd", error) from error
    types = values.get("TYPE", [])
    if not names or not len(names) == len(sizes) == len(types) == len(counts):
        raise source.error(
            f"the pcd header has {len(names)} FIELDS, {len(sizes)} SIZE, {len(types)} TYPE and {len(counts)} "
            "COUNT, expected as many of each"
        )
    if any(s not in SIZES.get(t, ()) for s, t in zip(sizes, types, strict=True)) or min(counts) < 1:
        raise source.error("the pcd header has a SIZE, TYPE or COUNT that does not exist")
    if points < 0 or (area and points != area):
        raise source.error(f"the pcd header claims {points} POINTS, but WIDTH times HEIGHT is {area}")
    data = (values["DATA"] or ["nothing"])[0].lower()
    if data not in DATA:
        raise source.error(f"the pcd header says DATA {data[:40]}, expected one of {', '.join(DATA)}")
    kinds = tuple(f"<{KINDS[t]}{s}" for t, s in zip(types, sizes, strict=True))
    return Header(tuple(names), kinds, tuple(counts), points, data, at, lines)
