"""Weights on disk: safetensors, with the config as JSON and a checksum inside. No pickle is ever read."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as deserialize
from safetensors.torch import save as serialize
from torch import Tensor

from bitr.errors import InputError, require
from bitr.files import whole_file
from bitr.model.bitr import BITR
from bitr.model.config import BITRConfig

FORMAT, WHAT = "bitr-1", "bitr checkpoint"
RUN_FORMAT = "bitr-training-1"  # of the checkpoints of a run
FILE_NAME = "model.safetensors"
CHECKSUM = "sha256"  # key of the metadata: a hash of all else in the file


def save(model: BITR, path: str | os.PathLike[str]) -> Path:
    """Write a checkpoint file (or ``model.safetensors`` into an existing folder) and return its path.

    The file appears whole or not at all: it is written under another name and renamed.
    """
    target = Path(path)
    if target.is_dir():
        target = target / FILE_NAME
    metadata = {"format": FORMAT, "config": json.dumps(model.config.to_dict())}
    write_weights(target, model.state_dict(), metadata)
    return target


def note_of(name: str | os.PathLike[str], key: str) -> str | None:
    """The note of a checkpoint under a key; None where it has none."""
    return read_weights(find(name), FORMAT, WHAT)[0].get(key)


def with_note(name: str | os.PathLike[str], target: Path, key: str, text: str) -> None:
    """Write a checkpoint once more, with a note under a key; weights and other notes stay bit for bit."""
    metadata, tensors = read_weights(find(name), FORMAT, WHAT)
    write_weights(target, tensors, metadata | {key: text})


def load(name: str | os.PathLike[str]) -> BITR:
    """The model of a checkpoint: a path to a file or folder, or the name of weights that come with bitr."""
    path = find(name)
    metadata, tensors = read_weights(path, FORMAT, WHAT)
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        model = BITR(_read_config(path, metadata))
    check_fit(path, model.state_dict(), tensors)
    model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
    return model.eval()


def find(name: str | os.PathLike[str]) -> Path:
    """The file of a checkpoint."""
    path = Path(name)
    if path.is_dir():
        path = path / FILE_NAME
    if path.is_file():
        return path
    shipped = resources.files("bitr") / "weights"
    files = [f.name for f in shipped.iterdir()] if shipped.is_dir() else []
    names = sorted(f.removesuffix(".safetensors") for f in files if f.endswith(".safetensors"))
    if str(name) in names:
        return Path(str(shipped / f"{name}.safetensors"))
    known = ", ".join(names) or "none yet"
    raise InputError(f"{name}: no such file or folder, and no such weights come with bitr ({known})")


def card_of(name: str | os.PathLike[str]) -> dict[str, Any]:
    """The card of weights that come with bitr; empty for any others."""
    card = find(name).with_suffix(".json")
    shipped = card.parent == Path(str(resources.files("bitr") / "weights"))
    return dict(json.loads(card.read_text(encoding="utf-8"))) if shipped and card.is_file() else {}


def write_weights(target: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file with a checksum of the tensors and of the metadata."""
    data = pack(tensors, metadata)
    with whole_file(target, force=True) as temporary:
        temporary.write_bytes(data)


def read_weights(path: Path, form: str, what: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of a safetensors file, all finite and of one kind; messages call it ``what``."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: not a readable safetensors file ({error.strerror})") from error
    metadata, tensors = unpack(data, path, form, what)
    kinds = {value.dtype for value in tensors.values()}
    names = ", ".join(sorted(str(kind) for kind in kinds))
    fits = len(kinds) == 1 and kinds <= {torch.float32, torch.float64}
    require(fits, f"{path}: the weights are of type {names}, expected all float32 or all float64")
    for key, value in tensors.items():
        is_sound = value.isfinite().all()
        require(is_sound, f"{path}: the weights {key} are NaN or infinite; the file is damaged")
    return metadata, tensors


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file with a checksum: the same for the same content.

    safetensors writes metadata in an order that differs from process to process; here it is sorted.
    """
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = {**metadata, CHECKSUM: _checksum(tensors, metadata)}
    data = serialize(tensors)
    size = 8 + struct.unpack("<Q", data[:8])[0]
    told = {"__metadata__": dict(sorted(metadata.items())), **json.loads(data[8:size])}
    head = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)  # the tensors begin at a multiple of 8 bytes
    return struct.pack("<Q", len(head)) + head + data[size:]


def unpack(data: bytes, name: Path, form: str, what: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Metadata and tensors of bytes of that format whose content fits their checksum; else an error."""
    try:
        tensors = deserialize(data)  # first, as it looks at the header with more suspicion than json does
        metadata = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]]).get("__metadata__") or {}
    except (SafetensorError, ValueError, KeyError) as error:
        problem = f"damaged, or not a readable safetensors file ({str(error)[:80]})"
        raise InputError(f"{name}: {problem}") from error
    found = metadata.get("format")
    require(found == form, f"{name}: not a {what} (format {found!r}, expected {form!r})")
    is_old = form != RUN_FORMAT and CHECKSUM not in metadata  # files of before have none
    fits = is_old or metadata.get(CHECKSUM) == _checksum(tensors, metadata)
    require(fits, f"{name}: damaged, its content does not fit its checksum")
    return metadata, tensors


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """A hash of the metadata and of the names, kinds, shapes and bytes of tensors."""
    text = json.dumps({key: value for key, value in metadata.items() if key != CHECKSUM}, sort_keys=True)
    if metadata.get("format") == RUN_FORMAT:
        text = metadata.get("content", "")
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def check_fit(path: Path, expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """Raise where the tensors of a file have other names or shapes than those of the model."""
    wanted = {key: tuple(value.shape) for key, value in expected.items()}
    shapes = {key: tuple(value.shape) for key, value in found.items()}
    wrong = sorted(key for key in wanted.keys() | shapes.keys() if wanted.get(key) != shapes.get(key))
    for first in wrong[:1]:
        detail = f"first {first}: found {shapes.get(first)}, expected {wanted.get(first)}"
        raise InputError(f"{path}: the weights do not fit the config inside ({len(wrong)} differ, {detail})")


def _read_config(path: Path, metadata: Mapping[str, str]) -> BITRConfig:
    try:
        values = json.loads(metadata.get("config", "null"))
        if not isinstance(values, dict):
            raise InputError(f"expected settings by name, found {values!r}")
        return BITRConfig.from_dict(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: the config inside cannot be used ({error})") from error
