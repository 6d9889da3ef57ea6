"""The three laws, end to end: from files that were moved, swapped and scaled to the JSON of the answer."""

import json

import numpy as np
import pytest
import trimesh

from bitr.cli import main
from bitr.io import Geometry, read, write
from tests.pieces import assert_same_pose, bumpy_mesh, motion, moved, scaled, two_pieces

FACTOR = 1000.0


def float32_ply(path, points):
    rows = points.astype("<f4")
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(rows)}\n"
    header += "property float x\nproperty float y\nproperty float z\nend_header\n"
    path.write_bytes(header.encode() + rows.tobytes())


def any_format(path, points):
    write(path, Geometry(points))


@pytest.fixture
def pose_of(weights, capsys):
    def run(source, reference):
        status = main(
            ["assemble", str(source), str(reference), "--model", str(weights), "--json", "--points", "300"]
        )
        out, err = capsys.readouterr()
        assert (status, err) == (0, "")
        return np.array(json.loads(out)["transformation"])

    return run


def check_all_laws(pose_of, tmp_path, suffix, save, x, y, move, away=2.0, **tolerance):
    """Saves the pair, as it is and moved in another unit; compares the answers, also of the swapped pair."""
    g1, g2 = motion(1, away), motion(2, away)
    paths = [tmp_path / f"{name}{suffix}" for name in ("x", "y", "x-changed", "y-changed")]
    for path, piece in zip(paths, (x, y, move(x, g1, FACTOR), move(y, g2, FACTOR)), strict=True):
        save(path, piece)
    source, reference, *changed = paths
    g = pose_of(source, reference)
    assert_same_pose(pose_of(reference, source), np.linalg.inv(g), read(reference).points, **tolerance)
    expected = scaled(g2 @ g @ np.linalg.inv(g1), FACTOR)
    assert_same_pose(pose_of(*changed), expected, read(changed[0]).points, **tolerance)


def move_points(points, pose, factor):
    return factor * moved(points, pose)


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "n"), [(".ply", 500), (".xyz", 4000)])
def test_files_that_keep_every_bit(pose_of, tmp_path, suffix, n):
    check_all_laws(pose_of, tmp_path, suffix, any_format, *two_pieces(n), move_points)


@pytest.mark.slow
def test_files_in_float32(pose_of, tmp_path):
    """Up to the rounding of the format: 1 in 10⁷, but now and then it makes another point the farthest."""
    pair = two_pieces(4000)
    check_all_laws(pose_of, tmp_path, ".ply", float32_ply, *pair, move_points, degrees=0.05, length=1e-3)


@pytest.mark.slow
def test_files_in_float32_with_fewer_points_than_the_model_sees(pose_of, tmp_path):
    """Nothing is chosen, so that only the rounding itself is left."""
    pair = two_pieces(500, 1)
    check_all_laws(pose_of, tmp_path, ".ply", float32_ply, *pair, move_points, degrees=1e-2, length=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".obj", ".npz"])
def test_meshes(pose_of, tmp_path, suffix):
    def move(mesh, pose, factor):
        return trimesh.Trimesh(move_points(mesh.vertices, pose, factor), mesh.faces, process=False)

    def save(path, mesh):
        write(path, Geometry(np.array(mesh.vertices), faces=np.array(mesh.faces, dtype=np.int64)))

    check_all_laws(pose_of, tmp_path, suffix, save, bumpy_mesh(0), bumpy_mesh(1), move)


@pytest.mark.slow
def test_a_grid_of_points(pose_of, tmp_path):
    """Full of equal distances, but with a corner cut off."""
    axis = np.arange(9.0)
    grid = np.stack(np.meshgrid(axis, 0.7 * axis, 0.4 * axis), -1).reshape(-1, 3)
    cut = grid @ [1.0, 2.0, 0.5] < 12
    check_all_laws(pose_of, tmp_path, ".ply", any_format, grid[cut], two_pieces(700)[1], move_points)


@pytest.mark.slow
def test_map_coordinates(pose_of, tmp_path):
    """A million sizes away from the origin, in double precision."""
    check_all_laws(pose_of, tmp_path, ".ply", any_format, *two_pieces(1000), move_points, away=1e6)
