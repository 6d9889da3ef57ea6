"""Stored shapes: as they were made, made again when damaged, and never seen half written."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from bitr.data.generated import ShapeCache, broken_solid, cache
from bitr.data.generated.cache import FIRST, cache_folder
from bitr.data.generated.config import ShapesConfig
from bitr.data.generated.dataset import solids
from bitr.data.generated.fracture import Fracture
from bitr.errors import InputError

SEED = 12


def same(a: Fracture, b: Fracture) -> bool:
    return all(np.array_equal(getattr(a, field.name), getattr(b, field.name)) for field in fields(Fracture))


@pytest.fixture(scope="module")
def made() -> Fracture:
    return broken_solid(SEED, (2, 3))


@pytest.fixture
def store(tmp_path: Path, made: Fracture, monkeypatch: pytest.MonkeyPatch) -> ShapeCache:
    """A cache in an empty folder that counts how often a solid is made."""
    calls: list[int] = []

    def counted(seed: int, pieces: tuple[int, int]) -> Fracture:
        calls.append(seed)
        return made

    monkeypatch.setattr(cache, "broken_solid", counted)
    monkeypatch.setattr(ShapeCache, "calls", calls, raising=False)
    return ShapeCache(tmp_path, (2, 3))


def test_a_shape_is_made_once_and_comes_back_as_it_was(store, made):
    assert same(store.get(SEED), made)
    assert same(store.get(SEED), made)
    assert store.calls == [SEED]
    assert [path.name for path in store.path(SEED).parent.iterdir()] == [f"{SEED}.shape"]


@pytest.mark.parametrize("kept", [0, 3, 4, 20, 500, -1])
def test_a_file_cut_short_is_made_again(store, made, kept):
    store.get(SEED)
    whole = store.path(SEED).read_bytes()
    store.path(SEED).write_bytes(whole[:kept])
    assert same(store.get(SEED), made)
    assert store.path(SEED).read_bytes() == whole
    assert store.calls == [SEED] * 2


def test_a_changed_byte_anywhere_is_noticed(store, made):
    store.get(SEED)
    whole = store.path(SEED).read_bytes()
    places = [*range(0, 400, 7), *np.random.default_rng(0).integers(0, len(whole), 40)]
    for place in places:
        store.path(SEED).write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert same(store.get(SEED), made)
    store.path(SEED).write_bytes(bytes(4))
    assert same(store.get(SEED), made)
    assert len(store.calls) == len(places) + 2


def test_an_interrupted_write_leaves_nothing(store, made, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.get(SEED)
    assert list(store.path(SEED).parent.iterdir()) == []
    assert same(store.get(SEED), made)


def test_many_may_ask_at_once(store, made):
    with ThreadPoolExecutor(8) as pool:
        assert all(same(found, made) for found in pool.map(store.get, [SEED] * 24))
    assert same(store.get(SEED), made)


def test_a_folder_that_cannot_be_written_to_is_named(store, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"file.*cannot be stored.*XDG_CACHE_HOME"):
        ShapeCache(tmp_path / "file", (2, 3)).get(SEED)


def test_other_parameters_and_other_code_are_kept_apart(store, tmp_path, monkeypatch):
    assert ShapeCache(tmp_path, (2, 4)).path(SEED).parent != store.path(SEED).parent
    before = store.path(SEED)
    monkeypatch.setattr(cache, "version", lambda name: "another")
    cache.makers.cache_clear()
    assert store.path(SEED) != before
    monkeypatch.undo()
    cache.makers.cache_clear()
    assert store.path(SEED) == before


def test_the_folder_is_below_the_root_only_where_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cached"))
    assert cache_folder(None) == cache_folder(tmp_path) == tmp_path / "cached" / "bitr" / "shapes"
    (tmp_path / "generated").mkdir()
    assert cache_folder(tmp_path) == tmp_path / "generated"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder(None) == tmp_path / ".cache" / "bitr" / "shapes"


def test_splits_have_no_seed_in_common():
    seeds = {
        split: set(range(first, first + solids(split, ShapesConfig()))) for split, first in FIRST.items()
    }
    assert len(set.union(*seeds.values())) == sum(map(len, seeds.values()))
    assert FIRST["train"] + 10**8 < FIRST["val"] < FIRST["test"]


@pytest.mark.parametrize(("low", "high"), [(2, 2), (4, 5)])
def test_a_solid_has_as_many_pieces_as_the_range_allows(low, high):
    for seed in range(3):
        assert low <= len(broken_solid(seed, (low, high)).pieces) <= high
