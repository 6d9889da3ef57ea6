"""Files of other programs and objects of other libraries are read as what they are."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from types import SimpleNamespace

import laspy
import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from pypcd4 import PointCloud

from bitr.errors import InputError
from bitr.groups import Cloud
from bitr.io import Geometry, as_geometry, read, write
from bitr.io.meshes import triangulate
from bitr.io.read import READERS
from tests.io.samples import SAMPLES, bytes_of, cloud, mesh, table

CLOUDS = [name for name in SAMPLES if "mesh" not in name and not name.endswith(".stl")]
MESHES = [name for name in SAMPLES if name not in CLOUDS]
OFFSETS = {"scan.las": (500000.0, 6000000.0, 100.0), "scan.laz": (500000.0, 6000000.0, 100.0)}


def sample(name: str, folder: Path) -> Geometry:
    SAMPLES[name](folder / name)
    return read(folder / name)


@pytest.mark.parametrize("name", CLOUDS)
def test_clouds_of_other_writers(name, tmp_path):
    found, expected = sample(name, tmp_path), cloud()
    assert found.faces is None
    assert found.warnings == ()
    assert found.name == str(tmp_path / name)
    las = name in OFFSETS
    assert_allclose(
        found.points - OFFSETS.get(name, (0, 0, 0)), expected.points, rtol=0, atol=6e-5 if las else 1e-8
    )
    if found.normals is not None:
        assert_allclose(found.normals, expected.normals, rtol=0, atol=1e-7)
    if found.colors is not None:
        assert_allclose(found.colors, expected.colors, rtol=0, atol=1e-8)


def test_every_sample_that_has_normals_or_colors_shows_them(tmp_path):
    found = {name: sample(name, tmp_path) for name in CLOUDS}
    with_normals = {name for name, geometry in found.items() if geometry.normals is not None}
    with_colors = {name for name, geometry in found.items() if geometry.colors is not None}
    plys, pcds = {"ascii.ply", "little.ply", "big.ply"}, {"ascii.pcd", "binary.pcd", "compressed.pcd"}
    assert with_normals == plys | pcds | {"normals.xyzn", "table.txt", "table.csv", "points.npz"}
    assert with_colors == plys | {"colors.xyzrgb", "scan.pts", "scan.las", "scan.laz"}


@pytest.mark.parametrize("name", MESHES)
def test_meshes_of_other_writers(name, tmp_path):
    found, expected = sample(name, tmp_path), mesh()
    assert found.faces is not None
    assert_allclose(found.points[found.faces], expected.triangles, rtol=0, atol=1e-7)
    assert len(found.points) == len(expected.vertices)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_content_decides_where_the_suffix_says_nothing(name, tmp_path):
    known = sample(name, tmp_path)
    if name.endswith((".bin", ".xyzrgb")):
        return  # nothing in the file says what it is
    path = tmp_path / name.replace(".", "-")
    path.write_bytes((tmp_path / name).read_bytes())
    found = read(path)
    assert_array_equal(found.points, known.points)
    assert (found.faces is None) == (known.faces is None)


def test_every_suffix_that_can_be_read_has_a_sample():
    assert {Path(name).suffix for name in SAMPLES} == set(READERS) - {".asc"}  # as .txt


def test_las_keeps_map_coordinates_to_the_last_digit(tmp_path):
    header = laspy.LasHeader(point_format=6, version="1.4")
    header.offsets, header.scales = np.array([4.2e6, 5.1e5, 0.0]), np.array([1e-3, 1e-3, 1e-2])
    file = laspy.LasData(header)
    whole = np.random.default_rng(0).integers(-(10**6), 10**6, (50, 3))
    file.X, file.Y, file.Z = whole.T
    file.write(str(tmp_path / "map.laz"))
    found = read(tmp_path / "map.laz")
    assert_array_equal(found.points, whole * header.scales + header.offsets)
    assert found.colors is None


def test_polygons_become_triangles(tmp_path):
    square = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\n"
    (tmp_path / "a.obj").write_text(square + "f 1/1/1 2/2/1 \\\n 3/3/1 4/4/1\nf -5 -4 -1\n")
    vertices = [row[2:] for row in square.splitlines()]
    (tmp_path / "b.off").write_text("\n".join(["OFF 5 2 0", *vertices, "4 0 1 2 3 255 0 0", "3 0 1 4"]))
    head = "ply\nformat {} 1.0\nelement face 2\nproperty uchar flag\nproperty list uchar int vertex_index\n"
    head += "property list uchar float texcoord\nelement vertex 5\n"
    head += "".join(f"property double {axis}\n" for axis in "xyz") + "end_header\n"
    rows = "7 4 0 1 2 3 0\n7 3 0 1 4 1 0.5\n" + "\n".join(vertices)
    (tmp_path / "c.ply").write_text(head.format("ascii") + rows)
    for name, order in (("d.ply", "<"), ("e.ply", ">")):
        kind = "binary_little_endian" if order == "<" else "binary_big_endian"
        body = struct.pack(order + "BB4iB", 7, 4, 0, 1, 2, 3, 0) + struct.pack(
            order + "BB3iBf", 7, 3, 0, 1, 4, 1, 0.5
        )
        body += np.loadtxt(io.StringIO("\n".join(vertices))).astype(order + "f8").tobytes()
        (tmp_path / name).write_bytes(head.format(kind).encode() + body)
    for path in sorted(tmp_path.iterdir()):
        found = read(path)
        assert found.points.shape == (5, 3), path
        assert_array_equal(found.faces, [[0, 1, 2], [0, 2, 3], [0, 1, 4]], err_msg=str(path))


@given(lengths=st.lists(st.integers(0, 7), max_size=12))
@settings(deadline=None)
def test_polygons_become_fans_in_their_order(lengths):
    polygons = [np.arange(n) + 100 * i for i, n in enumerate(lengths)]
    expected = [(p[0], p[k], p[k + 1]) for p in polygons for k in range(1, len(p) - 1)]
    corners = np.array([c for p in polygons for c in p], dtype=np.int64)
    found = triangulate(corners, np.array(lengths, dtype=np.int64))
    assert_array_equal(found, np.array(expected, dtype=np.int64).reshape(-1, 3))


def test_obj_normals_are_kept_where_each_vertex_has_one(tmp_path):
    vertices = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvn 0 0 1\nvn 0 1 0\n"
    (tmp_path / "one.obj").write_text(vertices + "f 1//1 2//1 3//2\nf 1//1 3//2 4//1\n")
    (tmp_path / "two.obj").write_text(vertices + "f 1//1 2//1 3//2\nf 1//2 3//2 4//1\n")
    assert_array_equal(read(tmp_path / "one.obj").normals, [[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1]])
    assert read(tmp_path / "two.obj").normals is None


def test_vertices_alone_are_a_cloud(tmp_path):
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n")
    (tmp_path / "b.off").write_text(
        "COFF\n4 0 0\n0 0 0 255 0 0 255\n1 0 0 0 0 0 255\n0 1 0 0 0 0 255\n0 0 1 0 0 0 9"
    )
    head = "ply\nformat ascii 1.0\nelement vertex 4\n" + "".join(f"property float {axis}\n" for axis in "xyz")
    faces = "element face 0\nproperty list uchar int vertex_indices\n"
    (tmp_path / "c.ply").write_text(head + faces + "end_header\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n")
    for path in sorted(tmp_path.iterdir()):
        found = read(path)
        assert found.faces is None
        assert_array_equal(found.points, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert_array_equal(read(tmp_path / "b.off").colors, [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("field", ["F", "U"])
def test_pcd_colors_are_unpacked(field, tmp_path):
    bits = np.array([0xFF0000, 0x00FF00, 0x0000FF, 0x336699], "<u4")
    header = "VERSION .7\nFIELDS x y z _ rgb\nSIZE 4 4 4 1 4\n"
    header += f"TYPE F F F U {field}\nCOUNT 1 1 1 4 1\nWIDTH 2\nHEIGHT 2\nPOINTS 4\nDATA binary\n"
    rows = [struct.pack("<3f4xI", i, i * i, -i, value) for i, value in enumerate(bits.tolist())]
    (tmp_path / "colors.pcd").write_bytes(header.encode() + b"".join(rows))
    found = read(tmp_path / "colors.pcd")
    assert_allclose(found.colors, np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [51, 102, 153]]) / 255)
    assert_array_equal(found.points[:, 1], [0, 1, 4, 9])


def test_a_scene_is_flattened_with_the_motions_of_its_nodes(tmp_path):
    ball, rng = mesh(), np.random.default_rng(0)
    scene = trimesh.Scene()
    poses = [trimesh.transformations.random_rotation_matrix(rng.random(3)) for _ in range(3)]
    poses[1][:3, 3], poses[2][:3, :3] = (1, 2, 3), 2 * poses[2][:3, :3]
    scene.add_geometry(ball, node_name="a", transform=poses[0])
    scene.add_geometry(ball, node_name="b", parent_node_name="a", transform=poses[1])
    scene.add_geometry(ball, node_name="c", parent_node_name="b", transform=poses[2])
    (tmp_path / "scene.glb").write_bytes(scene.export(file_type="glb"))
    found = read(tmp_path / "scene.glb")
    places = [poses[0], poses[0] @ poses[1], poses[0] @ poses[1] @ poses[2]]
    expected = np.concatenate([trimesh.transform_points(ball.vertices, place) for place in places])
    assert_allclose(found.points, expected, rtol=0, atol=1e-5)
    assert found.faces is not None
    assert_allclose(found.faces, np.concatenate([ball.faces + 42 * i for i in range(3)]))


def test_gltf_strips_fans_points_and_normalised_colors(tmp_path):
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]], "<f4")
    data = corners.tobytes() + np.array([[255, 0, 0, 255]] * 4, "u1").tobytes()
    tree = {
        "asset": {"version": "2.0"},
        "nodes": [{"mesh": 0, "rotation": [0, 0, 1, 0], "scale": [2, 2, 2], "translation": [0, 0, 5]}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "COLOR_0": 1}}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5121, "count": 4, "type": "VEC4", "normalized": True},
        ],
        "bufferViews": [{"buffer": 0, "byteLength": 48}, {"buffer": 0, "byteOffset": 48, "byteLength": 16}],
        "buffers": [{"uri": "a%20b.dat", "byteLength": len(data)}],
    }
    (tmp_path / "a b.dat").write_bytes(data)
    expected = {0: None, 5: [[0, 1, 2], [2, 1, 3]], 6: [[0, 1, 2], [0, 2, 3]]}
    for mode, faces in expected.items():
        tree["meshes"][0]["primitives"][0]["mode"] = mode
        (tmp_path / "a.gltf").write_text(json.dumps(tree))
        found = read(tmp_path / "a.gltf")
        # half a turn about z, then twice as large, then up
        assert_allclose(found.points, corners * (-2, -2, 2) + (0, 0, 5), atol=1e-6)
        assert_array_equal(found.colors, np.array([[1.0, 0, 0]] * 4))
        assert (found.faces is None) if faces is None else (found.faces == faces).all()


def test_gltf_sparse_accessors(tmp_path):
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]], "<f4")
    changed = np.array([[5, 5, 5], [7, 7, 7]], "<f4")
    data = corners.tobytes() + changed.tobytes() + np.array([1, 3], "<u2").tobytes()
    sparse = {"count": 2, "indices": {"bufferView": 2, "componentType": 5123}, "values": {"bufferView": 1}}
    accessor = {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3", "sparse": sparse}
    views = [(0, 48), (48, 24), (72, 4)]
    tree = {
        "asset": {"version": "2.0"},
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "mode": 0}]}],
        "bufferViews": [{"buffer": 0, "byteOffset": at, "byteLength": size} for at, size in views],
        "buffers": [{"uri": "a.dat", "byteLength": len(data)}],
    }
    (tmp_path / "a.dat").write_bytes(data)
    on_zeros = {key: value for key, value in accessor.items() if key != "bufferView"}
    for spec, base in ((accessor, corners), (on_zeros, np.zeros((4, 3)))):
        (tmp_path / "a.gltf").write_text(json.dumps({**tree, "accessors": [spec]}))
        expected = np.array(base)
        expected[[1, 3]] = changed
        assert_array_equal(read(tmp_path / "a.gltf").points, expected)


def test_gltf_never_reads_outside_its_folder(tmp_path):
    (tmp_path / "secret.dat").write_bytes(bytes(100))
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link.dat").symlink_to(tmp_path / "secret.dat")
    for uri in ("../secret.dat", "link.dat", str(tmp_path / "secret.dat"), "%2e%2e/secret.dat"):
        tree = {"asset": {}, "buffers": [{"uri": uri, "byteLength": 10}]}
        (inner / "a.gltf").write_text(json.dumps(tree))
        with pytest.raises(InputError, match="outside the file's folder"):
            read(inner / "a.gltf")


def test_other_programs_read_what_we_write(tmp_path):
    ball = mesh()
    ours = Geometry(np.array(ball.vertices), None, cloud(n=42).colors, np.array(ball.faces))
    for suffix in (".ply", ".obj", ".glb"):
        write(tmp_path / f"ours{suffix}", ours)
        theirs = trimesh.load_mesh(tmp_path / f"ours{suffix}", process=False)
        assert_allclose(theirs.triangles, ball.triangles, rtol=0, atol=1e-6)
        assert_allclose(theirs.visual.vertex_colors[:, :3] / 255, ours.colors, rtol=0, atol=1 / 254)
    write(tmp_path / "ours.pcd", cloud())
    theirs = PointCloud.from_path(tmp_path / "ours.pcd")
    assert_array_equal(theirs.numpy(("x", "y", "z")), cloud().points)
    write(tmp_path / "ours.xyz", Geometry(cloud().points))
    assert_array_equal(np.loadtxt(tmp_path / "ours.xyz"), cloud().points)


def test_real_files(real_data):
    mesh_file, cloud_file = real_data / "bunny/bun_zipper_res3.ply", real_data / "bunny/bun0.pcd"
    if not (mesh_file.exists() and cloud_file.exists()):
        pytest.skip("the bunny is not among the real data")
    found, theirs = read(mesh_file), trimesh.load_mesh(mesh_file, process=False)
    assert_allclose(found.points, theirs.vertices, rtol=0, atol=1e-7)
    assert_array_equal(found.faces, theirs.faces)
    scan = read(cloud_file)
    assert_allclose(scan.points, PointCloud.from_path(cloud_file).numpy(("x", "y", "z")), atol=1e-7)
    assert scan.normals is not None
    assert read(real_data / "bunny/bunny-x.txt").points.shape == (8171, 3)


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
        ({"points": 3}, "cannot use a dict"),
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


class Frame:
    """As much of a pandas frame as is used; pandas itself need not be there."""

    def __init__(self, **columns):
        self.values, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return self.values[name]

    def to_numpy(self):
        raise AssertionError("columns are taken by their names")


def test_lists_are_taken_as_arrays():
    expected = cloud(n=20)
    found = as_geometry(expected.points.tolist(), "points")
    np.testing.assert_array_equal(found.points, expected.points)
    rows = tuple(map(tuple, np.concatenate([expected.points, expected.normals], axis=1)))
    np.testing.assert_array_equal(as_geometry(rows, "points").normals, expected.normals)
    np.testing.assert_array_equal(
        as_geometry([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "p").points[3], (0, 0, 1)
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([[1, 2, 3], [4, 5]], "points: a list of 2 that is no table, expected a path"),
        ([], r"points: an array of shape \(0,\), expected \(n, 3\)"),
        (["a.ply", "b.ply"], r"points: an array of shape \(2,\)"),
        ([["1", "2", "3"]] * 4, "points: an array of <U1, expected real numbers"),
        (Frame(x=[1.0] * 4, y=[2.0] * 4), "points: two dimensions only: found x, y; expected x, y and z"),
        (Frame(x=[1.0] * 4, y=[2.0] * 4, height=[3.0] * 4), "only: found x, y, height; expected x, y and z"),
        (Frame(a=[1.0] * 4, b=[2.0] * 4, c=["c"] * 4), "points: found a, b, c; expected x, y and z"),
        (Frame(a=[1.0] * 4, b=[2.0] * 4), "points: found a, b; expected x, y and z"),
        (Frame(red=[1.0] * 4, green=[2.0] * 4, blue=[3.0] * 4), "points: found red, green, blue; expected x"),
        (
            Frame(x=["a"] * 4, y=[2.0] * 4, z=[3.0] * 4),
            "points: the column x holds <U1, expected real numbers",
        ),
    ],
)
def test_lists_and_frames_that_are_no_points_are_one_line(value, says):
    with pytest.raises(InputError, match=says):
        as_geometry(value, "points")


def test_frames_go_by_the_names_of_their_columns():
    expected = cloud(n=20)
    (x, y, z), (nx, ny, nz) = expected.points.T, expected.normals.T
    found = as_geometry(Frame(label=["a"] * 20, z=z, y=y, x=x, nx=nx, ny=ny, nz=nz), "points")
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.normals, expected.normals)
    assert as_geometry(Frame(X=x, Y=y, Z=z), "points").normals is None


def test_a_frame_without_known_names_is_taken_as_an_array():
    expected = cloud(n=20)
    columns = dict(zip("abcdef", (*expected.points.T, *expected.normals.T), strict=True))
    found = as_geometry(Frame(**columns), "points")
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.normals, expected.normals)
    for name in "def":
        del columns[name]
    assert as_geometry(Frame(**columns), "points").normals is None


def test_a_frame_of_pandas_is_taken():
    pandas = pytest.importorskip("pandas")
    expected = cloud(n=20)
    found = as_geometry(pandas.DataFrame(expected.points), "points")  # columns 0, 1 and 2
    np.testing.assert_array_equal(found.points, expected.points)
    found = as_geometry(pandas.DataFrame(expected.points, columns=["x", "y", "z"]), "points")
    np.testing.assert_array_equal(found.points, expected.points)
