"""From pairs to batches: points drawn, features made, sizes brought together."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bitr.data import piece
from bitr.data.transforms import both, move
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.model import BITR
from bitr.training.stream import collate, sample
from tests.data.cases import answer_error, pair_of
from tests.training.cases import MODEL, pair

NORMALS, COLORS = replace(MODEL, normals=True), replace(MODEL, colors=True)


def generator(seed=0):
    return np.random.default_rng(seed)


def bare(made):
    """The pair without normals."""
    return both(made, lambda side: replace(side, normals=None))


def mesh():
    """A box of 1 by 2 by 3, moved away."""
    corners = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 2) for z in (0.0, 3)])
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])
    return Geometry(corners + 10, faces=faces.astype(np.int64), name="box")


def size(made):
    return np.sqrt(np.mean([g.points.var(0).sum() for g in (made.source, made.reference)]))


def test_a_padded_batch_gives_each_pair_the_pose_it_has_alone():
    torch.manual_seed(0)
    model = BITR(MODEL).double().eval()
    pairs = [pair(0), pair(4), pair(1)]
    batch = collate(pairs)
    assert {len(p.source.points) for p in pairs} == {10, 11}
    assert batch.source.points.shape == (3, 11, 3)
    assert batch.source.mask.sum(1).tolist() == [len(p.source.points) for p in pairs]
    assert batch.ids == ("pair-0", "pair-4", "pair-1")
    with torch.no_grad():
        together = model(batch.source, batch.reference)
        for i, made in enumerate(pairs):
            single = collate([made])
            assert single.source.mask is None
            alone = model(single.source, single.reference)
            torch.testing.assert_close(together.matrix()[i], alone.matrix()[0], rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(batch.truth.matrix()[i].numpy(), made.ref_from_src)


def test_neighbours_that_were_searched_before_give_the_same_pose():
    torch.manual_seed(0)
    model = BITR(MODEL).double().eval()
    pairs = [pair(0), pair(4)]
    plain, searched = collate(pairs), collate(pairs, MODEL.num_neighbors)
    assert plain.source.neighbors is None
    assert searched.source.neighbors.shape == (2, 11, 4)
    with torch.no_grad():
        poses = [model(batch.source, batch.reference).matrix() for batch in (plain, searched)]
    torch.testing.assert_close(poses[1], poses[0], rtol=1e-9, atol=1e-9)


def test_no_more_than_the_wanted_points_are_seen_and_the_answer_stays():
    seen = sample(pair_of(50, generator()), 32, 0.0, COLORS, generator())
    assert seen.source.points.shape == seen.reference.points.shape == (32, 3)
    assert answer_error(seen) < 1e-9
    whole = sample(pair_of(20, generator()), 32, 0.0, COLORS, generator())
    assert whole.source.points.shape == (20, 3)


def test_points_are_drawn_anew_by_each_generator_and_alike_by_the_same():
    made = pair_of(50, generator())
    first, again, other = (sample(made, 32, 0.1, MODEL, generator(s)).source.points for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_meshes_are_sampled_by_area():
    box = mesh()
    made = replace(pair(0), source=box, reference=pair(0).reference)
    seen = sample(made, 4000, 0.0, NORMALS, generator()).source
    assert seen.points.shape == (4000, 3)
    inside = seen.points - 10
    on_a_face = np.isclose(inside, 0) | np.isclose(inside, [1, 2, 3])
    assert on_a_face.any(1).all()
    assert np.isclose(inside[:, 0], 0).mean() == pytest.approx(6 / 22, abs=0.03)


def test_normals_come_only_where_the_model_wants_them():
    made = pair_of(40, generator())
    assert sample(made, 32, 0.0, MODEL, generator()).source.normals is None
    assert sample(made, 32, 0.0, MODEL, generator()).source.colors is None
    seen = sample(made, 32, 0.0, NORMALS, generator())
    kept = {tuple(row) for row in made.source.normals}
    assert all(tuple(row) in kept for row in seen.source.normals)  # those of the file
    guessed = sample(bare(made), 32, 0.0, NORMALS, generator())
    np.testing.assert_allclose(np.linalg.norm(guessed.source.normals, axis=1), 1)
    batch = collate([seen, guessed])
    assert batch.source.normals.shape == (2, 32, 3)
    assert batch.reference.normals.shape == (2, 32, 3)


def test_estimated_normals_look_at_all_the_points_there_are(monkeypatch):
    seen = []
    real = piece.estimate_normals
    monkeypatch.setattr(
        piece, "estimate_normals", lambda at, of: seen.append((len(at), len(of))) or real(at, of)
    )
    sample(bare(pair_of(400, generator())), 32, 0.0, NORMALS, generator())
    assert seen == [(32, 400)] * 2


def test_a_model_for_colours_says_which_file_has_none():
    with pytest.raises(InputError, match="points: has no colours"):
        sample(pair(0), 32, 0.0, COLORS, generator())
    batch = collate([sample(pair_of(40, generator()), 32, 0.0, COLORS, generator())])
    assert batch.source.colors.shape == (1, 32, 3)
    assert batch.source.normals is None


@pytest.mark.parametrize("factor", [1.0, 1e4])
def test_noise_is_in_units_of_the_pairs_size(factor):
    made = both(pair_of(4000, generator()), lambda g: replace(g, points=g.points * factor))
    still = sample(made, 5000, 0.0, MODEL, generator())
    noisy = sample(made, 5000, 0.1, MODEL, generator())
    for side in ("source", "reference"):
        noise = getattr(noisy, side).points - getattr(still, side).points
        assert noise.std() == pytest.approx(0.1 * size(made), rel=0.05)


def test_noise_does_not_depend_on_where_the_pair_lies():
    made = pair_of(40, generator())
    far = np.eye(4)
    far[:3, 3] = 1000
    near, away = (sample(p, 32, 0.1, MODEL, generator()) for p in (made, move(made, far, np.eye(4))))
    np.testing.assert_allclose(away.source.points - 1000, near.source.points, atol=1e-9)


def test_a_batch_goes_to_another_device_whole():
    batch = collate([pair(0), pair(4)], 4)
    there = batch.to(torch.device("meta"))
    assert len(there) == 2
    assert there.ids == batch.ids
    source, truth = there.source, there.truth
    parts = (source.points, source.mask, source.neighbors, there.reference.points, truth.rotation)
    assert {part.device.type for part in parts} == {"meta"}
