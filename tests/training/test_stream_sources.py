"""Which pairs are trained on and which are held out: by the data alone, and never by the test split."""

import hashlib
import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from bitr.data import dataset, info
from bitr.errors import InputError
from bitr.training import train
from bitr.training.config import DataConfig
from bitr.training.stream import Source, sources, split_record
from tests.training.cases import config, write_folder


def ids(source):
    pairs = source.open(0)
    return [pairs[source.row(i)].id for i in range(len(source))]


def of(folder, **changes):
    return sources(DataConfig(name=str(folder), **changes))


@pytest.fixture
def split_folder(tmp_path):
    """Pairs that say what they are for."""
    for split, count, first in (("train", 3, 0), ("val", 2, 10), ("test", 2, 20)):
        write_folder(tmp_path / "data" / split, count, first=first)
    return tmp_path / "data"


@pytest.fixture
def opened(monkeypatch):
    """The names of the files that are read."""
    from bitr.data import own

    seen: list[Path] = []
    real = own.read
    monkeypatch.setattr(own, "read", lambda path: seen.append(path) or real(path))
    return seen


@pytest.mark.parametrize(("count", "held"), [(2, 1), (5, 1), (6, 2), (10, 2), (11, 3)])
def test_a_fifth_of_a_users_pairs_is_held_out(tmp_path, count, held):
    write_folder(tmp_path, count, n=10)
    train, val, label = of(tmp_path)
    assert (len(train), len(val), label) == (count - held, held, str(tmp_path))
    assert set(ids(train)) | set(ids(val)) == {f"pair-{i}" for i in range(count)}
    assert not set(ids(train)) & set(ids(val))


def test_what_is_held_out_depends_on_the_ids_alone(tmp_path):
    write_folder(tmp_path / "a", 10, n=10)
    write_folder(tmp_path / "b", 10, n=14)
    kept = ids(of(tmp_path / "a")[1])
    assert ids(of(tmp_path / "a", workers=3, points=64, root=str(tmp_path))[1]) == kept
    assert ids(of(tmp_path / "b")[1]) == kept
    by_hash = sorted((f"pair-{i}" for i in range(10)), key=lambda i: hashlib.sha256(i.encode()).digest())
    assert sorted(by_hash[:2]) == sorted(kept)


def test_pairs_that_say_what_they_are_for_are_taken_at_their_word(split_folder):
    train, val, _ = of(split_folder)
    assert ids(train) == ["train/pair-0", "train/pair-1", "train/pair-2"]
    assert ids(val) == ["val/pair-10", "val/pair-11"]


def test_training_never_opens_the_test_pairs(split_folder, tmp_path, opened):
    train(config(split_folder, run_steps=3), tmp_path / "run")
    folders = {path.relative_to(split_folder).parts[0] for path in opened}
    assert folders == {"train", "val"}
    dataset(str(split_folder), "test")[0]
    assert opened[-1].relative_to(split_folder).parts[0] == "test"  # it would have been seen


def test_without_validation_pairs_some_of_the_training_pairs_are_held_out(split_folder, tmp_path):
    (split_folder / "val").rename(tmp_path / "elsewhere")
    train, val, _ = of(split_folder)
    assert train.split == val.split == "train"
    assert len(train) == 2
    assert sorted(ids(train) + ids(val)) == ["train/pair-0", "train/pair-1", "train/pair-2"]


def test_a_data_set_without_a_validation_split_holds_out_some_of_its_training_pairs(monkeypatch, tmp_path):
    from bitr.data import registry

    write_folder(tmp_path / "data", 6, n=10)
    edf = replace(
        info("mug-hanging-edf"),
        splits=("train", "test"),
        present=lambda root: True,
        open=lambda split, root, seed: dataset(str(tmp_path / "data"), {"train": "test"}[split]),
    )
    monkeypatch.setattr(registry, "info", lambda name: edf)
    monkeypatch.setattr("bitr.training.stream.info", lambda name: edf)
    train, val, label = sources(DataConfig(name="mug-hanging-edf"))
    assert label == "mug-hanging-edf"
    assert (train.split, val.split) == ("train", "train")
    assert (len(train), len(val)) == (4, 2)
    assert not set(ids(train)) & set(ids(val))
    record = split_record(train, val, ids(val), label)
    assert record["train"]["ids"] == ids(train)


def test_the_edf_pairs_have_no_validation_split(real_data):
    train, val, _ = sources(DataConfig(name="mug-hanging-edf", root=str(real_data)))
    assert (train.split, val.split) == ("train", "train")
    assert not set(train.rows) & set(val.rows)


def test_the_stand_in_is_taken_where_the_data_is_missing_and_said(tmp_path):
    asked = DataConfig(name="bunny", stand_in="bunny-stand-in", root=str(tmp_path))
    train, val, label = sources(asked)
    assert (train.name, val.name) == ("bunny-stand-in", "bunny-stand-in")
    assert label == "bunny-stand-in (stand-in for bunny)"
    assert (train.split, val.split, len(train), len(val)) == ("train", "val", 1000, 100)
    with pytest.raises(InputError, match="bunny: not found below"):
        len(sources(replace(asked, stand_in=""))[0])


def test_the_stand_in_is_not_taken_where_the_data_is_there(real_data):
    asked = DataConfig(name="bunny", stand_in="bunny-stand-in", root=str(real_data))
    train, _, label = sources(asked)
    assert (train.name, label) == ("bunny", "bunny")


@pytest.mark.parametrize("count", [0, 1])
def test_one_pair_is_too_few(tmp_path, count):
    write_folder(tmp_path / "test", 1)
    write_folder(tmp_path / "train", count)
    with pytest.raises(InputError, match=f"{count} pair to train with, expected at least 2"):
        of(tmp_path)


def test_names_and_folders_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match=r"did you mean bunny\?"):
        of("buny")
    with pytest.raises(InputError, match="no such data set"):
        of(tmp_path / "nothing")
    with pytest.raises(InputError, match="holds no pairs"):
        of(tmp_path)


def test_the_record_of_the_split_lists_a_users_pairs_and_has_their_hash(tmp_path):
    write_folder(tmp_path, 5, n=10)
    train, val, label = of(tmp_path)
    record = split_record(train, val, ids(val), label)
    assert record["data"] == str(tmp_path)
    assert record["train"]["ids"] == ids(train)
    assert record["val"]["ids"] == ids(val)
    content = {key: value for key, value in record.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True)
    assert record["sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_the_hash_changes_with_the_content(tmp_path):
    write_folder(tmp_path, 5, n=10)
    train, val, label = of(tmp_path)
    hashes = {
        split_record(*arguments)["sha256"]
        for arguments in [
            (train, val, ids(val), label),
            (train, val, ["other"], label),
            (train, val, ids(val), "other"),
            (replace(train, rows=train.rows[1:]), val, ids(val), label),
            (train, replace(val, rows=train.rows[:1]), ids(val), label),
        ]
    }
    assert len(hashes) == 5
    write_folder(tmp_path, 1, n=10, first=77)
    train, val, label = of(tmp_path)
    assert split_record(train, val, ids(val), label)["sha256"] not in hashes


def test_a_data_sets_record_tells_split_and_number_and_who_assigned_its_shapes(monkeypatch):
    train, val = (Source("bunny-stand-in", "", split, None) for split in ("train", "val"))
    record = split_record(train, val, ["val/0"], "bunny-stand-in")
    assert record["train"] == {"split": "train", "pairs": 1000, "ids": None}
    assert record["assigned_by"] is None
    monkeypatch.setattr(Source, "__len__", lambda self: 3)
    airplanes = (replace(source, name="airplane:0.5") for source in (train, val))
    frozen = files("bitr.data").joinpath("splits", "airplane.json").read_bytes()
    record = split_record(*airplanes, ["val/0"], "airplane:0.5")
    assert record["assigned_by"] == hashlib.sha256(frozen).hexdigest()
