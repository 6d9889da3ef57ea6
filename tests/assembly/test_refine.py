"""What every refinement promises: better poses where pieces overlap, none worse elsewhere, and the laws."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.refinement import laws_near, outcomes, start_near, turn_between
from scipy.spatial.transform import Rotation

from bitr.assembly.align import Frame
from bitr.assembly.refine import REFINEMENTS, Refinement, icp, none, ot, slack_plan
from bitr.assembly.refine import refine as refine_by
from bitr.data import dataset
from bitr.data.generated import ShapesConfig, shapes
from bitr.data.poses import pose
from bitr.data.transforms import add_outliers, both
from bitr.errors import InputError
from bitr.io import sample_surface
from tests.assembly.cases import halves, overlapping
from tests.assembly.solids import box
from tests.reference.sinkhorn import log_slack_plan

METHODS = pytest.mark.parametrize(("refine", "pairs"), [(icp, 4), (ot, 3)], ids=["icp", "ot"])


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A data root with a folder ``generated``: nothing is written among the user's files."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "generated").mkdir()
    return folder


def generated(root, kind, keep, count):
    mix = tuple(float(kind == each) for each in ("fracture", "cut", "crop"))
    return shapes("val", root, 3, ShapesConfig(mix=mix, keep=(keep, keep)))[:count]


def median_after(refine, pairs, low=5, high=25):
    return np.median([found.after for found in outcomes(refine, pairs, low, high)])


@METHODS
@pytest.mark.parametrize("keep", [0.7, 0.5])
def test_overlapping_pieces_come_together(refine, pairs, keep):
    assert median_after(refine, [overlapping(seed, keep) for seed in range(pairs)]) < 1.0


@pytest.mark.slow
@METHODS
@pytest.mark.parametrize("keep", [0.7, 0.5])
def test_generated_shapes_come_together(root, refine, pairs, keep):
    assert median_after(refine, generated(root, "crop", keep, pairs + 3)) < 2.0


@METHODS
def test_outliers_do_not_matter(refine, pairs):
    def with_outliers(seed):
        rng = np.random.default_rng(seed)
        return both(overlapping(seed), lambda side: add_outliers(side, 100, rng, -2.0, 2.0))

    assert median_after(refine, [with_outliers(seed) for seed in range(pairs)]) < 1.5


@pytest.mark.slow
@METHODS
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (5.0, 25.0)])
def test_halves_of_a_cut_are_not_made_worse(root, refine, pairs, low, high):
    cut = [*(halves(seed) for seed in range(pairs)), *generated(root, "cut", 0.5, 4)]
    found = outcomes(refine, cut, low, high)
    assert np.mean([f.after - f.before for f in found]) < 1.0
    assert np.mean([f.moved for f in found]) < 0.5


@METHODS
@pytest.mark.parametrize("make", [overlapping, halves])
def test_the_laws_hold(refine, pairs, make):
    for seed in range(pairs // 2):
        found = laws_near(refine, make(seed, n=500), seed)
        assert max(found.bi, found.swap, found.scale) < 1e-9


@METHODS
def test_far_from_the_origin_the_swap_law_holds(refine, pairs):
    pair = overlapping(0, n=500)
    far = replace(pair.source, points=pair.source.points + 1e6)
    shift = np.eye(4)
    shift[:3, 3] = -1e6
    away = replace(pair, source=far, ref_from_src=pair.ref_from_src @ shift)
    assert laws_near(refine, away, 0).swap < 1e-6


@METHODS
def test_the_order_of_the_points_does_not_matter(refine, pairs):
    pair, rng = overlapping(1), np.random.default_rng(0)
    start = start_near(pair, 10, rng)
    x, y = pair.source.points, pair.reference.points
    assert np.allclose(refine(rng.permutation(x), y, start).pose, refine(x, y, start).pose, atol=1e-9)


@METHODS
def test_a_pose_that_is_left_is_the_one_that_came_in(refine, pairs):
    pair = halves(0)
    start = start_near(pair, 10, np.random.default_rng(0))
    found = refine(pair.source.points, pair.reference.points, start)
    assert not found.moved
    assert found.pose is start
    assert "overlap by" in found.reason
    assert found.overlap < 0.2


def test_a_search_that_loses_its_start_is_not_believed():
    """Unless much overlaps where it ends: here at the truth, from 60 degrees off."""
    for keep, moved in ((0.5, False), (0.9, True)):
        pair = overlapping(1, keep)
        start, frame = start_near(pair, 60, np.random.default_rng(0)), Frame.of(*pair_points(pair))
        end = frame.inside(pair.ref_from_src)
        found = refine_by(*pair_points(pair), start, lambda x, y, start, end=end: end)
        assert found.moved == moved
        assert (found.overlap > 0.5) == moved
        assert moved or found.pose is start
        assert moved or "after a turn by 60 degrees" in found.reason


def pair_points(pair):
    return pair.source.points, pair.reference.points


@METHODS
@pytest.mark.parametrize("degrees", [44, 50])
def test_whole_shapes_come_together_from_far(refine, pairs, degrees):
    """Samples of a cube: it looks the same after a quarter turn, so half of that is as far as can be."""
    tilt = np.radians(degrees) * np.array([0.6, 0.0, 0.8])
    start = pose(Rotation.from_rotvec(tilt).as_matrix(), np.zeros(3))
    x, y = (sample_surface(box(), 600, seed).points for seed in (0, 1))
    found = refine(x, y, start)
    assert found.moved
    assert found.overlap > 0.5
    ways = [
        turn_between(found.pose, pose(turn, np.zeros(3))) for turn in Rotation.create_group("O").as_matrix()
    ]
    assert min(ways) < 2


@METHODS
def test_what_was_done_is_told(refine, pairs):
    pair = overlapping(0)
    start = start_near(pair, 10, np.random.default_rng(0))
    found = refine(pair.source.points, pair.reference.points, start)
    assert isinstance(found, Refinement)
    assert found.moved
    assert 0.2 < found.overlap <= 1
    assert np.allclose(found.pose[:3, :3] @ found.pose[:3, :3].T, np.eye(3), atol=1e-12)
    assert turn_between(found.pose, pair.ref_from_src) < 1


@METHODS
def test_a_small_piece_of_a_large_one_is_refined(refine, pairs):
    """Of the large piece little overlaps, of the small one all."""
    pair = overlapping(2, keep=0.98, n=4000)
    small = pair.source.points[np.argsort(pair.source.points[:, 0])[:600]]
    piece = replace(pair, source=replace(pair.source, points=small))
    start = start_near(piece, 5, np.random.default_rng(1))
    found = refine(small, pair.reference.points, start)
    assert found.moved
    assert turn_between(found.pose, pair.ref_from_src) < 2.5


@METHODS
def test_too_few_points_and_points_at_one_place_are_left(refine, pairs):
    many = overlapping(0).source.points
    for x, y in ((many, many[:10]), (np.ones((50, 3)), np.zeros((50, 3)))):
        found = refine(x, y, np.eye(4))
        assert not found.moved
        assert "show no surface" in found.reason


@METHODS
def test_lines_planes_and_copies_give_a_finite_pose(refine, pairs):
    rng = np.random.default_rng(0)
    line, plane = rng.random((100, 1)) * [[1.0, 2, 3]], rng.random((300, 3)) * [[1.0, 1, 0]]
    grid = np.stack(np.meshgrid(*[np.arange(8.0)] * 3), axis=-1).reshape(-1, 3)
    for cloud in (line, plane, grid, np.repeat(plane, 10, axis=0)):
        assert np.isfinite(refine(cloud, cloud[::2], np.eye(4)).pose).all()


@METHODS
def test_numbers_that_are_none_are_refused(refine, pairs):
    cloud = overlapping(0).source.points
    broken = cloud.copy()
    broken[0, 0] = np.nan
    with pytest.raises(InputError, match="reference: is empty or not finite"):
        refine(cloud, broken, np.eye(4))
    with pytest.raises(InputError, match="pose: is empty or not finite"):
        refine(cloud, cloud, np.full((4, 4), np.inf))


@METHODS
@pytest.mark.parametrize("name", ["airplane:0.7", "indoor"])
def test_real_pieces_come_together(real_data, refine, pairs, name):
    assert median_after(refine, dataset(name, "val")[:pairs], 10, 20) < 2.0


def test_the_names_are_told_in_one_place():
    assert {"none": none, "icp": icp, "ot": ot} == REFINEMENTS
    found = none(np.zeros((1, 3)), np.zeros((1, 3)), np.eye(4))
    assert not found.moved
    assert found.reason == "no refinement was asked for"


# the transport plan with slack, beside its naive twin and POT

TO_THE_END = 2000


@pytest.fixture(params=[0.05, 0.2, 1.0], ids=lambda width: f"width {width}")
def affinity(request):
    rng = np.random.default_rng(0)
    x, y = rng.random((30, 3)), rng.random((20, 3))
    squared = np.square(x[:, None] - y).sum(2)
    return np.exp((0.1**2 - squared) / (2 * request.param**2))


def test_the_plan_is_that_of_the_naive_twin(affinity):
    expected = log_slack_plan(affinity)[:-1, :-1]
    np.testing.assert_allclose(slack_plan(affinity, TO_THE_END), expected, atol=1e-12)


def test_the_plan_is_that_of_pot(affinity):
    """POT wants to know what the slack takes; the rest follows from rows and columns that sum to 1."""
    pot = pytest.importorskip("ot")
    plan = slack_plan(affinity, TO_THE_END)
    n, m = plan.shape
    cost = np.zeros((n + 1, m + 1))
    cost[:n, :m] = -np.log(affinity)
    rows = np.append(np.ones(n), m - plan.sum() + 1)
    columns = np.append(np.ones(m), n - plan.sum() + 1)
    theirs = pot.sinkhorn(rows, columns, cost, 1.0, method="sinkhorn_log", numItermax=5000, stopThr=1e-13)
    np.testing.assert_allclose(plan, theirs[:n, :m], atol=1e-9)


def test_as_many_rounds_as_are_made_nearly_suffice(affinity):
    """The rest makes no difference to where a search ends; more rounds would only take longer."""
    at_last = slack_plan(affinity, TO_THE_END)
    assert np.abs(slack_plan(affinity) - at_last).max() < 0.05 * at_last.max()


@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_the_transposed_affinity_gives_the_transposed_plan(affinity, rounds):
    np.testing.assert_allclose(slack_plan(affinity.T, rounds), slack_plan(affinity, rounds).T, atol=1e-15)


def test_a_batch_is_its_members(affinity):
    batch = np.stack([affinity, affinity**2])
    for member, alone in zip(slack_plan(batch), batch, strict=True):
        np.testing.assert_allclose(member, slack_plan(alone), atol=1e-15)


def test_nothing_is_transported_where_nothing_is_near():
    assert slack_plan(np.zeros((4, 5))).sum() == 0


def test_no_point_gives_or_gets_more_than_it_has(affinity):
    plan = slack_plan(100 * affinity, TO_THE_END)
    assert plan.sum(0).max() < 1
    assert plan.sum(1).max() < 1
