"""Every transform leaves the answer right: points carry their place as a colour, and it is compared."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitr.data.poses import inverse, nearest_pose, pose_of_numbers, random_pose
from bitr.data.transforms import (
    add_outliers,
    apply_warp,
    assembled,
    both,
    crop,
    deform,
    jitter,
    move,
    move_randomly,
    random_stretch,
    random_warp,
    sample_by_area,
    sample_grid,
    sample_uniform,
    split,
    take,
    thin,
    to_unit_sphere,
    two_samples,
    with_normals,
)
from bitr.errors import InputError
from bitr.io import Geometry
from tests.assembly.solids import box
from tests.data.cases import answer_error, belonging, fitted, normal_at, pair_of, shape

SEEDS = st.integers(0, 10_000)
few = settings(max_examples=30, deadline=None)
TIGHT = 1e-9


def generator(seed):
    return np.random.default_rng(seed)


@few
@given(seed=SEEDS)
def test_the_check_itself_finds_a_wrong_answer(seed):
    pair = pair_of(30, generator(seed))
    assert answer_error(pair) < TIGHT
    wrong = replace(pair, ref_from_src=pair.ref_from_src @ random_pose(generator(seed + 1), 0.1))
    assert answer_error(wrong) > 1e-3


@few
@given(seed=SEEDS, n=st.integers(5, 60))
def test_uniform_sampling(seed, n):
    rng = generator(seed)
    pair = pair_of(60, rng)
    sampled = both(pair, lambda side: sample_uniform(side, n, rng))
    assert len(sampled.source.points) == n
    assert len(np.unique(sampled.source.points, axis=0)) == n
    assert {*map(tuple, sampled.source.points)} <= {*map(tuple, pair.source.points)}
    assert answer_error(sampled) < TIGHT


@few
@given(seed=SEEDS)
def test_sampling_by_area(seed):
    """Points of a triangle mesh carry blended colours, which are their places again."""
    rng = generator(seed)
    corners = shape(12, rng)
    mesh = replace(
        corners, faces=rng.permuted(np.tile(np.arange(12), (6, 1)), axis=1)[:, :3].astype(np.int64)
    )
    pair = move_randomly(assembled(mesh, mesh, "mesh"), rng)
    sampled = both(pair, lambda side: sample_by_area(side, 40, rng))
    assert len(sampled.source.points) == 40
    assert sampled.source.faces is None
    assert answer_error(sampled) < TIGHT


@few
@given(seed=SEEDS, size=st.floats(0.05, 0.6), pick=st.sampled_from(["mean", "first"]))
def test_grid_sampling(seed, size, pick):
    rng = generator(seed)
    pair = pair_of(80, rng)
    sampled = both(pair, lambda side: sample_grid(side, size, pick))
    if min(len(sampled.reference.points), len(sampled.source.points)) < 4:
        return  # too few to fit a motion to
    assert answer_error(sampled) < 1e-7
    cubes = np.unique(np.floor(pair.source.points / size), axis=0)
    assert len(sampled.source.points) == len(cubes)
    norms = np.linalg.norm(sampled.source.normals, axis=1)
    np.testing.assert_allclose(norms, 1, atol=1e-9)


@few
@given(seed=SEEDS)
def test_the_grid_agrees_with_a_plain_loop(seed):
    cloud = shape(100, generator(seed))
    groups = {}
    for i, point in enumerate(cloud.points):
        groups.setdefault(tuple(np.floor(point / 0.3)), []).append(i)
    means = [cloud.points[groups[key]].mean(0) for key in sorted(groups)]
    np.testing.assert_allclose(sample_grid(cloud, 0.3).points, means, atol=1e-12)
    first = [cloud.points[groups[key][0]] for key in sorted(groups)]
    np.testing.assert_array_equal(sample_grid(cloud, 0.3, "first").points, first)


@few
@given(seed=SEEDS, keep=st.floats(0.2, 1.0))
def test_cropping(seed, keep):
    rng = generator(seed)
    pair = pair_of(60, rng)
    cropped = both(pair, lambda side: crop(side, keep, rng))
    assert len(cropped.source.points) == round(keep * 60)
    assert answer_error(cropped) < TIGHT
    assert separated(cropped.source, pair.source)


@few
@given(seed=SEEDS)
def test_a_smaller_crop_is_part_of_a_larger_one(seed):
    cloud = shape(50, generator(seed))
    small, large = (crop(cloud, keep, generator(seed)) for keep in (0.3, 0.7))
    assert {*map(tuple, small.points)} < {*map(tuple, large.points)}


@few
@given(seed=SEEDS, share=st.floats(0.1, 0.9))
def test_splitting(seed, share):
    rng = generator(seed)
    whole = shape(60, rng)
    source, reference = split(whole, share, rng)
    assert len(source.points) == round(share * 60)
    assert sorted(map(tuple, [*source.points, *reference.points])) == sorted(map(tuple, whole.points))
    assert separated(source, whole)
    if min(len(source.points), len(reference.points)) > 3:
        assert answer_error(move_randomly(assembled(source, reference, "split"), rng)) < 1e-6


def separated(part, whole):
    """A plane has the part on one side and the rest on the other: a linear programme says whether."""
    from scipy.optimize import linprog

    inside = np.array([tuple(p) in {*map(tuple, part.points)} for p in whole.points])
    sign = np.where(inside, 1, -1)
    rows = np.concatenate([sign[:, None] * whole.points, sign[:, None]], axis=1)
    return linprog(np.zeros(4), A_ub=rows, b_ub=np.full(len(rows), -1e-6), bounds=[(None, None)] * 4).success


@few
@given(seed=SEEDS)
def test_noise_is_all_that_the_answer_is_off_by(seed):
    rng = generator(seed)
    pair = pair_of(200, rng)
    noisy = replace(pair, source=jitter(pair.source, 0.01, rng))
    np.testing.assert_array_equal(noisy.ref_from_src, pair.ref_from_src)
    noise = noisy.source.points - pair.source.points
    assert np.abs(noise).max() <= 0.06 + TIGHT
    assert 0.008 < noise.std() < 0.012
    assert answer_error(noisy) <= np.sqrt(3) * np.abs(noise).max() + TIGHT


@few
@given(seed=SEEDS, count=st.integers(0, 30))
def test_outliers_come_after_the_points_and_change_none(seed, count):
    rng = generator(seed)
    pair = pair_of(40, rng)
    more = both(pair, lambda side: add_outliers(side, count, rng, -2.0, 3.0))
    assert len(more.source.points) == len(more.source.normals) == 40 + count
    outliers = more.source.points[40:]
    assert ((outliers >= -2) & (outliers <= 3)).all()
    assert answer_error(both(more, lambda side: take(side, np.arange(40)))) < TIGHT


@few
@given(seed=SEEDS)
def test_motions_of_either_side(seed):
    rng = generator(seed)
    pair = pair_of(20, rng)
    for motions in ((random_pose(rng, 2.0), np.eye(4)), (np.eye(4), random_pose(rng, 2.0))):
        assert answer_error(move(pair, *motions)) < TIGHT
    moved = move_randomly(pair, rng, 3.0)
    assert answer_error(moved) < TIGHT
    back = move(moved, moved.ref_from_src, np.eye(4))
    np.testing.assert_allclose(back.ref_from_src, np.eye(4), atol=1e-12)


@few
@given(seed=SEEDS)
def test_normals_turn_with_the_points(seed):
    rng = generator(seed)
    pair = move_randomly(pair_of(20, rng), rng)
    turn = fitted(belonging(pair.source), pair.source.points)[:3, :3]
    np.testing.assert_allclose(pair.source.normals, normal_at(belonging(pair.source)) @ turn.T, atol=1e-9)


@few
@given(seed=SEEDS)
def test_symmetries_move_along(seed):
    """Each symmetry of a moved pair takes the points of its source onto themselves, in another order."""
    rng = generator(seed)
    half_turn = np.diag([-1.0, -1.0, 1.0, 1.0])
    points = rng.normal(size=(10, 3))
    source = Geometry(np.concatenate([points, points @ half_turn[:3, :3].T]))
    symmetry = np.stack([np.eye(4), half_turn])
    pair = move_randomly(replace(assembled(source, source, "symmetric"), symmetry=symmetry), rng)
    np.testing.assert_allclose(pair.symmetry[0], np.eye(4), atol=1e-12)
    turned = pair.source.moved(pair.symmetry[1]).points
    np.testing.assert_allclose(turned, np.roll(pair.source.points, 10, axis=0), atol=1e-9)


@few
@given(seed=SEEDS)
def test_two_samples_have_no_point_in_common(seed):
    rng = generator(seed)
    a, b = two_samples(shape(50, rng), 25, rng)
    assert len({*map(tuple, a.points)} | {*map(tuple, b.points)}) == 50
    assert answer_error(move_randomly(assembled(a, b, "two"), rng)) < TIGHT


@few
@given(seed=SEEDS)
def test_estimated_normals_move_with_the_cloud(seed):
    rng = generator(seed)
    direction = rng.normal(size=(200, 3))
    sphere = Geometry(direction / np.linalg.norm(direction, axis=1, keepdims=True) * [1, 0.8, 0.6])
    motion = random_pose(rng, 1.0)
    np.testing.assert_allclose(
        with_normals(sphere.moved(motion)).normals, with_normals(sphere).normals @ motion[:3, :3].T, atol=1e-6
    )


def test_unit_sphere():
    cloud = to_unit_sphere(Geometry(generator(0).normal(size=(50, 3)) * 7 + 100))
    assert np.linalg.norm(cloud.points, axis=1).max() == pytest.approx(1)
    np.testing.assert_allclose(cloud.points.min(0) + cloud.points.max(0), 0, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c, rng: sample_uniform(c, 0, rng), "cannot take 0 of 20"),
        (lambda c, rng: sample_uniform(c, 21, rng), "cannot take 21 of 20"),
        (lambda c, rng: sample_grid(c, 0.0), "expected more than 0"),
        (lambda c, rng: sample_grid(c, float("nan")), "expected more than 0"),
        (lambda c, rng: sample_grid(c, 1e-12), "choose a larger size"),
        (lambda c, rng: crop(c, 0.0, rng), "expected more than 0 and at most 1"),
        (lambda c, rng: crop(c, 1.1, rng), "expected more than 0 and at most 1"),
        (lambda c, rng: split(c, 0.01, rng), "leaves an empty piece"),
        (lambda c, rng: sample_by_area(c, 5, rng), "no faces"),
        (lambda c, rng: take(replace(c, faces=np.array([[0, 1, 2]])), np.arange(3)), "is a mesh"),
    ],
)
def test_what_cannot_be_done_is_refused(change, says):
    with pytest.raises(InputError, match=says):
        change(shape(20, generator(0)), generator(0))


@few
@given(seed=SEEDS, size=st.floats(0, 1e-3))
def test_poses_from_files_become_rigid(seed, size):
    rng = generator(seed)
    exact = random_pose(rng, 5.0)
    rounded = exact.copy()
    rounded[:3, :3] += size * rng.uniform(-1, 1, (3, 3))
    found = nearest_pose(rounded, "pose")
    np.testing.assert_allclose(found[:3, :3] @ found[:3, :3].T, np.eye(3), atol=1e-12)
    assert np.abs(found - exact).max() < 3 * size + 1e-12
    np.testing.assert_allclose(inverse(found) @ found, np.eye(4), atol=1e-9)
    text = "\n".join(" ".join(map(repr, row)) for row in exact.tolist())
    np.testing.assert_allclose(pose_of_numbers(text, "pose"), exact, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 0 0", "found 3 numbers"),
        (" ".join("1" * 16), "no rigid motion"),
        ("-1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1", "no rigid motion"),
        ("1 0 0 0 0 1 0 0 0 0 1 0 0 0 1 1", "no rigid motion"),
        ("nan 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1", "no rigid motion"),
        ("a 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1", "'a', expected the numbers"),
    ],
)
def test_a_pose_that_is_none_is_refused(text, says):
    with pytest.raises(InputError, match=says):
        pose_of_numbers(text, "pose.txt")


@given(st.integers(40, 400), st.integers(40, 400), st.integers(32, 300))
def test_thinning_keeps_the_ratio_of_the_sides(n, m, most):
    rng = np.random.default_rng(0)
    sides = [Geometry(rng.normal(size=(count, 3))) for count in (n, m)]
    thinned = thin(assembled(*sides, "two"), most, rng)
    found = [len(thinned.source.points), len(thinned.reference.points)]
    if max(n, m) <= most:
        assert found == [n, m]
    else:
        assert max(found) == most
        smaller = min(n, m)
        assert min(found) == min(smaller, max(round(smaller * most / max(n, m)), most // 8))


def test_thinning_samples_meshes():
    mesh = Geometry(np.eye(3) * 2.0, faces=np.array([[0, 1, 2]]))
    cloud = Geometry(np.random.default_rng(0).normal(size=(500, 3)))
    thinned = thin(assembled(mesh, cloud, "two"), 100, np.random.default_rng(1))
    assert thinned.source.faces is None
    assert [len(thinned.source.points), len(thinned.reference.points)] == [20, 100]


@few
@given(SEEDS, st.booleans())
def test_deformed_pair_is_the_deformed_whole(seed, mirror):
    rng = generator(seed)
    pair = pair_of(60, rng)
    matrix = random_stretch(0.4, mirror, rng)
    made = deform(pair, matrix)
    r, t = pair.ref_from_src[:3, :3], pair.ref_from_src[:3, 3]
    np.testing.assert_allclose(
        made.source.points @ r.T + t, (pair.source.points @ r.T + t) @ matrix.T, atol=TIGHT
    )
    np.testing.assert_allclose(made.reference.points, pair.reference.points @ matrix.T, atol=TIGHT)
    np.testing.assert_array_equal(made.ref_from_src, pair.ref_from_src)
    assert made.symmetry is None
    assert made.axis is None


def test_normals_of_a_deformed_plane_stay_normal():
    rng = generator(0)
    plane = np.column_stack([rng.normal(size=(50, 2)), np.zeros(50)])
    piece = Geometry(plane, normals=np.tile([0.0, 0.0, 1.0], (50, 1)))
    matrix = random_stretch(0.5, mirror=True, rng=rng)
    made = deform(assembled(piece, piece, "plane"), matrix).source
    np.testing.assert_allclose((made.points - made.points[0]) * made.normals @ np.ones(3), 0, atol=TIGHT)
    np.testing.assert_allclose(np.linalg.norm(made.normals, axis=1), 1, atol=TIGHT)


@few
@given(SEEDS)
def test_random_stretch_has_the_factors_it_says(seed):
    values = np.linalg.eigvalsh(random_stretch(0.3, mirror=True, rng=generator(seed)))
    assert np.all((np.abs(values) >= np.exp(-0.3)) & (np.abs(values) <= np.exp(0.3)))
    assert (values < 0).sum() <= 1


def test_a_mirrored_mesh_still_faces_outwards():
    """By the divergence theorem its volume is positive; without turning the faces round it would not be."""
    mesh = box(1.0, 2.0, 3.0)
    made = deform(assembled(mesh, mesh, "box"), np.diag([-2.0, 1.0, 1.0])).reference
    a, b, c = made.points[made.faces].swapaxes(0, 1)
    assert np.einsum("fi,fi->", a, np.cross(b, c)) / 6 == pytest.approx(12.0)


def bend(warp, points):
    return warp(Geometry(points)).points


@few
@given(SEEDS)
def test_warped_pair_is_the_warped_whole(seed):
    rng = generator(seed)
    pair = move_randomly(pair_of(30, rng), rng)
    warp = random_warp(pair, 0.4, rng)
    made = apply_warp(pair, warp)
    r, t = pair.ref_from_src[:3, :3], pair.ref_from_src[:3, 3]
    placed = pair.source.points @ r.T + t
    np.testing.assert_allclose(made.source.points @ r.T + t, bend(warp, placed), atol=TIGHT)
    np.testing.assert_allclose(made.reference.points, bend(warp, pair.reference.points), atol=TIGHT)
    np.testing.assert_array_equal(made.ref_from_src, pair.ref_from_src)


@few
@given(SEEDS)
def test_no_warp_below_one_folds_over(seed):
    rng = generator(seed)
    pair = pair_of(30, rng)
    warp = random_warp(pair, 0.9, rng)
    points = pair.reference.points
    step = 1e-5 * rng.normal(size=points.shape)
    moved = bend(warp, points + step) - bend(warp, points)
    assert (np.einsum("ni,ni->n", moved, step) > 0).all()


def test_normals_of_a_warped_plane_stay_normal():
    rng = generator(0)
    flat = np.append(rng.normal(size=(50, 2)), np.zeros((50, 1)), axis=1)
    piece = Geometry(flat, normals=np.tile([0.0, 0, 1], (50, 1)))
    pair = move_randomly(assembled(piece, piece, "plane"), rng)
    warp = random_warp(pair, 0.5, rng)
    made = apply_warp(pair, warp)
    for side, before, g in (
        ("source", pair.source, pair.ref_from_src),
        ("reference", pair.reference, np.eye(4)),
    ):
        normals = getattr(made, side).normals
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
        tangent = 1e-6 * np.cross(before.normals, rng.normal(size=(50, 3)))
        placed = before.points @ g[:3, :3].T + g[:3, 3]
        along = bend(warp, placed + tangent @ g[:3, :3].T) - bend(warp, placed)
        across = np.einsum("ni,ni->n", along @ g[:3, :3], normals) / np.linalg.norm(along, axis=1)
        assert np.abs(across).max() < 1e-4
