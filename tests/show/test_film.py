"""The film: the source travels from beside the reference to its place, and red turns into yellow."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from bitr.errors import InputError
from bitr.show import picture
from bitr.show.picture import (
    FILM_SIZE,
    REST,
    STAY,
    TRAVEL,
    Layer,
    _progress,
    _shoot,
    draw_frames,
    draw_thumbnail,
    paint,
    write_animation,
)
from bitr.show.stage import Scene, set_stage
from tests.show.cases import colored, cut_scene

COUNT = REST + TRAVEL + STAY


def pictures(path):
    with Image.open(path) as image:
        for frame in range(image.n_frames):
            image.seek(frame)
            yield np.asarray(image.convert("RGB")).astype(int)


@pytest.fixture(scope="session")
def gif(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "a.gif"
    write_animation(path, cut_scene(), force=False)
    return path


def test_the_gif_has_so_many_frames_of_even_sides_and_loops(gif):
    with Image.open(gif) as image:
        assert image.n_frames == COUNT
        assert image.info["loop"] == 0
        assert image.info["duration"] == picture.MILLISECONDS
        width, height = image.size
    assert (width % 2, height % 2) == (0, 0)
    assert max(width / FILM_SIZE[0], height / FILM_SIZE[1]) == pytest.approx(1, abs=0.01)
    assert gif.stat().st_size < 3_000_000


def test_red_and_blue_at_first_yellow_and_blue_at_last(gif):
    first, *_, last = pictures(gif)
    for pixels, source, other in ((first, "red", "yellow"), (last, "yellow", "red")):
        for name in (source, "blue"):
            assert colored(pixels, name).mean() > 0.03, name
        assert colored(pixels, other).sum() == 0


def test_apart_at_first_and_joined_at_last(gif):
    first, *_, last = pictures(gif)
    for pixels, apart in ((first, True), (last, False)):
        columns = np.flatnonzero((pixels < 250).any((0, 2)))
        assert (np.diff(columns).max() > 3) == apart


def test_the_source_ends_where_the_pose_puts_it():
    stage = set_stage(cut_scene())
    source, reference = _shoot(stage, 1.0, 0.0)
    np.testing.assert_allclose(source.points, stage.move(stage.source.points) @ stage.view.T, atol=1e-12)
    np.testing.assert_allclose(reference.points, stage.reference.points @ stage.view.T, atol=1e-12)
    source, _ = _shoot(stage, 0.0, 0.0)
    shift = source.points - stage.source.points @ stage.view.T  # turned as its file has it
    np.testing.assert_allclose(shift, shift[:1].repeat(len(shift), 0), atol=1e-12)


def test_the_way_is_slow_at_both_ends_alike():
    steps = np.diff([_progress(frame) for frame in range(COUNT)])
    assert steps.sum() == pytest.approx(1)
    assert (steps >= 0).all()
    on_the_way = steps[REST : REST + TRAVEL]
    np.testing.assert_allclose(on_the_way, on_the_way[::-1], atol=1e-12)
    assert 0 < on_the_way[0] < 0.1 * on_the_way.max()


@pytest.mark.slow
def test_a_large_cloud_makes_a_small_file(tmp_path):
    points = np.random.default_rng(0).standard_normal((50_000, 3))
    write_animation(tmp_path / "a.gif", Scene(points, points + 1, np.eye(4)), force=False)
    assert (tmp_path / "a.gif").stat().st_size < 3_000_000


def test_the_unit_of_the_files_and_their_places_do_not_matter():
    scene = cut_scene()
    pose = scene.transformation.copy()
    pose[:3, 3] *= 1024
    large = Scene(scene.source * 1024, scene.reference * 1024, pose)  # a power of two rounds nothing
    assert (next(draw_frames(scene)) == next(draw_frames(large))).all()
    shift = np.eye(4)
    shift[:3, 3] = [512.0, 0.0, 0.0]
    away = replace(
        scene, source=scene.source + shift[:3, 3], transformation=scene.transformation @ inverse(shift)
    )
    first, other = next(draw_frames(scene)).astype(int), next(draw_frames(away)).astype(int)
    assert (np.abs(first - other).max(2) > 8).mean() < 1e-3  # but for the rounding at the rims of dots


def inverse(shift):
    back = shift.copy()
    back[:3, 3] *= -1
    return back


@pytest.mark.parametrize("points", [np.zeros((1, 3)), np.linspace(0, 1, 50)[:, None] * [1.0, 0.0, 0.0]])
def test_single_points_and_lines_make_a_film_too(points):
    height, width, _ = next(draw_frames(Scene(points, points, np.eye(4)))).shape
    assert 2 <= height <= FILM_SIZE[1] + 1
    assert 2 <= width <= FILM_SIZE[0] + 1


def test_the_nearest_dot_is_seen_in_whatever_order():
    def layer(depth, color):
        points = np.array([[0.0, 0.0, depth], [1.0, 1.0, depth]])
        return Layer(points, np.zeros((2, 3)), np.zeros((0, 3)), 0.3, color, "")

    red, blue = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    low, high = np.full(2, -0.5), np.full(2, 1.5)
    one = paint([layer(1.0, red), layer(0.0, blue)], low, high, (40, 40))
    other = paint([layer(0.0, blue), layer(1.0, red)], low, high, (40, 40))
    assert (one == other).all()
    assert one[29, 10].tolist() == [255, 0, 0]
    assert one[10, 10].tolist() == [255, 255, 255]
    assert one.shape == (40, 40, 3)


def test_an_existing_file_is_refused_without_force_and_none_is_partial(tmp_path, monkeypatch):
    target = tmp_path / "a.gif"
    target.write_bytes(b"mine")
    with pytest.raises(InputError, match="exists already"):
        write_animation(target, cut_scene(), force=False)

    def fail(path, frames):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("bitr.show.picture._write_gif", fail)
    with pytest.raises(OSError, match="disk full"):
        write_animation(target, cut_scene(), force=True)
    assert target.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [target]


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"a.mp4: .*expected .gif"):
        write_animation(tmp_path / "a.mp4", cut_scene(), force=False)


def test_without_pillow_one_line_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(picture, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'pip install -e "\.\[viz\]"') as caught:
        write_animation(tmp_path / "a.gif", cut_scene(), force=False)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [np.zeros((5, 3)), np.eye(3), np.array([[0.0, 0, 0], [1e6, 0, 0]])])
def test_a_thumbnail_of_a_degenerate_pair_is_still_a_picture(shape):
    assert draw_thumbnail(Scene(shape, shape, np.eye(4))).shape == (240, 320, 3)
