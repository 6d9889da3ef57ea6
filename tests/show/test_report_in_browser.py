"""Reports as people see them: drawn by a real browser, with WebGL and without."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from bitr.show.report import render_assembly, write_html
from bitr.show.stage import Scene
from tests.show.cases import assembly_of, colored, cut_scene, with_keypoints
from tests.show.chromium import EXECUTABLE, NO_WEBGL, WEBGL, browser
from tests.show.test_report import page_of, report_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium is installed: apt-get install chromium"),
]
RIM = 8
SIZE, TALL = {"width": 1000, "height": 800}, {"width": 1300, "height": 1500}


@pytest.fixture(scope="module", params=["webgl", "canvas"])
def page(request, tmp_path_factory):
    flags = {"webgl": WEBGL, "canvas": NO_WEBGL}[request.param]
    with browser(tmp_path_factory.mktemp("profile"), *flags) as page:
        page.renderer = request.param
        yield page


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    scene = cut_scene(1500, title="<b>a</b> & b", facts=[("warning", "<img src=x onerror=alert(1)>")])
    path = tmp_path_factory.mktemp("report") / "report.html"
    several = assembly_of([scene.transformation] * 5, status="unsure", reason="x" * 300)
    write_html(path, replace(scene, **with_keypoints(scene)), several, force=False)
    return path


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    path = tmp_path_factory.mktemp("evaluation") / "report.html"
    degrees = np.linspace(1, 170, 60).tolist()
    path.write_text(page_of(report_of(degrees, ("one", "two")), cut_scene(600)), encoding="utf-8")
    return path


def view(page):
    """The pixels of the 3-D view, without the legend and without the frame of what has the focus."""
    page.evaluate("document.querySelector('.legend').hidden = true")
    box = page.evaluate("(({x, y, width, height}) => [x, y, width, height])(canvas.getBoundingClientRect())")
    x, y, width, height = (round(value) for value in box)
    return page.pixels()[y + RIM : y + height - RIM, x + RIM : x + width - RIM]


def click(page, name):
    page.evaluate(f"document.getElementById('{name}').click()")
    page.settle()


@pytest.mark.parametrize("dark", [False, True])
def test_red_before_and_yellow_after(page, report, dark):
    for fragment, source, other in (("before", "red", "yellow"), ("after", "yellow", "red")):
        page.open(report, fragment, **SIZE, dark=dark)
        assert page.evaluate("document.documentElement.dataset.renderer") == page.renderer
        pixels = view(page)
        assert colored(pixels, source).mean() > 0.03
        assert colored(pixels, "blue").mean() > 0.03
        assert colored(pixels, other).sum() == 0
        assert (pixels[-1, -1].mean() < 60) == dark
        assert page.errors == []
        assert page.requested == [f"{report.as_uri()}"]


def test_points_are_drawn_where_the_pose_puts_them(page, tmp_path):
    """Against a camera written down here once more: two small clusters, seen before and after."""
    rng = np.random.default_rng(0)
    cluster = 0.02 * rng.standard_normal((300, 3))
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    pose = np.block([[turn, np.array([[1.0], [2.0], [0.5]])], [np.zeros((1, 3)), np.ones((1, 1))]])
    far = np.array([[2.0, 1.0, 0.3]])
    source, reference = np.concatenate([cluster, cluster + far]), cluster + np.array([0.5, 0.2, 0.1])
    scene = Scene(source, reference, pose)
    write_html(tmp_path / "a.html", scene, force=False)
    data = json.loads(re.search(r'id="scene">(.*?)</script>', render_assembly(scene))[1])
    moved = source @ turn.T + pose[:3, 3]
    for fragment, placed, color, fit in (("before", source, "red", 0), ("after", moved, "yellow", 1)):
        page.open(tmp_path / "a.html", fragment, **SIZE)
        pixels = view(page)
        height, width = pixels.shape[0] + 2 * RIM, pixels.shape[1] + 2 * RIM
        distance = (
            1.05 * data["fit"][fit]["radius"] / np.sin(np.arctan(min(1, width / height) * np.tan(0.25)))
        )
        seen = placed - data["reference"]["center"] - data["fit"][fit]["center"]
        seen = seen @ np.reshape(data["view"], (3, 3)).T - [0, 0, distance]
        screen = (
            seen[:, :2] * [1, -1] / -seen[:, 2:] / np.tan(0.25) * height / 2 + [width / 2, height / 2] - RIM
        )
        drawn = np.argwhere(colored(pixels, color))[:, ::-1]
        for half in (screen[:300], screen[300:]):
            near = drawn[np.linalg.norm(drawn - half.mean(0), axis=1) < 40]
            assert len(near) > 50
            np.testing.assert_allclose(near.mean(0), half.mean(0), atol=2.5)


def test_key_points_and_clouds_can_be_shown_and_hidden(page, report):
    page.open(report, "after", **SIZE)
    plain = view(page)
    click(page, "show-keys")
    assert (view(page) != plain).any()
    click(page, "show-keys")
    assert (view(page) == plain).all()
    click(page, "show-source")
    assert colored(view(page), "yellow").sum() == 0
    click(page, "show-reference")
    assert colored(view(page), "blue").sum() == 0


def test_mouse_and_keys_turn_move_and_zoom_and_reset_undoes_it(page, report):
    page.open(report, "after", **SIZE)
    first = view(page)
    center = page.evaluate(
        "(({x, y, width, height}) => [x + width/2, y + height/2])(canvas.getBoundingClientRect())"
    )

    def drag(button, **more):
        held = {"left": 1, "right": 2}[button]
        page.mouse("mousePressed", *center, button=button, clickCount=1, **more)
        page.mouse("mouseMoved", center[0] + 60, center[1] + 25, button=button, buttons=held, **more)
        page.mouse("mouseReleased", center[0] + 60, center[1] + 25, button=button, clickCount=1, **more)

    def key(name, **more):
        page.evaluate("canvas.focus()")
        page.send("Input.dispatchKeyEvent", type="keyDown", key=name, **more)

    def middle(pixels):
        return np.argwhere(pixels.min(2) < 230).mean(0)[::-1]

    def shown_after(action):
        action()
        page.settle()
        pixels = view(page)
        click(page, "reset")
        assert (view(page) == first).all()
        return pixels

    assert (shown_after(lambda: drag("left")) != first).any()
    for move in (lambda: drag("right"), lambda: drag("left", modifiers=8)):
        np.testing.assert_allclose(middle(shown_after(move)) - middle(first), [60, 25], atol=6)
    for closer in (
        lambda: page.mouse("mouseWheel", *center, deltaX=0, deltaY=-200),
        lambda: key("+", text="+"),
    ):
        assert (shown_after(closer).min(2) < 230).sum() > 1.1 * (first.min(2) < 230).sum()
    assert (shown_after(lambda: key("ArrowLeft")) != first).any()
    assert middle(shown_after(lambda: key("ArrowRight", modifiers=8)))[0] > middle(first)[0] + 8


def test_a_click_on_a_hypothesis_shows_its_pose_and_the_source_where_it_puts_it(page, tmp_path):
    scene = cut_scene(1500)
    away = scene.transformation @ np.diag([-1.0, -1.0, 1.0, 1.0])
    away[:3, 3] += 3
    several = assembly_of([scene.transformation, away], status="ambiguous", reason="two <b> fit")
    write_html(tmp_path / "a.html", scene, several, force=False)
    page.open(tmp_path / "a.html", "before", **SIZE)
    assert "ambiguous: two <b> fit" in page.evaluate("document.querySelector('.status').innerText")
    shown = "[...document.querySelectorAll('[data-pose]')].filter((e) => !e.hidden).map((e) => e.innerText)"
    before = view(page)
    for number, name in ((1, "Pose 2"), (0, "Pose 1")):
        page.evaluate(f"document.querySelector('[data-motion=\"{number}\"] button').click()")
        page.settle()
        (text,) = page.evaluate(shown)
        assert text.startswith(name)
        assert page.evaluate("document.querySelector('tr[aria-current=true]').dataset.motion") == str(number)
        pixels = view(page)
        assert colored(pixels, "yellow").mean() > 0.005  # after the motion
        assert (pixels != before).any()
        before = pixels
    assert page.errors == []


def test_two_fingers_zoom(page, report):
    page.open(report, "after", **SIZE)
    before = (view(page).min(2) < 230).sum()
    x, y = page.evaluate(
        "(({x, y, width, height}) => [x + width/2, y + height/2])(canvas.getBoundingClientRect())"
    )
    for kind, apart in (("touchStart", 50), ("touchMove", 65)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        page.send("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    page.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    page.settle()
    assert (view(page).min(2) < 230).sum() > 1.2 * before


def test_the_motion_plays_to_its_end(page, report):
    page.open(report, "before", **SIZE)
    assert page.evaluate("document.getElementById('to-before').getAttribute('aria-pressed')") == "true"
    click(page, "play")
    done = """new Promise((done) => { const look = () => document.getElementById('progress').value === '1'
        ? done(true) : requestAnimationFrame(look); look(); })"""
    assert page.evaluate(done)
    page.settle()
    assert colored(view(page), "yellow").mean() > 0.03
    assert page.evaluate("document.getElementById('to-after').getAttribute('aria-pressed')") == "true"


def test_copying_and_hostile_text(page, report):
    page.open(report, **SIZE)
    assert page.evaluate("document.querySelector('h1').textContent") == "<b>a</b> & b"
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    changed = """new Promise((done) => { const button = document.querySelector('.copy');
        new MutationObserver(() => done(button.textContent)).observe(button, {childList: true});
        button.click(); })"""
    assert page.evaluate(changed) == "Copied"
    assert page.errors == []


@pytest.mark.parametrize("width", [320, 400, 760, 1000, 1600])
def test_nothing_sticks_out_at_any_width(page, report, evaluation, width):
    for path in (report, evaluation):
        page.open(path, width=width, height=800)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_opens_on_the_pair_in_the_middle(page, evaluation, dark):
    page.open(evaluation, **TALL, dark=dark)
    assert page.errors == []
    assert [each for each in page.requested if not each.startswith("data:")] == [evaluation.as_uri()]
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


def test_a_click_on_a_pair_shows_its_points_its_errors_and_its_pose(page, evaluation):
    page.open(evaluation, "before", **TALL)
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
