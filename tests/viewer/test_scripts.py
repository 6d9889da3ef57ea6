"""The scripts that measure the viewer and take its picture."""

import sys

import numpy as np
import pytest
from benchmarks import viewer as benchmark
from PIL import Image

from examples import screenshots
from tests.app.browser import EXECUTABLE
from tests.pictures.scenes import colored
from tests.viewer.cases import demo_pair


def test_a_scripted_drag_is_answered_by_the_law():
    few = tuple(type(side)(side.points[::20]) for side in demo_pair())
    answers = benchmark.without_browser(few, seconds=0.3)
    assert answers
    assert max(answer.law_error for answer in answers) < 1e-9
    middles = [answer.session.places[0].middle for answer in answers]
    assert len(np.unique(middles, axis=0)) == len(answers)


@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium is installed: apt-get install chromium")
def test_the_pictures_of_the_readme_show_the_clouds(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["screenshots", "--out", str(tmp_path)])
    screenshots.main()
    for name, colors in (("viewer", ("red", "yellow", "blue")), ("report", ("yellow", "blue"))):
        pixels = np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB")).astype(int)
        for color in colors:
            assert colored(pixels, color).mean() > 0.01, (name, color)
