"""A model and what comes with its weights: what they are for, and how far they can be trusted."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bitr.assembly.finish import METHODS
from bitr.assembly.mate import shipped_mating
from bitr.assembly.verify import Verifier, shipped_verifier
from bitr.data import info, is_name
from bitr.errors import InputError
from bitr.model import BITR
from bitr.model.checkpoint import card_of, find, load, note_of, with_note
from bitr.settings import read_toml

KEY = "verifier"
"""Key of the checkpoint's metadata: a verifier of its own, and the kinds of joint it was fitted on."""


@dataclass(frozen=True)
class Network:
    """A model, what to call it, and what its checkpoint or run folder says beside the weights."""

    model: BITR
    name: str
    points: int | None = None
    """Points of each cloud that the model should see, where a run folder or a card says so."""
    joints: tuple[str, ...] = METHODS
    """Kinds of joint that the weights are for: ``auto`` proposes and verifies within them."""
    own_verifier: Verifier | None = None
    """Fitted for these weights; None: the verifier that comes with bitr is used."""
    fitted: bool = False
    """True where the confidence was fitted with these very weights."""

    @classmethod
    def of(cls, model: str | os.PathLike[str] | BITR) -> Network:
        """A model as it is, or the one of a name of shipped weights or a path of a checkpoint.

        What is loaded here does not train, and runs in double precision: the laws then hold to the rounding
        of the files, and it costs little.
        """
        if isinstance(model, BITR):
            return cls(model, "BITR")
        loaded, name, card = load(model).double().requires_grad_(False), os.fspath(model), card_of(model)
        verifier, joints = _own(model)
        data = (card.get("config", {}) if card else _config_of_run(find(model).parent)).get("data", {})
        joints = joints or tuple(card.get("joints", ())) or _joints(data.get("name", ""))
        points = data.get("seen") or data.get("points")
        return cls(loaded, name, points, joints, verifier, verifier is not None or name == "default")

    def mating(self) -> BITR:
        """The model that matches breaks: this one if it can, else the one that comes with bitr."""
        return self.model if self.model.config.mating else shipped_mating()

    @property
    def verifier(self) -> Verifier:
        return self.own_verifier if self.own_verifier is not None else shipped_verifier()


def with_verifier(
    checkpoint: str | os.PathLike[str], target: Path, verifier: Verifier, joints: tuple[str, ...]
) -> None:
    """Write the checkpoint with a verifier inside; the weights stay bit for bit."""
    text = json.dumps({"joints": list(joints), **verifier.to_dict()}, allow_nan=False)
    with_note(checkpoint, target, KEY, text)


def _own(checkpoint: str | os.PathLike[str]) -> tuple[Verifier | None, tuple[str, ...]]:
    """The verifier inside a checkpoint and its kinds of joint; a damaged one raises."""
    text = note_of(checkpoint, KEY)
    if text is None:
        return None, ()
    try:
        values = json.loads(text)
        joints = tuple(values["joints"])
        if not joints or not set(joints) <= set(METHODS):
            raise InputError(f"found joints {joints}, expected some of {', '.join(METHODS)}")
        return Verifier.from_dict(values), joints
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        said = str(error) or type(error).__name__
        raise InputError(f"{find(checkpoint)}: the verifier inside cannot be used ({said})") from error


def _joints(data: str) -> tuple[str, ...]:
    """How the pieces of the training data join; all kinds for the user's own pairs."""
    return info(data).joints if data and is_name(data) else METHODS


def _config_of_run(folder: Path) -> dict[str, Any]:
    config = folder / "config.toml"
    return read_toml(config) if config.is_file() else {}
