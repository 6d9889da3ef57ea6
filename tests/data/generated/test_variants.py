"""The options of ``shapes``: pairs of one kind, and meshes of the user's."""

import numpy as np
import pytest

from bitr.data import dataset
from bitr.data.generated import ShapesConfig, shapes
from bitr.data.registry import info
from bitr.errors import InputError
from bitr.io import Geometry, write
from tests.data.cases import shape
from tests.refine.contact.solids import box


@pytest.mark.parametrize(
    ("option", "kinds"), [("cut", {"cut"}), ("crop", {"crop"}), ("apart", {"cut", "fracture"})]
)
def test_an_option_leaves_the_kinds_that_it_names(root, option, kinds):
    pairs = dataset(f"shapes:{option}", "val", root)
    assert {pairs[i].id.rpartition("/")[2] for i in range(12)} == kinds
    assert info(f"shapes:{option}").name == f"shapes:{option}"


def test_an_unknown_option_is_refused_with_those_there_are():
    with pytest.raises(
        InputError, match="shapes:sliced: expected one of fracture, cut, crop, apart, outliers, noisy, meshes"
    ):
        info("shapes:sliced")


def test_noisy_crops_have_noise_of_one_per_cent_on_both_sides(root):
    noisy = dataset("shapes:noisy", "val", root)
    clean = shapes("val", root, config=ShapesConfig(mix=(0.0, 0.0, 1.0), noise=0.0))
    for i in range(3):
        assert noisy[i].id == clean[i].id
        for one, other in ((noisy[i].source, clean[i].source), (noisy[i].reference, clean[i].reference)):
            assert (one.points - other.points).std() == pytest.approx(0.01, rel=0.1)


@pytest.fixture
def meshes(tmp_path):
    (tmp_path / "shapes").mkdir()
    write(tmp_path / "shapes" / "brick.obj", box(1.0, 2.0, 3.0))
    write(tmp_path / "shapes" / "tile.obj", box(3.0, 3.0, 1.0))
    return tmp_path


def test_meshes_are_cut_and_cropped_in_turn(meshes):
    pairs = dataset("shapes:meshes", "test", meshes)
    assert len(pairs) == 24
    assert [pairs[i].id for i in (0, 1, 2, 3)] == ["brick/0/cut", "tile/0/cut", "brick/1/crop", "tile/1/crop"]
    for pair in (pairs[0], pairs[3]):
        whole = np.concatenate([pair.source.moved(pair.ref_from_src).points, pair.reference.points])
        assert len(whole) == 2000
        assert np.linalg.norm(whole - whole.mean(0), axis=1).max() < 1.5


def test_the_classic_meshes_give_108_pairs(real_data):
    assert len(dataset("shapes:meshes", "test", real_data)) == 108


def test_another_seed_samples_the_meshes_anew(meshes):
    one, other = (dataset("shapes:meshes", "test", meshes, seed)[2] for seed in (0, 1))
    assert one.id == other.id
    assert not np.allclose(one.source.points, other.source.points)


def test_without_meshes_it_is_said_where_to_put_them(tmp_path):
    with pytest.raises(InputError, match=r"put meshes .* into the folder shapes/"):
        dataset("shapes:meshes", "test", tmp_path)


def test_a_cloud_among_the_meshes_is_refused_by_name(meshes):
    write(meshes / "shapes" / "points.ply", Geometry(shape(50, np.random.default_rng(0)).points))
    with pytest.raises(InputError, match=r"points\.ply: is a cloud of points, expected a mesh"):
        dataset("shapes:meshes", "test", meshes)
