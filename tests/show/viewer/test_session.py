"""Sessions and their answers keep the laws, whatever is done with the pieces."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data.poses import inverse
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.show.stage import quaternion_wxyz
from bitr.show.viewer import session as session_module
from bitr.show.viewer.scene import aim, lay_out
from bitr.show.viewer.session import Changes, Piece, Session, Solver
from tests.show.cases import POINTS, demo_pair, few_points, place, problem, session

FAST = Settings("model", fast=True, points=POINTS)
CHANGES = Changes(cut=0.3, noise=0.01, outliers=0.1)


@pytest.fixture(scope="module")
def network():
    return Network.of("default")


@pytest.fixture
def numbers():
    return np.random.default_rng(0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["model", "auto"])
def test_the_answer_moves_with_both_pieces(network, numbers, method):
    solver, start = Solver(network), session(numbers, method)
    before = solver.solve(start).pose
    after = solver.solve(start.move(0, place(numbers)).move(1, place(numbers)))
    g1, g2 = (after.session.motion(i) @ inverse(start.motion(i)) for i in (0, 1))
    np.testing.assert_allclose(after.pose, g2 @ before @ inverse(g1), atol=1e-7)
    assert after.law_error < 1e-7


def test_following_a_piece_that_is_held_gives_what_solving_gives(network, numbers):
    solver = Solver(network)
    last = solver.solve(session(numbers).swap().resize(2.0))
    moved = last.session.move(0, place(numbers))
    followed, solved = solver.follow(moved, last), solver.solve(moved)
    np.testing.assert_allclose(followed.pose, solved.pose, atol=1e-9)
    keys = followed.assembly.source_keypoints, solved.assembly.source_keypoints
    np.testing.assert_allclose(*keys, atol=1e-9)
    for name in ("fitness", "inlier_rmse", "confidence"):
        found = getattr(followed.assembly, name)
        assert found == pytest.approx(getattr(solved.assembly, name), abs=1e-6)
    for name in ("status", "reason", "source", "reference", "method"):
        assert getattr(followed.assembly, name) == getattr(solved.assembly, name)
    assert followed.law_error < 1e-9


def test_following_takes_nothing_over_where_more_than_a_motion_lies_between(network, numbers):
    solver, start = Solver(network), session(numbers)
    last = solver.solve(start)
    for other in (start.swap(), start.resize(2.0), start.change(0, CHANGES), start.ask(hypotheses=2)):
        followed, solved = solver.follow(other, last), solver.solve(other)
        assert followed.assembly.fitness == solved.assembly.fitness
        assert followed.assembly.source == solved.assembly.source
        np.testing.assert_array_equal(followed.pose, solved.pose)


def test_a_pose_that_is_carried_along_is_the_one_that_is_computed_then(network, numbers):
    solver = Solver(network)
    last = solver.solve(session(numbers).swap().resize(2.0))
    moved = last.session.move(0, place(numbers)).move(1, place(numbers))
    carried, solved = replace(last, session=moved), solver.solve(moved)
    assert carried.is_carried
    assert not solved.is_carried
    np.testing.assert_allclose(carried.pose, solved.pose, atol=1e-9)
    np.testing.assert_array_equal(carried.pose_of_files, last.pose_of_files)


def test_the_answer_for_the_files_is_shown_first_where_the_pieces_were_only_moved(network, numbers):
    solver, start = Solver(network), session(numbers)
    assert not solver.knows(start.problem)
    first, solved = solver.first(start), solver.solve(start)
    assert solver.knows(start.problem)
    assert first.is_carried
    np.testing.assert_allclose(first.pose, solved.pose, atol=1e-9)
    assert solver.first(start.swap()) is None
    assert solver.first(start.resize(2.0)) is None


def test_swapping_inverts_the_answer_and_leaves_the_pieces(network, numbers):
    solver, start = Solver(network), session(numbers)
    swapped = solver.solve(start.swap())
    np.testing.assert_allclose(swapped.pose, inverse(solver.solve(start).pose), atol=1e-9)
    assert swapped.law_error < 1e-9
    assert swapped.session.places == start.places
    assert swapped.session.swap().order == start.order


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_scaling_keeps_the_law_and_the_middles(network, numbers, factor):
    start = session(numbers).resize(factor)
    assert Solver(network).solve(start).law_error < 1e-9
    for index, piece in enumerate(start.problem.pieces):
        middle = start.motion(index) @ np.append(factor * piece.middle, 1)
        np.testing.assert_allclose(middle[:3], start.places[index].middle)


def test_the_laws_hold_for_pieces_that_are_cut_noisy_and_among_outliers(network, numbers):
    start = session(numbers).change(0, CHANGES).change(1, CHANGES).resize(2.0).swap()
    answer = Solver(network).solve(start.move(0, place(numbers)))
    assert answer.law_error < 1e-9
    assert len(start.problem.pieces[0].cloud.points) == 675 - 202 + 47


def test_the_law_error_is_measured_and_not_derived(network, numbers, monkeypatch):
    """A model that answers the same whatever happens is found out."""
    fixed = assemble_geometries(*few_points(), network, FAST)
    monkeypatch.setattr(session_module, "assemble_geometries", lambda *_: fixed)
    assert Solver(network).solve(session(numbers)).law_error > 0.1


def test_the_pose_of_the_files_is_that_of_bitr_assemble_wherever_the_pieces_stand(network, numbers):
    expected = assemble_geometries(*few_points(), network, FAST).transformation
    for start in (session(numbers), session(numbers).resize(0.5)):
        np.testing.assert_allclose(Solver(network).solve(start).pose_of_files, expected, atol=1e-8)
        back = Solver(network).solve(start.swap()).pose_of_files
        np.testing.assert_allclose(back, inverse(expected), atol=1e-8)


def test_the_answer_before_any_motion_is_found_once_for_a_problem(network, numbers, monkeypatch):
    calls = []

    def counted(*given):
        calls.append(given)
        return assemble_geometries(*given)

    monkeypatch.setattr(session_module, "assemble_geometries", counted)
    solver, start = Solver(network), session(numbers)
    for _ in range(3):
        start = start.move(0, place(numbers))
        solver.solve(start)
    assert len(calls) == 4
    solver.solve(start.change(0, CHANGES))
    assert len(calls) == 6


def test_a_cut_takes_from_either_end_and_more_is_more():
    cloud, _ = demo_pair()
    low, high = Changes(cut=-0.25).apply(cloud, 0), Changes(cut=0.25).apply(cloud, 0)
    assert len(low.points) == len(high.points) == 2025
    kept = [{tuple(row) for row in part.points} for part in (cloud, low, high)]
    assert kept[1] | kept[2] == kept[0]
    assert len(kept[1] & kept[2]) == 1350
    less = {tuple(row) for row in Changes(cut=0.5).apply(cloud, 0).points}
    assert less < kept[2]


def test_a_cut_leaves_what_the_model_needs(network, numbers):
    x, y = problem().pieces
    few = replace(x, file=replace(x.file, points=x.file.points[:5]), changes=Changes(cut=0.9))
    assert len(few.cloud.points) == 4
    start = Session(replace(problem(), pieces=(few, y)), (place(numbers), place(numbers)))
    assert np.isfinite(Solver(network).solve(start).pose).all()


def test_noise_and_outliers_are_those_of_the_seed_and_grow_without_a_jump():
    cloud, _ = demo_pair()
    one, two = (Changes(noise=s).apply(cloud, 0).points - cloud.points for s in (0.01, 0.02))
    np.testing.assert_allclose(two, 2 * one, rtol=1e-6, atol=1e-12)
    assert one.std() == pytest.approx(0.01 * np.sqrt(cloud.points.var(0).sum()), rel=0.05)
    more = Changes(outliers=0.5).apply(cloud, 0)
    assert len(more.points) == 4050
    np.testing.assert_allclose(more.points[:2700], cloud.points, atol=1e-12)


@pytest.mark.parametrize("wrong", [{"cut": 0.95}, {"noise": -1.0}, {"outliers": float("nan")}])
def test_sliders_that_a_browser_puts_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} = .* expected a number from"):
        Changes(**wrong)


@pytest.mark.parametrize("factor", [0.0, float("nan"), 1e9])
def test_a_scale_out_of_range_is_refused(numbers, factor):
    with pytest.raises(InputError, match="scale = "):
        session(numbers).resize(factor)


@pytest.mark.parametrize(("offset", "size"), [(0.0, 1.0), (1e6, 1.0), (0.0, 1e-6)])
def test_what_is_drawn_is_of_order_one_wherever_the_files_lie(offset, size):
    x, y = (replace(p, file=_at(p.file, offset, size)) for p in problem().pieces)
    found = lay_out(replace(problem(), pieces=(x, y)), np.eye(4))
    start = found.start(replace(problem(), pieces=(x, y)))
    assert sum(found.radii) == pytest.approx(1)
    for index in (0, 1):
        drawn = found.draw(start.places[index].middle)
        assert np.linalg.norm(drawn) < 2
        same = found.place(quaternion_wxyz(start.places[index].rotation), drawn)
        np.testing.assert_allclose(same.middle, start.places[index].middle, rtol=1e-9)


def test_the_framing_holds_every_point():
    found = lay_out(problem(), np.eye(4))
    points = np.random.default_rng(0).normal(size=(500, 3))
    for fov, aspect, free in ((0.65, 1.5, 1.0), (1.2, 0.4, 1.0), (0.65, 0.46, 0.4), (0.65, 0.9, 0.4)):
        position, look_at = aim(points, found.view, fov, aspect, free)
        np.testing.assert_allclose(_unit(position - look_at), found.view[2], atol=1e-12)
        seen = (points - position) @ (found.view * [[1], [1], [-1]]).T
        height = np.tan(fov / 2) * seen[:, 2]
        assert (seen[:, 2] > 0).all()
        assert (seen[:, 1] <= height * 1.1).all()
        assert (seen[:, 1] >= height * (1 - 2 * free) - height * 0.1).all()  # nothing below the free share
        assert (np.abs(seen[:, 0]) <= aspect * height * 1.1).all()


def test_sessions_do_not_change_in_place(numbers):
    start = session(numbers)
    for after in (start.move(1, place(numbers)), start.resize(2.0), start.swap(), start.ask("seam")):
        assert isinstance(after, Session)
        assert after is not start
    assert (start.scale, start.swapped, start.problem.method) == (1.0, False, "model")


def _at(geometry, offset, size):
    return replace(geometry, points=size * geometry.points + offset)


def _unit(vector):
    return vector / np.linalg.norm(vector)


@pytest.mark.slow
def test_a_symmetric_piece_gives_several_hypotheses_and_says_why(network, numbers):
    """A square plate looks the same four times over."""
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 12)] * 2, [0.0, 0.1]), -1).reshape(-1, 3)
    x, y = problem().pieces
    plate = replace(problem("auto"), pieces=(replace(x, file=Geometry(grid)), y))
    start = Session(plate, (place(numbers), place(numbers)))
    assert len(Solver(network).solve(start).assembly.hypotheses) == 1
    found = Solver(network).solve(start.ask(hypotheses=4)).assembly
    assert 1 < len(found.hypotheses) <= 4
    assert sum(each.weight for each in found.hypotheses) == pytest.approx(1)
    assert found.status in ("ambiguous", "unsure")
    assert "the source looks the same" in found.reason


def test_the_engine_is_given_what_bitr_assemble_reads():
    """A mesh with its faces, as long as no slider changes it, and of a large cloud what it chooses from."""
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    mesh = Piece(Geometry(corners, faces=np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])))
    assert mesh.given is mesh.file
    assert mesh.cloud.faces is None
    assert replace(mesh, changes=CHANGES).given.faces is None
    large = Piece(Geometry(np.random.default_rng(0).normal(size=(20_000, 3))))
    assert len(large.given.points) == 12_000
