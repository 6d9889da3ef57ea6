from pathlib import Path

import pytest

from tests.pieces import model_file


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_file(tmp_path_factory.mktemp("weights"))
