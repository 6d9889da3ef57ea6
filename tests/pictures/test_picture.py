"""The picture: before on the left, after on the right, in the colours that the legend names."""

import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from PIL import Image

from bitr.errors import InputError
from bitr.pictures.picture import write_png
from bitr.pictures.scene import Scene
from tests.pictures.scenes import colored, cut_scene, with_keypoints


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
    with pytest.raises(InputError, match=r'pip install "bitr\[viz\]"') as caught:
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
