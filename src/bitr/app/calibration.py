"""The map from signals to a confidence that is kept with the weights it was fitted for."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.app.confidence import NAMES, Signals
from bitr.app.logistic import Logistic
from bitr.errors import InputError
from bitr.model.checkpoint import find, note_of, with_note
from bitr.refine import REFINEMENTS

KEY = "calibration"
"""Of the checkpoint's metadata."""


@dataclass(frozen=True)
class Origin:
    """The pairs that a calibration was fitted on."""

    data: str
    split: str
    seed: int
    pairs: int


@dataclass(frozen=True, eq=False)
class Calibration:
    """One map for each refinement: it changes how often a pose is right, and what fitness then means."""

    origin: Origin
    maps: Mapping[str, Logistic]

    def confidence(self, refine: str, signals: Signals) -> float | None:
        """Chance from 0 to 1 that the pose is right; None for a refinement without a map."""
        found = self.maps.get(refine)
        return None if found is None else float(found.probability(signals.features()))

    @classmethod
    def of(cls, checkpoint: str | os.PathLike[str]) -> Calibration | None:
        """The calibration inside a checkpoint, or None; a damaged one raises."""
        text = note_of(checkpoint, KEY)
        if text is None:
            return None
        try:
            return cls.from_json(text)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            said = str(error) or type(error).__name__
            raise InputError(f"{find(checkpoint)}: the calibration inside cannot be used ({said})") from error

    def into(self, checkpoint: str | os.PathLike[str], target: Path) -> None:
        """Write the checkpoint with this calibration inside; the weights stay bit for bit."""
        with_note(checkpoint, target, KEY, self.to_json())

    def to_json(self) -> str:
        """One JSON object in one line."""
        maps = {name: _to_dict(found) for name, found in self.maps.items()}
        return json.dumps({**asdict(self.origin), "maps": maps}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        values = json.loads(text)
        maps = {name: _from_dict(name, found) for name, found in values.pop("maps").items()}
        return cls(Origin(**values), maps)


def _to_dict(found: Logistic) -> dict[str, Any]:
    rows = {"weights": found.weights, "low": found.low, "high": found.high}
    named = {key: dict(zip(NAMES, row.tolist(), strict=True)) for key, row in rows.items()}
    return {"bias": found.bias, **named}


def _from_dict(name: str, values: Mapping[str, Any]) -> Logistic:
    if name not in REFINEMENTS:
        raise InputError(f"found a map for refine {name!r}, expected one of {', '.join(REFINEMENTS)}")
    bias = float(values["bias"])
    found = Logistic(bias, *(_row(key, values[key]) for key in ("weights", "low", "high")))
    if not math.isfinite(bias) or (found.low > found.high).any():
        raise InputError("found a bias that is not finite, or a range whose ends are the wrong way round")
    return found


def _row(key: str, values: Mapping[str, Any]) -> Float64[np.ndarray, " s"]:
    if set(values) != set(NAMES):
        raise InputError(f"found {key} of {', '.join(values)}, expected of {', '.join(NAMES)}")
    row = np.array([float(values[name]) for name in NAMES])
    if not np.isfinite(row).all():
        raise InputError(f"found {key} that are not finite")
    return row
