"""Arrays, tensors and objects of other libraries are taken as what they are, and checked like files."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import trimesh
from numpy.testing import assert_allclose, assert_array_equal

from bitr.errors import InputError
from bitr.groups import Cloud
from bitr.io import Geometry, as_geometry
from tests.io.samples import bytes_of, cloud, mesh, table


def test_arrays_and_tensors():
    points, normals = cloud().points, cloud().normals
    for rows in (points, points.astype(np.float32), torch.from_numpy(points)):
        found = as_geometry(rows, "source")
        assert_array_equal(found.points, points)
        assert found.normals is None
        assert found.name == "source"
    both = table(points, normals)
    for rows in (both, torch.from_numpy(both).requires_grad_(), np.asfortranarray(both)):
        found = as_geometry(rows, "source")
        assert_array_equal(found.normals, normals)
    whole = np.arange(30).reshape(10, 3) % 7
    assert_array_equal(as_geometry(whole, "source").points, whole)


def test_the_array_of_the_user_is_neither_changed_nor_shared():
    points = cloud().points
    found = as_geometry(points, "source")
    points[:] = 0
    assert_array_equal(found.points, cloud().points)


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_paths(kind, tmp_path):
    np.save(tmp_path / "a.npy", cloud().points)
    found = as_geometry(kind(tmp_path / "a.npy"), "source")
    assert_array_equal(found.points, cloud().points)
    assert found.name == str(tmp_path / "a.npy")


def test_clouds_of_bitr_without_their_padding():
    points, normals = (torch.from_numpy(a)[None] for a in (cloud().points, cloud().normals))
    mask = torch.arange(40)[None] < 30
    found = as_geometry(Cloud(points, normals, mask=mask), "source")
    assert_array_equal(found.points, cloud().points[:30])
    assert_array_equal(found.normals, cloud().normals[:30])
    with pytest.raises(InputError, match="a batch of 2 clouds"):
        as_geometry(Cloud(points.expand(2, -1, -1)), "source")


def test_trimesh_objects():
    ball = mesh()
    bare = as_geometry(ball, "ball")
    assert_array_equal(bare.points, ball.vertices)
    assert_array_equal(bare.faces, ball.faces)
    assert bare.normals is None
    assert bare.colors is None
    colored = trimesh.Trimesh(
        ball.vertices,
        ball.faces,
        vertex_normals=ball.vertex_normals,
        vertex_colors=bytes_of(cloud(n=42).colors),
    )
    found = as_geometry(colored, "ball")
    assert_allclose(found.normals, ball.vertex_normals)
    assert_allclose(found.colors, cloud(n=42).colors)
    points = as_geometry(trimesh.PointCloud(cloud().points, colors=bytes_of(cloud().colors)), "points")
    assert points.faces is None
    assert_allclose(points.colors, cloud().colors)


def test_a_trimesh_scene_is_flattened_in_the_order_of_its_nodes():
    ball = mesh()
    ball.vertex_normals  # noqa: B018 (known from now on)
    scene, pose = trimesh.Scene(), trimesh.transformations.rotation_matrix(1.0, (1, 2, 3), (4, 5, 6))
    scene.add_geometry(ball, geom_name="ball", node_name="b")
    scene.add_geometry(ball, geom_name="ball", node_name="a", transform=pose @ np.diag([2, 2, 2, 1]))
    scene.add_geometry(trimesh.PointCloud(cloud().points))
    found = as_geometry(scene, "scene")
    places = [np.eye(4), pose @ np.diag([2, 2, 2, 1])]
    expected = [trimesh.transform_points(ball.vertices, place) for place in places]
    assert_allclose(found.points, np.concatenate(expected))
    assert found.normals is not None
    assert_allclose(found.normals[42:], ball.vertex_normals @ pose[:3, :3].T, atol=1e-12)
    assert found.warnings == ("40 loose points beside the meshes: ignored",)


def test_a_mirrored_part_keeps_its_outside():
    ball, mirror = mesh(), np.diag([-1.0, 1, 1, 1])
    outward = np.array(ball.vertex_normals)
    scene = trimesh.Scene()
    scene.add_geometry(ball, transform=mirror)
    found = as_geometry(scene, "scene")
    solid = trimesh.Trimesh(found.points, found.faces, process=False)
    assert solid.volume == pytest.approx(ball.volume)
    assert solid.volume > 0
    assert_allclose(found.normals, outward * (-1, 1, 1), atol=1e-12)


def test_open3d_objects_are_known_by_their_attributes():
    """Open3D's own classes have these attributes; it is not needed to use bitr, nor here."""
    points = SimpleNamespace(points=cloud().points.tolist(), normals=cloud().normals, colors=cloud().colors)
    found = as_geometry(points, "points")
    assert_array_equal(found.points, cloud().points)
    assert_array_equal(found.normals, cloud().normals)
    assert_array_equal(found.colors, cloud().colors)
    ball = mesh()
    surface = SimpleNamespace(
        vertices=ball.vertices, triangles=ball.faces.astype(np.int32), vertex_normals=[], vertex_colors=[]
    )
    for value in (surface, SimpleNamespace(to_legacy=lambda: surface)):
        found = as_geometry(value, "mesh")
        assert_array_equal(found.faces, ball.faces)
        assert found.normals is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "cannot use a NoneType"),
        (7, "cannot use a int"),
        ([[0, 0, 0]], "cannot use a list"),
        (np.zeros((5, 2)), "two dimensions only"),
        (np.zeros((5, 4)), r"shape \(5, 4\)"),
        (torch.zeros(2, 5, 3), r"shape \(2, 5, 3\)"),
        (np.zeros((5, 3), dtype=complex), "complex128"),
        (np.array([["a"] * 3] * 5), "expected real numbers"),
        (np.ones((5, 3)), "zero extent"),
        (np.full((5, 3), np.nan), "only 0 points"),
        (SimpleNamespace(points=[]), "without points"),
        (SimpleNamespace(points=[[1, 2]] * 5), r"shape \(5, 2\)"),
        (SimpleNamespace(points=np.eye(5, 3), normals=np.eye(4, 3)), "4 normals for 5 points"),
        (SimpleNamespace(vertices=np.eye(5, 3), triangles=[[0, 1, 5]]), "vertex 5"),
        (trimesh.Scene(), "without meshes or points"),
        (Geometry(np.eye(5, 3), faces=np.array([[0, 1, -1]])), "vertex -1"),
        (Geometry(np.eye(5, 3), faces=np.zeros((0, 3), dtype=np.int64)), "no face"),
        (Geometry(np.eye(5, 3), faces=np.array([[0, 1, 1]])), "no area"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(value, message):
    with pytest.raises(InputError, match=message) as caught:
        as_geometry(value, "the source")
    assert "\n" not in str(caught.value)
