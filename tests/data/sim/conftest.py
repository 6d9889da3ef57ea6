"""Scenes of these tests are stored in a folder of their own, once for all tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def scene_store(tmp_path_factory):
    return tmp_path_factory.mktemp("scenes")


@pytest.fixture(autouse=True)
def _own_store(scene_store, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(scene_store))
