"""Reports: one page that needs nothing else, shows the true numbers, and trusts no text from outside."""

import base64
import json
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from bitr.assembly.assemble import Settings
from bitr.errors import InputError
from bitr.evaluation.evaluate import Errors, Evaluation, Score
from bitr.evaluation.report import Repeated, Report, ranked, spread
from bitr.show.report import (
    MOST_ROWS,
    best_of,
    environment,
    error_rows,
    render_assembly,
    render_evaluation,
    report_settings,
    write_html,
)
from bitr.show.stage import Scene
from tests.show.cases import assembly_of, cut_scene, with_keypoints
from tests.show.parsed import Parsed, assert_allows_only_its_own, assert_loads_nothing

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "</title></style>-->",
    """"' onload='alert(1)' x=\"""",
    "{{scene}} {{nothing}} \\1 &amp; &lt;",
]
SMALL = Scene(np.arange(12.0).reshape(4, 3), np.eye(3), np.eye(4))


def decoded(text: str, kind: str = "<f4") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind).reshape(-1, 3).astype(float)


def test_the_page_is_well_formed_and_loads_nothing():
    scene = cut_scene(facts=[("model", "default")])
    page = render_assembly(replace(scene, **with_keypoints(scene)))
    assert_loads_nothing(page)


def test_the_policy_allows_exactly_what_is_in_the_page():
    assert_allows_only_its_own(render_assembly(SMALL))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_outside_stays_text(text):
    facts = [(text, text), ("warning", text)]
    parsed = Parsed(render_assembly(replace(SMALL, title=text, facts=facts)))
    assert [e["text"] for e in parsed.all("h1")] == [text]
    assert [e["text"] for e in parsed.all("title")] == [f"{text} · bitr"]
    assert [e["text"] for e in parsed.all("th")] == [text]
    assert parsed.all("td")[-1]["text"] == text
    assert [e["text"] for e in parsed.all("p", **{"class": "warning"})] == [text]
    assert len(parsed.all("script")) == 2
    assert parsed.scene()["before"] == staged_before(SMALL)


@pytest.fixture
def doubtful():
    """A scene, and an answer with three hypotheses that is not sure."""
    scene = cut_scene()
    poses = [
        scene.transformation @ turn
        for turn in (np.eye(4), np.diag([-1.0, -1, 1, 1]), np.diag([1.0, -1, -1, 1]))
    ]
    return scene, assembly_of(poses, status="unsure", reason=HOSTILE[1])


def test_hypotheses_are_listed_with_what_speaks_for_them_and_the_first_is_shown(doubtful):
    scene, assembly = doubtful
    parsed = Parsed(render_assembly(scene, assembly))
    rows = [e["attrs"] for e in parsed.all("tr") if "data-motion" in e["attrs"]]
    assert [(row["data-motion"], row["aria-current"]) for row in rows] == [
        ("0", "true"),
        ("1", "false"),
        ("2", "false"),
    ]
    cells = [e["text"] for e in parsed.all("td")]
    for text in ("33%", "seam", "match", "0.25", "0.75", "50%"):
        assert cells.count(text) == 3, text
    shown = [
        e["attrs"]["data-pose"]
        for e in parsed.all("div")
        if "data-pose" in e["attrs"] and "hidden" not in e["attrs"]
    ]
    assert shown == ["0"]
    assert_loads_nothing(render_assembly(scene, assembly).replace(escape(HOSTILE[1]), ""))


def test_each_hypothesis_has_its_motion_and_its_copies(doubtful):
    scene, assembly = doubtful
    parsed = Parsed(render_assembly(scene, assembly))
    data = parsed.scene()
    copied = [json.loads(e["attrs"]["data-copy"]) for e in parsed.all("button", **{"class": "copy"})][::2]
    points = decoded(data["source"]["points"])
    for each, motion, matrix in zip(assembly.hypotheses, data["motions"], copied, strict=True):
        pose = each.transformation
        assert matrix == pose.tolist()
        w, *xyz = motion["quaternion"]
        placed = Rotation.from_quat([*xyz, w]).apply(points) + motion["after"]
        expected = scene.source @ pose[:3, :3].T + pose[:3, 3] - data["reference"]["center"]
        np.testing.assert_allclose(placed, expected, atol=1e-5)
    assert data["motions"][0].items() <= data.items()


def test_status_and_reason_stand_at_the_top_unless_all_is_well(doubtful):
    scene, assembly = doubtful
    scene = replace(scene, facts=[("status", "unsure: why"), ("model", "default")])
    parsed = Parsed(render_assembly(scene, assembly))
    (found,) = parsed.all("p", **{"class": "status"})
    assert found["text"] == f": {HOSTILE[1]}"
    assert [e["text"] for e in parsed.all("strong")] == ["unsure"]
    assert "status" not in [e["text"] for e in parsed.all("th")]
    fine = Parsed(render_assembly(scene, replace(assembly, status="ok", reason=None)))
    assert fine.all("p", **{"class": "status"}) == []
    assert "status" in [e["text"] for e in fine.all("th")]


def test_a_report_shows_more_hypotheses_than_were_asked_for_and_the_answer_has_no_more(doubtful):
    _, assembly = doubtful
    assert report_settings(Settings(hypotheses=1)).hypotheses == 5
    assert report_settings(Settings(hypotheses=9)).hypotheses == 9
    best = best_of(assembly, 2)
    assert [each.weight for each in best.hypotheses] == [0.5, 0.5]
    np.testing.assert_array_equal(best.transformation, assembly.transformation)


def staged_before(scene: Scene) -> list[float]:
    return Parsed(render_assembly(replace(scene, title="plain", facts=()))).scene()["before"]


def test_json_cannot_end_the_script_that_holds_it():
    values = {"text": "</script><!--<script>"}
    text = environment().from_string("{{ values | tojson }}").render(values=values)
    assert "<" not in text
    assert json.loads(text) == values


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"])))
def test_any_title_comes_back_as_it_was(title):
    parsed = Parsed(render_assembly(replace(SMALL, title=title)))
    assert parsed.all("h1")[0]["text"] == title


def test_a_file_name_that_is_no_text_can_be_written(tmp_path):
    name = b"caf\xe9.ply".decode("utf-8", "surrogateescape")
    write_html(tmp_path / "a.html", replace(SMALL, title=name, facts=[(name, name)]), force=False)
    assert "caf?.ply" in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("at", [0.0, 3e6])
def test_embedded_points_are_the_points_of_the_files(at):
    scene = cut_scene(at=at)
    scene = replace(scene, **with_keypoints(scene))
    data = Parsed(render_assembly(scene)).scene()
    tol = 3 * (np.finfo(np.float32).eps + at * np.finfo(float).eps)  # the pieces have a size of order 1
    for name in ("source", "reference"):
        center = np.array(data[name]["center"])
        points, keypoints = getattr(scene, name), getattr(scene, f"{name}_keypoints")
        np.testing.assert_allclose(decoded(data[name]["points"]) - (points - center), 0, atol=tol)
        np.testing.assert_allclose(decoded(data[name]["keypoints"]) - (keypoints - center), 0, atol=tol)
        assert len(decoded(data[name]["normals"], "i1")) == len(points)
    w, *xyz = data["quaternion"]
    turned = Rotation.from_quat([*xyz, w]).apply(decoded(data["source"]["points"]))
    expected = scene.source @ scene.transformation[:3, :3].T + scene.transformation[:3, 3]
    placed = turned + data["after"]
    np.testing.assert_allclose(placed - (expected - data["reference"]["center"]), 0, atol=10 * tol)


def test_copied_numbers_are_exact_and_shown_numbers_are_close():
    scene = cut_scene(at=1234567.891)
    parsed = Parsed(render_assembly(scene))
    matrix, quaternion = (
        json.loads(e["attrs"]["data-copy"]) for e in parsed.all("button", **{"class": "copy"})
    )
    assert matrix == scene.transformation.tolist()
    assert quaternion["translation"] == scene.transformation[:3, 3].tolist()
    w, *xyz = quaternion["quaternion_wxyz"]
    np.testing.assert_allclose(
        Rotation.from_quat([*xyz, w]).as_matrix(), scene.transformation[:3, :3], atol=1e-12
    )
    shown = np.array([float(e["text"]) for e in parsed.all("td")]).reshape(4, 4)
    np.testing.assert_allclose(shown, scene.transformation, rtol=1e-9, atol=1e-6)


def test_lengths_of_any_unit_keep_their_digits():
    for length in (1.234567e-7, 0.1234567, 1234567.891):
        pose = np.eye(4)
        pose[:3, 3] = [length, 0, -length]
        shown = Parsed(render_assembly(replace(SMALL, transformation=pose))).all("dd")[1]["text"].split()
        np.testing.assert_allclose([float(value) for value in shown], [length, 0, -length], rtol=1e-5)


def test_a_large_pair_makes_a_page_of_limited_size_that_says_so():
    points = np.random.default_rng(0).standard_normal((200_000, 3))
    page = render_assembly(Scene(points, points[:5000], np.eye(4)))
    assert len(page) < 1_000_000
    assert "20,000 of the 200,000 points of the source are shown, evenly taken." in page
    assert "points of the reference are shown" not in page
    assert len(render_assembly(Scene(points[:5000], points[:5000], np.eye(4)))) < 300_000


def test_the_same_scene_gives_the_same_page():
    assert render_assembly(cut_scene()) == render_assembly(cut_scene())
    assert render_assembly(cut_scene()) != render_assembly(cut_scene(seed=1))


def test_an_existing_file_is_refused_without_force(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        write_html(target, SMALL, force=False)
    assert target.read_text() == "mine"
    write_html(target, SMALL, force=True)
    assert target.read_text(encoding="utf-8") == render_assembly(SMALL)
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_is_left_behind_after_an_error(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("bitr.show.report.render_assembly", fail)
    with pytest.raises(OSError, match="disk full"):
        write_html(tmp_path / "report.html", SMALL, force=False)
    assert list(tmp_path.iterdir()) == []


EVIL = "</script><img src=x onerror=alert(1)> | {{scenes}} \" '"


def score(number, degrees, id="pair"):
    if degrees is None:
        return Score(f"{id} {number}", "m", 0.5, None, None, f"refused {EVIL}")
    errors = Errors(degrees, 0.1, 0.2, 0.3, 0.4, 0.5, *[0.0] * 5, None)
    return Score(f"{id} {number}", "m", 0.5, np.eye(4), errors, None, right=degrees < 15, confidence=0.625)


def report_of(degrees, names=("method",)):
    scores = tuple(score(number, each) for number, each in enumerate(degrees))
    rows = tuple(Repeated(name, (Evaluation(name, scores),)) for name in names)
    return Report({"dataset": "own", "seed": 0, "limit": None}, rows)


def page_of(report, scene, most=5, title="title"):
    pairs = ranked(report.rows[0])
    shown = spread(sum(pair.score.errors is not None for pair in pairs), most)
    examples = {
        place: replace(
            scene, title=pairs[place].name, facts=[*error_rows(pairs[place]), ("sure", f"{place}")]
        )
        for place in shown
    }
    return render_evaluation(report, pairs, examples, title)


@pytest.fixture(scope="module")
def evaluation():
    return page_of(report_of([50.0, 10.0, None, 30.0, 20.0, 40.0, 60.0], ("one", "two")), cut_scene(), most=3)


def test_the_page_is_well_formed_loads_nothing_and_allows_only_its_own(evaluation):
    assert_loads_nothing(evaluation.replace("{{scenes}}", ""))  # the reason of a pair that failed, as it is
    assert_allows_only_its_own(evaluation)


def test_all_pairs_are_listed_from_the_best_to_the_worst(evaluation):
    parsed = Parsed(evaluation)
    cells = [element["text"] for element in parsed.all("td")]
    degrees = [cells.index(f"{each:.2f}") for each in (10, 20, 30, 40, 50, 60)]
    assert degrees == sorted(degrees)
    assert [e["text"] for e in parsed.all("td", colspan="3")] == [f"no answer: refused {EVIL}"]


def test_the_best_the_middle_and_the_worst_can_be_seen_and_the_middle_comes_first(evaluation):
    parsed = Parsed(evaluation)
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


def test_table_settings_errors_and_pose_are_on_the_page(evaluation):
    parsed = Parsed(evaluation)
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


def test_the_figures_are_those_of_the_errors(evaluation):
    addresses = [e["attrs"]["src"] for e in Parsed(evaluation).all("img")]
    charts = [base64.b64decode(each.partition(",")[2]).decode() for each in addresses]
    assert ["in each 7.5°" in each for each in charts] == [True, False]
    assert ["recall (% of pairs)" in each for each in charts] == [False, True]
    assert all(name in chart for chart in charts for name in (">one<", ">two<", ">chance"))


@pytest.mark.parametrize("title", [EVIL, "<b>"])
def test_text_from_outside_stays_text_in_an_evaluation(title):
    report = report_of([1.0, None], (title,))
    report = replace(report, settings={title: title})
    parsed = Parsed(page_of(report, replace(cut_scene(60), title=title), title=title))
    assert [e["text"] for e in parsed.all("h1")] == [title]
    assert title in [e["text"] for e in parsed.all("th")]
    assert len(parsed.all("script")) == 2
    assert all(e["attrs"]["src"].startswith("data:image/svg+xml") for e in parsed.all("img"))


@pytest.mark.slow
def test_many_pairs_of_large_clouds_make_a_page_of_limited_size():
    points = np.random.default_rng(0).standard_normal((30_000, 3))
    report = report_of(np.linspace(0, 180, 2 * MOST_ROWS).tolist(), ("a", "b"))
    page = page_of(report, Scene(points, points[::2], np.eye(4)), most=25)
    assert len(page.encode()) < 4_000_000
    listed = page.split('<table class="pairs">')[1].split("</table>")[0].count("<tr") - 1
    assert MOST_ROWS <= listed <= MOST_ROWS + 25  # examples are listed in any case
    assert f" of the {2 * MOST_ROWS:,}, the best first" in page
    assert "3,000 of the 30,000 points of the source are shown, evenly taken." in page


def test_the_same_report_gives_the_same_page(evaluation):
    again = page_of(
        report_of([50.0, 10.0, None, 30.0, 20.0, 40.0, 60.0], ("one", "two")), cut_scene(), most=3
    )
    assert again == evaluation
