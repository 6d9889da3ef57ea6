"""How a scene is set up: the points stay true to the files, whatever is changed for the eye is said."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.errors import InputError
from bitr.pictures.scene import Scene
from bitr.pictures.stage import MOST_SHOWN, staged
from tests.pictures.scenes import cut_scene


@pytest.mark.parametrize("at", [0.0, 3e6])
def test_pieces_stand_where_the_files_and_the_pose_put_them(at):
    scene = cut_scene(at=at)
    stage = staged(scene)
    origin, tol = stage.reference.center, 1e-9 * (1 + at)
    np.testing.assert_allclose(stage.reference.points + origin, scene.reference, atol=tol)
    np.testing.assert_allclose(stage.source.points + stage.before + origin, scene.source, atol=tol)
    moved = scene.source @ scene.transformation[:3, :3].T + scene.transformation[:3, 3]
    np.testing.assert_allclose(stage.moved(stage.source.points) + origin, moved, atol=tol)
    assert stage.notes == ()
    assert not stage.closer


def test_a_source_that_is_far_off_is_brought_closer_and_it_is_said():
    scene = cut_scene()
    far = replace(scene, source=scene.source + np.array([4e5, 0, 0]))
    stage = staged(far)
    assert stage.closer
    assert "apart" in stage.notes[0]
    assert np.linalg.norm(stage.before) <= stage.source.radius + stage.reference.radius + 1e-9
    moved = far.source @ far.transformation[:3, :3].T + far.transformation[:3, 3]
    np.testing.assert_allclose(stage.moved(stage.source.points) + stage.reference.center, moved, atol=1e-6)


def test_the_view_is_a_rotation_with_the_source_on_the_left():
    for seed in range(5):
        stage = staged(cut_scene(seed=seed))
        np.testing.assert_allclose(stage.view @ stage.view.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(stage.view) > 0
        source, reference = stage.moved(stage.source.points), stage.reference.points
        assert (source.mean(0) @ stage.view[0]) < (reference.mean(0) @ stage.view[0])


def test_a_large_cloud_is_thinned_evenly_and_it_is_said():
    n = 3 * MOST_SHOWN + 1
    line = np.linspace(0, 1, n)[:, None] * [1.0, 2.0, 3.0]
    stage = staged(Scene(line, line[:10], np.eye(4)))
    shown = stage.source.points[:, 0] + stage.source.center[0]
    assert len(shown) == MOST_SHOWN
    assert np.diff(shown).max() < 1.5 * np.diff(shown).mean()
    assert stage.notes == ("20,000 of the 60,001 points of the source are shown, evenly taken.",)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_few_points_or_all_at_one_place_are_shown_too(n):
    for points in (np.zeros((n, 3)), np.arange(3.0 * n).reshape(n, 3)):
        stage = staged(Scene(points, points + 1, np.eye(4)))
        for value in (
            stage.view,
            stage.before,
            stage.source.points,
            stage.source.normals,
            stage.source.spacing,
        ):
            assert np.isfinite(value).all()


def test_spacing_does_not_depend_on_how_the_points_were_drawn():
    side = np.linspace(0, 1, 40)
    grid = np.stack([*np.meshgrid(side, side), np.zeros((40, 40))], axis=-1).reshape(-1, 3)
    random = np.random.default_rng(0).random((1600, 3)) * [1, 1, 0]
    for cloud in (grid, random):
        assert staged(Scene(cloud, cloud, np.eye(4))).source.spacing == pytest.approx(1 / 40, rel=0.2)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"source": np.zeros((0, 3))}, "source: 0 points"),
        ({"reference": np.array([[0.0, np.nan, 0.0]])}, "reference"),
        ({"source_keypoints": np.full((2, 3), np.inf)}, "source_keypoints"),
        ({"transformation": np.diag([1.0, 1.0, -1.0, 1.0])}, "transformation"),
        ({"transformation": np.diag([2.0, 2.0, 2.0, 1.0])}, "transformation"),
        ({"transformation": np.diag([1.0, 1.0, 1.0, 2.0])}, "transformation"),
        ({"transformation": np.full((4, 4), np.nan)}, "transformation"),
    ],
)
def test_what_cannot_be_shown_is_refused(change, named):
    with pytest.raises(InputError, match=named):
        replace(cut_scene(), **change)
