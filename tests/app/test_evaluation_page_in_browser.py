"""The report of an evaluation as people see it: a click on a pair shows it."""

import numpy as np
import pytest

from tests.app.browser import EXECUTABLE, WEBGL, browser
from tests.app.test_evaluation_page import page_of, report_of
from tests.pictures.scenes import colored, cut_scene

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium is installed: apt-get install chromium"),
]
SIZE = {"width": 1300, "height": 1500}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    degrees = np.linspace(1, 170, 60).tolist()
    path.write_text(page_of(report_of(degrees, ("one", "two")), cut_scene(600)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile"), *WEBGL) as page:
        yield page


def view(page):
    box = page.evaluate("(({x, y, width, height}) => [x, y, width, height])(canvas.getBoundingClientRect())")
    x, y, width, height = (round(value) for value in box)
    return page.pixels()[y + 60 : y + height - 8, x + 8 : x + width - 8]  # without the legend


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_opens_on_the_pair_in_the_middle(page, report, dark):
    page.open(report, **SIZE, dark=dark)
    assert page.errors == []
    assert page.requested == [report.as_uri()]
    for name in ("yellow", "blue"):
        assert colored(view(page), name).mean() > 0.03
    current = page.evaluate("document.querySelector('tr[aria-current=true]').textContent")
    assert "pair 30" in current
    row, list_ = (
        page.evaluate(
            f"(({{top, bottom}}) => [top, bottom])(document.querySelector('{name}').getBoundingClientRect())"
        )
        for name in ("tr[aria-current=true]", ".list")
    )
    assert list_[0] <= row[0] < row[1] <= list_[1]


def test_a_click_on_a_pair_shows_its_points_its_errors_and_its_pose(page, report):
    page.open(report, "before", **SIZE)
    assert colored(view(page), "red").mean() > 0.03
    shown = (
        "[...document.querySelectorAll('[data-about]')].filter((e) => !e.hidden).map((e) => e.dataset.about)"
    )
    assert page.evaluate(shown) == ["scene-30"]
    page.evaluate("document.querySelector('[data-scene=scene-59] button').click()")
    page.settle()
    assert page.evaluate(shown) == ["scene-59"]
    assert page.evaluate("document.querySelectorAll('tr[aria-current=true]').length") == 1
    assert "170.00°" in page.evaluate("document.querySelector('aside').innerText")
    assert colored(view(page), "red").mean() > 0.03
    assert page.errors == []


@pytest.mark.parametrize("width", [320, 760, 1000, 1600])
def test_nothing_sticks_out_at_any_width(page, report, width):
    page.open(report, width=width, height=800)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
