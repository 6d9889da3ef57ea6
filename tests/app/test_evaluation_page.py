"""The report of an evaluation: one page that needs nothing else, with all pairs, some of them in 3-D."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bitr.app.evaluation_page import MOST_ROWS, Example, error_rows, html_page
from bitr.evaluation.charts import spread
from bitr.evaluation.evaluate import Errors, Evaluation, Score
from bitr.evaluation.report import Repeated, Report, ranked
from bitr.pictures.scene import Scene
from tests.app.parsed import Parsed, assert_allows_only_its_own, assert_loads_nothing
from tests.pictures.scenes import cut_scene

HOSTILE = "</script><img src=x onerror=alert(1)> | {{scenes}} \" '"


def score(number, degrees, id="pair"):
    if degrees is None:
        return Score(f"{id} {number}", "m", 0.5, None, None, f"refused {HOSTILE}")
    errors = Errors(degrees, 0.1, 0.2, 0.3, 0.4, 0.5, None)
    return Score(f"{id} {number}", "m", 0.5, np.eye(4), errors, None, right=degrees < 15, confidence=0.625)


def report_of(degrees, names=("method",)):
    scores = tuple(score(number, each) for number, each in enumerate(degrees))
    rows = tuple(Repeated(name, (Evaluation(name, scores),)) for name in names)
    return Report({"dataset": "own", "seed": 0, "limit": None}, rows)


def page_of(report, scene, most=5, title="title"):
    pairs = ranked(report.rows[0])
    shown = spread(sum(pair.score.errors is not None for pair in pairs), most)
    examples = {
        place: Example(
            replace(scene, title=pairs[place].name), [*error_rows(pairs[place]), ("sure", f"{place}")]
        )
        for place in shown
    }
    return html_page(report, pairs, examples, title)


@pytest.fixture(scope="module")
def page():
    return page_of(report_of([50.0, 10.0, None, 30.0, 20.0, 40.0, 60.0], ("one", "two")), cut_scene(), most=3)


def test_the_page_is_well_formed_loads_nothing_and_allows_only_its_own(page):
    assert_loads_nothing(page.replace("{{scenes}}", ""))  # the reason of a pair that failed, as it is
    assert_allows_only_its_own(page)


def test_all_pairs_are_listed_from_the_best_to_the_worst(page):
    parsed = Parsed(page)
    cells = [element["text"] for element in parsed.all("td")]
    degrees = [cells.index(f"{each:.2f}") for each in (10, 20, 30, 40, 50, 60)]
    assert degrees == sorted(degrees)
    assert [e["text"] for e in parsed.all("td", colspan="3")] == [f"no answer: refused {HOSTILE}"]


def test_the_best_the_middle_and_the_worst_can_be_seen_and_the_middle_comes_first(page):
    parsed = Parsed(page)
    rows = [e["attrs"]["data-scene"] for e in parsed.elements if "data-scene" in e["attrs"]]
    scenes = parsed.all("script", **{"class": "scene"})
    assert rows == ["scene-0", "scene-2", "scene-5"]
    assert [e["attrs"]["id"] for e in scenes] == ["scene-2", "scene-0", "scene-5"]
    for scene in scenes:
        found = json.loads(scene["text"])
        assert {"source", "reference", "quaternion", "before", "after", "view", "fit"} <= found.keys()
    current = [e["attrs"] for e in parsed.all("tr") if e["attrs"].get("aria-current") == "true"]
    shown = [
        e["attrs"] for e in parsed.all("div") if "data-about" in e["attrs"] and "hidden" not in e["attrs"]
    ]
    assert [each["data-scene"] for each in current] == ["scene-2"]
    assert [each["data-about"] for each in shown] == ["scene-2"]


def test_table_settings_errors_and_pose_are_on_the_page(page):
    parsed = Parsed(page)
    heads = [e["text"] for e in parsed.all("th")]
    for name in ("Δr (°)", "one", "two", "chance", "dataset", "seed", "Δr", "displacement", "time", "sure"):
        assert name in heads, name
    assert "limit" not in heads  # what was not set is not told
    cells = [e["text"] for e in parsed.all("td")]
    assert "126.5 ± 37.0" in cells
    assert "30.00°" in cells
    assert cells.count("62%") == 3  # of the pairs that can be seen
    assert (cells.count("yes"), cells.count("no")) == (1, 2)
    assert len(parsed.all("table", **{"class": "matrix"})) == 3


def test_pieces_that_do_not_belong_together_are_said_to_be_so():
    unrelated = Score("pair 9", "m", 0.5, np.eye(4), None, "the pieces do not belong together")
    rows = (Repeated("one", (Evaluation("one", (score(0, 10.0), unrelated)),)),)
    parsed = Parsed(page_of(Report({"dataset": "own"}, rows), cut_scene(60)))
    assert [e["text"] for e in parsed.all("td", colspan="3")] == ["the pieces do not belong together"]


def test_the_figures_are_those_of_the_errors(page):
    points = [
        np.array([pair.split(",") for pair in e["attrs"]["points"].split()], dtype=float)
        for e in Parsed(page).all("polyline")
    ]
    assert len(points) == 6  # two methods and chance, twice
    histogram, recall = points[0], points[3]
    heights = (histogram[1:-1:2, 1].max() - histogram[1:-1:2, 1]).round()
    assert (heights > 0).sum() == 6
    bottom, top = recall[:, 1].max(), points[5][:, 1].min()
    assert (bottom - recall[-1, 1]) / (bottom - top) == pytest.approx(6 / 7, abs=0.01)  # one of seven failed


@pytest.mark.parametrize("title", [HOSTILE, "<b>"])
def test_text_from_outside_stays_text(title):
    report = report_of([1.0, None], (title,))
    report = replace(report, settings={title: title})
    parsed = Parsed(page_of(report, replace(cut_scene(60), title=title), title=title))
    assert [e["text"] for e in parsed.all("h1")] == [title]
    assert title in [e["text"] for e in parsed.all("th")]
    assert len(parsed.all("script")) == 2
    assert parsed.all("img") == []


def test_many_pairs_of_large_clouds_make_a_page_of_limited_size():
    points = np.random.default_rng(0).standard_normal((30_000, 3))
    report = report_of(np.linspace(0, 180, 2 * MOST_ROWS).tolist(), ("a", "b"))
    page = page_of(report, Scene(points, points[::2], np.eye(4)), most=25)
    assert len(page.encode()) < 4_000_000
    listed = page.split('<table class="pairs">')[1].split("</table>")[0].count("<tr") - 1
    assert MOST_ROWS <= listed <= MOST_ROWS + 25  # examples are listed in any case
    assert f" of the {2 * MOST_ROWS:,}, the best first" in page
    assert "3,000 of the 30,000 points of the source are shown, evenly taken." in page


def test_the_same_report_gives_the_same_page(page):
    again = page_of(
        report_of([50.0, 10.0, None, 30.0, 20.0, 40.0, 60.0], ("one", "two")), cut_scene(), most=3
    )
    assert again == page
