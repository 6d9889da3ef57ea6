"""Signed distances: of meshes beside trimesh and winding numbers, of oriented points beside a sphere."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.separate import crossing
from bitr.assembly.solid import OrientedPoints, Shell, Shells, Solid, is_closed, volume, weld
from bitr.assembly.surface import Surface
from bitr.io import Geometry, sample_surface
from tests.assembly.solids import box, bumpy, joined, shifted


def winding(points, triangles):
    """How often the triangles go around each point: van Oosterom and Strackee's solid angles."""
    a, b, c = (triangles[None, :, i] - points[:, None] for i in range(3))
    la, lb, lc = (np.linalg.norm(v, axis=2) for v in (a, b, c))
    below = la * lb * lc + (a * b).sum(2) * lc + (b * c).sum(2) * la + (a * c).sum(2) * lb
    return np.arctan2(np.linalg.det(np.stack([a, b, c], axis=-2)), below).sum(1) / (2 * np.pi)


def meshes():
    """Flat and long triangles, a hole, dents, and sharp corners."""
    creation = pytest.importorskip("trimesh").creation
    made = [creation.annulus(0.5, 1, 0.6), creation.torus(1, 0.3), creation.cone(1, 2)]
    points = [(np.array(m.vertices, float), np.array(m.faces, np.int64)) for m in made]
    return [(box(1, 2, 0.1).points, box().faces), (bumpy(0).points, bumpy(0).faces), *points]


@pytest.mark.slow
def test_distances_and_sides_are_exact():
    trimesh = pytest.importorskip("trimesh")
    for points, faces in meshes():
        asked = np.random.default_rng(0).uniform(-1.4, 1.4, (400, 3))
        found = Shell.of(points, faces).signed(asked)
        mesh = trimesh.Trimesh(points, faces, process=False)
        _, distance, _ = trimesh.proximity.closest_point_naive(mesh, asked)
        assert np.abs(np.abs(found.distance) - distance).max() < 1e-12
        assert np.array_equal(found.distance < 0, winding(asked, points[faces]) > 0.5)
        assert (found.distance < 0).any()


def test_the_distance_grows_outwards():
    shell = Shell.of(bumpy(1).points, bumpy(1).faces)
    asked = np.random.default_rng(0).normal(size=(200, 3))
    found = shell.signed(asked)
    along = shell.signed(asked + 1e-6 * found.outward).distance - found.distance
    assert np.median(np.abs(along - 1e-6)) < 1e-9


def test_on_the_surface_the_way_out_is_its_normal():
    found = Shell.of(box().points, box().faces).signed(np.array([[0.5, 0.1, 0.2], [0.5, 0.5, 0.1]]))
    assert np.abs(found.distance).max() < 1e-12
    assert np.allclose(found.outward, [[1, 0, 0], [np.sqrt(0.5), np.sqrt(0.5), 0]])


def test_what_is_closed_and_what_is_not():
    faces = box().faces
    assert is_closed(faces)
    assert not is_closed(faces[1:])
    assert not is_closed(np.concatenate([faces[1:], faces[:1, ::-1]]))
    assert not is_closed(faces[:0])
    assert volume(box(1, 2, 3).points[faces]) == pytest.approx(6)


def test_corners_at_one_place_are_one():
    """Each face with corners of its own, as in an STL file, and one that is a line."""
    loose = box().points[box().faces].reshape(-1, 3)
    faces = np.concatenate([np.arange(36).reshape(-1, 3), [[0, 0, 1]]])
    points, found = weld(loose, faces)
    assert points.shape == (8, 3)
    assert is_closed(found)
    assert np.array_equal(points[found], loose.reshape(-1, 3, 3))


def test_a_mesh_that_is_inside_out_is_turned():
    for faces in (box().faces, box().faces[:, ::-1]):
        assert Shells.of(box().points, faces).signed(np.zeros((1, 3))).distance == pytest.approx(-0.5)


def test_overlapping_parts_are_one_solid_and_a_hollow_is_outside():
    other = box().moved(shifted(0.8, 0, 0))
    both, asked = joined(box(), other), np.array([[0.4, 0, 0], [0.9, 0, 0], [-0.4, 0, 0]])
    assert np.allclose(Shells.of(both.points, both.faces).signed(asked).distance, [-0.1, -0.4, -0.1])
    hollow = joined(box(), replace(box(0.5, 0.5, 0.5), faces=box().faces[:, ::-1]))
    asked = np.array([[0.0, 0, 0], [0.4, 0, 0]])
    assert np.allclose(Shells.of(hollow.points, hollow.faces).signed(asked).distance, [0.25, -0.1])


def inside_out(geometry):
    return replace(geometry, faces=geometry.faces[:, ::-1])


def depths(geometry, *places):
    found = Shells.of(geometry.points, geometry.faces).signed(np.array(places))
    return found.distance


def test_a_part_that_is_inside_out_and_in_no_other_is_turned():
    """Also where it reaches into another, as a handle does, and beside a hollow that stays one."""
    away, through = box().moved(shifted(3, 0, 0)), box().moved(shifted(0.8, 0, 0))
    asked = [[0.0, 0, 0], [1.5, 0, 0], [3, 0, 0]]
    assert np.allclose(depths(joined(box(), inside_out(away)), *asked), [-0.5, 1, -0.5])
    assert np.allclose(depths(joined(box(2, 2, 2), inside_out(away)), *asked), [-1, 0.5, -0.5])
    assert np.allclose(depths(joined(box(), inside_out(through)), [0.4, 0, 0], [0.9, 0, 0]), [-0.1, -0.4])
    hollow = joined(joined(box(), inside_out(box(0.5, 0.5, 0.5))), inside_out(away))
    assert np.allclose(depths(hollow, *asked), [0.25, 1, -0.5])
    assert np.allclose(depths(inside_out(hollow), *asked), [0.25, 1, -0.5])
    large = joined(hollow, inside_out(box(5, 5, 5).moved(shifted(9, 0, 0))))
    assert np.allclose(depths(large, *asked, [9, 0, 0]), [0.25, 1, -0.5, -2.5])


def test_a_hollow_is_in_the_smallest_part_around_it():
    """A ball in a hollow of a box, itself hollow."""
    nested = [box(4, 4, 4), inside_out(box(3, 3, 3)), box(2, 2, 2), inside_out(box())]
    whole = nested[0]
    for part in nested[1:]:
        whole = joined(whole, part)
    assert np.allclose(
        depths(whole, [0.0, 0, 0], [0.7, 0, 0], [1.2, 0, 0], [1.8, 0, 0]), [0.5, -0.2, 0.2, -0.2]
    )


def test_parts_without_a_volume_are_dropped():
    """A triangle from both sides."""
    sheet = Geometry(np.eye(3) + 2, faces=np.array([[0, 1, 2], [2, 1, 0]]))
    assert Shells.of(sheet.points, sheet.faces) is None
    assert Solid.of(sheet).inside is None
    assert np.allclose(depths(joined(box(), sheet), [0.0, 0, 0], [0.4, 0, 0]), [-0.5, -0.1])
    assert len(Shells.of(joined(box(), sheet).points, joined(box(), sheet).faces).shells) == 1


def sphere(n, seed=0):
    points = np.random.default_rng(seed).normal(size=(n, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_oriented_points_of_a_sphere():
    points, asked = sphere(2000), sphere(300, 1)
    surface = Surface.of(points)
    inside = OrientedPoints.of(surface, 2.5 * points)
    for radius in (0.7, 0.95, 1.05):
        distance = inside.signed(radius * asked).distance
        known = np.isfinite(distance)
        assert known.mean() > 0.8  # some points look like border points
        assert np.abs(distance[known] - (radius - 1)).max() < 0.1 * surface.spacing


def test_beyond_a_border_nothing_is_known():
    """The upper half of a sphere: below its top is inside, beside its rim and below all of it is nowhere."""
    height, turn = (np.arange(1500) + 0.5) / 1500, np.pi * (3 - np.sqrt(5)) * np.arange(1500)
    level = np.sqrt(1 - height**2)
    dome = np.stack([level * np.cos(turn), level * np.sin(turn), height], axis=1)
    found = OrientedPoints.of(Surface.of(dome), dome).signed(
        np.array([[0, 0, 0.8], [1.3, 0, -0.2], [0, 0, 1.1], [0, 0, -0.1]])
    )
    assert np.allclose(found.distance, [-0.2, np.inf, 0.1, np.inf], atol=0.01)


def test_a_flat_sheet_has_no_inside():
    sheet = np.random.default_rng(0).random((1500, 3)) * [1, 1, 0]
    found = OrientedPoints.of(Surface.of(sheet), np.tile([0.0, 0, 1], (1500, 1))).signed(
        np.array([[0.5, 0.5, -0.1], [0.5, 0.5, 0.1]])
    )
    assert np.allclose(found.distance, [np.inf, 0.1])


def test_what_crosses_hangs_together_with_a_place_in_front():
    """Two chains of places; the unknown one cuts the second off from what is in front."""
    distance = np.array([-0.3, -0.1, 0.2, np.inf, -0.2, -0.1, 0.05])
    neighbors = np.stack([np.arange(7), np.minimum(np.arange(7) + 1, 6)], axis=1)
    found = crossing(distance, neighbors, 0.1)
    assert found.tolist() == [True, True, True, False, False, False, False]
    assert crossing(distance, neighbors, 0.01).tolist() == [True] * 3 + [False] + [True] * 3


def test_normals_without_a_common_side_tell_nothing():
    points = sphere(500)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (500, 1))
    assert OrientedPoints.of(Surface.of(points), signs * points) is None
    cloud = sample_surface(box(), 1000, seed=0)
    assert Solid.of(replace(cloud, normals=None)).inside is None
    assert Solid.of(cloud).inside is not None


def test_an_open_mesh_is_a_sample_and_one_without_a_common_side_tells_nothing():
    faces = box().faces[2:]
    assert Solid.of(replace(box(), faces=faces)).lonely > 0
    assert Solid.of(replace(box(), faces=faces)).inside is not None
    assert Solid.of(replace(box(), faces=np.concatenate([faces[1:], faces[:1, ::-1]]))).inside is None
