"""Broken solids: rims that meet and breaks that lie against each other, found without a model, lawfully."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bitr.assembly import mate
from bitr.assembly.align import Frame
from bitr.assembly.assemble import Settings, judge
from bitr.assembly.mate import (
    CLOSED,
    Sheets,
    _crease_motions,
    closed_normals,
    find_breaks,
    mate_motions,
    mates,
    settle_mates,
    shipped_mating,
)
from bitr.assembly.sample import sample
from bitr.assembly.surface import couple
from bitr.data.poses import inverse, pose
from bitr.evaluation.calibrate import auroc
from bitr.groups import Cloud, Rigid
from bitr.io import Geometry, as_points, farthest_points
from bitr.model import BITR, BITRConfig, Solution
from bitr.model.mating import Mating, match_scores
from tests.assembly.cases import LAWS, changed, changed_pose, linear_verifier, network, shift, turn_between
from tests.assembly.solids import box
from tests.pieces import motion, moved


def broken_block(seed=0, n=24):
    """Two closed meshes that meet along a rough sheet inside a block with slanted sides."""
    rng = np.random.default_rng(seed)
    u, v = np.meshgrid(np.linspace(-1, 1, n), np.linspace(-0.6, 0.6, n), indexing="ij")
    waves = rng.uniform(-5, 5, size=(5, 3))
    height = sum(0.12 * np.sin(a * u + b * v + c) / (1 + k) for k, (a, b, c) in enumerate(waves))

    def side(end, wide, deep):
        """The solid between the sheet and a narrower rectangle at z = end."""
        top, bottom = np.stack([u, v, height], 2), np.stack([wide * u, deep * v, np.full_like(u, end)], 2)
        points = np.concatenate([top.reshape(-1, 3), bottom.reshape(-1, 3)])
        index = np.arange(n * n).reshape(n, n)
        corners = index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]
        a, b, c, d = (each.ravel() for each in corners)
        sheet = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
        ring = np.concatenate([index[0, :-1], index[:-1, -1], index[-1, :0:-1], index[:0:-1, 0]])
        after, below = np.roll(ring, -1), n * n
        wall = np.concatenate(
            [np.stack([ring, after, ring + below], 1), np.stack([after, after + below, ring + below], 1)]
        )
        faces = np.concatenate([sheet, sheet[:, ::-1] + below, wall])
        return Geometry(points, faces=faces if end < 0 else faces[:, ::-1])

    return side(-0.9, 0.7, 0.9), side(0.5, 0.9, 0.7)


def pieces(seed=0, count=600):
    """Points and normals of both, each at a place of its own, and the motion that joins them."""
    g1, g2, found = motion(10 + seed), motion(20 + seed), []
    for mesh, g in zip(broken_block(seed), (g1, g2), strict=True):
        dense = as_points(mesh, 6000, seed)
        rows = farthest_points(dense.points, count)
        found.append((moved(dense.points[rows], g), dense.normals[rows] @ g[:3, :3].T))
    return *found, g2 @ inverse(g1)


def sheets(x, y):
    frame = Frame.of(x[0], y[0])
    both = (frame.source(x[0]), x[1]), (frame.reference(y[0]), y[1])
    broken, _ = find_breaks(*both, shipped_mating())
    found = Sheets.of(*both[0], broken[0]), Sheets.of(*both[1], broken[1])
    assert found[0] is not None
    assert found[1] is not None
    return *found, frame


@pytest.fixture(scope="module")
def broken():
    x, y, truth = pieces()
    a, b, frame = sheets(x, y)
    return a, b, frame.inside(truth)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_pieces_of_a_block_are_found_without_a_model(seed):
    x, y, truth = pieces(seed)
    a, b, frame = sheets(x, y)
    best = mate_motions(a, b, 5)[0]
    assert turn_between(best, frame.inside(truth)) < 2
    assert np.linalg.norm((best - frame.inside(truth))[:3, 3]) < 0.05


@pytest.mark.slow
def test_two_pieces_without_normals_are_found_as_well():
    x, y, truth = pieces(count=900)
    sampled = sample(Geometry(x[0]), Geometry(y[0]), network().model.config, 100, 1)
    assert sampled.sheets is not None
    best = sampled.frame.outside(mate_motions(*sampled.sheets, 5)[0])
    assert turn_between(best, truth) < 2
    assert np.linalg.norm((best - truth)[:3, 3]) < 0.05


def test_open_pieces_without_normals_are_no_sheets():
    x, y, _ = pieces(count=900)
    halves = [Geometry(points[points[:, 0] > np.median(points[:, 0])]) for points in (x[0], y[0])]
    assert sample(*halves, network().model.config, 100, 1).sheets is None


def test_pieces_open_at_two_ends_are_no_sheets_although_their_normals_cancel():
    """Tubes that were cut at both ends, with normals: the mean normal is 0, as that of a closed surface."""
    dense = as_points(box(), 9000, 0)
    found = []
    for height in (0.8, 0.6):
        tube = dense.rows(np.flatnonzero(np.abs(dense.points[:, 2]) < height / 2))
        tube = tube.rows(farthest_points(tube.points, 900))
        assert np.linalg.norm(tube.normals.mean(0)) < CLOSED
        found.append(tube)
    assert sample(*found, network().model.config, 100, 1).sheets is None


def test_the_creases_of_a_cube_are_its_edges():
    dense = as_points(box(), 6000, 0)
    rows = farthest_points(dense.points, 900)
    cube = Sheets.of(dense.points[rows], dense.normals[rows], np.full(900, 0.5))
    assert cube is not None
    found = cube.creases
    assert found is not None
    assert len(found.anchors) > 80
    away = np.abs(np.abs(found.feet) - 0.5)
    assert np.quantile(np.sort(away, axis=1)[:, 1], 0.9) < cube.spacing  # an edge is at the end of two axes
    assert np.abs(np.einsum("ni,ni->n", found.normals, found.beyond)).max() < 0.2


def test_at_a_joint_the_sheets_go_on_and_the_breaks_face_each_other(broken):
    x, y, truth = broken
    places, turn = moved(x.creases.points, truth), truth[:3, :3].T
    rows = y.creases.nearest(places)
    on = np.linalg.norm(places - y.creases.points[rows], axis=1) < 1.5 * y.spacing
    agree = np.einsum("ni,ni->n", x.creases.normals @ turn, y.creases.normals[rows])[on]
    oppose = -np.einsum("ni,ni->n", x.creases.beyond @ turn, y.creases.beyond[rows])[on]
    assert on.sum() > 10
    assert np.median(agree) > 0.8
    assert np.median(oppose) > 0.8


def test_a_swap_inverts_the_motions_of_creases(broken):
    x, y, _ = broken
    motions, beside = _crease_motions(x.creases, y.creases, x.spacing)
    others, others_beside = _crease_motions(y.creases, x.creases, x.spacing)
    assert len(motions) == len(others) > 1000
    for i in range(0, len(motions), len(motions) // 20):
        apart = np.abs(others - inverse(motions[i])).max((1, 2))
        assert apart.min() < 1e-9
        assert others_beside[apart.argmin()] == pytest.approx(beside[i], abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_the_motions_keep_the_laws(law):
    x, y, _ = pieces(count=500)
    a, b, frame = sheets(x, y)
    points = changed(law, x[0], y[0])
    turned = {"swapped": (y[1], x[1]), "scaled": (x[1], y[1])}.get(
        law, (x[1] @ motion(1)[:3, :3].T, y[1] @ motion(2)[:3, :3].T)
    )
    other_a, other_b, other = sheets((points[0], turned[0]), (points[1], turned[1]))
    plain, found = mate_motions(a, b, 4), mate_motions(other_a, other_b, 4)
    expected = [changed_pose(law, frame.outside(g)) for g in plain]
    np.testing.assert_allclose([other.outside(g) for g in found], expected, atol=1e-6)


def test_steps_lead_back_to_the_joint_and_a_swap_inverts_them(broken):
    x, y, truth = broken
    start = shift(0.03, -0.02, 0.04) @ truth
    ended = settle_mates(x, y, start[None])[0]
    assert np.linalg.norm((ended - truth)[:3, 3]) < 0.3 * np.linalg.norm((start - truth)[:3, 3])
    back = settle_mates(y, x, inverse(start)[None])[0]
    np.testing.assert_allclose(back, inverse(ended), atol=1e-9)


def test_numbers_tell_a_joint_from_pieces_that_are_apart_or_inside_each_other(broken):
    x, y, truth = broken
    into = shift(*(-0.5 * truth[:3, 3])) @ truth  # towards the other piece's middle
    away = shift(*(3 * truth[:3, 3])) @ truth
    found = mates(x, y, np.stack([truth, into, away]))
    assert found.score[0] > max(found.score[1:]) + 0.2
    assert found.rims[0] > 0.05 > found.rims[2] == 0
    assert found.contact_smaller[0] > 0.15
    assert found.uncovered[0] < 0.03
    assert found.depth[0] < 0.01 < found.depth[1]
    assert found.contact_larger[2] == found.depth[2] == 0


def test_numbers_are_those_of_a_loop_over_points(broken):
    x, y, truth = broken
    g = shift(0.02, 0.05, -0.03) @ truth
    spacing = np.sqrt((x.spacing**2 + y.spacing**2) / 2)
    contact, depth = [], []
    for a, b, h in ((x, y, g), (y, x, inverse(g))):
        on, deep = [], []
        for p, n in zip(moved(a.points, h), a.normals @ h[:3, :3].T, strict=True):
            away = np.linalg.norm(b.points - p, axis=1)
            q, m = b.points[away.argmin()], b.normals[away.argmin()]
            near = max(0.0, 1 - (away.min() / (2.5 * spacing)) ** 2) * np.clip(2 * (-n @ m) - 1, 0, 1)
            on.append(min(1.0, 3 * near) * (abs((p - q) @ m) < spacing))
            straight = -(p - q) @ m > 0.85 * away.min()
            deep.append(straight * np.clip(-(p - q) @ m / spacing - 1.5, 0, 2) / 2)
        contact.append(np.mean(on))
        depth.append(np.mean(deep))
    found = mates(x, y, g[None])
    assert found.contact_smaller[0] == pytest.approx(min(contact), abs=1e-12)
    assert found.contact_larger[0] == pytest.approx(max(contact), abs=1e-12)
    assert found.depth[0] == pytest.approx(np.mean(depth), abs=1e-12)


def test_a_contact_that_ends_within_a_sheet_is_uncovered():
    """Two equal cubes, face on face: shifted by half an edge, half of either face is bare."""
    dense = as_points(box(), 6000, 0)
    rows = farthest_points(dense.points, 900)
    cube = Sheets.of(dense.points[rows], dense.normals[rows], np.full(900, 0.5))
    assert cube is not None
    on, beside = mates(cube, cube, np.stack([shift(1.0), shift(1.0, 0.5)])).uncovered
    assert on < 0.005 < beside


def test_open_surfaces_are_told_and_normals_that_point_inwards_are_turned():
    (x, normals), _, _ = pieces()
    lower = x[:, 2] < np.median(x[:, 2])
    assert closed_normals(x[lower], normals[lower]) is None
    np.testing.assert_array_equal(closed_normals(x, normals), normals)
    np.testing.assert_array_equal(closed_normals(x, -normals), normals)


@pytest.mark.slow
def test_the_engine_mates_closed_meshes_and_says_so():
    first, second = broken_block(1)  # the break of 0 is nearly the same after a half turn
    g1, g2 = motion(1), motion(2)
    source, reference = first.moved(g1), second.moved(g2)
    verifier = linear_verifier(-4.0, mate_rims=8.0, mate_smaller=20.0, mate_depth=-20.0)
    found = judge(source, reference, network(verifier), Settings())
    assert found.candidates.methods[0] == "mate"
    assert turn_between(found.poses()[0], g2 @ inverse(g1)) < 2
    seams = judge(source, reference, network(verifier), Settings(method="seam"))
    assert "mate" not in seams.candidates.methods


@pytest.mark.slow
def test_a_given_pose_is_settled_as_a_mate():
    first, second = broken_block()
    near = pose(np.eye(3), np.array([0.03, 0.02, -0.04]))
    found = judge(first, second, network(), Settings(), init=near)
    rows = [
        i
        for i, (how, origin) in enumerate(
            zip(found.candidates.methods, found.candidates.origins, strict=True)
        )
        if (how, origin) == ("mate", "given")
    ]
    assert len(rows) == 1
    assert np.linalg.norm(found.poses()[rows[0]][:3, 3]) < 0.02


class Seer(BITR):
    """Stands in for a trained model: its descriptors say where in the assembled object a point lies."""

    def __init__(self, truth):
        super().__init__(BITRConfig(width=8, depth=1, normals=True, mating=True))
        self.truth = truth

    def solve(self, source, reference):
        """Shapes are waves of the place in the assembled object, so that near places have like shapes."""
        frequencies = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 16)) * 12)
        g = torch.from_numpy(self.truth)
        placed = source.points[0] @ g[:3, :3].T + g[:3, 3], reference.points[0]
        up = torch.tensor([0.3, 0.5, 0.8], dtype=torch.float64)
        found = []
        for points, turn in zip(placed, (g[:3, :3].T, torch.eye(3).double()), strict=True):
            angle = points @ frequencies
            shape = 6 * torch.cat([angle.sin(), angle.cos()], 1)
            along = (turn @ up).expand(len(points), 3)
            zero = torch.zeros_like(shape)
            found.append(
                Mating(zero[None, :, 0], shape[None], zero[None], along[None], torch.tensor(0.0).double())
            )
        pose = Rigid.from_matrix(torch.eye(4).double()[None])
        none = torch.zeros(1, 0, 3).double()
        return Solution(pose, none, none, torch.ones(1), source_mating=found[0], reference_mating=found[1])


def test_matches_of_a_network_that_knows_the_break_give_the_joint(broken):
    x, y, truth = broken
    found = find_breaks((x.points, x.normals), (y.points, y.normals), Seer(truth))[1]
    turns = np.array([turn_between(g, truth) for g in found.motions])
    assert np.median(turns) < 25  # single matches, by their own normals
    assert turns.min() < 3
    right = mates(x, y, truth[None], found)
    assert right.likely_mean[0] > 2
    assert right.likely[0] > 0.1
    assert mates(x, y, truth[None]).likely[0] == 0
    turned = (
        x.points.mean(0),
        np.diag([-1.0, -1.0, 1.0]),
    )  # half about the break's normal: it still fits, nearly
    wrong = truth.copy()
    wrong[:3, :3] = truth[:3, :3] @ turned[1]
    wrong[:3, 3] = truth[:3, :3] @ (turned[0] - turned[1] @ turned[0]) + truth[:3, 3]
    assert mates(x, y, wrong[None], found).likely_mean[0] < 1


def test_log_ratios_are_those_of_the_table(broken):
    """In plain loops: the chance of a partner beside that of one drawn at random, from either side."""
    x, y, truth = broken
    model = Seer(truth)
    found = find_breaks((x.points, x.normals), (y.points, y.normals), model)[1]
    clouds = [Cloud(*(torch.from_numpy(v[None]) for v in (side.points, side.normals))) for side in (x, y)]
    of_x, of_y = (lambda s: (s.source_mating, s.reference_mating))(model.solve(*clouds))
    scores = match_scores(of_x, of_y)[0].numpy()
    couples = couple(x, y, truth[None])
    ratios = found.log_ratio(couples)[0]
    for k in range(0, len(ratios), 97):
        i, j = couples.i[0, k], couples.j[0, k]
        forth = scores[i, j] - np.log(np.exp(scores[i] - scores[i].max()).mean()) - scores[i].max()
        back = scores[i, j] - np.log(np.exp(scores[:, j] - scores[:, j].max()).mean()) - scores[:, j].max()
        assert ratios[k] == pytest.approx((forth + back) / 2, abs=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_breaks_and_the_motions_of_matches_keep_the_laws(law):
    torch.manual_seed(0)
    config = BITRConfig(width=8, depth=1, num_neighbors=8, normals=True, mating=True, num_modes=1)
    model = BITR(config).double().requires_grad_(False)
    model.mating.network[-1].weight *= 8  # chances of untrained weights are all but equal
    x, y, _ = pieces(count=300)
    frame = Frame.of(x[0], y[0])
    points = changed(law, x[0], y[0])
    turned = {"swapped": (y[1], x[1]), "scaled": (x[1], y[1])}.get(
        law, (x[1] @ motion(1)[:3, :3].T, y[1] @ motion(2)[:3, :3].T)
    )
    other = Frame.of(*points)
    broken, plain = find_breaks((frame.source(x[0]), x[1]), (frame.reference(y[0]), y[1]), model)
    there, found = find_breaks(
        (other.source(points[0]), turned[0]), (other.reference(points[1]), turned[1]), model
    )
    expected = np.array([changed_pose(law, frame.outside(g)) for g in plain.motions])
    ended = other.outside(found.motions)
    apart = np.abs(ended[:, None] - expected).max((2, 3))
    assert max(apart.min(0).max(), apart.min(1).max()) < 1e-6
    there_likely = plain.likely[plain.rows_x][:, plain.rows_y]
    likely = found.likely[found.rows_x][:, found.rows_y]
    np.testing.assert_allclose(likely.T if law == "swapped" else likely, there_likely, atol=1e-9)
    for own, same in zip(there, reversed(broken) if law == "swapped" else broken, strict=True):
        np.testing.assert_allclose(own, same, atol=1e-9)


def test_a_rough_break_is_told_from_smooth_sides(broken):
    x, y, truth = broken
    there = moved(x.points, truth)
    apart = np.linalg.norm(there[:, None] - y.points, axis=2)
    opposed = np.einsum("ni,ni->n", x.normals @ truth[:3, :3].T, y.normals[apart.argmin(1)]) < -0.5
    on_break = (apart.min(1) < 2 * x.spacing) & opposed
    assert 0.1 < on_break.mean() < 0.6
    assert ((x.broken > 0) & (x.broken < 1)).all()
    assert auroc(x.broken, on_break) > 0.8


def test_many_points_take_the_chance_of_the_nearest_on_their_sheet(broken, monkeypatch):
    x, y, _ = broken
    both = (x.points, x.normals), (y.points, y.normals)
    monkeypatch.setattr(mate, "POINTS", 300)
    rows = farthest_points(x.points, 300)
    few = [(points[:], normals) for points, normals in both]
    found = find_breaks(*few, shipped_mating())[0][0]
    taken = np.abs(found[:, None] - found[rows]).argmin(1)
    near = np.linalg.norm(x.points[:, None] - x.points[rows], axis=2)
    assert near[np.arange(len(found)), taken].max() < 3 * np.sort(near, axis=1)[:, 1].max()
    across = np.einsum("ni,ni->n", x.normals, x.normals[rows[taken]]) < 0
    assert across.mean() < 0.02


@pytest.mark.slow
def test_learned_motions_are_judged_beside_those_of_the_rims(broken):
    x, y, truth = broken
    start = shift(0.02, 0.03, -0.02) @ truth
    seen = find_breaks((x.points, x.normals), (y.points, y.normals), Seer(truth))[1]
    best = mate_motions(x, y, 3, replace(seen, motions=start[None]))[0]
    assert turn_between(best, truth) < 2
