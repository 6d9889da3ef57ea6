"""Checkpoints: what was saved comes back, and every other file is refused in one sentence."""

import json
import pickle
import random
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

import bitr
from bitr import BITR, BITRConfig, InputError
from bitr.model.checkpoint import CHECKSUM, find, with_note
from bitr.testing import SETTINGS, example_pair

CONFIG = BITRConfig(num_keypoints=4, channels=2, cloud_channels=2, num_layers=1)
X, Y = example_pair(0, 30, SETTINGS[0])
SHIPPED = sorted(find("default").parent.glob("*.safetensors"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_loaded_model_gives_the_same_pose_in_the_same_precision(tmp_path, dtype):
    model = BITR(CONFIG).to(dtype).eval()
    loaded = bitr.load(bitr.save(model, tmp_path / "m.safetensors"))
    assert loaded.config == CONFIG
    assert next(loaded.parameters()).dtype == dtype
    assert torch.equal(loaded(X, Y).matrix(), model(X, Y).matrix())


def test_a_folder_is_a_checkpoint_too(tmp_path):
    path = bitr.save(BITR(CONFIG), tmp_path)
    assert path == tmp_path / "model.safetensors"
    assert bitr.load(str(tmp_path)).config == CONFIG


def test_saving_again_replaces_the_file_and_leaves_nothing_else(tmp_path):
    for _ in range(2):
        bitr.save(BITR(CONFIG), tmp_path / "m.safetensors")
    assert [f.name for f in tmp_path.iterdir()] == ["m.safetensors"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    from bitr.model import checkpoint

    path = bitr.save(BITR(CONFIG), tmp_path / "m.safetensors")
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint, "pack", full_disk)
    with pytest.raises(OSError, match="no space left"):
        bitr.save(BITR(CONFIG), path)
    assert path.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["m.safetensors"]


@pytest.mark.slow
def test_equal_weights_give_equal_bytes(tmp_path):
    """In another process too, where Python and safetensors shuffle dictionaries in another order."""
    path = bitr.save(BITR(CONFIG), tmp_path / "m.safetensors")
    code = (
        "import sys, bitr; from bitr.model.checkpoint import with_note; from pathlib import Path\n"
        "bitr.save(bitr.load(sys.argv[1]), sys.argv[2]); with_note(sys.argv[1], Path(sys.argv[3]), 'k', 'v')"
    )
    files = [tmp_path / name for name in ("again.safetensors", "noted.safetensors")]
    subprocess.run([sys.executable, "-c", code, path, *files], check=True)
    assert files[0].read_bytes() == path.read_bytes()
    with_note(path, tmp_path / "here.safetensors", "k", "v")
    assert files[1].read_bytes() == (tmp_path / "here.safetensors").read_bytes()
    assert bitr.load(files[1]).config == CONFIG


def test_every_flipped_bit_is_refused_in_one_line(tmp_path):
    path = bitr.save(BITR(CONFIG), tmp_path / "m.safetensors")
    data, chance = path.read_bytes(), random.Random(0)
    head = 8 + int.from_bytes(data[:8], "little")
    for place in (head, len(data) - 1, *(chance.randrange(head, len(data)) for _ in range(30))):
        damaged = bytearray(data)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="does not fit its checksum") as error:
            bitr.load(path)
        assert "\n" not in str(error.value)
    path.write_bytes(data.replace(b'num_layers\\": 1', b'num_layers\\": 2'))
    with pytest.raises(InputError, match="does not fit its checksum"):
        bitr.load(path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_flipped_bit_of_shipped_weights_is_refused(tmp_path, path):
    data, damaged = path.read_bytes(), tmp_path / path.name
    head = 8 + int.from_bytes(data[:8], "little")
    assert CHECKSUM in json.loads(data[8:head])["__metadata__"]
    bitr.load(path)
    for place in (head, (head + len(data)) // 2, len(data) - 1):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(InputError, match="does not fit its checksum"):
            bitr.load(damaged)


def test_files_of_before_without_a_checksum_load(tmp_path):
    model = BITR(CONFIG).eval()
    path = bitr.save(model, tmp_path / "m.safetensors")
    save_file(load_file(path), path, {"format": "bitr-1", "config": json.dumps(CONFIG.to_dict())})
    assert torch.equal(bitr.load(path)(X, Y).matrix(), model(X, Y).matrix())


def _saved(folder):
    return bitr.save(BITR(CONFIG), folder / "m.safetensors")


def _rewritten(folder, metadata=None, **changes):
    path = _saved(folder)
    tensors = {**load_file(path), **changes}
    default = {"format": "bitr-1", "config": json.dumps(CONFIG.to_dict())}
    save_file(
        {k: v for k, v in tensors.items() if v is not None}, path, default if metadata is None else metadata
    )
    return path


def _bytes(folder, change):
    path = _saved(folder)
    path.write_bytes(change(path.read_bytes()))
    return path


WEIGHT = "extract.blocks.0.near.skip.weights.00"
BAD_FILES = {
    "missing": (lambda f: f / "nothing", "no such file or folder, and no such weights come with bitr"),
    "an empty folder": (lambda f: f, "no such file or folder"),
    "empty": (lambda f: _bytes(f, lambda b: b""), "not a readable safetensors file"),
    "truncated": (lambda f: _bytes(f, lambda b: b[: len(b) // 2]), "not a readable safetensors file"),
    "a huge header": (lambda f: _bytes(f, lambda b: b"\xff" * 8 + b[8:]), "not a readable safetensors file"),
    "a pickle": (lambda f: _bytes(f, lambda b: pickle.dumps({"a": 1})), "not a readable safetensors file"),
    "another project's": (lambda f: _rewritten(f, metadata={"format": "pt"}), "not a bitr checkpoint"),
    "no config": (lambda f: _rewritten(f, metadata={"format": "bitr-1"}), "the config inside cannot be used"),
    "a broken config": (
        lambda f: _rewritten(f, metadata={"format": "bitr-1", "config": "{"}),
        "the config inside cannot be used",
    ),
    "an unknown setting": (
        lambda f: _rewritten(f, metadata={"format": "bitr-1", "config": '{"chanels": 4}'}),
        "unknown setting chanels; did you mean channels",
    ),
    "a config of the wrong kind": (
        lambda f: _rewritten(f, metadata={"format": "bitr-1", "config": "[1]"}),
        "the config inside cannot be used",
    ),
    "a missing weight": (lambda f: _rewritten(f, **{WEIGHT: None}), "the weights do not fit the config"),
    "a foreign weight": (lambda f: _rewritten(f, foreign=torch.ones(3)), r"first foreign: found \(3,\)"),
    "a weight of another shape": (lambda f: _rewritten(f, **{WEIGHT: torch.ones(1, 1)}), r"found \(1, 1\)"),
    "whole numbers": (
        lambda f: _rewritten(f, **{WEIGHT: torch.ones(4, 4, dtype=torch.long)}),
        "the weights are of type torch.float32, torch.int64, expected all float32 or all float64",
    ),
    "a model beyond all memory": (
        lambda f: _rewritten(f, metadata={"format": "bitr-1", "config": '{"channels": 4000000}'}),
        "channels = 4000000: expected a whole number from 1 to 256",
    ),
    "a NaN": (
        lambda f: _rewritten(f, **{WEIGHT: torch.full((4, 4), float("nan"))}),
        "are NaN or infinite; the file is damaged",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_checkpoint_is_refused_by_name(tmp_path, name):
    make, message = BAD_FILES[name]
    path = make(tmp_path)
    with pytest.raises(InputError, match=message) as error:
        bitr.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_loading_does_not_disturb_the_global_generator(tmp_path):
    path = bitr.save(BITR(CONFIG), tmp_path)
    torch.manual_seed(3)
    bitr.load(path)
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), after)


def test_a_checkpoint_can_be_read_by_those_who_may_read_other_files(tmp_path):
    path, other = bitr.save(BITR(CONFIG), tmp_path / "m.safetensors"), tmp_path / "other"
    other.write_text("")
    assert path.stat().st_mode == other.stat().st_mode


def test_saving_into_a_missing_folder_names_the_folder(tmp_path):
    with pytest.raises(InputError, match="does not exist; make it first"):
        bitr.save(BITR(CONFIG), tmp_path / "nowhere" / "m.safetensors")
