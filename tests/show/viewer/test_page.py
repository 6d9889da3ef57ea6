"""Pages and their worker, without a browser: events that come while an answer is on the way."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import viser

from benchmarks import viewer as benchmark
from bitr.assembly.network import Network
from bitr.cli.demo import REFERENCE, SOURCE
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.show.viewer import Viewer
from bitr.show.viewer.gallery import FILE, Gallery
from bitr.show.viewer.page import Worker
from bitr.show.viewer.session import Changes
from tests.show.cases import demo_pair, few_points, hypothesis, turned
from tests.show.chromium import until
from tests.show.viewer.test_server import visit

pytestmark = pytest.mark.filterwarnings(
    "ignore:Queued:UserWarning"
)  # tabs close while answers are on the way


@pytest.fixture(scope="module")
def network():
    return Network.of("default")


@pytest.fixture(scope="module")
def viewer(network):
    with Viewer(network, demo_pair(), port=0, points=100, method="model") as viewer:
        yield viewer


@contextmanager
def visited(viewer):
    before = set(viewer.pages)
    with visit(viewer, origin=viewer.url):
        (number,) = until(lambda: set(viewer.pages) - before, "a page")
        yield viewer.pages[number]


@pytest.fixture
def page(viewer):
    with visited(viewer) as page:
        until(lambda: page.answer, "an answer")
        finished(page)
        yield page


@contextmanager
def gate(page):
    """Holds the worker in a job for as long as the block lasts, and then waits for what came meanwhile."""
    started, opened = threading.Event(), threading.Event()
    page.worker.submit("gate", lambda: (started.set(), opened.wait()))
    assert started.wait(60)
    try:
        yield
    finally:
        opened.set()
    finished(page)


def finished(page):
    """Wait until the jobs of the page are done."""

    def idle():
        found, done = [], threading.Event()
        page.worker.submit("last", lambda: (found.append(not page.worker._waiting), done.set()))
        assert done.wait(60)
        return found[0]

    until(idle, "the end of the jobs")


def message(page):
    return page.panel._message.content


@pytest.fixture
def gallery(network, results):
    with (
        Viewer(network, Gallery(results), port=0, points=100, method="model") as viewer,
        visited(viewer) as page,
    ):
        finished(page)
        yield page


def test_a_click_while_the_gallery_fills_opens_the_pair(gallery):
    hang, started, opened = gallery.wall.hang, threading.Event(), threading.Event()

    def slowly(*given):
        started.set()
        assert opened.wait(60)
        hang(*given)

    gallery.wall.hang = slowly
    gallery.show_wall()
    assert started.wait(60)
    gallery.open_entry(gallery.wall.gallery.entries[2])
    opened.set()
    until(lambda: gallery.answer, "the pair")
    finished(gallery)
    assert gallery.session is not None
    assert gallery.wall.tiles == []


def test_a_picture_that_cannot_be_made_does_not_stop_the_others(gallery):
    picture = gallery.wall.gallery.picture

    def broken(entry):
        if entry is gallery.wall.gallery.entries[0]:
            raise InputError("x.ply: gone")
        return picture(entry)

    gallery.wall.gallery.picture = broken
    gallery.show_wall()
    finished(gallery)
    assert len(gallery.wall.tiles) == 6
    assert "x.ply: gone" in message(gallery)


def test_a_page_says_whose_answer_it_is_where_predictions_were_evaluated(gallery):
    assert "is answered by the model default" in gallery.wall.caption.content


def test_a_pair_of_the_gallery_is_opened_as_it_was_evaluated(network, results, tmp_path):
    found = json.loads((results / FILE).read_text()) | {"checkpoint": "default", "method": "model"}
    (tmp_path / FILE).write_text(json.dumps(found | {"points": 70, "refine": "icp"}))
    shown = Gallery(tmp_path)
    how = {"points": shown.points, "method": shown.method}
    with Viewer(network, shown, port=0, **how) as viewer, visited(viewer) as page:
        page.open_entry(shown.entries[0])
        until(lambda: page.answer, "the pair")
        problem = page.answer.session.problem
        assert (problem.method, problem.points) == ("model", 70)
        assert "is answered without the refinement icp" in page.wall.caption.content
        page.change(lambda session: session.ask("seam"))
        page.reset()
        finished(page)
        assert page.answer.session.problem.method == "model"


def test_an_upload_joins_the_pair_that_is_on_the_page_and_no_other(gallery):
    x, y = demo_pair()
    gallery.open_entry(gallery.wall.gallery.entries[0])
    finished(gallery)
    with gate(gallery):
        gallery.open(x, y)
        gallery.open_entry(gallery.wall.gallery.entries[1])
    gallery.upload(0, "good.ply", SOURCE.read_bytes())
    finished(gallery)
    assert gallery.answer.assembly.source == "good.ply"
    assert gallery.answer.assembly.reference.endswith("y.ply")


def with_hypotheses(page, count):
    """Give the page an answer with so many hypotheses to choose from."""
    best = page.answer.assembly.transformation
    several = tuple(hypothesis(best, 1 / count) for _ in range(count))
    with page._lock:
        page._show(replace(page.answer, assembly=replace(page.answer.assembly, hypotheses=several)))


def test_another_hypothesis_is_shown_at_once_and_nothing_is_solved_for_it(page, monkeypatch):
    with_hypotheses(page, 3)
    older, solved = page.answer, []
    monkeypatch.setattr(page.solver, "solve", lambda *given: solved.append(given))
    with gate(page):
        assert page.panel._choice.options == ("1", "2", "3")
        page.panel._choice.value = "3"
        until(lambda: page.session.choice == 2, "the choice")
        assert page.answer.choice == 2
        assert page.panel._list.content.count('aria-current="true"') == 1
    assert page.answer.session is page.session
    assert page.answer.assembly is older.assembly
    assert solved == []


@pytest.fixture
def engine(network):
    """A page whose answers are too slow for a drag."""
    few = few_points(8)
    with Viewer(network, few, port=0, points=100, method="seam") as viewer, visited(viewer) as page:
        until(lambda: page.answer, "an answer")
        finished(page)
        yield page


@pytest.mark.slow
def test_a_pair_is_shown_with_the_answer_for_its_files_and_then_answered_as_it_stands(network):
    with (
        Viewer(network, few_points(8), port=0, points=100, method="seam") as viewer,
        visited(viewer) as page,
    ):
        seen = []
        show = page._show
        page._show = lambda *given: (seen.append(given[0]), show(*given))
        page.open(*few_points(8))
        until(lambda: len(seen) >= 2 and not seen[-1].is_carried, "two answers")
        assert seen[0].is_carried
        assert seen[-1].law_error < 1e-6
        assert len(seen[-1].assembly.hypotheses) > 1


@pytest.mark.slow
def test_while_a_piece_is_held_the_pose_goes_with_it_and_is_computed_when_it_is_let_go(engine, monkeypatch):
    solved, solve = [], engine.solver.solve
    monkeypatch.setattr(engine.solver, "solve", lambda given: solved.append(given) or solve(given))
    last = engine.answer
    assert not last.is_carried
    with gate(engine):  # the worker is busy, and the answer follows all the same
        for _ in range(3):
            engine.move(0, turned(engine.session, 0, 10.0), held=True)
            assert engine.answer.session is engine.session
            assert engine.answer.assembly is last.assembly
    assert "carried along" in engine.panel._facts.content
    assert solved == []
    motion = engine.session.motion(0) @ np.linalg.inv(last.session.motion(0))
    np.testing.assert_allclose(engine.answer.pose, last.pose @ np.linalg.inv(motion), atol=1e-9)
    engine.move(0, turned(engine.session, 0, 10.0))
    finished(engine)
    assert solved == [engine.session]
    assert not engine.answer.is_carried
    assert engine.answer.law_error < 1e-6
    assert f"{engine.answer.law_error:.1e}" in engine.panel._facts.content


@pytest.mark.slow
def test_an_answer_that_comes_after_the_piece_was_taken_again_is_carried_to_where_it_is(engine, monkeypatch):
    solve = engine.solver.solve

    def late(session):
        found = solve(session)
        engine.move(0, turned(engine.session, 0, 20.0), held=True)
        return found

    monkeypatch.setattr(engine.solver, "solve", late)
    engine.move(0, turned(engine.session, 0, 10.0))
    finished(engine)
    assert engine.answer.session is engine.session
    assert engine.answer.solved is not engine.session
    assert engine.answer.is_carried


def test_what_went_wrong_is_said_until_something_else_is_asked_for(page):
    with gate(page):
        page.change(lambda session: session.resize(2.0))
        page.upload(0, "bad.ply", b"ply")
    assert "bad.ply" in message(page)
    page.change(lambda session: session)
    assert "bad.ply" in message(page)
    page.change(lambda session: session.resize(1.0))
    assert message(page) == ""
    page.upload(0, "bad.ply", b"ply")
    page.upload(1, "good.ply", REFERENCE.read_bytes())
    assert message(page) == ""
    finished(page)


def test_starting_again_before_and_after_there_is_something_to_start(page, gallery):
    gallery.reset()
    gallery.open_entry(gallery.wall.gallery.entries[0])
    finished(gallery)
    page.change(lambda session: session.resize(2.0).swap())
    page.reset()
    finished(page)
    assert page.session is page.first
    assert page.panel._scale.value == 1.0
    assert page.answer.session is page.session


def test_an_answer_to_what_was_reset_meanwhile_is_not_shown(page, monkeypatch):
    solve, started, opened = page.solver.solve, threading.Event(), threading.Event()

    def slowly(session):
        started.set()
        assert opened.wait(60)
        return solve(session)

    monkeypatch.setattr(page.solver, "solve", slowly)
    page.change(lambda session: session.resize(2.0).swap())
    assert started.wait(60)
    page.reset()
    opened.set()
    finished(page)
    assert page.answer.session is page.session is page.first


def test_while_a_piece_is_held_only_what_is_new_is_sent(page, monkeypatch):
    facts, clouds = [], []
    told, drawn = type(page.panel._facts), type(page.scenery.keys[0])
    monkeypatch.setattr(told, "_queue_update", lambda self, name, _: facts.append((self, name)))
    monkeypatch.setattr(drawn, "_queue_update", lambda self, name, _: clouds.append((self, name)))
    for step in range(6):
        page.move(0, turned(page.session, 0, 10.0 * step), held=True)
        finished(page)
        assert page.answer.session is page.session
        assert not page.answer.is_carried  # the model is asked each time
    assert facts.count((page.panel._facts, "content")) == 2
    assert clouds == []
    count = page.panel.count
    page.move(0, turned(page.session, 0, 5.0))
    finished(page)
    assert f'data-number="{count + 1}"' in page.panel._facts.content
    x, y = page.scenery.own_keypoints(page.answer)
    for node, points in zip(page.scenery.keys, (x, y, x), strict=True):
        np.testing.assert_allclose(node.points, points, atol=1e-4)
    page.change(lambda session: session.change(0, Changes(cut=0.5)))
    finished(page)
    x, _ = page.scenery.own_keypoints(page.answer)
    np.testing.assert_allclose(page.scenery.keys[0].points, x, atol=1e-4)


def test_what_was_uploaded_is_not_kept(page):
    button = next(
        handle
        for handle in page.client.gui._gui_input_handle_from_uuid.values()
        if getattr(handle, "label", "") == "Source file"
    )
    button._impl.value = viser.UploadedFile("good.ply", SOURCE.read_bytes())
    for callback in button._impl.update_cb:
        callback(viser.GuiEvent(page.client, page.client.client_id, button))
    assert button.value.content == b""
    finished(page)
    assert page.answer.assembly.source == "good.ply"


def test_a_cloud_of_a_few_points_has_key_points_that_are_drawn(page):
    points = np.random.default_rng(0).normal(size=(30, 3))
    page.open(Geometry(points), Geometry(points))
    finished(page)
    assert all(np.abs(node.points).max() > 0 for node in page.scenery.keys)


@pytest.mark.parametrize(("points", "seen"), [(None, 60), (80, 80)])
def test_a_model_sees_as_many_points_as_in_training_unless_told(network, points, seen):
    trained, how = replace(network, points=60), {"points": points, "method": "model"}
    with Viewer(trained, demo_pair(), port=0, **how) as viewer, visited(viewer) as page:
        until(lambda: page.answer, "an answer")
        found = page.solver._sample(page.session.problem)
        assert max(len(side.points) for side in found) == seen


def test_a_scripted_drag_is_answered_by_the_law():
    few = tuple(type(side)(side.points[::20]) for side in demo_pair())
    answers = benchmark.without_browser(few, seconds=0.3)
    assert answers
    assert all(answer.law_error < 1e-9 for answer in answers)
    middles = [answer.session.places[0].middle for answer in answers]
    assert len(np.unique(middles, axis=0)) == len(answers)


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.close()


@pytest.fixture
def held(worker):
    """Holds the worker in a job until it is opened."""
    started, opened = threading.Event(), threading.Event()
    worker.submit("gate", lambda: (started.set(), opened.wait()))
    assert started.wait(60)
    yield opened
    opened.set()


def drained(worker):
    done = threading.Event()
    worker.submit("last", done.set)
    assert done.wait(60)


def test_only_the_newest_of_what_waits_is_done(worker, held):
    done = []
    for number in range(100):
        worker.submit("drag", lambda number=number: done.append(number))
    held.set()
    drained(worker)
    assert done == [99]


def test_keys_take_turns(worker, held):
    done = []

    def again(key, left):
        done.append(key)
        if left:
            worker.submit(key, lambda: again(key, left - 1))

    for key in ("a", "b"):
        worker.submit(key, lambda key=key: again(key, 3))
    held.set()
    while len(done) < 8:
        drained(worker)
    assert done == ["a", "b"] * 4


def test_what_was_dropped_is_not_done(worker, held):
    done = []
    worker.submit("gone", lambda: done.append(1))
    worker.drop("gone")
    worker.drop("never there")
    held.set()
    drained(worker)
    assert done == []


def test_a_job_that_fails_does_not_stop_the_next(worker):
    worker.submit("bad", lambda: 1 / 0)
    drained(worker)


def test_closing_waits_for_the_job_at_hand_and_does_no_other():
    worker, done = Worker(), []
    started, opened = threading.Event(), threading.Event()
    worker.submit("at hand", lambda: (started.set(), opened.wait(), done.append("at hand")))
    assert started.wait(60)
    worker.submit("waits", lambda: done.append("waits"))
    threading.Timer(0.05, opened.set).start()
    worker.close()
    assert done == ["at hand"]
