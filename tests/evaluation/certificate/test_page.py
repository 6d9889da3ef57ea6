"""How rows are judged, and what people and programs see of them: JSON and the page."""

import json
import math
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from bitr.evaluation.certificate import Certificate, Row, Skipped
from bitr.evaluation.certificate.bounds import BOUNDS, LAWS
from bitr.evaluation.certificate.page import html_page
from tests.show.chromium import EXECUTABLE, browser


def row(law="bi", worst=1e-12, precision="float64", path="model", kind="end to end", median=None):
    median = worst if median is None else median
    return Row(kind, path, law, worst, median, getattr(BOUNDS[precision], law), precision, 4)


def test_a_row_is_judged_by_its_worst_trial_or_by_the_median_where_the_bound_says_so():
    assert row(worst=1e-9).ok
    assert not row(worst=1.1e-9, median=0.0).ok
    assert not row(worst=math.nan).ok
    assert row(worst=2.0, median=0.1, precision="bfloat16").ok
    assert not row(worst=2.0, median=0.31, precision="bfloat16").ok


def test_json_is_one_object_in_which_what_is_no_number_is_null():
    certificate = Certificate("m", 0, (row(), row("swap", math.nan), row("scale", math.inf)))
    found = json.loads(certificate.to_json(), parse_constant=lambda name: pytest.fail(name))
    assert [each["worst"] for each in found["rows"]] == [1e-12, None, None]
    assert [each["ok"] for each in found["rows"]] == [True, False, False]
    assert (found["ok"], found["broken"]) == (False, ["swap", "scale"])
    assert found["bounds"]["float64"]["bi"] == 1e-9


def example():
    rows = [row(law, kind="layer", path="transform.embed") for law in LAWS]
    rows += [row(law, 3.25e-13) for law in LAWS]
    rows[1] = replace(rows[1], worst=0.0423)
    return Certificate("<b>a</b> & b", 7, tuple(rows), (Skipped("ONNX", "needs <onnxruntime>"),))


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.seen = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_has_the_figures_and_loads_nothing():
    page = html_page(example())
    tags = Tags(page).seen
    assert "<b>4.2e-02</b>" in page
    assert "<b>3.2e-13</b>" in page
    assert "Broken: Δ_swap (first in transform.embed)." in page
    assert "&lt;b&gt;a&lt;/b&gt; &amp; b" in page
    assert "needs &lt;onnxruntime&gt;" in page
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in tags}
    assert not any({"src", "href", "style"} & attrs.keys() for _, attrs in tags)
    assert [attrs["class"] for tag, attrs in tags if tag == "td" and attrs].count("bad") == 1
    bars = [float(attrs["width"]) for _, attrs in tags if attrs.get("class") == "bar"]
    assert len(bars) == 6
    assert max(bars) == bars[1] == pytest.approx(200 * (17 + math.log10(0.0423)) / 18, abs=0.1)
    assert "At least 4 random pairs for each row, seed 7." in page
    assert "{{" not in page


@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium is installed: apt-get install chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_the_page_with_what_is_broken_in_red(tmp_path, dark):
    path = tmp_path / "certificate.html"
    path.write_text(html_page(example()), encoding="utf-8")
    with browser(tmp_path / "profile") as page:
        page.open(path, width=1000, height=700, dark=dark)
        pixels = page.pixels()
        assert page.errors == []
        assert page.requested == [path.as_uri()]
    red, green, _ = np.moveaxis(pixels, -1, 0)
    assert (red - green > 90).sum() > 300
    assert (green - red > 60).sum() > 300
