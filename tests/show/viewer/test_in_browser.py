"""The viewer as people use it: in a real browser, with a mouse and with files."""

import sys
from contextlib import contextmanager

import numpy as np
import pytest
from PIL import Image

from bitr.assembly.network import Network
from bitr.cli.demo import REFERENCE, SOURCE
from bitr.data.poses import inverse
from bitr.show.viewer import Gallery, Viewer
from bitr.show.viewer import server as server_module
from bitr.show.viewer.panel import pose_text
from examples import screenshots
from tests.show.cases import colored, demo_pair, turned
from tests.show.chromium import EXECUTABLE, SIZE, chromium, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium is installed: apt-get install chromium"),
    pytest.mark.filterwarnings("ignore:Queued:UserWarning"),  # a tab may close while its answer is on the way
]
HANDLE_AT = 0.9
"""The place at which the mouse takes an arrow of a handle, as a share of its length."""


@pytest.fixture(scope="module")
def viewer():
    with Viewer(Network.of("default"), demo_pair(), port=0, points=200, method="model") as viewer:
        yield viewer


@pytest.fixture(scope="module")
def new_tab(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as new_tab:
        yield new_tab


def visited(viewer, tab):
    """The page that a tab opens, once it has its first answer."""
    before = set(viewer.pages)
    tab.open(viewer.url)
    number = until(lambda: set(viewer.pages) - before, "a page").pop()
    page = viewer.pages[number]
    until(lambda: page.answer, "an answer")
    until(lambda: tab.text("bitr-answer"), "the answer on the page")
    return page


@pytest.fixture(scope="module")
def opened(viewer, new_tab):
    tab = new_tab()
    return tab, visited(viewer, tab)


@pytest.fixture
def tab(opened):
    return opened[0]


@pytest.fixture
def page(opened):
    """The page, opened again on the demo's pair."""
    page = opened[1]
    with answered(page):
        page.open(*demo_pair())
    return page


@contextmanager
def answered(page):
    """Wait until what is done inside has been answered."""
    before = page.answer
    yield
    until(lambda: _is_new(page, before), "another answer")


def _is_new(page, before):
    """True when the page has an answer that was computed for it as it is now."""
    now = page.answer
    return now is not before and now.session is page.session and now.solved is page.session


def settled(page):
    """The answer, once nothing is on the way any more."""
    until(lambda: _is_new(page, None), "the answer of the page as it is")
    return page.answer


def on_screen(page, point):
    """The pixel at which a point of the scene is drawn."""
    camera = page.client.camera
    towards = camera.look_at - camera.position
    towards = towards / np.linalg.norm(towards)
    right = np.cross(towards, camera.up_direction)
    right = right / np.linalg.norm(right)
    x, y, depth = np.stack([right, np.cross(right, towards), towards]) @ (point - camera.position)
    focal = camera.image_height / 2 / np.tan(camera.fov / 2)
    return np.array([camera.image_width / 2 + focal * x / depth, camera.image_height / 2 - focal * y / depth])


def drag_handle(tab, page, index):
    """Pull a piece along the arrow that is seen longest; again where the page was not ready for it."""
    close = "[...document.querySelectorAll('.mantine-Notification-closeButton')].map((b) => b.click()).length"
    until(lambda: tab.evaluate(close) == 0, "notices that are in the way to go")
    handle, before = page.scenery.handles[index], page.session
    middle = on_screen(page, handle.position)
    tips = [on_screen(page, handle.position + HANDLE_AT * handle.scale * axis) for axis in np.eye(3)]
    tip = max(tips, key=lambda tip: np.linalg.norm(tip - middle))
    end = tip + 60 * (tip - middle) / np.linalg.norm(tip - middle)

    def moved():
        if page.session is before:
            tab.settle()
            tab.drag(tip, end)
            tab.settle()
        return page.session is not before

    until(moved, "a drag")


def pictured(tab, page):
    tab.settle()
    return tab.pixels()[:, : page.client.camera.image_width]


def choose(tab, chosen, option):
    """Another option of the list that has one chosen."""
    list_ = f"[...document.querySelectorAll('input')].find((i) => i.value === {chosen!r})"
    until(lambda: tab.evaluate(f"!!{list_}"), chosen)
    tab.evaluate(f"{list_}.click()")
    found = f"[...document.querySelectorAll('[role=option]')].find((o) => o.textContent === {option!r})"
    until(lambda: tab.evaluate(f"!!{found}"), option)
    tab.evaluate(f"{found}.click()")


def send_file(tab, number, path):
    """Choose a file as if in the dialogue of the browser."""
    document = tab.send("DOM.getDocument")["root"]["nodeId"]
    inputs = tab.send("DOM.querySelectorAll", nodeId=document, selector="input[type=file]")["nodeIds"]
    tab.send("DOM.setFileInputFiles", nodeId=inputs[number], files=[str(path)])


def test_the_page_loads_without_an_error_and_without_the_network(tab, page, viewer):
    assert tab.errors == []
    own = (viewer.url, viewer.url.replace("http", "ws"), "data:", f"blob:{viewer.url}")
    assert [url for url in tab.requested if not url.startswith(own)] == []


def test_three_clouds_are_in_sight_each_where_it_belongs(tab, page):
    pixels = pictured(tab, page)
    for name in ("red", "yellow", "blue"):
        assert colored(pixels, name).mean() > 0.01, name
    middle = {name: np.argwhere(colored(pixels, name))[:, 1].mean() for name in ("red", "yellow", "blue")}
    assert middle["red"] < 0.4 * pixels.shape[1] < middle["yellow"]


def test_key_points_are_seen_through_the_clouds(tab, page):
    """The yellow ones lie behind the points of both pieces; dark pixels are of key points alone."""
    pixels = pictured(tab, page)
    dark = colored(pixels, "yellow") & (pixels.max(-1) < 170)
    assert dark.mean() > 0.0006  # small ones: they do not dominate


@pytest.mark.parametrize("index", [0, 1])
def test_dragging_a_piece_by_its_handle_moves_the_answer_by_the_law(tab, page, index):
    before, shown = page.answer, page.scenery.answer.position.copy()
    with answered(page):
        drag_handle(tab, page, index)
    after = page.answer
    moved = after.session.places[index].middle - before.session.places[index].middle
    assert np.linalg.norm(moved) > 0.02
    assert after.session.places[1 - index] is before.session.places[1 - index]
    g1, g2 = (after.session.motion(i) @ inverse(before.session.motion(i)) for i in (0, 1))
    np.testing.assert_allclose(after.pose, g2 @ before.pose @ inverse(g1), atol=1e-8)
    assert after.law_error < 1e-9
    # the moved source stands on the reference: it stays when the source goes, and goes with the reference
    went = np.linalg.norm(page.scenery.answer.position - shown) * page.scenery.layout.unit
    assert went == pytest.approx(np.linalg.norm(moved) if index else 0.0, abs=1e-6)


def test_turning_a_piece_shows_a_small_law_error_and_the_time(tab, page):
    with answered(page):
        page.move(0, turned(page.session, 0, 70.0))
    page.scenery.hold(page.session)
    until(lambda: f"{page.answer.law_error:.1e}" in tab.text("bitr-answer"), "the law error on the page")
    assert page.answer.law_error < 1e-9
    assert " ms an answer" in tab.text("bitr-answer")


def test_swapping_exchanges_the_colours_and_inverts_the_answer(tab, page):
    before = page.answer
    with answered(page):
        tab.click("Swap source and reference")
    assert page.answer.session.swapped
    np.testing.assert_allclose(page.answer.pose, inverse(before.pose), atol=1e-8)
    third = page.client.camera.image_width // 3
    until(lambda: colored(pictured(tab, page)[:, :third], "blue").mean() > 0.01, "blue on the left")


def test_the_scale_slider_keeps_the_law(tab, page):
    with answered(page):
        tab.evaluate("document.querySelectorAll('[role=slider]')[1].focus()")  # the first is of hypotheses
        tab.send("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
        tab.send("Input.dispatchKeyEvent", type="keyUp", key="ArrowRight", code="ArrowRight")
    assert page.answer.session.scale == pytest.approx(1.05)
    assert page.answer.law_error < 1e-9


def test_another_method_gives_several_hypotheses_and_a_click_shows_one(tab, page):
    with answered(page):
        choose(tab, "model", "seam")
    found = page.answer.assembly.hypotheses
    assert len(found) > 1
    rows = "document.querySelectorAll('#bitr-hypotheses tbody tr')"
    until(lambda: tab.evaluate(f"{rows}.length") == len(found), "the table")
    tab.evaluate(f"{rows}[1].click()")
    until(lambda: page.answer.choice == 1, "the second")
    np.testing.assert_array_equal(page.answer.pose, found[1].transformation)
    current = f"[...{rows}].map((row) => row.getAttribute('aria-current')).indexOf('true')"
    until(lambda: tab.evaluate(current) == 1, "the second in the table")
    until(
        lambda: tab.evaluate("document.getElementById('bitr-copy').textContent") == "Copy pose 2", "its pose"
    )


def test_while_a_piece_is_held_the_answer_of_the_engine_is_carried_along(tab, page):
    with answered(page):
        choose(tab, "model", "seam")
    before = page.answer
    page.move(0, turned(page.session, 0, 30.0), held=True)
    until(lambda: "g₂ g g₁⁻¹" in tab.text("bitr-carried"), "the words")
    assert page.answer.assembly is before.assembly
    with answered(page):
        page.move(0, turned(page.session, 0, 30.0))
    until(lambda: not tab.text("bitr-carried"), "no such words")
    assert page.answer.law_error < 1e-6
    until(lambda: f"{page.answer.law_error:.1e}" in tab.text("bitr-answer"), "the law error on the page")


def test_the_pose_can_be_copied(tab, page):
    tab.send("Page.bringToFront")
    text = pose_text(settled(page)).decode().strip()
    until(lambda: tab.evaluate("document.getElementById('bitr-copy').dataset.copy") == text, "its pose")
    tab.evaluate("document.getElementById('bitr-copy').scrollIntoView({block: 'center'})")
    place = "(({x, y, width, height}) => [x + width / 2, y + height / 2])"
    x, y = tab.evaluate(f"{place}(document.getElementById('bitr-copy').getBoundingClientRect())")
    tab.click_at(x, y)
    until(lambda: tab.evaluate("document.getElementById('bitr-copy').textContent") == "Copied", "the copy")


def test_doubts_are_told_at_the_top(tab, page):
    if page.answer.assembly.status != "ok":
        assert tab.text("bitr-status").startswith(f"{page.answer.assembly.status}: ")
    else:
        assert tab.text("bitr-status") == ""


def test_a_damaged_upload_is_told_and_the_next_one_works(tab, page, tmp_path):
    bad, good = tmp_path / "bad<b>.ply", tmp_path / "good.ply"
    bad.write_bytes(SOURCE.read_bytes()[:-500])
    good.write_bytes(REFERENCE.read_bytes())
    before = settled(page)
    send_file(tab, 0, bad)
    message = until(lambda: tab.text("bitr-message"), "a message")
    assert message.startswith("bad<b>.ply: truncated")
    assert page.answer is before
    with answered(page):
        send_file(tab, 0, good)
    assert page.answer.assembly.source == "good.ply"
    until(lambda: "good.ply" in tab.text("bitr-answer"), "the new name")
    assert tab.text("bitr-message") == ""


def test_a_file_can_be_dropped(tab, page, tmp_path):
    points = np.random.default_rng(0).normal(size=(50, 3))
    np.savetxt(tmp_path / "dropped.xyz", points)
    zone = "document.querySelectorAll('.bitr-drop')[1]"
    tab.evaluate(f"{zone}.scrollIntoView({{block: 'center'}})")
    place = f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({zone}.getBoundingClientRect())"
    x, y = tab.evaluate(place)
    data = {"items": [], "files": [str(tmp_path / "dropped.xyz")], "dragOperationsMask": 1}
    with answered(page):
        for kind in ("dragEnter", "dragOver", "drop"):
            tab.send("Input.dispatchDragEvent", type=kind, x=x, y=y, data=data)
    assert page.answer.assembly.reference == "dropped.xyz"
    np.testing.assert_allclose(page.session.problem.pieces[1].file.points, points)


def test_two_files_at_once_are_both_taken(tab, page, tmp_path):
    for number, name in enumerate(("one.ply", "two.ply")):
        (tmp_path / name).write_bytes((SOURCE, REFERENCE)[number].read_bytes())
        send_file(tab, number, tmp_path / name)

    def both():
        found = page.answer.assembly
        return found.source == "one.ply" and found.reference == "two.ply"

    until(both, "both files")


def test_an_upload_that_is_too_large_is_refused_and_the_page_goes_on(tab, page, monkeypatch):
    monkeypatch.setattr(server_module, "MOST_BYTES", 1000)
    send_file(tab, 0, SOURCE)
    message = until(lambda: tab.text("bitr-message"), "a message")
    assert "expected at most 200 MB" in message
    monkeypatch.undo()
    with answered(page):
        send_file(tab, 0, REFERENCE)


def test_what_is_downloaded_is_the_pose_of_the_files(tab, page, tmp_path):
    tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    tab.click("pose .txt")
    until(lambda: (tmp_path / "pose.txt").is_file(), "the file")
    until(lambda: len((tmp_path / "pose.txt").read_text().splitlines()) == 4, "all of it")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "pose.txt"), page.answer.pose_of_files)


def test_two_browsers_do_not_see_each_others_clouds(tab, page, viewer, new_tab, tmp_path):
    (tmp_path / "secret.ply").write_bytes(REFERENCE.read_bytes())
    other = new_tab()
    others = visited(viewer, other)
    with answered(others):
        send_file(other, 0, tmp_path / "secret.ply")
    until(lambda: "secret.ply" in other.text("bitr-answer"), "the new name")
    with answered(page):
        tab.click("Swap source and reference")
    assert "secret.ply" not in tab.evaluate("document.body.innerText")
    assert page.answer.assembly.reference.endswith("demo-source.ply")
    assert not others.session.swapped
    assert other.errors == []


def test_on_a_small_screen_the_panel_scrolls_and_can_be_folded(viewer, new_tab):
    tab, (width, height) = new_tab(), (390, 844)
    tab.send("Emulation.setDeviceMetricsOverride", **SIZE | {"width": width, "height": height})
    page = visited(viewer, tab)
    tab.evaluate(
        "window.panel = document.getElementById('bitr-answer');"
        "while (getComputedStyle(panel).position !== 'fixed') panel = panel.parentElement; 1"
    )
    box = "(({left, right, top, bottom}) => [left, right, top, bottom])"
    left, right, top, bottom = tab.evaluate(f"{box}(panel.getBoundingClientRect())")
    assert 0 <= left < right <= width
    assert height / 3 < top < bottom <= height
    assert tab.evaluate("document.documentElement.scrollWidth") <= width  # nothing lies beside the screen

    def is_in_sight():  # what comes above it may still be on its way
        tab.evaluate("document.getElementById('bitr-copy').scrollIntoView({block: 'center'})")
        button = tab.evaluate(f"{box}(document.getElementById('bitr-copy').getBoundingClientRect())")
        return left <= button[0] < button[1] <= right and top <= button[2] < button[3] <= bottom

    until(is_in_sight, "the button to copy the pose in the panel")
    clouds = ("red", "yellow", "blue")
    until(
        lambda: all(colored(pictured(tab, page)[: int(top)], name).any() for name in clouds),
        "all clouds above the panel",
    )
    tab.evaluate("[...panel.querySelectorAll('*')].find((e) => e.style.cursor === 'pointer').click()")
    until(
        lambda: all(colored(pictured(tab, page), name).any() for name in clouds),
        "all clouds in sight",
    )
    assert tab.evaluate("panel.getBoundingClientRect().top") > top
    assert tab.errors == []


def test_nothing_of_all_this_was_an_error(tab):
    assert tab.errors == []


@pytest.mark.slow
def test_a_click_on_a_picture_opens_its_pair(results, tmp_path):
    network = Network.of("default")
    with (
        Viewer(network, Gallery(results), port=0, points=100, method="model") as viewer,
        chromium(tmp_path) as new_tab,
    ):
        tab = new_tab()
        tab.open(viewer.url)
        page = until(lambda: next(iter(viewer.pages.values()), None), "a page")
        until(lambda: len(page.wall.tiles) == 6, "three pictures and their captions")
        until(lambda: colored(tab.pixels(), "yellow").any(), "a picture in sight")

        def opened():
            """On the second picture of the first row, whose place goes with the size of the window."""
            box = np.argwhere(colored(tab.pixels()[:, : page.client.camera.image_width], "yellow"))
            if len(box):  # none once a pair is open
                second = box[np.abs(box[:, 1] - np.median(box[:, 1])).argmin()]
                tab.click_at(second[1], second[0])
            return page.answer

        until(opened, "the pair")
        until(lambda: tab.text("bitr-pair"), "its name")
        entry = next(e for e in page.wall.gallery.entries if e.id in tab.text("bitr-pair"))
        assert f"{entry.id}: {entry.error_text} in the evaluation" == tab.text("bitr-pair")
        assert page.answer.assembly.source.endswith("x.ply")
        tab.click("Show the gallery")
        until(lambda: len(page.wall.tiles) == 6 and page.session is None, "the gallery again")
        assert tab.errors == []


@pytest.mark.slow
def test_the_pictures_of_the_readme_show_the_clouds(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["screenshots", "--out", str(tmp_path)])
    screenshots.main()
    for name, colors in (("viewer", ("red", "yellow", "blue")), ("report", ("yellow", "blue"))):
        pixels = np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB")).astype(int)
        for color in colors:
            assert colored(pixels, color).mean() > 0.01, (name, color)
