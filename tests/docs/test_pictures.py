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
        images = [Image.open(f / name).convert("RGB") for f in (tmp_path, ROOT / "docs" / "pictures")]
        # A pose that differs by rounding may change the height by a few pixels.
        assert np.abs(np.subtract(images[0].size, images[1].size)).max() <= 8
        images[0] = images[0].resize(images[1].size)
        made, kept = (np.asarray(image, dtype=float) / 255 for image in images)
        assert np.abs(made - kept).mean() < 0.02  # fonts and rounding may differ, the pieces may not
        for color in COLORS.values():
            assert (np.abs(made - to_rgb(color)).max(-1) < 0.1).sum() > 50
