"""A folder of stored shapes that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with a folder ``generated``: nothing is written among the user's files."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "generated").mkdir()
    return folder
