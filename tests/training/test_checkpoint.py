"""Checkpoints: what is written comes back bit for bit, and no damage goes unnoticed."""

import errno
import os
import re
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitr import files
from bitr.errors import InputError
from bitr.model import BITR, BITRConfig
from bitr.settings import to_mapping
from bitr.training import TrainConfig, folder
from bitr.training.distributed import Group
from bitr.training.folder import Progress
from bitr.training.step import Trainer
from bitr.training.stream import collate
from tests.training.cases import MODEL, assert_same_tensors, pair

PROGRESS = Progress(7, 1.5, 0.25, 4, {"loss": 0.25}, 2, 3, 1)
CONFIG = replace(TrainConfig(), model=MODEL)


def trainer(seed, model=MODEL, steps=0):
    torch.manual_seed(seed)
    config = replace(CONFIG, model=model, run=replace(CONFIG.run, batch=1))
    made = Trainer(config, BITR(model), Group(0, 1, torch.device("cpu")))
    for number in range(steps):
        made.step(collate([pair(number)]), number, stop=False)
    return made


def restore(data, made):
    return folder.restore(*folder.read(data, Path("data")), made.parts)


@pytest.fixture(scope="module")
def trained():
    return trainer(0, steps=2)


@pytest.fixture(scope="module")
def data(trained):
    torch.manual_seed(5)
    return folder.pack(trained.parts, PROGRESS, to_mapping(CONFIG))


def content(parts):
    """All that a checkpoint keeps of the parts."""
    tensors = {f"model/{k}": v for k, v in parts.model.state_dict().items()}
    tensors |= {f"average/{k}": v for k, v in parts.average.state_dict().items()}
    for name, parameter in parts.model.named_parameters():
        tensors |= {f"{k}/{name}": v for k, v in parts.optimizer_of(parameter).state[parameter].items()}
    return tensors


def test_everything_comes_back_bit_for_bit(trained, data):
    other = trainer(1, steps=1)
    before = content(trained.parts)
    assert any(not torch.equal(content(other.parts)[name], value) for name, value in before.items())
    torch.manual_seed(9)
    assert restore(data, other) == PROGRESS
    assert_same_tensors(content(other.parts), before)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))
    assert folder.read(data, Path("data"))[0]["config"] == to_mapping(CONFIG)


def test_moments_average_and_counts_are_among_what_is_kept(data, trained):
    names = set(content(trained.parts))
    parameters = [name for name, _ in trained.parts.model.named_parameters()]
    for kind in ("model", "average", "exp_avg", "exp_avg_sq", "step"):
        assert f"{kind}/{parameters[0]}" in names
    assert float(content(trained.parts)[f"step/{parameters[0]}"]) == 2


def test_both_go_on_alike_after_a_restore(trained, data):
    first, second = trainer(1), trainer(2)
    for restored in (first, second):
        restore(data, restored)
        restored.step(collate([pair(8)]), 7, stop=False)
    assert_same_tensors(content(second.parts), content(first.parts))
    assert not torch.equal(next(first.parts.model.parameters()), next(trained.parts.model.parameters()))


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
def test_what_is_restored_into_an_optimiser_lies_where_its_parameters_do(data):
    """The fused optimiser wants its counts beside the weights too."""
    parts = trainer(1).parts
    parts.model.to("meta")
    parts = replace(parts, optimizers=(torch.optim.Adam(parts.model.parameters()),))
    folder.restore(*folder.read(data, Path("data")), parts)
    kept = [value for o in parts.optimizers for states in o.state.values() for value in states.values()]
    assert kept
    assert {value.device.type for value in kept} == {"meta"}


def test_a_checkpoint_before_the_first_step_comes_back():
    fresh, other = trainer(0), trainer(1)
    data = folder.pack(fresh.parts, Progress(), to_mapping(CONFIG))
    assert restore(data, other) == Progress()
    assert_same_tensors(dict(other.parts.model.state_dict()), dict(fresh.parts.model.state_dict()))
    assert not any(each.state for each in other.parts.optimizers)


def assert_refused(damaged, where):
    with pytest.raises(InputError, match=r"damaged|not a checkpoint of a training run") as raised:
        folder.read(damaged, where)
    assert str(raised.value).startswith(f"{where}: ")


def assert_the_same(damaged, data):
    """The damage does no harm: a blank in the header may be another blank."""
    found, expected = (folder.read(each, Path("data")) for each in (damaged, data))
    assert found[0] == expected[0]
    assert_same_tensors(found[1], expected[1])
    assert {k: v.dtype for k, v in found[1].items()} == {k: v.dtype for k, v in expected[1].items()}


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255), header=st.booleans())
def test_no_flipped_byte_goes_unnoticed(data, tmp_path, place, bits, header):
    reach = 8 + struct.unpack("<Q", data[:8])[0] if header else len(data)
    damaged = bytearray(data)
    damaged[int(place * reach)] ^= bits
    if chr(data[int(place * reach)]).isspace():
        with suppress(InputError):
            folder.read(bytes(damaged), tmp_path)
            assert_the_same(bytes(damaged), data)
    else:
        assert_refused(bytes(damaged), tmp_path)


@pytest.mark.parametrize(
    ("found", "instead"),
    [
        (b'"content"', b'"contant"'),
        (b'"sha256"', b'"sha265"'),
        (b'"format"', b'"farmat"'),
        (b"__metadata__", b"__metadota__"),
        (b'"dtype":"F32"', b'"dtype":"I32"'),
        (b'"dtype":"F32"', b'"dtype":"U32"'),
        (b'"dtype":"U8"', b'"dtype":"I8"'),
        (b"bitr-training-1", b"bitr-training-2"),
        (b"random/cpu", b"random/gpu"),
        (b"model/", b"madel/"),
        (b'\\"step\\": 7', b'\\"step\\": 8'),
    ],
)
def test_no_changed_word_goes_unnoticed(data, tmp_path, found, instead):
    damaged = data.replace(found, instead)
    assert damaged != data
    assert_refused(damaged, tmp_path)
    assert_refused(data.replace(found, instead, 1), tmp_path)


def test_tensors_of_another_shape_do_not_go_unnoticed(data, tmp_path):
    shapes = sorted(re.findall(rb'"shape":\[(\d+),(\d+)\]', data))
    a, b = next((a, b) for a, b in shapes if a != b)
    other = data.replace(b'"shape":[%b,%b]' % (a, b), b'"shape":[%b,%b]' % (b, a))
    assert other != data
    assert_refused(other, tmp_path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(place=st.floats(0, 1, exclude_max=True))
def test_no_cut_goes_unnoticed(data, tmp_path, place):
    assert_refused(data[: int(place * len(data))], tmp_path)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 100])
def test_the_shortest_of_files_are_refused(data, tmp_path, length):
    assert_refused(data[:length], tmp_path)


@pytest.mark.parametrize(
    "header", [b"[]", b'"text"', b"7", b"null", b"[" * 5000, b'{"__metadata__": 3}', b"{}"]
)
def test_headers_that_are_something_else_are_refused(tmp_path, header):
    assert_refused(struct.pack("<Q", len(header)) + header, tmp_path)


def test_more_bytes_than_were_written_are_refused(data, tmp_path):
    assert_refused(data + b"\0", tmp_path)


def test_shipped_weights_are_no_checkpoint_of_a_run(tmp_path):
    from bitr.model.checkpoint import save

    path = save(BITR(MODEL), tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="not a checkpoint of a training run"):
        folder.read(path.read_bytes(), path)


def damage(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def test_a_damaged_checkpoint_is_passed_over_with_a_note(data, tmp_path):
    for step in (10, 20, 30):
        folder.write(tmp_path, data, step, keep=9)
    damage(tmp_path / "step-000000030.safetensors")
    found, notes = folder.newest(tmp_path)
    assert found == data
    assert len(notes) == 1
    assert "step-000000030.safetensors: damaged" in notes[0]
    assert "going on from the one before" in notes[0]
    assert len(list(tmp_path.iterdir())) == 3


def test_when_all_are_damaged_nothing_is_begun_anew(data, tmp_path):
    for step in (10, 20):
        damage(folder.write(tmp_path, data, step, keep=9))
    with pytest.raises(InputError, match=r"none of its 2 checkpoints can be read.*step-000000020"):
        folder.newest(tmp_path)


def test_an_empty_folder_has_no_newest(tmp_path):
    assert folder.newest(tmp_path) == (None, [])


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_rotation_keeps_the_newest(data, tmp_path, keep):
    for step in (9, 10, 99, 100, 1000):
        folder.write(tmp_path, data, step, keep)
    expected = [9, 10, 99, 100, 1000][-keep:]
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"step-{s:09d}.safetensors" for s in expected]


def test_the_newest_is_the_one_of_the_highest_step(data, tmp_path):
    for step in (1000, 9):
        folder.write(tmp_path, data, step, keep=5)
    damage(tmp_path / "step-000001000.safetensors")
    assert "step-000001000" in folder.newest(tmp_path)[1][0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("where", ["write", "fsync", "rename"])
def test_a_write_that_fails_leaves_the_one_before_and_nothing_else(data, tmp_path, monkeypatch, where, code):
    folder.write(tmp_path, data, 1, keep=1)

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    target = {"write": "pathlib.Path.write_bytes", "fsync": "os.fsync", "rename": "os.replace"}[where]
    monkeypatch.setattr(target, fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        folder.write(tmp_path, data, 2, keep=1)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.safetensors"]
    assert folder.newest(tmp_path) == (data, [])


def test_the_content_is_on_the_disk_before_the_name_is(data, tmp_path, monkeypatch):
    order = []
    synced, renamed = os.fsync, os.replace
    monkeypatch.setattr(files.os, "fsync", lambda handle: order.append("fsync") or synced(handle))
    monkeypatch.setattr(files.os, "replace", lambda a, b: order.append("rename") or renamed(a, b))
    folder.write(tmp_path, data, 1, keep=1)
    assert order == ["fsync", "rename"]


def test_a_checkpoint_of_another_model_does_not_get_in(data):
    """The loop compares the configs first; the weights themselves would not fit either."""
    with pytest.raises(RuntimeError, match=r"size mismatch|Missing key"):
        restore(data, trainer(0, BITRConfig(num_keypoints=8, channels=4, num_layers=1)))
