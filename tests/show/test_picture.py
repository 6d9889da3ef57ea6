"""Pictures: points stay true to the files; before is on the left and after on the right, in named colours."""

import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from PIL import Image

from bitr.errors import InputError
from bitr.show.picture import write_png
from bitr.show.stage import MOST_SHOWN, Scene, set_stage
from tests.show.cases import colored, cut_scene, with_keypoints


@pytest.mark.parametrize("at", [0.0, 3e6])
def test_pieces_stand_where_the_files_and_the_pose_put_them(at):
    scene = cut_scene(at=at)
    stage = set_stage(scene)
    origin, tol = stage.reference.center, 1e-9 * (1 + at)
    np.testing.assert_allclose(stage.reference.points + origin, scene.reference, atol=tol)
    np.testing.assert_allclose(stage.source.points + stage.before + origin, scene.source, atol=tol)
    moved = scene.source @ scene.transformation[:3, :3].T + scene.transformation[:3, 3]
    np.testing.assert_allclose(stage.move(stage.source.points) + origin, moved, atol=tol)
    assert stage.notes == ()
    assert not stage.is_closer


def test_a_source_that_is_far_off_is_brought_closer_and_it_is_said():
    scene = cut_scene()
    far = replace(scene, source=scene.source + np.array([4e5, 0, 0]))
    stage = set_stage(far)
    assert stage.is_closer
    assert "apart" in stage.notes[0]
    assert np.linalg.norm(stage.before) <= stage.source.radius + stage.reference.radius + 1e-9
    moved = far.source @ far.transformation[:3, :3].T + far.transformation[:3, 3]
    np.testing.assert_allclose(stage.move(stage.source.points) + stage.reference.center, moved, atol=1e-6)


def test_the_view_is_a_rotation_with_the_source_on_the_left():
    for seed in range(5):
        stage = set_stage(cut_scene(seed=seed))
        np.testing.assert_allclose(stage.view @ stage.view.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(stage.view) > 0
        source, reference = stage.move(stage.source.points), stage.reference.points
        assert (source.mean(0) @ stage.view[0]) < (reference.mean(0) @ stage.view[0])


def test_a_large_cloud_is_thinned_evenly_and_it_is_said():
    n = 3 * MOST_SHOWN + 1
    line = np.linspace(0, 1, n)[:, None] * [1.0, 2.0, 3.0]
    stage = set_stage(Scene(line, line[:10], np.eye(4)))
    shown = stage.source.points[:, 0] + stage.source.center[0]
    assert len(shown) == MOST_SHOWN
    assert np.diff(shown).max() < 1.5 * np.diff(shown).mean()
    assert stage.notes == ("20,000 of the 60,001 points of the source are shown, evenly taken.",)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_few_points_or_all_at_one_place_are_shown_too(n):
    for points in (np.zeros((n, 3)), np.arange(3.0 * n).reshape(n, 3)):
        stage = set_stage(Scene(points, points + 1, np.eye(4)))
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
        assert set_stage(Scene(cloud, cloud, np.eye(4))).source.spacing == pytest.approx(1 / 40, rel=0.2)


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


def drawn(scene, path):
    write_png(path, scene, force=True)
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def panels(pixels):
    """The picture without title and legend, split where a column is white between the two panels."""
    pixels = pixels[80:-90]
    empty = np.flatnonzero((pixels == 255).all((0, 2)))
    middle = empty[np.abs(empty - yellow_starts(pixels)).argmin()]
    return pixels[:, :middle], pixels[:, middle:]


def yellow_starts(pixels):
    return np.flatnonzero(colored(pixels, "yellow").any(0))[0]


@pytest.mark.slow
def test_red_and_blue_before_yellow_and_blue_after(tmp_path):
    before, after = panels(drawn(cut_scene(), tmp_path / "a.png"))
    for panel, source, other in ((before, "red", "yellow"), (after, "yellow", "red")):
        for name in (source, "blue"):
            assert colored(panel, name).mean() > 0.05, name
        assert colored(panel, other).sum() == 0


def test_the_true_pose_closes_the_gap_and_a_wrong_one_does_not(tmp_path):
    scene = cut_scene()
    wrong = scene.transformation.copy()
    wrong[:3, 3] += 5.0
    for pose, apart in ((scene.transformation, False), (wrong, True)):
        _, after = panels(drawn(replace(scene, transformation=pose), tmp_path / "a.png"))
        columns = np.flatnonzero((after < 255).any((0, 2)))
        assert (np.diff(columns).max() > 1) == apart


def test_key_points_are_drawn_on_top_in_darker_shades(tmp_path):
    scene = cut_scene()
    plain = drawn(scene, tmp_path / "a.png")
    with_keys = drawn(replace(scene, **with_keypoints(scene)), tmp_path / "b.png")
    for color in ("#8c1b12", "#8a5f00", "#163f85"):
        rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        assert (plain == rgb).all(2).sum() < 20
        assert (with_keys == rgb).all(2).sum() > 200


def test_the_unit_of_the_files_does_not_matter(tmp_path):
    scene = cut_scene()
    pose = scene.transformation.copy()
    pose[:3, 3] *= 1024
    large = Scene(scene.source * 1024, scene.reference * 1024, pose)  # a power of two rounds nothing
    assert (drawn(scene, tmp_path / "a.png") == drawn(large, tmp_path / "b.png")).all()


def test_the_same_scene_gives_the_same_bytes(tmp_path):
    for name in "ab":
        write_png(tmp_path / f"{name}.png", cut_scene(), force=False)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_single_points_and_long_lines_make_a_picture_of_sensible_size(tmp_path):
    line = np.linspace(0, 1, 50)[:, None] * [1.0, 0.0, 0.0]
    for source in (np.zeros((1, 3)), line):
        height, width, _ = drawn(Scene(source, source, np.eye(4)), tmp_path / "a.png").shape
        assert 100 < height < 2000
        assert 100 < width < 2000


def test_state_shared_with_other_figures_is_left_alone(tmp_path):
    import matplotlib.pyplot as plt

    settings, figures = dict(matplotlib.rcParams), plt.get_fignums()
    write_png(tmp_path / "a.png", cut_scene(), force=False)
    assert dict(matplotlib.rcParams) == settings
    assert plt.get_fignums() == figures


def test_without_matplotlib_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r'pip install -e "\.\[viz\]"') as caught:
        write_png(tmp_path / "a.png", cut_scene(), force=False)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_refused_without_force(tmp_path):
    target = tmp_path / "a.png"
    target.write_bytes(b"mine")
    with pytest.raises(InputError, match="exists already"):
        write_png(target, cut_scene(), force=False)
    assert target.read_bytes() == b"mine"


def test_nothing_is_left_behind_after_an_error(tmp_path, monkeypatch):
    def fail(canvas, file):
        file.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("matplotlib.backends.backend_agg.FigureCanvasAgg.print_png", fail)
    with pytest.raises(OSError, match="disk full"):
        write_png(tmp_path / "a.png", cut_scene(), force=False)
    assert list(tmp_path.iterdir()) == []
