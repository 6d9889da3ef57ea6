"""What comes out: a row for every path and law, and whether all laws hold."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from bitr.evaluation.certificate.bounds import BOUNDS, LAWS
from bitr.testing import Laws

Kind = Literal["layer", "end to end"]


@dataclass(frozen=True)
class Row:
    """One law on one path: the worst and the median error of the trials beside the bound."""

    kind: Kind
    path: str
    law: str
    worst: float
    median: float
    bound: float
    precision: str
    trials: int

    @property
    def judged_error(self) -> float:
        """The worst or the median, whichever the bound is for."""
        return self.worst if BOUNDS[self.precision].judged == "worst" else self.median

    @property
    def ok(self) -> bool:
        """An error that is not a number is a broken law."""
        return self.judged_error <= self.bound


def rows_of(kind: Kind, path: str, precision: str, trials: Sequence[Laws]) -> list[Row]:
    """The three rows of a path."""
    errors = {law: [getattr(each, law) for each in trials] for law in LAWS}
    return [
        Row(
            kind,
            path,
            law,
            worst=float(np.max(errors[law])),  # unlike the built-in, NaN where there is one
            median=float(np.median(errors[law])),
            bound=getattr(BOUNDS[precision], law),
            precision=precision,
            trials=len(trials),
        )
        for law in LAWS
    ]


@dataclass(frozen=True)
class Skipped:
    """A path that was not measured, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Certificate:
    """The laws of one model or method, over random pairs, motions and factors."""

    model: str
    seed: int
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)

    @property
    def broken(self) -> tuple[str, ...]:
        """The laws that do not hold on every path."""
        return tuple(law for law in LAWS if any(row.law == law and not row.ok for row in self.rows))

    def first_broken_layer(self, law: str) -> str | None:
        """Layers are in the order in which they are computed: what comes after is broken by this one."""
        layers = (row for row in self.rows if row.kind == "layer" and row.law == law)
        return next((row.path for row in layers if not row.ok), None)

    def to_json(self) -> str:
        """One JSON object in one line; an error that is not a finite number is null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """The keys and values of ``to_json``."""
        used = {row.precision for row in self.rows}
        return {
            "model": self.model,
            "ok": self.ok,
            "broken": list(self.broken),
            "first_broken_layer": {law: self.first_broken_layer(law) for law in LAWS},
            "seed": self.seed,
            "rows": [
                asdict(row) | {"worst": _finite(row.worst), "median": _finite(row.median), "ok": row.ok}
                for row in self.rows
            ],
            "skipped": [asdict(each) for each in self.skipped],
            "bounds": {name: asdict(bounds) for name, bounds in BOUNDS.items() if name in used},
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
