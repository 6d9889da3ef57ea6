"""The script that makes pictures of the documentation still makes those that are there."""

from __future__ import annotations

import runpy
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from bitr.show.picture import COLORS
from tests.docs.documents import ROOT


@pytest.mark.slow
def test_the_pictures_are_what_their_script_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_pictures.py", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "make_pictures.py"), run_name="__main__")
    for name in ("pieces.png", "demo.png", "follows.png"):
        made, kept = (
            np.asarray(Image.open(folder / name).convert("RGB"), dtype=float) / 255
            for folder in (tmp_path, ROOT / "docs" / "pictures")
        )
        assert made.shape == kept.shape
        assert np.abs(made - kept).mean() < 0.02  # fonts and rounding may differ, the pieces may not
        for color in COLORS.values():
            assert (np.abs(made - to_rgb(color)).max(-1) < 0.1).sum() > 50
